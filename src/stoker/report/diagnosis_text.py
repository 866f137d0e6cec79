"""A diagnosis as a person reads it: the first cause, what shows it, and what would mend it."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.model.diagnosis import (
    Cause,
    Certainty,
    Diagnosis,
    Evidence,
    Gravity,
    ReadInput,
    Repair,
)
from stoker.model.facts import Plain
from stoker.model.units import format_bytes, write_word
from stoker.spec.render import render_inline

#: Beside the first cause so many others are told with what would mend them.
MOST_CAUSES = 4
_MOST_LINE_CHARACTERS = 300
_FLAGS, _VARIABLES = "engine.settings.", "engine.env."
_MARGIN = "  "
_SURENESS = {
    Certainty.CERTAIN: "",
    Certainty.LIKELY: "most likely: ",
    Certainty.POSSIBLE: "perhaps: ",
}


def list_repairs(diagnosis: Diagnosis) -> tuple[Repair, ...]:
    """The repairs in the order in which a person sees them numbered, from 1."""
    return tuple(repair for cause in diagnosis.causes[:MOST_CAUSES] for repair in cause.repairs)


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """The whole answer."""
    lines = [_head(diagnosis), ""]
    number = 1
    for at, cause in enumerate(diagnosis.causes[:MOST_CAUSES]):
        title = _title(at, cause, has_unknown=bool(diagnosis.unknown))
        lines += [*_cause(title, cause, number), ""]
        number += len(cause.repairs)
    if len(diagnosis.causes) > MOST_CAUSES:
        more = ", ".join(cause.title for cause in diagnosis.causes[MOST_CAUSES:])
        lines += [f"Less likely: {more}", ""]
    if diagnosis.unknown:
        lines += [*_unknown(diagnosis), ""]
    if diagnosis.consequences:
        lines += [_consequences(diagnosis.consequences, has_cause=bool(diagnosis.causes)), ""]
    lines += [line for cause in diagnosis.earlier for line in (*_earlier(cause), "")]
    lines += [_read(each) for each in diagnosis.inputs]
    return "\n".join(lines).rstrip() + "\n"


def _title(at: int, cause: Cause, *, has_unknown: bool) -> str:
    if at:
        return "Found too"
    if cause.gravity is Gravity.ERROR:
        return "First cause"
    return "Found" if has_unknown else "No failure was found, but this"


def _earlier(cause: Cause) -> list[str]:
    """What is over in three lines: it may come again."""
    return [
        f"Before the last start: {_SURENESS[cause.certainty]}{cause.title} [{cause.kind}]",
        *(f"{_MARGIN}  {_evidence(each)}" for each in cause.evidence[:1]),
        *(f"{_MARGIN}against another time: {each.text}" for each in cause.repairs[:1]),
    ]


def _head(diagnosis: Diagnosis) -> str:
    engine = " ".join(filter(None, (diagnosis.engine, diagnosis.release)))
    return f"{diagnosis.name or 'What was read'}{f' ({engine})' if engine else ''}:"


def _cause(title: str, cause: Cause, number: int) -> list[str]:
    lines = [
        f"{title}: {_SURENESS[cause.certainty]}{cause.title} [{cause.kind}]",
        f"{_MARGIN}{cause.meaning}",
        *(f"{_MARGIN}  {_evidence(each)}" for each in cause.evidence),
    ]
    if len(cause.ranks) > 1 or cause.count > len(cause.evidence):
        where = f" by {', '.join(cause.ranks)}" if cause.ranks else ""
        lines.append(f"{_MARGIN}told {cause.count} times{where}")
    if cause.uncertain:
        lines.append(f"{_MARGIN}uncertain: {cause.uncertain}")
    if cause.settled_by:
        lines.append(f"{_MARGIN}settled by: {cause.settled_by}")
    if cause.repairs:
        lines.append(f"{_MARGIN}mend it:")
    for at, repair in enumerate(cause.repairs, number):
        lines += _repair(at, repair)
    return lines


def _evidence(evidence: Evidence) -> str:
    place = evidence.origin
    if evidence.line_number:
        place = f"{place}:{evidence.line_number}"
    rank = f" ({evidence.rank})" if evidence.rank else ""
    text = evidence.text
    if len(text) > _MOST_LINE_CHARACTERS:
        text = f"{text[:_MOST_LINE_CHARACTERS]}..."
    return f"{place}{rank}: {text}"


def _repair(number: int, repair: Repair) -> list[str]:
    margin = f"{_MARGIN}     "
    lines = [f"{_MARGIN}{number:>3}. {repair.text}"]
    lines += [
        f"{margin}in the deployment file: {_change(*each)}" for each in repair.changes.items()
    ]
    words = _words(repair)
    lines += [f"{margin}that is: {words}"] if words else []
    lines += [f"{margin}run: {command}" for command in repair.commands]
    if repair.consent:
        lines.append(f"{margin}agree first: {repair.consent}")
    if repair.missing:
        lines.append(f"{margin}whether it helps depends on {', '.join(repair.missing)}")
    return lines


def render_repair(repair: Repair) -> str:
    """One repair on one line: the sentence, the changes, the commands."""
    changes = [f"set {_change(*each)}" for each in repair.changes.items()]
    words = _words(repair)
    return "; ".join((repair.text, *changes, *((words,) if words else ()), *repair.commands))


def _change(key: str, value: Plain) -> str:
    return f"take {key} out" if value is None else f"{key}: {render_inline(value)}"


def _words(repair: Repair) -> str:
    """The changes of settings as words of the engine's command line and environment."""
    words = [_word(key, value) for key, value in repair.changes.items()]
    return " ".join(word for word in words if word)


def _word(key: str, value: Plain) -> str:
    if value is None or value is False:
        return ""
    if key.startswith(_VARIABLES):
        return f"{key.removeprefix(_VARIABLES)}={value}"
    if not key.startswith(_FLAGS):
        return ""
    name = key.removeprefix(_FLAGS)
    flag = f"--{name}" if len(name) > 1 else f"-{name}"
    values = value if isinstance(value, (list, tuple)) else [value]
    told = (write_word(each) for each in values)
    return " ".join((flag, *(word for word in told if word is not None)))


def _unknown(diagnosis: Diagnosis) -> list[str]:
    is_read = any(each.lines for each in diagnosis.inputs)
    if is_read and not diagnosis.unexplained and not diagnosis.consequences:
        return [f"No failure was found: {diagnosis.unknown}"]
    lines = [f"The cause is not known: {diagnosis.unknown}"]
    return [*lines, *(f"{_MARGIN}  {_evidence(each)}" for each in diagnosis.unexplained)]


def _consequences(causes: Sequence[Cause], *, has_cause: bool) -> str:
    told = "; ".join(
        f"{cause.title}{f' ({_span(cause.ranks)})' if cause.ranks else ''}" for cause in causes
    )
    return f"{'Followed from it' if has_cause else 'Followed from something before'}: {told}"


def _span(ranks: Sequence[str]) -> str:
    return ", ".join(ranks) if len(ranks) <= 3 else f"{ranks[0]} to {ranks[-1]}"


def _read(each: ReadInput) -> str:
    note = f"; {each.note}" if each.note else ""
    return f"read {each.origin}: {each.lines} lines, {format_bytes(each.size_bytes)}{note}"
