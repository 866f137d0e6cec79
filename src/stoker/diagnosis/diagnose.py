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
    show_line,
    tree_of,
)
from stoker.diagnosis.inputs import Inputs, LogLine
from stoker.diagnosis.matching import Event, Matcher, applies, load_matcher
from stoker.diagnosis.patches import find_patch_clues
from stoker.diagnosis.phases import follow_phases
from stoker.diagnosis.repairing import find_repairs
from stoker.diagnosis.tracebacks import Chain, find_chains
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.templates import render_template
from stoker.model.diagnosis import Cause, Certainty, Diagnosis, Evidence

_MOST_UNEXPLAINED = 6
_MOST_CALLS = 3
_LOOKS_LIKE_ERROR = (
    "Error",
    "ERROR",
    "error:",
    "Exception",
    "FATAL",
    "fatal",
    "Traceback",
    "panic",
    "error loading",
    "failed to ",
    "Failed to ",
)


def diagnose(inputs: Inputs, matcher: Matcher | None = None) -> Diagnosis:
    """What went wrong. ``matcher``: other signatures than those that ship with Stoker."""
    events = find_events(inputs, matcher or load_matcher())
    chains = find_chains(inputs.lines)
    clues = (*find_clues(events, inputs), *find_patch_clues(chains, events, inputs))
    suspects = rank_suspects(clues)
    first = [suspect for suspect in suspects if not is_consequence(suspect)]
    later = [suspect for suspect in suspects if is_consequence(suspect)]
    causes = tuple(_tell(suspect, inputs) for suspect in first)
    unexplained = () if causes else _find_unexplained(inputs.lines, chains, events)
    return Diagnosis(
        name=inputs.name,
        engine=inputs.engine,
        release=inputs.release,
        causes=causes,
        consequences=tuple(_tell(suspect, inputs) for suspect in later),
        unknown="" if causes else _why_unknown(inputs, unexplained, has_more=bool(later)),
        unexplained=unexplained,
        inputs=inputs.read,
    )


def find_events(inputs: Inputs, matcher: Matcher) -> tuple[Event, ...]:
    """Every signature that applies to this engine, in the kernel's lines and in the log's."""
    rows = load_engine_table(inputs.engine).log.phases if inputs.engine else ()
    lines = _in_order(inputs)
    found = matcher.find(lines, follow_phases(lines, rows))
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


def _in_order(inputs: Inputs) -> Sequence[LogLine]:
    """All lines: the kernel's own log first, and what the kernel says in a log where it stands."""
    logs = {line.origin: None for line in inputs.lines}
    alone = [line for line in inputs.kernel if line.origin not in logs]
    among = [line for line in inputs.kernel if line.origin in logs]
    if not among:
        return (*alone, *inputs.lines)
    place = {origin: at for at, origin in enumerate(logs)}
    both = sorted((*inputs.lines, *among), key=lambda line: (place[line.origin], line.number))
    return (*alone, *both)


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


def _find_unexplained(
    lines: Sequence[LogLine], chains: Sequence[Chain], events: Sequence[Event]
) -> tuple[Evidence, ...]:
    """The first exception that no signature knows, with the calls it came from; else the first
    lines that look like an error."""
    known = {id(event.line) for event in events}
    raised = next((each.first for each in chains if id(each.first.line) not in known), None)
    if raised is not None:
        calls = [frame.line for frame in raised.frames[-_MOST_CALLS:]]
        return tuple(map(show_line, (*calls, raised.line)))
    if chains:  # all of them were told by a signature
        return ()
    shown: dict[str, Evidence] = {}
    for line in lines:
        if id(line) not in known and any(word in line.text for word in _LOOKS_LIKE_ERROR):
            shown.setdefault(line.text.strip(), show_line(line))
            if len(shown) == _MOST_UNEXPLAINED:
                break
    return tuple(shown.values())


def _why_unknown(inputs: Inputs, unexplained: Sequence[Evidence], *, has_more: bool) -> str:
    if not inputs.lines and not inputs.kernel and not inputs.symptoms:
        return "nothing was read: name a log, a reply or a deployment"
    if has_more and not unexplained:
        return (
            "what was read only tells what follows from a failure before it;"
            " look further up, or in the log of the process that failed first"
        )
    if not unexplained:
        return "nothing in what was read looks like a failure"
    return "none of the causes that Stoker knows fits; these are the first lines that look like one"
