"""A tokenizer for the load generators that cannot do without one, made of nothing.

Each byte is a token, as in the byte-level alphabet of GPT-2, and the word that the exact server
repeats is one token. It stands in where no real tokenizer is at hand; nothing that is measured
depends on which it is, since the exact server counts by itself.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

_END = "<|end|>"
#: How the alphabet writes a blank.
_BLANK = "\u0120"
_MERGES = ((_BLANK, "t"), ("h", "e"), (_BLANK + "t", "he"))
_TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def write_tokenizer(folder: Path) -> None:
    """Write the files that ``AutoTokenizer.from_pretrained`` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [_END, *_alphabet(), *("".join(pair) for pair in _MERGES)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    end = {"id": 0, "content": _END, "special": True, "single_word": False}
    flags = {"lstrip": False, "rstrip": False, "normalized": False}
    model = {
        "type": "BPE",
        "vocab": {word: number for number, word in enumerate(words)},
        "merges": [" ".join(pair) for pair in _MERGES],
    }
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{**end, **flags}],
        "pre_tokenizer": {**level, "use_regex": True},
        "decoder": level,
        "model": model,
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": _END,
        "bos_token": _END,
        "pad_token": _END,
        "model_max_length": 32768,
        "chat_template": _TEMPLATE,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")


def _alphabet() -> list[str]:
    """A visible character for each byte: itself where it is one, else the next free one."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = count(0x100)
    return [chr(byte if byte in visible else next(spare)) for byte in range(256)]
