"""Signatures: how a line of a log, a kernel's record or a reply tells what went wrong, as data.

Called by :mod:`stoker.diagnosis`. A signature is one block of TOML: a text that must stand in a
line as it is, a pattern for its figures, what it means, and examples. The loader refuses one that
lacks its source or an example. Patterns are RE2's, which reads any text in linear time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.conditions import Condition, parse_condition
from stoker.knowledge.datafiles import check_source, list_data, parse_toml, read_text
from stoker.knowledge.structure import structure
from stoker.model.diagnosis import Certainty
from stoker.model.facts import Plain
from stoker.model.finding import Source

_FOLDER = "signatures"
#: A shorter text stands in too many lines.
_LEAST_NEEDLE = 5
#: ``cause`` says why; ``symptom`` says that something is wrong and not why; ``consequence`` follows
#: from another failure (a lost peer, a killed child); ``harmless`` looks like an error and is none.
TELLS = ("cause", "symptom", "consequence", "harmless")


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What must (``near``) and must not (``not_near``) stand at most ``within`` lines away, before
    or behind, the line itself included. Each is an RE2 pattern."""

    near: tuple[str, ...] = ()
    not_near: tuple[str, ...] = ()
    within: int = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A cause that a line tells where ``when`` holds over what is known. The first that holds is
    meant; one that cannot be judged is told as possible."""

    kind: str
    when: Condition | None = None
    certainty: Certainty = Certainty.CERTAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureExample:
    """Text in which the signature must be found (or not), with facts by dotted path."""

    text: str
    fires: bool = True
    kind: str = ""
    facts: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One signature.

    ``needles``: one of these texts stands in the line, in these very letters. ``pattern``: searched
    in the line too; its groups are figures that sentences can name as ``log.captured.GROUP``.
    ``engines`` (kinds) and ``releases`` that print it, anyone and any where they are empty.
    ``phases``: the start was in one of these when it was printed (our words). ``symptoms`` of a
    failed check tell it too, instead of a line.
    """

    id: str
    means: tuple[Meaning, ...]
    needles: tuple[str, ...] = ()
    pattern: str = ""
    around: Around = Around()
    engines: tuple[str, ...] = ()
    releases: str = ""
    phases: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    tells: str = "cause"
    source: Source
    example: tuple[SignatureExample, ...]


@cache
def load_signatures() -> tuple[Signature, ...]:
    """All signatures, by file and place in it. Raises DataError."""
    found: list[Signature] = []
    for topic in list_data(_FOLDER, ".toml"):
        origin = f"{_FOLDER}/{topic}.toml"
        found.extend(parse_signatures(read_text(origin), origin=origin))
    ids = [signature.id for signature in found]
    if doubled := sorted({each for each in ids if ids.count(each) > 1}):
        raise DataError(f"more than one signature is named {', '.join(doubled)}")
    return tuple(found)


def parse_signatures(text: str, *, origin: str) -> tuple[Signature, ...]:
    """The signatures of one TOML text; ``origin`` names it in the DataError."""
    data = parse_toml(text, origin=origin)
    rows = data.get("signature")
    if set(data) != {"signature"} or not isinstance(rows, list):
        raise DataError(f"{origin}: expected [[signature]] blocks and nothing else")
    return tuple(
        _parse_signature(row, f"{origin}: signature {n + 1}") for n, row in enumerate(rows)
    )


def _parse_signature(row: Plain, where: str) -> Signature:
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: expected a table")
    where = f"{where} ({row.get('id', 'without an id')})"
    means = row.get("means", [])
    # Most lines mean one thing, always.
    means = [{"kind": means}] if isinstance(means, str) else means
    parsed = [_parse_meaning(each, where) for each in means]
    signature = structure(Signature, {**row, "means": parsed}, where=where)
    check_source(signature.source, where=where)
    _check(signature, where)
    return signature


def _parse_meaning(row: Plain, where: str) -> Meaning:
    if isinstance(row, Mapping) and "when" in row:
        row = {**row, "when": parse_condition(row["when"], where=f"{where}.when")}
    return structure(Meaning, row, where=where)


def _check(signature: Signature, where: str) -> None:
    if not signature.means and signature.tells != "harmless":
        raise DataError(f"{where}: a signature means something")
    if not signature.needles and not signature.symptoms:
        raise DataError(f"{where}: a signature has needles or symptoms")
    if any(len(needle) < _LEAST_NEEDLE for needle in signature.needles):
        raise DataError(f"{where}: a needle has at least {_LEAST_NEEDLE} letters")
    if signature.tells not in TELLS:
        raise DataError(f"{where}: tells is one of {', '.join(TELLS)}")
    if signature.needles and not any(example.fires for example in signature.example):
        raise DataError(f"{where}: an example in which it is found is needed")
