"""A search for better settings as text: its table, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.model.campaign import Campaign, CampaignEnd
from stoker.model.tuning_table import TableCell, TableRow, TuningTable
from stoker.model.visible import visible
from stoker.report.table import render_table

_MOST_ROWS, _MOST_REFUSED = 12, 8


def render_tuning(table: TuningTable) -> str:
    """How a search ended, what was measured, what was not and why."""
    campaign = table.campaign
    aim = campaign.aim
    objectives = ", ".join(f"{name} {value:g}" for name, value in aim.objectives.items())
    at_once = ", ".join(map(str, aim.concurrencies))
    head = [
        f"search {campaign.id} for {campaign.deployment}: {aim.metric}"
        + (f" ({objectives})" if objectives else "")
        + f" with {at_once} requests at once, workload {aim.workload}",
        ", ".join(
            (
                render_count(len(campaign.trials), "trial"),
                render_count(table.restarts, "restart"),
                render_minutes(table.seconds),
            )
        ),
    ]
    sections = [
        "\n".join(head),
        _render_rows(table.rows),
        _render_refused(table),
        _render_end(campaign),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _render_rows(rows: Sequence[TableRow]) -> str:
    shown = list(rows[:_MOST_ROWS])
    shown += [row for row in rows[_MOST_ROWS:] if row.is_baseline or row.is_winner]
    if not shown:
        return "nothing was measured"
    lines = [
        (
            mark,
            "-" if row.ratio is None else f"{row.ratio:.2f}",
            str(cell.concurrency),
            f"{_number(cell.tokens_per_second)}{'*' if cell.is_best_trade else ''}",
            _number(cell.ttft_ms),
            _number(cell.tpot_ms),
            _number(cell.e2e_ms),
            visible(row.title) if is_first else "",
        )
        for row in shown
        for is_first, mark, cell in _with_marks(row)
    ]
    head = ("", "RATIO", "AT ONCE", "TOKENS/S", "TTFT MS", "TPOT MS", "E2E MS", "CONFIGURATION")
    left_out = len(rows) - len(shown)
    more = f"\nand {left_out} more configurations, all slower" if left_out else ""
    legend = "* no configuration has both more tokens/s and less time for each token"
    return f"{render_table(head, lines).rstrip()}{more}\n{legend}"


def _with_marks(row: TableRow) -> list[tuple[bool, str, TableCell]]:
    mark = "winner" if row.is_winner else "as it was" if row.is_baseline else ""
    return [(not number, "" if number else mark, cell) for number, cell in enumerate(row.cells)]


def _render_refused(table: TuningTable) -> str:
    lines = [
        f"  {visible(each.title)}: {each.outcome}: {visible(each.said)}"
        for each in table.refused[:_MOST_REFUSED]
    ]
    if len(table.refused) > _MOST_REFUSED:
        lines.append(f"  and {len(table.refused) - _MOST_REFUSED} more")
    return "\n".join(["not measured:", *lines]) if lines else ""


def _render_end(campaign: Campaign) -> str:
    end = campaign.end
    if end is None:
        return "The search has not ended; the same command goes on with it."
    lines = [visible(end.reason)]
    if end.is_improved:
        lines.append(_say_where(campaign, end))
    lines += [
        f"  {key}: {visible(str(value)) if value is not None else 'left out'}"
        for key, value in end.changes.items()
        if key != "engine.tuned"
    ]
    return "\n".join(lines)


def _say_where(campaign: Campaign, end: CampaignEnd) -> str:
    """Whether the file has it."""
    if not campaign.is_closed:
        return "It is not applied yet; the same command goes on with it."
    if end.unwritten:
        return f"It runs and is verified, but {visible(end.unwritten)}. To keep it, change:"
    return f"It runs, is verified, and stands in {visible(campaign.file)}:"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def render_count(count: int, noun: str) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def render_minutes(seconds: float) -> str:
    """Seconds for a person."""
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
