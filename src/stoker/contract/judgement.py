"""What a judge answers: a verdict, what was expected, what was found, in a newcomer's words.

Every check makes these and :mod:`stoker.contract.run` turns them into results. A function that
looks for one flaw answers the judgement that says so, or None; with ``or`` the first flaw wins.
What a server sent can be anything: whatever of it stands in a judgement goes through :func:`quote`
first, so that it is short and cannot steer a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.model.contract import Verdict
from stoker.model.facts import Plain

_QUOTED_CHARACTERS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One promise: how it stands, what was expected and what was found.

    ``symptom`` names what is wrong in one word, the same on every server; ``details`` are its
    figures and names. Remedies are found by them.
    """

    verdict: Verdict
    expected: str
    found: str
    symptom: str = ""
    details: Mapping[str, Plain] = field(default_factory=dict)


def passed(expected: str, found: str) -> Judgement:
    """The promise was kept."""
    return Judgement(verdict=Verdict.PASSED, expected=expected, found=found)


def failed(expected: str, found: str, symptom: str = "", **details: Plain) -> Judgement:
    """The promise was broken."""
    return Judgement(
        verdict=Verdict.FAILED, expected=expected, found=found, symptom=symptom, details=details
    )


def skipped(expected: str, found: str) -> Judgement:
    """The promise is none here, or could not be judged; ``found`` says why."""
    return Judgement(verdict=Verdict.SKIPPED, expected=expected, found=found)


def unreached(found: str) -> Judgement:
    """The promise could not be tried: there was no server to ask."""
    return Judgement(
        verdict=Verdict.ERROR,
        expected="a server that can be reached",
        found=found,
        symptom="unreachable",
    )


def quote(value: Plain) -> str:
    """What a server sent, short and printable: a text in quotation marks, other data as JSON."""
    text = f'"{value}"' if isinstance(value, str) else _write_out(value)
    left_out = len(text) - _QUOTED_CHARACTERS
    shown = "".join(map(_printable, text[:_QUOTED_CHARACTERS]))
    return shown if left_out <= 0 else f"{shown}... and {left_out} characters more"


def _write_out(value: Plain) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "data that is nested too deeply"


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
