"""How near predictions of memory come to what engines found: ``... stoker.evaluate capacity``.

Prints the tokens that were predicted and logged for each recorded start-up of a folder, then the
errors by engine and question, as they are and with one vote for each source and model. Called by
hand; reads files and nothing else. ``--json`` prints one object instead, with errors as fractions.
``--rivals`` asks the known estimators the same cases; they are installed first, from the index.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from stoker.evaluate.capacity_answers import Answer, answer_cases, find_percentile
from stoker.evaluate.capacity_cases import QUESTIONS, read_cases
from stoker.evaluate.capacity_rivals import compare, describe, render
from stoker.model.capacity import Span
from stoker.model.facts import Plain
from stoker.report.table import render_table

_ENGINES = ("sglang", "vllm", "llamacpp")
_FOLDER_VARIABLE = "STOKER_CORPUS"


def summarise(answers: Sequence[Answer]) -> dict[str, Plain]:
    """Errors by engine and question, of whole cases; how many were refused; how many intervals
    held what was logged (of all that were given)."""
    given = [answer for answer in answers if not answer.is_refused]
    groups = {
        engine: {
            question: _summarise_group(
                [a for a in given if a.case.engine == engine and a.question == question]
            )
            for question in QUESTIONS
        }
        for engine in _ENGINES
    }
    refused = {answer.case.id for answer in answers if answer.is_refused}
    inside = sum(answer.is_inside for answer in given) / len(given) if given else None
    return {"groups": groups, "refused": len(refused), "inside_interval": inside}


def _summarise_group(answers: Sequence[Answer]) -> dict[str, Plain]:
    whole = [answer for answer in answers if answer.case.is_whole]
    errors = [abs(answer.error) for answer in whole if answer.error is not None]
    return {
        "n": len(errors),
        "median": statistics.median(errors) if errors else None,
        "p95": find_percentile(errors, 0.95) if errors else None,
        "per_source_median": _vote(whole),
    }


def _vote(answers: Sequence[Answer]) -> float | None:
    """The median over sources and models of their own medians."""
    votes: dict[tuple[str, str], list[float]] = {}
    for answer in answers:
        if answer.error is not None:
            key = (answer.case.source, answer.case.model)
            votes.setdefault(key, []).append(abs(answer.error))
    return statistics.median(map(statistics.median, votes.values())) if votes else None


def render_answers(answers: Sequence[Answer]) -> str:
    """The table of all answers, then the summary."""
    head = ("CASE", "ENGINE", "Q", "LOGGED", "PREDICTED", "ERROR", "INTERVAL", "INSIDE", "MODEL")
    rows = [_render_answer(answer) for answer in answers]
    return f"{render_table(head, rows)}\n{_render_summary(summarise(answers))}"


def _render_answer(answer: Answer) -> tuple[str, ...]:
    case, span = answer.case, answer.span
    name = case.id if case.is_whole else f"{case.id} (part)"
    start = (name, case.engine, answer.question, str(answer.found))
    if span is None or answer.error is None:
        return (*start, "refused", "-", "-", "-", f"{case.model}: {answer.capacity.unknown[0]}")
    shown = (f"{span.likely:.0f}", f"{answer.error:+.2%}", _render_span(span))
    return (*start, *shown, "yes" if answer.is_inside else "NO", case.model)


def _render_span(span: Span) -> str:
    return f"{span.low:.0f}..{span.high:.0f}"


def _render_summary(summary: dict[str, Plain]) -> str:
    head = ("ENGINE", "QUESTION", "CASES", "MEDIAN", "P95", "ONE VOTE A SOURCE AND MODEL")
    rows = []
    for engine, questions in summary["groups"].items():
        for question, group in questions.items():
            shown = [_percent(group[key]) for key in ("median", "p95", "per_source_median")]
            rows.append((engine, question, str(group["n"]), *shown))
    inside = _percent(summary["inside_interval"])
    total = f"{summary['refused']} cases refused; {inside} of the intervals hold the truth"
    return f"{render_table(head, rows)}{total}\n"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def main(arguments: Sequence[str]) -> None:
    """Print the report of the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m stoker.evaluate capacity")
    parser.add_argument("folder", nargs="?", type=Path, help="cases, one YAML file each")
    parser.add_argument("--models", type=Path, help="dimensions of models; ../models beside cases")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--rivals", action="store_true", help="ask other tools the same cases")
    asked = parser.parse_args(arguments)
    folder = asked.folder or Path(os.environ.get(_FOLDER_VARIABLE) or "/nowhere") / "capacity"
    if not folder.is_dir():
        sys.exit(f"there is no folder {folder}; name one, or set {_FOLDER_VARIABLE}")
    models = asked.models or folder.parent / "models"
    answers = answer_cases(read_cases(folder, models))
    compared = compare(answers, folder, models) if asked.rivals else None
    if asked.json:
        told = summarise(answers)
        if compared is not None:
            told["rivals"] = describe(compared)
        sys.stdout.write(f"{json.dumps(told, indent=2)}\n")
    else:
        sys.stdout.write(render_answers(answers))
        sys.stdout.write("" if compared is None else render(compared))


if __name__ == "__main__":
    main(sys.argv[1:])
