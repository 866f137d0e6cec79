"""The options of `apply --repair` and `up --repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from stoker.errors import UsageError

if TYPE_CHECKING:
    from stoker.commands.repair import RepairWish

_MOST_ATTEMPTS = 50
_DEFAULT_ATTEMPTS = 5

IsWanted = Annotated[
    bool,
    typer.Option("--repair", help="Where the start fails, mend it and try again."),
]
Attempts = Annotated[
    Optional[int],  # noqa: UP045  Typer reads the annotation at run time on Python 3.11
    typer.Option(
        min=1, max=_MOST_ATTEMPTS, help=f"Repairs to try at most ({_DEFAULT_ATTEMPTS} if left out)."
    ),
]
Budget = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(metavar="MINUTES", min=0, help="Begin no repair later than this."),
]
Consent = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        metavar="NAME",
        help="Allow a repair that loosens something, by its flag, key or cause; may be repeated.",
    ),
]


def read_wish(
    is_wanted: bool,  # noqa: FBT001  an option, handed on as it came
    *,
    attempts: int | None,
    budget: float | None,
    consent: list[str] | None,
) -> RepairWish | None:
    """What the options ask for, None where no repair is wanted.

    Raises UsageError for options that mean nothing without one.
    """
    if not is_wanted:
        if attempts is not None or budget is not None or consent:
            raise UsageError(
                "--attempts, --budget and --consent are about repairs",
                "add --repair, or leave them",
            )
        return None
    from stoker.commands.repair import RepairWish

    return RepairWish(
        attempts=_DEFAULT_ATTEMPTS if attempts is None else attempts,
        minutes=budget,
        consents=tuple(name.lstrip("-") for name in consent or ()),
    )
