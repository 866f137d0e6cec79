"""The whole diagnosis: events, clues, suspects, and what mends them.

Called by the commands and by whoever scores diagnoses. Pure and total: whatever was read, there is
an answer, and where nothing is known it says so and shows what looks like an error.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

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
from stoker.diagnosis.repairing import find_repairs, list_unknown
from stoker.diagnosis.tracebacks import Chain, find_chains
from stoker.diagnosis.wording import tell_wording
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.templates import render_template
from stoker.model.diagnosis import Cause, Certainty, Diagnosis, Evidence, Gravity

_MOST_UNEXPLAINED = 6
_MOST_CALLS = 3
_MOST_EARLIER = 2
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
    chosen = matcher or load_matcher()
    events = find_events(inputs, chosen)
    chains = find_chains(inputs.lines)
    clues = (*find_clues(events, inputs), *find_patch_clues(chains, events, inputs))
    suspects = rank_suspects(clues)
    first = [suspect for suspect in suspects if not is_consequence(suspect)]
    later = [suspect for suspect in suspects if is_consequence(suspect)]
    causes = tuple(_tell(suspect, inputs) for suspect in first)
    unexplained: tuple[Evidence, ...] = ()
    if not any(cause.gravity is Gravity.ERROR for cause in causes):
        # What only costs something explains no exception.
        unexplained = _find_raised(chains, events)
    if not causes and not chains:
        unexplained = _find_alarming(inputs.lines, events)
    return Diagnosis(
        name=inputs.name,
        engine=inputs.engine,
        release=inputs.release,
        causes=causes,
        consequences=tuple(_tell(suspect, inputs) for suspect in later),
        earlier=_find_earlier(inputs, chosen, known={cause.kind for cause in causes}),
        unknown=(
            ""
            if causes and not unexplained
            else _why_unknown(inputs, unexplained, has_more=bool(later))
        ),
        unexplained=unexplained,
        inputs=inputs.read,
    )


def _find_earlier(inputs: Inputs, matcher: Matcher, *, known: Container[str]) -> tuple[Cause, ...]:
    """What ended starts before the last one, unless it is ``known`` of the last one too."""
    if not inputs.history:
        return ()
    before = replace(
        inputs, lines=inputs.history, kernel=(), history=(), symptoms=(), findings=(), read=()
    )
    found = (cause for cause in diagnose(before, matcher).causes if cause.kind not in known)
    graves = [cause for cause in found if cause.gravity is Gravity.ERROR]
    return tuple(graves[:_MOST_EARLIER])


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
        # A sentence with a hole in it says less than the title.
        meaning=(
            f"{row.title}."
            if list_unknown(row.meaning, tree)
            else render_template(row.meaning, tree)
        ),
        gravity=row.gravity,
        certainty=best.certainty,
        evidence=suspect.evidence,
        repairs=find_repairs(row.repair, tree, engine=inputs.engine),
        ranks=suspect.ranks,
        count=suspect.count,
        uncertain="; ".join(filter(None, (_doubt(suspect), tell_wording(suspect, inputs)))),
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


def _find_raised(chains: Sequence[Chain], events: Sequence[Event]) -> tuple[Evidence, ...]:
    """The first exception that no signature knows, with the calls it came from."""
    known = {id(event.line) for event in events}
    raised = next((each.first for each in chains if id(each.first.line) not in known), None)
    if raised is None:
        return ()
    calls = [frame.line for frame in raised.frames[-_MOST_CALLS:]]
    return tuple(map(show_line, (*calls, raised.line)))


def _find_alarming(lines: Sequence[LogLine], events: Sequence[Event]) -> tuple[Evidence, ...]:
    """The first lines that look like an error, and that no signature knows."""
    known = {id(event.line) for event in events}
    shown: dict[str, Evidence] = {}
    for line in lines:
        if id(line) not in known and any(word in line.text for word in _LOOKS_LIKE_ERROR):
            shown.setdefault(line.text.strip(), show_line(line))
            if len(shown) == _MOST_UNEXPLAINED:
                break
    return tuple(shown.values())


def _why_unknown(inputs: Inputs, unexplained: Sequence[Evidence], *, has_more: bool) -> str:
    if not inputs.lines and not inputs.kernel and not inputs.symptoms:
        if any(each.kind == "reply" and each.size_bytes for each in inputs.read):
            return "nothing in what was read looks like a failure"
        if any(each.lines for each in inputs.read):
            return "what was read holds no words"
        return "nothing was read: name a log, a reply or a deployment"
    if has_more and not unexplained:
        return (
            "what was read only tells what follows from a failure before it;"
            " look further up, or in the log of the process that failed first"
        )
    if not unexplained:
        return "nothing in what was read looks like a failure"
    return "none of the causes that Stoker knows fits; these are the first lines that look like one"
