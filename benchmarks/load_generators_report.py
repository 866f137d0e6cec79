"""The tables of the comparison of load generators: medians, errors against the truth, and aims."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.load_generators_tools import OURS, Tool
from benchmarks.load_generators_trial import Load, Trial
from stoker.report.table import render_table

#: What Stoker sets itself, by concurrency: of the ideal rate (of the best tool's at 512, where no
#: client can be ideal on the processors that the server spins on), and errors against the truth.
_LEAST_SHARE = {64: 0.97, 256: 0.97, 512: 0.97}
_OF_BEST = 512
_MOST_TTFT_ERROR_MS = {64: 10.0, 256: 15.0, 512: 40.0}
_MOST_ITL_ERROR = {1: 0.01, 64: 0.01, 256: 0.01, 512: 0.02}
_MOST_FIRST_SECONDS = 1.0

#: Five gaps between tokens: bursts of 512 answers explain less.
_LATE_SERVER_MS = 50.0

_HEAD = (
    *("TOOL", "TRIES", "REACHED", "SHARE", "SAYS", "TTFT", "ERROR", "P99", "ERROR"),
    *("ITL", "ERROR", "TPOT", "CPU s", "WALL s", "FIRST s", "MB", "LATE"),
)

_COLUMNS = (
    "REACHED: output tokens/s by the server's own log; SHARE: of the ideal, or of the best tool",
    "where the server sends without pause. SAYS: what the tool says. TTFT (mean), P99 (of TTFT),",
    "ITL and TPOT (means) as the tool says, in ms, each with its ERROR against the server's log.",
    "CPU s of all its processes; FIRST s from the start of the command to its first request; MB of",
    "its largest process. LATE: the server's own worst delay, in ms; errors are against what it",
    "really did. Until it has noticed a request, the waiting counts as the tool's error.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The medians of one tool under one load; None where no try gave the figure."""

    tool: str
    tries: int
    whole: int
    reached: float | None
    share: float | None
    says: float | None
    errors: Mapping[str, float | None]
    means: Mapping[str, float | None]
    first_seconds: float | None
    spent: Mapping[str, float | None]
    notes: tuple[str, ...]


def sum_up(trials: Sequence[Trial], load: Load) -> list[Row]:
    """A row for each tool that was tried under the load, in the order of their names in trials."""
    here = [trial for trial in trials if trial.load == load]
    names = sorted({trial.tool for trial in here}, key=lambda name: (name != OURS, name))
    reached = {name: _median(_of(here, name), _reached) for name in names}
    best = max((value for value in reached.values() if value is not None), default=None)
    ideal = load.ideal_tokens_per_second or best
    return [_make_row(name, _of(here, name), ideal) for name in names]


def _of(trials: Iterable[Trial], name: str) -> list[Trial]:
    return [trial for trial in trials if trial.tool == name]


def _make_row(name: str, trials: Sequence[Trial], ideal: float | None) -> Row:
    whole = [trial for trial in trials if not trial.failure]
    reached = _median(whole, _reached)
    says = ("ttft_ms", "ttft_p99_ms", "itl_ms", "tpot_ms")
    spent = ("cpu_seconds", "wall_seconds", "peak_bytes")
    return Row(
        tool=name,
        tries=len(trials),
        whole=len(whole),
        reached=reached,
        share=reached / ideal if reached is not None and ideal else None,
        says=_median(whole, partial(_find, of="said", key="tokens_per_second")),
        errors={
            "ttft_ms": _median(whole, partial(_differ, key="ttft_ms")),
            "ttft_p99_ms": _median(whole, partial(_differ, key="ttft_p99_ms")),
            "itl_ms": _median(whole, partial(_differ, key="itl_ms")),
            "late_ms": _median(whole, partial(_find, of="truth", key="max_late_ms")),
            "itl": _median(whole, _itl_error),
        },
        means={key: _median(whole, partial(_find, of="said", key=key)) for key in says},
        first_seconds=_median(whole, lambda trial: trial.first_request_seconds),
        spent={key: _median(whole, partial(_find, of="spent", key=key)) for key in spent},
        notes=tuple(dict.fromkeys(note for trial in trials for note in _notes(trial))),
    )


def _notes(trial: Trial) -> tuple[str, ...]:
    late_ms = trial.truth.max_late_ms if trial.truth and trial.load.itl_ms else 0.0
    was_late = f"the server was up to {late_ms:.0f} ms late: the tool or other work took its core"
    notes = (trial.failure, *trial.remarks, was_late if late_ms > _LATE_SERVER_MS else "")
    return tuple(filter(None, notes))


def _median(trials: Sequence[Trial], take: Callable[[Trial], float | None]) -> float | None:
    found = [value for value in map(take, trials) if value is not None]
    return statistics.median(found) if found else None


def _reached(trial: Trial) -> float | None:
    return trial.truth.tokens_per_second if trial.truth and not trial.failure else None


def _find(trial: Trial, of: str, key: str) -> float | None:
    found: float | None = getattr(getattr(trial, of), key, None)
    return found


def _differ(trial: Trial, key: str) -> float | None:
    """What the tool says less what was true."""
    says, truth = _find(trial, "said", key), _find(trial, "truth", key)
    return None if says is None or truth is None else says - truth


def _itl_error(trial: Trial) -> float | None:
    """As a share of the true gap; of a server without pauses there is none to speak of."""
    off = _differ(trial, "itl_ms")
    if off is None or trial.truth is None or not trial.truth.itl_ms or not trial.load.itl_ms:
        return None
    return off / trial.truth.itl_ms


# --- text ---


def render(trials: Sequence[Trial], loads: Sequence[Load], tools: Sequence[Tool]) -> str:
    """All tables, what the columns mean, how the tools define their figures, and the aims."""
    tried = {trial.tool for trial in trials}
    parts = [_render_load(load, sum_up(trials, load)) for load in loads if _has(trials, load)]
    legend = [f"{tool.name}: {tool.legend}" for tool in tools if tool.name in tried]
    parts += ["\n".join(_COLUMNS) + "\n", "Definitions:\n" + "\n".join(legend) + "\n"]
    aims = judge(trials, loads)
    if aims:
        parts.append(render_table(("STOKER'S AIM", "FOUND", "KEPT"), aims))
    return "\n".join(parts)


def _has(trials: Sequence[Trial], load: Load) -> bool:
    return any(trial.load == load for trial in trials)


def _render_load(load: Load, rows: Sequence[Row]) -> str:
    ideal = load.ideal_tokens_per_second
    pace = f"TTFT {load.ttft_ms:g} ms, ITL {load.itl_ms:g} ms; ideal {_whole(ideal)} tokens/s"
    title = (
        f"{load.name}: {load.requests} requests of {load.tokens} tokens, {load.concurrency} at "
        f"once; {pace if ideal else 'the server sends without pause'}"
    )
    table = render_table(_HEAD, [_cells(row) for row in rows])
    notes = [f"  {row.tool}: {note}" for row in rows for note in row.notes]
    return "\n".join([title, table.rstrip("\n"), *notes]) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    peak = row.spent["peak_bytes"]
    return (
        row.tool,
        str(row.tries) if row.whole == row.tries else f"{row.whole} of {row.tries}",
        _whole(row.reached),
        _percent(row.share),
        _whole(row.says),
        _number(row.means["ttft_ms"], 1),
        _signed(row.errors["ttft_ms"]),
        _number(row.means["ttft_p99_ms"], 1),
        _signed(row.errors["ttft_p99_ms"]),
        _number(row.means["itl_ms"], 3),
        _percent(row.errors["itl"], signed=True),
        _number(row.means["tpot_ms"], 3),
        _number(row.spent["cpu_seconds"], 1),
        _number(row.spent["wall_seconds"], 1),
        _number(row.first_seconds, 2),
        _whole(None if peak is None else peak / 1e6),
        _number(row.errors["late_ms"], 1),
    )


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"


def _percent(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.2%}" if signed else f"{value:.1%}"


# --- aims ---


def judge(trials: Sequence[Trial], loads: Sequence[Load]) -> list[tuple[str, str, str]]:
    """Each of Stoker's own aims that was measured: what it is, what was found, and yes or no."""
    aims: list[tuple[str, str, str]] = []
    firsts = []
    for load in loads:
        rows = sum_up(trials, load)
        ours = next((row for row in rows if row.tool == OURS and row.whole), None)
        if ours is None:
            continue
        firsts.append(ours.first_seconds)
        if load.itl_ms:
            aims += _judge_load(load.concurrency, ours, rows)
    slowest = max((value for value in firsts if value is not None), default=None)
    if slowest is not None:
        aim = f"first request within {_MOST_FIRST_SECONDS:g} s, in every load"
        aims.append((aim, f"{slowest:.2f} s", _yes(slowest <= _MOST_FIRST_SECONDS)))
    return aims


def _judge_load(concurrency: int, ours: Row, rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    aims = []
    rivals = [row.reached for row in rows if row.reached is not None and row.tool != OURS]
    if concurrency in _LEAST_SHARE and ours.share is not None and ours.reached:
        least = _LEAST_SHARE[concurrency]
        of = "the best rival's" if concurrency == _OF_BEST else "the ideal"
        aim = f"{concurrency} at once: {least:.0%} of {of} tokens/s"
        if concurrency == _OF_BEST and not rivals:
            aims.append((aim, "no rival ran", "?"))
        else:
            share = ours.reached / max(rivals) if concurrency == _OF_BEST else ours.share
            aims.append((aim, f"{share:.1%}", _yes(share >= least)))
    off = ours.errors["ttft_ms"]
    if concurrency in _MOST_TTFT_ERROR_MS and off is not None:
        most = _MOST_TTFT_ERROR_MS[concurrency]
        aim = f"{concurrency} at once: mean TTFT within {most:g} ms"
        aims.append((aim, f"{off:+.1f} ms", _yes(abs(off) <= most)))
    gap = ours.errors["itl"]
    if concurrency in _MOST_ITL_ERROR and gap is not None:
        most = _MOST_ITL_ERROR[concurrency]
        aim = f"{concurrency} at once: mean ITL within {most:.0%}"
        aims.append((aim, f"{gap:+.2%}", _yes(abs(gap) <= most)))
    return aims


def _yes(is_kept: bool) -> str:  # noqa: FBT001 - one word of one fact
    return "yes" if is_kept else "NO"
