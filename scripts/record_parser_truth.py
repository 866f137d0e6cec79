"""Record what an engine's own parsers make of canonical outputs.

Run by hand with the interpreter of an environment that holds the engine; no GPU is needed:

    ENVIRONMENT/bin/python scripts/record_parser_truth.py sglang --tokenizer MODEL/tokenizer.json

Each format of tests/contract/parser_truth/formats.toml is written in each shape, answered whole
and streamed in every split (see parser_truth/splits.py), by the engine's own serving code. Writes
one file a format to tests/contract/parser_truth/ENGINE/: each outcome once, with one split that
leads to it. `--only` names formats, `--output` another folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

_PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_PROJECT))

from scripts.parser_truth.canon import (  # noqa: E402
    SHAPES,
    Format,
    Shape,
    has_shape,
    load_formats,
    write_output,
)
from scripts.parser_truth.flaws import expect, find_flaws, find_marks  # noqa: E402
from scripts.parser_truth.results import Setup  # noqa: E402
from scripts.parser_truth.splits import Split, find_inner, make_splits  # noqa: E402

_FOLDER = _PROJECT / "tests" / "contract" / "parser_truth"

#: Of outcomes with the very same flaws at splits that no real stream has, one tells enough.
_MOST_REAL = 3

#: Shapes that show what a reasoning parser does where the request asks for no thought.
_QUIET = ("one_call", "text_call", "plain", "signs")
_PRESUMED = ("one_call", "plain")
_WRONG = ("one_call", "text_call")

#: A parser that is often chosen by mistake, and another for those whose format it reads.
_WRONG_PARSERS = ("hermes", "qwen3_coder")


def main() -> None:
    """Record every format that the engine has a parser for."""
    options = _parse()
    recorder = Recorder(
        engine=import_module(f"scripts.parser_truth.{options.engine}"),
        name=options.engine,
        tokenizer_path=options.tokenizer,
        tokenizer=import_module("tokenizers").Tokenizer.from_file(options.tokenizer),
    )
    folder = Path(options.output or _FOLDER / options.engine)
    folder.mkdir(parents=True, exist_ok=True)
    for layout in load_formats():
        if options.only and layout["id"] not in options.only:
            continue
        cases = list(recorder.record(layout))
        if cases:
            _write(folder / f"{layout['id']}.json", options.engine, layout, cases)
            sys.stderr.write(f"{layout['id']}: {len(cases)} cases\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Record what parsers make of outputs.")
    parser.add_argument("engine", choices=["sglang", "vllm"])
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--output")
    parser.add_argument("--only", nargs="*")
    return parser.parse_args()


def _write(path: Path, engine: str, layout: Format, cases: Sequence[Any]) -> None:
    head = {"engine": engine, "version": metadata.version(engine), "format": layout["id"]}
    rows = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    opening = json.dumps(head, ensure_ascii=False)[:-1]
    path.write_text(f'{opening}, "cases": [\n{rows}\n]}}\n', "utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """An engine (a module of parser_truth) and what its outputs are cut with."""

    engine: Any
    name: str
    tokenizer_path: str
    tokenizer: Any

    def record(self, layout: Format) -> Iterator[dict[str, Any]]:
        """Every shape of a format under every setup."""
        for setup_name, setup, shapes in _make_setups(self.name, layout):
            serving = self.engine.Serving(setup, layout, self.tokenizer_path)
            for shape in shapes:
                if has_shape(layout, shape):
                    yield {
                        "setup": setup_name,
                        "shape": shape.id,
                        **self._record(serving, layout, shape),
                    }

    def _record(self, serving: Any, layout: Format, shape: Shape) -> dict[str, Any]:
        text, expected = write_output(layout, shape), expect(layout, shape)
        finish, marks = "length" if shape.is_cut else "stop", find_marks(layout)
        whole = serving.answer(text, finish)
        outcomes: dict[str, dict[str, Any]] = {}
        for split in make_splits(
            text, layout["atomic"], _find_tokens(text, layout, self.tokenizer)
        ):
            if self.engine.CUTS_TOKENS or split.keeps_tokens:
                result, deltas = serving.stream(split, finish)
                flaws = find_flaws(result, expected, marks)
                _keep(outcomes, split, {"flaws": flaws, "result": result, "deltas": deltas})
        return {
            "text": text,
            "expected": expected,
            "whole": {"flaws": find_flaws(whole, expected, marks), "result": whole},
            "streams": list(outcomes.values()),
        }


def _make_setups(name: str, layout: Format) -> Iterator[tuple[str, Any, Sequence[Shape]]]:
    """Which parsers are on and what the request asks for, and the shapes that come of it.

    ``tools``: the tools' parser alone. ``wrong``: another one alone. ``thinking``: both, and a
    thought is asked for. ``quiet``: both, and none is asked for. ``presumed``: as ``thinking``, but
    the model wrote no thought.
    """
    tool = layout.get("tool", {}).get(name, "")
    reasoning = layout.get("reasoning", {}).get(name, "")
    is_framed, is_always = layout.get("is_framed", False), layout.get("is_always", False)
    plain = [shape for shape in SHAPES if not shape.thought]
    if tool and not is_framed:
        yield "tools", Setup(tool=tool), plain
    if tool:
        wrong = _WRONG_PARSERS["<tool_call>\n{{" in layout["call"]]
        yield "wrong", Setup(tool=wrong), [each for each in plain if each.id in _WRONG]
    if not reasoning:
        return
    both = Setup(tool=tool, reasoning=reasoning, thinks=True, is_always=is_always)
    yield "thinking", both, [shape for shape in SHAPES if shape.thought]
    if is_always:
        shapes = plain if is_framed else [each for each in plain if each.id in _PRESUMED]
        yield "thinking" if is_framed else "presumed", both, shapes
    else:
        quiet = Setup(tool=tool, reasoning=reasoning)
        yield "quiet", quiet, plain if is_framed else [each for each in plain if each.id in _QUIET]


def _keep(outcomes: dict[str, dict[str, Any]], split: Split, found: Mapping[str, Any]) -> None:
    """Count the outcome; the first split that led to it is kept with its deltas.

    Outcomes are one where the flaws and the sort of split are, but for a few of real splits.
    """
    group = json.dumps([split.is_real, found["flaws"]])
    key = group
    if split.is_real and found["flaws"]:
        key += json.dumps(_core(found["result"]), sort_keys=True)
    alike = [each for each in outcomes if each.startswith(group)]
    if len(alike) >= _MOST_REAL and key not in alike:
        key = alike[0]
    outcome = outcomes.setdefault(
        key,
        {
            "is_real": split.is_real,
            "flaws": found["flaws"],
            "kinds": {},
            "example": split.kind,
            "is_late": split.is_late,
            "result": found["result"],
            "deltas": found["deltas"],
        },
    )
    outcome["kinds"][split.kind] = outcome["kinds"].get(split.kind, 0) + 1


def _core(result: Any) -> list[Any]:
    return [result["content"].strip(), result["reasoning"].strip(), result["calls"]]


def _find_tokens(text: str, layout: Format, tokenizer: Any) -> list[int]:
    """The boundaries between tokens: the atoms whole, all else as the tokenizer cuts it."""
    inner = find_inner(text, layout["atomic"])
    if not inner and not text:
        return []
    edges = [0, *(place for place in range(1, len(text)) if _is_edge(place, inner)), len(text)]
    found: set[int] = set(edges)
    for start, end in pairwise(edges):
        if start + 1 not in inner:
            encoding = tokenizer.encode(text[start:end], add_special_tokens=False)
            found.update(start + offset for _, offset in encoding.offsets)
    return sorted(found - {0, len(text)})


def _is_edge(place: int, inner: frozenset[int]) -> bool:
    """Whether an atom begins or ends here."""
    return place not in inner and (place - 1 in inner or place + 1 in inner)


if __name__ == "__main__":
    main()
