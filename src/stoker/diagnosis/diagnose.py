"""The whole diagnosis: events, clues, suspects, and what mends them.

Called by the commands and by whoever scores diagnoses. Pure and total: whatever was read, there is
an answer, and where nothing is known it says so and shows what looks like an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnosis.deciding import (
    Suspect,
    find_clues,
    is_consequence,
    rank_suspects,
    tree_of,
)
from stoker.diagnosis.inputs import Inputs, LogLine
from stoker.diagnosis.matching import Event, Matcher, applies, load_matcher
from stoker.diagnosis.phases import follow_phases
from stoker.diagnosis.repairing import find_repairs
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.templates import render_template
from stoker.model.diagnosis import Cause, Certainty, Diagnosis, Evidence

_MOST_UNEXPLAINED = 6
_LOOKS_LIKE_ERROR = (
    "Error",
    "ERROR",
    "error:",
    "Exception",
    "FATAL",
    "fatal",
    "Traceback",
    "panic",
)


def diagnose(inputs: Inputs, matcher: Matcher | None = None) -> Diagnosis:
    """What went wrong. ``matcher``: other signatures than those that ship with Stoker."""
    events = find_events(inputs, matcher or load_matcher())
    suspects = rank_suspects(find_clues(events, inputs))
    first = [suspect for suspect in suspects if not is_consequence(suspect)]
    later = [suspect for suspect in suspects if is_consequence(suspect)]
    causes = tuple(_tell(suspect, inputs) for suspect in first)
    unexplained = () if causes else _find_unexplained(inputs.lines)
    return Diagnosis(
        name=inputs.name,
        engine=inputs.engine,
        release=inputs.release,
        causes=causes,
        consequences=tuple(_tell(suspect, inputs) for suspect in later),
        unknown="" if causes else _why_unknown(inputs, unexplained),
        unexplained=unexplained,
        inputs=inputs.read,
    )


def find_events(inputs: Inputs, matcher: Matcher) -> tuple[Event, ...]:
    """Every signature that applies to this engine, in the kernel's lines and in the log's."""
    rows = load_engine_table(inputs.engine).log.phases if inputs.engine else ()
    phases = follow_phases(inputs.lines, rows)
    found = [*matcher.find(inputs.kernel, ()), *matcher.find(inputs.lines, phases)]
    events = [event for event in found if applies(event.signature, inputs.engine, inputs.release)]
    told = {symptom.symptom: symptom for symptom in inputs.symptoms}
    for signature in matcher.signatures:
        for word in signature.symptoms:
            if word in told and applies(signature, inputs.engine, inputs.release):
                evidence = told[word].evidence
                line = LogLine(
                    number=evidence.line_number, text=evidence.text, origin=evidence.origin
                )
                events.append(Event(signature=signature, line=line))
    return tuple(events)


def _tell(suspect: Suspect, inputs: Inputs) -> Cause:
    row, best = suspect.row, suspect.best
    tree = tree_of(inputs, suspect)
    return Cause(
        kind=row.kind,
        title=row.title,
        meaning=render_template(row.meaning, tree),
        gravity=row.gravity,
        certainty=best.certainty,
        evidence=suspect.evidence,
        repairs=find_repairs(row.repair, tree, engine=inputs.engine),
        ranks=suspect.ranks,
        count=len(suspect.clues),
        uncertain=_doubt(suspect),
        settled_by=row.settled_by if best.certainty is not Certainty.CERTAIN else "",
        source=row.source,
    )


def _doubt(suspect: Suspect) -> str:
    best = suspect.best
    if best.missing:
        return f"it depends on {', '.join(best.missing)}, which is not known here"
    return {
        Certainty.CERTAIN: "",
        Certainty.LIKELY: "the same line has other causes now and then",
        Certainty.POSSIBLE: "what was read allows this cause and does not prove it",
    }[best.certainty]


def _find_unexplained(lines: Sequence[LogLine]) -> tuple[Evidence, ...]:
    shown: dict[str, Evidence] = {}
    for line in lines:
        if any(word in line.text for word in _LOOKS_LIKE_ERROR):
            text = line.text.strip()
            evidence = Evidence(
                origin=line.origin, line_number=line.number, text=text, rank=line.rank
            )
            shown.setdefault(text, evidence)
    return tuple(shown.values())[:_MOST_UNEXPLAINED]


def _why_unknown(inputs: Inputs, unexplained: Sequence[Evidence]) -> str:
    if not inputs.lines and not inputs.kernel and not inputs.symptoms:
        return "nothing was read: name a log, a reply or a deployment"
    if not unexplained:
        return "nothing in what was read looks like a failure"
    return "none of the causes that Stoker knows fits; these are the first lines that look like one"
