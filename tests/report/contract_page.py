"""The table of checks in docs/contract.md; `python -m tests.report.contract_page` writes it."""

from __future__ import annotations

from pathlib import Path

from stoker.contract.selection import discover_checks

PAGE = Path(__file__).parents[2] / "docs" / "contract.md"
BEGIN, END = "<!-- checks: begin -->\n", "<!-- checks: end -->\n"


def render_checks() -> str:
    """One line a check, quick ones first."""
    rows = [
        f"| `{check.id}` | {check.level} | {check.title} | "
        f"{', '.join(each.replace('_', ' ') for each in check.needs)} |"
        for check in discover_checks()
    ]
    return "\n".join(["| check | level | promise | needs |", "|---|---|---|---|", *rows]) + "\n"


def replace_checks(page: str) -> str:
    """The page with today's table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{render_checks()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(replace_checks(PAGE.read_text("utf-8")), "utf-8")
