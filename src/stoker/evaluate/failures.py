"""How often a failure is diagnosed right: ``python -m stoker.evaluate failures [FOLDER]``.

Prints for each recorded failure of a folder the kind that it is, the kinds that were found, and
whether what would mend it was named; then the totals. Cases whose log was put together by hand are
counted apart. ``--held-out`` adds what is found where every signature that was learned from a case
is switched off for it, and where all that quote it are as well. ``--json`` prints one object
instead. Called by hand; reads files and nothing else, and all predictions are made before any
answer is read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from stoker.diagnosis.case_tree import describe_case
from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import read_log
from stoker.diagnosis.matching import Matcher, load_matcher, make_matcher
from stoker.errors import UsageError
from stoker.evaluate.failure_cases import CaseAnswer, CaseInput, read_answer, read_inputs
from stoker.knowledge.signatures import Signature
from stoker.model.diagnosis import Diagnosis
from stoker.model.facts import Plain
from stoker.report.diagnosis_text import render_repair
from stoker.report.table import render_table

_FOLDER_VARIABLE = "STOKER_CORPUS"
_UNKNOWN = "unknown"
_FOLDS = 3
_TOP = 3
#: A shorter line says the same as others by chance.
_LEAST_QUOTE = 25
_URL = re.compile(r"https?://[^\s,;)\]}>'\"]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What was found: kinds in the words of the cases, the first one first, and what would mend
    the first: ``remedy`` all ways in their order, ``first_remedy`` the best one."""

    id: str
    found: tuple[str, ...] = ()
    remedy: str = ""
    first_remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A prediction held against its answer. ``verdict``: right, right_in_3, wrong or unknown."""

    prediction: Prediction
    expected: str
    verdict: str
    has_remedy: bool
    has_first_remedy: bool


def predict(case: CaseInput, matcher: Matcher | None = None) -> Prediction:
    """The diagnosis of a case, from what may be seen of it."""
    described = describe_case(case.told)
    log = read_log([case.log.encode("utf-8", "replace")], "log")
    inputs = Inputs(
        engine=described.engine,
        release=described.release,
        lines=log.lines,
        kernel=log.kernel,
        tree=described.tree,
    )
    return make_prediction(case.id, diagnose(inputs, matcher))


def make_prediction(name: str, diagnosis: Diagnosis) -> Prediction:
    """The part of a diagnosis that is judged: never a line of the log that it quotes."""
    kinds = load_kinds()
    found = dict.fromkeys(kinds.get(cause.kind, cause.kind) for cause in diagnosis.causes)
    repairs = diagnosis.causes[0].repairs if diagnosis.causes else ()
    texts = [render_repair(repair) for repair in repairs]
    return Prediction(
        id=name,
        found=tuple(found),
        remedy=" | ".join(texts),
        first_remedy=texts[0] if texts else "",
    )


def load_kinds() -> Mapping[str, str]:
    """The cases' word for each kind of ours that they call otherwise."""
    text = Path(__file__).with_name("failure_kinds.toml").read_text("utf-8")
    return dict(tomllib.loads(text)["kinds"])


def judge(prediction: Prediction, answer: CaseAnswer) -> Verdict:
    """Hold a prediction against what is right."""
    return Verdict(
        prediction=prediction,
        expected=answer.kinds[0],
        verdict=_find_verdict(prediction.found, answer.kinds),
        has_remedy=_names(prediction.remedy, answer),
        has_first_remedy=_names(prediction.first_remedy, answer),
    )


def _find_verdict(found: Sequence[str], right: Sequence[str]) -> str:
    if not found:
        return "right" if _UNKNOWN in right else "unknown"
    if found[0] in right:
        return "right"
    return "right_in_3" if set(found[:_TOP]) & set(right) else "wrong"


def _names(remedy: str, answer: CaseAnswer) -> bool:
    return any(token in remedy for token in answer.remedy_tokens)


# --- folds ---


def hold_out(
    cases: Sequence[CaseInput], answers: Sequence[CaseAnswer], *, is_strict: bool = False
) -> list[Verdict]:
    """Each case diagnosed without the signatures that a case of its third was the source of.

    Cases of one kind are spread over the thirds. ``is_strict``: also without those of which an
    example says the same as a line of such a case, wherever they say that they were learned. What
    an engine prints in one place has one signature most often, so little is left then.
    """
    order = sorted(range(len(cases)), key=lambda at: (answers[at].kinds[0], answers[at].id))
    verdicts: list[Verdict] = []
    for fold in range(_FOLDS):
        held = [at for place, at in enumerate(order) if place % _FOLDS == fold]
        sources = {_plain_url(answers[at].source) for at in held} - {""}
        quoted = _list_quotes(cases[at].log for at in held) if is_strict else ()
        matcher = without(sources, quoted)
        verdicts += [judge(predict(cases[at], matcher), answers[at]) for at in held]
    return verdicts


def without(sources: Set[str], quoted: Sequence[str] = ()) -> Matcher:
    """The signatures that none of these pages was the source of, and that quote none of these
    lines."""
    kept = [
        signature
        for signature in load_matcher().signatures
        if not sources & {_plain_url(url) for url in _URL.findall(signature.source.where)}
        and not _is_quoted(signature, quoted)
    ]
    return make_matcher(kept)


def _list_quotes(logs: Iterable[str]) -> tuple[str, ...]:
    lines = (line.strip() for log in logs for line in log.splitlines())
    return tuple(line for line in lines if len(line) >= _LEAST_QUOTE)


def _is_quoted(signature: Signature, lines: Sequence[str]) -> bool:
    texts = [each.text.strip() for each in signature.example if each.fires]
    return any(
        line in text or (len(text) >= _LEAST_QUOTE and text in line)
        for line in lines
        for text in texts
    )


def _plain_url(url: str) -> str:
    return url.partition("#")[0].partition("?")[0].rstrip("/.").lower()


# --- totals ---


def summarise(verdicts: Sequence[Verdict]) -> dict[str, Plain]:
    """Counts as fractions, and the cases."""
    count = len(verdicts)

    def share(number: int) -> float:
        return round(number / count, 4) if count else 0.0

    told = [verdict.verdict for verdict in verdicts]
    return {
        "n": count,
        "kind_first": share(told.count("right")),
        "kind_top3": share(told.count("right") + told.count("right_in_3")),
        "remedy": share(sum(verdict.has_remedy for verdict in verdicts)),
        "wrong_confident": share(told.count("wrong")),
        "unknown": share(told.count("unknown")),
        "cases": [
            {
                "id": verdict.prediction.id,
                "expected": verdict.expected,
                "found": list(verdict.prediction.found),
                "remedy": verdict.prediction.remedy,
                "verdict": verdict.verdict,
            }
            for verdict in verdicts
        ],
    }


def render(verdicts: Sequence[Verdict]) -> str:
    """A table of the cases."""
    rows = [
        (
            verdict.prediction.id,
            verdict.expected,
            " ".join(verdict.prediction.found[:_TOP]) or "-",
            "first" if verdict.has_first_remedy else "named" if verdict.has_remedy else "no",
            verdict.verdict,
        )
        for verdict in verdicts
    ]
    return render_table(("CASE", "EXPECTED", "FOUND", "REMEDY", "VERDICT"), rows)


def render_totals(title: str, verdicts: Sequence[Verdict]) -> str:
    """One line of totals."""
    totals = summarise(verdicts)
    first = sum(verdict.has_first_remedy for verdict in verdicts)
    shares = "  ".join(
        f"{name.replace('_', ' ')} {totals[name]:.1%}"
        for name in ("kind_first", "kind_top3", "remedy", "wrong_confident", "unknown")
    )
    return f"{title}: {totals['n']} cases  {shares}  (the first remedy alone: {first})\n"


def main(arguments: Sequence[str]) -> None:
    """Read, predict, judge, print."""
    parser = argparse.ArgumentParser(prog="stoker.evaluate failures", description=__doc__)
    corpus = os.environ.get(_FOLDER_VARIABLE)
    default = Path(corpus) / "failures" if corpus else None
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args(arguments)
    if options.folder is None:
        parser.error(f"name a folder of cases, or set {_FOLDER_VARIABLE}")
    try:
        report = score(options.folder, with_held_out=options.held_out)
    except UsageError as error:
        sys.exit(f"error: {error.summary}")
    for problem in report.problems:
        sys.stderr.write(f"{problem}\n")
    sys.stdout.write(_render_json(report) if options.json else _render_text(report))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All verdicts. ``held_out`` and ``strict`` are empty where they were not asked for."""

    whole: tuple[Verdict, ...]
    assembled: tuple[Verdict, ...]
    held_out: tuple[Verdict, ...]
    strict: tuple[Verdict, ...]
    problems: tuple[str, ...]


def score(folder: Path, *, with_held_out: bool = False) -> Report:
    """Diagnose all cases of a folder, and only then judge. Raises UsageError."""
    cases, problems = read_inputs(folder)
    predictions = [predict(case) for case in cases]
    judged: list[tuple[CaseInput, CaseAnswer, Verdict]] = []
    unread: list[str] = []
    for case, prediction in zip(cases, predictions, strict=True):
        try:
            answer = read_answer(case)
        except UsageError as error:
            unread.append(error.summary)
            continue
        if answer.is_scored:
            judged.append((case, answer, judge(prediction, answer)))
    whole = [each for each in judged if not each[1].is_assembled]
    held = ([each[0] for each in whole], [each[1] for each in whole])
    return Report(
        whole=tuple(each[2] for each in whole),
        assembled=tuple(each[2] for each in judged if each[1].is_assembled),
        held_out=tuple(hold_out(*held)) if with_held_out else (),
        strict=tuple(hold_out(*held, is_strict=True)) if with_held_out else (),
        problems=(*problems, *unread),
    )


def _render_json(report: Report) -> str:
    document = summarise(report.whole) | {"assembled": summarise(report.assembled)}
    if report.held_out:
        document["held_out"] = summarise(report.held_out)
        document["held_out_strict"] = summarise(report.strict)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _render_text(report: Report) -> str:
    parts = [
        render((*report.whole, *report.assembled)),
        "\n",
        render_totals("recorded", report.whole),
        render_totals("assembled", report.assembled),
    ]
    if report.held_out:
        parts.append(render_totals("held out", report.held_out))
        parts.append(render_totals("held out, with all that quotes them", report.strict))
    return "".join(parts)


if __name__ == "__main__":
    main(sys.argv[1:])
