"""vLLM's own parsers over outputs that no model wrote.

The parser object is the one that the engine's chat serving makes for a request, used as it uses it.
The tokenizer is a small model's, to which the tokens of the format are added. A real stream is cut
between tokens only, and so are these. Runs in the engine's interpreter; no GPU is needed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from scripts.parser_truth.canon import TOOLS, Format
from scripts.parser_truth.results import Setup, join_deltas
from scripts.parser_truth.splits import Split

os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
logging.disable(logging.CRITICAL)

#: Only such splits keep tokens whole.
CUTS_TOKENS = False

_END = "<|im_end|>"

#: What goes wrong in a parser; a client sees it as a failed request.
_FAILURES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


class Serving:
    """One server with its parsers."""

    def __init__(self, setup: Setup, layout: Format, tokenizer: str) -> None:
        """Make what the engine's serving makes once for a server and once for a request."""
        manager = import_module("vllm.parser").ParserManager
        protocol = import_module("vllm.entrypoints.openai.chat_completion.protocol")
        self._class = manager.get_parser(
            tool_parser_name=setup.tool or None,
            reasoning_parser_name=setup.reasoning or None,
            enable_auto_tools=bool(setup.tool),
            model_name="m",
        )
        self._has_tools = bool(setup.tool)
        self._tokenizer = _make_tokenizer(tokenizer, layout)
        self._switch = {
            "enable_thinking": setup.thinks,
            "thinking": setup.thinks,
            "reasoning_effort": "high" if setup.thinks else "no_think",
        }
        self._request = protocol.ChatCompletionRequest(
            model="m",
            messages=[{"role": "user", "content": "What is the weather?"}],
            tools=list(TOOLS),
            tool_choice="auto" if setup.tool else "none",
            chat_template_kwargs=self._switch,
        )
        self._prompt = self._encode(_end_prompt(layout, setup))

    def _make_parser(self) -> Any:
        config = SimpleNamespace(hf_config=SimpleNamespace(model_type="m"), hf_text_config=None)
        return self._class(
            self._tokenizer,
            self._request.tools,
            chat_template_kwargs=self._switch,
            model_config=config,
        )

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def answer(self, text: str, finish: str) -> dict[str, Any]:
        """What a client has of the plain reply to this output."""
        try:
            parser = self._make_parser()
            parser.set_prompt_token_ids(self._prompt)
            reasoning, content, calls = parser.parse(
                text,
                self._request,
                enable_auto_tools=self._has_tools,
                model_output_token_ids=self._encode(text),
            )
        except _FAILURES as error:
            return {
                "content": "",
                "reasoning": "",
                "calls": [],
                "finish": None,
                "error": repr(error),
            }
        found = [[number, call.name, call.arguments] for number, call in enumerate(calls or ())]
        ended = "tool_calls" if found and finish == "stop" else finish
        return {
            "content": content or "",
            "reasoning": reasoning or "",
            "calls": found,
            "finish": ended,
        }

    def stream(self, split: Split, finish: str) -> tuple[dict[str, Any], list[list[Any]]]:
        """What a client has of the streamed reply in the end, and the deltas."""
        try:
            deltas = list(self._feed(split))
        except _FAILURES as error:
            result, rows = join_deltas([], None)
            return {**result, "error": repr(error)}, rows
        has_calls = any(delta.get("tool_calls") for delta in deltas)
        return join_deltas(deltas, "tool_calls" if has_calls and finish == "stop" else finish)

    def _feed(self, split: Split) -> Iterator[dict[str, Any]]:
        parser = self._make_parser()
        end = self._encode(_END)
        pieces: list[tuple[str, list[int]]] = [(each, self._encode(each)) for each in split.pieces]
        if split.is_late:
            pieces.append(("", end))
        else:
            text, ids = pieces[-1]
            pieces[-1] = (text, [*ids, *end])
        for number, (text, ids) in enumerate(pieces, 1):
            delta = parser.parse_delta(
                delta_text=text,
                delta_token_ids=ids,
                request=self._request,
                prompt_token_ids=self._prompt,
                finished=number == len(pieces),
            )
            if delta is not None:
                yield delta.model_dump(exclude_unset=True)


def _make_tokenizer(path: str, layout: Format) -> Any:
    transformers = import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(os.path.dirname(path))
    atoms: list[str] = [*layout["atomic"], *layout.get("vocabulary", ())]
    if layout.get("is_special"):
        tokenizer.add_special_tokens({"additional_special_tokens": atoms})
    else:
        tokenizer.add_tokens(atoms)
    return import_module("vllm.tokenizers.hf").get_cached_tokenizer(tokenizer)


def _end_prompt(layout: Format, setup: Setup) -> str:
    """The end of the prompt as the family's template leaves it."""
    before, after = layout.get("think", ("", ""))
    if layout.get("is_prefilled") and (setup.thinks or layout.get("is_always")):
        return f"{layout.get('opening', 'assistant')}{before}"
    if setup.reasoning and not setup.thinks and before and not layout.get("is_framed"):
        return f"assistant{before}{after}"
    return str(layout.get("opening", "assistant"))
