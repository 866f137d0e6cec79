"""A verification as a person reads it."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.model.contract import CheckResult, Exchange, Remedy, Verdict, Verification
from stoker.report.exchange_text import LONG_CHARACTERS, describe_reply, describe_request
from stoker.spec.render import render_inline

_MARKS = {
    Verdict.PASSED: "ok  ",
    Verdict.FAILED: "FAIL",
    Verdict.SKIPPED: "skip",
    Verdict.ERROR: "ERR ",
}
_BROKEN = (Verdict.FAILED, Verdict.ERROR)
_MARGIN = " " * 9


def render_verification(verification: Verification, *, is_verbose: bool = False) -> str:
    """Each promise with what was expected and found; of a broken one what would mend it, and the
    exchange that shows it. ``is_verbose``: all exchanges that were kept, at length."""
    engine = f" ({verification.engine})" if verification.engine else ""
    at = f" at {verification.url}" if verification.url else ""
    lines = [f"{verification.name}{engine}{at}, level {verification.level}:"]
    for result in verification.results:
        lines += _result(result, is_verbose=is_verbose)
    lines += [f"note: {note}" for note in verification.notes]
    lines.append(_verdict(verification))
    return "\n".join(lines) + "\n"


def _verdict(verification: Verification) -> str:
    """The last line: how many promises were kept, broken and none."""
    counts = {
        verdict: sum(result.verdict is verdict for result in verification.results)
        for verdict in Verdict
    }
    kept, skipped = counts[Verdict.PASSED], counts[Verdict.SKIPPED]
    broken = counts[Verdict.FAILED] + counts[Verdict.ERROR]
    verdict = "verified" if verification.has_passed else "NOT verified"
    if verification.cut_short:
        verdict = f"{'NOT verified, ' if broken else ''}{verification.cut_short}"
    tried = f"{kept} of {kept + broken} promises kept"
    return f"{verdict}: {tried}" + (f", {skipped} skipped" if skipped else "")


def _result(result: CheckResult, *, is_verbose: bool) -> list[str]:
    lines = [
        f"  {_MARKS[result.verdict]} {result.check}: {result.title}",
        f"{_MARGIN}expected {result.expected}",
        f"{_MARGIN}found    {result.found}",
    ]
    if result.verdict not in _BROKEN:
        return lines
    if result.symptom:
        lines.append(f"{_MARGIN}symptom  {result.symptom}")
    for remedy in result.remedies:
        lines += _remedy(remedy)
    return lines + _exchanges(result.exchanges, is_verbose=is_verbose)


def _remedy(remedy: Remedy) -> list[str]:
    lines = [f"{_MARGIN}mend:    {remedy.text}"]
    if remedy.key:
        lines.append(f"{_MARGIN}         in the deployment file: {render_setting(remedy)}")
    return lines


def render_setting(remedy: Remedy) -> str:
    """The line of a deployment file that a remedy asks for: YAML in one line."""
    *groups, name = remedy.key.split(".")
    if len(groups) > 2:  # the name of a flag may hold a dot
        groups, name = groups[:2], ".".join((*groups[2:], name))
    inner = f"{name}: {render_inline(remedy.value)}"
    for group in reversed(groups):
        inner = f"{group}: {{{inner}}}"
    return inner


def _exchanges(exchanges: Sequence[Exchange], *, is_verbose: bool) -> list[str]:
    """The last exchange in two lines, since it is the one that showed the flaw most often."""
    if not exchanges:
        return []
    if is_verbose:
        return [line for each in exchanges for line in _exchange(each, LONG_CHARACTERS)]
    lines = _exchange(exchanges[-1])
    more = len(exchanges) - 1
    if more:
        lines.append(f"{_MARGIN}         and {more} more: --verbose shows them, --json all of them")
    return lines


def _exchange(exchange: Exchange, limit_characters: int = 160) -> list[str]:
    return [
        f"{_MARGIN}asked    {describe_request(exchange.request, limit_characters)}",
        f"{_MARGIN}got      {describe_reply(exchange, limit_characters)}",
    ]
