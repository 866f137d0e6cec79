"""From many events to the first cause.

Called by :mod:`stoker.diagnosis.diagnose`. Eight ranks repeat one failure, and the last exception
is seldom the cause: what a line says of itself (a cause, a symptom, a consequence) goes before
where it stands, and of the rest the deepest layer and the earliest line win.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.diagnosis.inputs import Inputs, LogLine
from stoker.diagnosis.matching import Event
from stoker.knowledge.causes import LAYERS, CauseRow, load_causes
from stoker.knowledge.conditions import evaluate_condition
from stoker.knowledge.signatures import TELLS, Meaning, Signature
from stoker.knowledge.subjects import name_subject
from stoker.model.diagnosis import Certainty, Evidence, Gravity
from stoker.model.facts import Plain

_GRAVITIES = (Gravity.ERROR, Gravity.WARNING, Gravity.NOTE)
_CERTAINTIES = (Certainty.CERTAIN, Certainty.LIKELY, Certainty.POSSIBLE)
_MOST_EVIDENCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """What one event (or symptom, or rule) says: a kind, how sure, and from where."""

    row: CauseRow
    tells: str
    certainty: Certainty
    evidence: Evidence
    captured: Mapping[str, Plain] = field(default_factory=dict)
    phase: str = ""
    order: int = 0
    missing: tuple[str, ...] = ()
    signature: Signature | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """All clues of one kind, the weightiest first."""

    row: CauseRow
    clues: tuple[Clue, ...]

    @property
    def best(self) -> Clue:
        """The clue that speaks loudest; of equals the earliest."""
        return self.clues[0]

    @property
    def ranks(self) -> tuple[str, ...]:
        """The processes that showed it."""
        return tuple(sorted({clue.evidence.rank for clue in self.clues if clue.evidence.rank}))

    @property
    def count(self) -> int:
        """How many lines tell it; one that two signatures know is one."""
        return len({(each.evidence.origin, each.evidence.line_number) for each in self.clues})

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The lines that a person should see: each wording once, the best first."""
        shown: dict[str, Evidence] = {}
        for clue in self.clues:
            # A guard quotes the last lines of its engine, so a wording may stand in another one.
            if not any(text in clue.evidence.text for text in shown):
                shown[clue.evidence.text] = clue.evidence
        return tuple(shown.values())[:_MOST_EVIDENCE]


def find_clues(events: Iterable[Event], inputs: Inputs) -> tuple[Clue, ...]:
    """What lines, symptoms and rules say, in the order in which they were read."""
    causes = load_causes()
    clues: list[Clue] = []
    kinds: list[str] = []
    for order, event in enumerate(events):
        if event.signature.tells == "harmless":
            continue
        log = {"phase": event.phase or None, "captured": dict(event.captured), "kinds": kinds}
        for meaning, certainty, missing in _judge(
            event.signature.means, {**inputs.tree, "log": log}
        ):
            kinds.append(meaning.kind)
            clues.append(
                Clue(
                    row=causes[meaning.kind],
                    tells=event.signature.tells,
                    certainty=certainty,
                    evidence=show_line(event.line),
                    captured=event.captured,
                    phase=event.phase,
                    order=order,
                    missing=missing,
                    signature=event.signature,
                )
            )
    rules = _find_rule_clues(inputs, order=len(clues) + 1)
    return (*_drop_told(clues), *rules)


def _drop_told(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Without the symptoms in a line that tells a cause as grave: it says why, they only what."""
    told = {
        (_place(clue), clue.row.gravity)
        for clue in clues
        if clue.tells == "cause" and clue.evidence.line_number
    }
    for clue in clues:
        if clue.tells != "symptom" or (_place(clue), clue.row.gravity) not in told:
            yield clue


def _place(clue: Clue) -> tuple[str, int, str]:
    return clue.evidence.origin, clue.evidence.line_number, clue.evidence.text


def _judge(
    means: Sequence[Meaning], tree: Mapping[str, Plain]
) -> Iterable[tuple[Meaning, Certainty, tuple[str, ...]]]:
    """The first meaning that holds; before it, those that cannot be judged, as possible."""
    for meaning in means:
        if meaning.when is None:
            yield meaning, meaning.certainty, ()
            return
        answer = evaluate_condition(meaning.when, tree)
        if answer.truth:
            yield meaning, meaning.certainty, ()
            return
        if answer.truth is None:
            missing = tuple(dict.fromkeys(name_subject(path) for path in answer.missing))
            yield meaning, Certainty.POSSIBLE, missing


def show_line(line: LogLine) -> Evidence:
    """A line that was read, as a person sees it."""
    return Evidence(
        origin=line.origin, line_number=line.number, text=line.text.strip(), rank=line.rank
    )


def _find_rule_clues(inputs: Inputs, *, order: int) -> Iterable[Clue]:
    """Rules that fired over the deployment speak for the causes that name them."""
    fired = {finding.rule: finding for finding in inputs.findings}
    for row in load_causes().values():
        for name in row.rules:
            if name in fired:
                text = f"{fired[name].summary} [{name}]"
                evidence = Evidence(origin="the deployment", line_number=0, text=text)
                yield Clue(
                    row=row,
                    tells="cause",
                    certainty=Certainty.LIKELY,
                    evidence=evidence,
                    order=order,
                )


def rank_suspects(clues: Sequence[Clue]) -> tuple[Suspect, ...]:
    """One suspect a kind, the first cause first."""
    by_kind: dict[str, list[Clue]] = {}
    for clue in clues:
        by_kind.setdefault(clue.row.kind, []).append(clue)
    suspects = [
        Suspect(row=found[0].row, clues=tuple(sorted(found, key=_weigh)))
        for found in by_kind.values()
    ]
    return tuple(sorted(suspects, key=lambda suspect: _weigh(suspect.best)))


def _weigh(clue: Clue) -> tuple[int, ...]:
    return (
        _GRAVITIES.index(clue.row.gravity),
        TELLS.index(clue.tells),
        _CERTAINTIES.index(clue.certainty),
        LAYERS.index(clue.row.layer),
        clue.order,
    )


def is_consequence(suspect: Suspect) -> bool:
    """Whether all that tells of it only says that something else failed before."""
    return suspect.best.tells == "consequence"


def tree_of(inputs: Inputs, suspect: Suspect) -> Mapping[str, Plain]:
    """What sentences and repairs of a suspect may name: what is known, and the log's figures."""
    merged: dict[str, Plain] = {}
    for clue in reversed(suspect.clues):
        merged |= clue.captured
    best = replace(suspect.best, captured=merged)
    log = {"phase": best.phase or None, "captured": merged, "rank": best.evidence.rank}
    return {**inputs.tree, "log": log, "engine": inputs.engine, "release": inputs.release}
