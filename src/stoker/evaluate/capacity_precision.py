"""In which ways the weights of a recorded start may have been stored, the likeliest first.

Called by :mod:`stoker.evaluate.capacity_cases`. What the case tells goes first; where it tells
nothing, its flags, the model's name and the file with the model's dimensions allow some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.capacity.inputs import Quantization
from stoker.model.facts import Plain

_BITS = re.compile(r"int4|nvfp4|mxfp4|fp4|w4|awq|gptq|nf4|q4|4-?bit")
#: Words of a name that say how weights are stored.
_WORDS = re.compile(
    r"(?<![a-z0-9])(nvfp4|mxfp4|fp8|int8|int4|w8a8|w4a16|awq|gptq|nf4|bnb-4bit|bnb|bf16|fp16|fp32)(?![a-z])"
)
#: Where nothing at all is told: in full, and in the formats that most files have.
_ANY = ("bf16", "fp8", "int4")
_IN_32_BIT = ("float32", "float", "fp32")

Table = Mapping[str, Plain]


def read_quantization(word: str) -> Quantization:
    """A case's word for how the weights are stored, such as ``int4g32``."""
    plain = word.strip().lower()
    if plain in ("", "none", "bf16", "bfloat16", "fp16", "float16"):
        return Quantization()
    group = re.search(r"g(\d+)$", plain)
    bits = 32 if plain in ("fp32", "float32") else 4 if _BITS.search(plain) else 8
    return Quantization(method=plain, bits=bits, group=int(group[1]) if group else 0)


def list_precisions(case: Table, flags: Table, own: Quantization) -> tuple[Quantization, ...]:
    """At least one; ``own`` is that of the file with the model's dimensions, which may be another
    precision of the same model, or another model of the same dimensions."""
    told = case.get("inputs")
    said = told if isinstance(told, Mapping) else {}
    word, kind = said.get("quant"), said.get("weight_dtype") or flags.get("dtype")
    if isinstance(word, str):
        return (read_quantization(word),)
    found = _list_untold(case, flags, own)
    if kind in _IN_32_BIT:
        found = tuple(each if each.method else read_quantization("fp32") for each in found)
    return tuple(dict.fromkeys(found))


def _list_untold(case: Table, flags: Table, own: Quantization) -> tuple[Quantization, ...]:
    model = str(case.get("model") or "")
    file = str(case.get("config") or "").removesuffix(".json").replace("__", "/")
    flag, is_same = flags.get("quantization"), file == model
    named, of_file = _read_name(model), _read_name(file)
    if own.method and is_same:
        return (own,)
    if isinstance(flag, str) and flag:
        return (read_quantization(flag),)
    if named and named != of_file:
        return named
    if named or is_same:
        # A name that the file does not bear out may be right, and so may the file.
        return (own, *named) if own.method else (*named, own)
    base = file.rpartition("/")[2].lower()
    if base and base in model.lower():
        return (own, Quantization())
    if of_file and _shares_name(file, model):
        # The file is of another precision, and says so; the model is as it was published.
        return (Quantization(), own)
    return (own, *map(read_quantization, _ANY))


def _read_name(name: str) -> tuple[Quantization, ...]:
    """All that a name speaks of."""
    return tuple(read_quantization(word) for word in dict.fromkeys(_WORDS.findall(name.lower())))


def _shares_name(file: str, model: str) -> bool:
    """Whether the names are the same but for the owner and the words for a precision."""
    bare = [
        re.sub(r"[^a-z0-9]", "", _WORDS.sub("", name.rpartition("/")[2].lower()))
        for name in (file, model)
    ]
    return bare[0] == bare[1]
