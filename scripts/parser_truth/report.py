"""The recorded outcomes as a page for people: what engines' parsers make wrong, and when.

Printed by ``python -m scripts.parser_truth.report``; the page in docs/ is this and nothing else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.parser_truth.canon import FORMATS, SHAPES, Shape, load_formats

_FOLDER = FORMATS.parent
_SHOWN_CHARACTERS = 100

#: How the pieces of an output came, from what every client meets to what few do.
_WAYS = {
    "plain": "In plain replies",
    "tokens": "In streams, token by token",
    "several": "In streams, several tokens a piece",
    "coarse": "In streams, all of it in one piece or two",
    "inner": "Only where a token is cut",
    "policy": "Policy",
}

_EXPLAINED = {
    "plain": "The whole output is parsed at once, so this needs no luck.",
    "tokens": "One token a piece is how an idle server streams.",
    "several": "A busy server, a stream interval or speculation puts some tokens into one piece. "
    "Whether it happens is chance.",
    "coarse": "A short answer, a long stream interval or a client that is read late. The rarest of "
    "what can really happen.",
    "inner": "These splits are within what the model's tokenizer has as one token; no real server "
    "makes them. They are counted, since a tokenizer that lacks the token would.",
    "policy": "A parser that takes all for thought until the closing mark comes, fed with a turn "
    "that has no thought; and what an engine documents as its intention. Not called a fault here.",
}

_WORDS = {
    "arguments_changed": "other arguments",
    "arguments_missing": "no arguments",
    "arguments_no_object": "arguments that are no object",
    "arguments_not_json": "arguments that are no JSON",
    "call_added": "a call too many",
    "call_index": "an index that does not count the calls",
    "call_lost": "a call lost",
    "call_name": "another name",
    "error": "an error",
    "finish_reason": "another finish_reason",
    "text_added": "more text",
    "text_changed": "text cut",
    "text_doubled": "the text twice",
    "text_lost": "the text lost",
    "text_marked": "marks in the text",
    "thought_added": "the answer in the thought",
    "thought_changed": "the thought cut",
    "thought_doubled": "the thought twice",
    "thought_lost": "the thought lost",
    "thought_marked": "marks in the thought",
}

#: What an engine says or shows that it does on purpose: engine, format, shape. SGLang's Ling 3
#: moves a thought alone into the content of a plain reply; vLLM's pythonic parser reads a turn that
#: is calls and nothing else.
_INTENDED = {("sglang", "ling-3", "open_thought"), ("vllm", "pythonic", "text_call")}


@dataclass(slots=True, kw_only=True)
class Row:
    """Outcomes of one parser that are wrong in the same way."""

    parser: str
    layout: str
    flaws: tuple[str, ...]
    shapes: dict[str, None] = field(default_factory=dict)
    got: str = ""


def main() -> None:
    """Print the page."""
    sys.stdout.write(render())


def load_recorded(engine: str) -> list[dict[str, Any]]:
    """What was recorded of an engine, a file a format."""
    return [
        json.loads(path.read_text("utf-8")) for path in sorted((_FOLDER / engine).glob("*.json"))
    ]


def find_engines() -> list[str]:
    """The engines of which something is recorded."""
    return sorted(path.name for path in _FOLDER.iterdir() if any(path.glob("*.json")))


def render() -> str:
    """All of the page."""
    parts = [_OPENING, *map(_describe, SHAPES)]
    for engine in find_engines():
        files = load_recorded(engine)
        parts.append(f"\n## {engine} {files[0]['version']}\n")
        parts.append(_render_counts(files))
        for way, title in _WAYS.items():
            rows = list(_find_rows(engine, files, way))
            parts.append(f"\n### {title}\n\n{_EXPLAINED[way]}\n\n{_render_rows(rows, way)}")
    return "".join(parts)


_OPENING = """\
# What engines' own parsers make of canonical outputs

`scripts/record_parser_truth.py` writes what a model of each family would write, feeds it to the
engine's own serving code, whole and in pieces, and keeps what a client would have got. This page is
made from the recordings (`python -m scripts.parser_truth.report`), and a test holds it to them. No
model ran: where the canon is not what a model really writes, the row says nothing of a server.
White space around texts is not looked at. The formats and where they were read from are in
`tests/contract/parser_truth/formats.toml`; which marks are one token was taken from the engines'
code, not from the models' vocabularies, and all else is cut as SmolLM2's tokenizer cuts it.
SGLang's parsers get text, so they are tried at every character as well; vLLM's get tokens and are
tried between tokens alone.

What is written, by its name in the tables:

"""


def _describe(shape: Shape) -> str:
    calls = "; ".join(
        f"{name} {json.dumps(arguments, ensure_ascii=False)}" for name, arguments in shape.calls
    )
    parts = {"thought": shape.thought, "text": shape.text, "calls": calls}
    said = [f"{key} `{value}`" for key, value in parts.items() if value]
    return f"- {shape.id}: {', '.join(said)}{', cut there' if shape.is_cut else ''}\n"


def _render_counts(files: Sequence[Mapping[str, Any]]) -> str:
    cases = [case for file in files for case in file["cases"] if case["setup"] != "wrong"]
    clean = [file["format"] for file in files if not _is_flawed(file)]
    splits = sum(sum(each["kinds"].values()) for case in cases for each in case["streams"])
    left_out = [
        each["id"] for each in load_formats() if each["id"] not in {f["format"] for f in files}
    ]
    lines = [
        f"\n{len(files)} formats, {len(cases)} outputs, {splits} streams.",
        f"Nothing wrong at any real split: {', '.join(clean) or 'none'}.",
        f"Formats without a recording: {', '.join(left_out) or 'none'}.",
    ]
    return "\n".join(lines) + "\n"


def _is_flawed(file: Mapping[str, Any]) -> bool:
    ways = ("plain", "tokens", "several", "coarse")
    return any(any(_find_rows(str(file["engine"]), [file], way)) for way in ways)


def _find_rows(engine: str, files: Sequence[Mapping[str, Any]], way: str) -> Iterator[Row]:
    rows: dict[tuple[str, tuple[str, ...]], Row] = {}
    names = {each["id"]: each for each in load_formats()}
    for file in files:
        layout = names[file["format"]]
        parsers = [layout.get(key, {}).get(engine, "") for key in ("tool", "reasoning")]
        for case in file["cases"]:
            for outcome in _find_outcomes(case, (engine, file["format"]), way):
                key = (file["format"], tuple(outcome["flaws"]))
                row = rows.setdefault(
                    key,
                    Row(
                        parser=" with ".join(filter(None, parsers)),
                        layout=file["format"],
                        flaws=key[1],
                        got=_show(outcome["result"]),
                    ),
                )
                row.shapes.setdefault(case["shape"])
    yield from rows.values()


def _find_outcomes(
    case: Mapping[str, Any], place: tuple[str, str], way: str
) -> Iterator[Mapping[str, Any]]:
    if case["setup"] == "wrong":
        return
    is_policy = case["setup"] == "presumed" or (*place, case["shape"]) in _INTENDED
    if is_policy != (way == "policy"):
        return
    streams = [each for each in case["streams"] if each["flaws"]]
    if way in ("plain", "policy") and case["whole"]["flaws"]:
        yield case["whole"]
    yield from (each for each in streams if is_policy or _find_way(each) == way)


def _find_way(outcome: Mapping[str, Any]) -> str:
    """The commonest way in which it comes out so."""
    if not outcome["is_real"]:
        return "inner"
    kinds = set(outcome["kinds"])
    if kinds & {"tokens"}:
        return "tokens"
    return "several" if any(kind.endswith(" tokens") for kind in kinds) else "coarse"


def _show(result: Mapping[str, Any]) -> str:
    if "error" in result:
        return _cut(str(result["error"]))
    parts = [
        f"{key} {json.dumps(result[key], ensure_ascii=False)}"
        for key in ("content", "reasoning")
        if result[key]
    ]
    parts += [f"call {index} {name} {written}" for index, name, written in result["calls"]]
    return _cut("; ".join(parts) or "nothing")


def _cut(text: str) -> str:
    shown = text.replace("\n", "\\n").replace("|", "\\|").replace("`", "'")
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}..."


def _render_rows(rows: Sequence[Row], way: str) -> str:
    if not rows:
        return "Nothing.\n"
    if way == "inner":
        return ", ".join(sorted({row.layout for row in rows})) + "\n"
    lines = ["| parser | format | written | what is wrong | for example |", "|---|---|---|---|---|"]
    for row in rows:
        words = ", ".join(_WORDS[flaw] for flaw in row.flaws)
        shapes = ", ".join(row.shapes)
        lines.append(f"| {row.parser} | {row.layout} | {shapes} | {words} | `{row.got}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
