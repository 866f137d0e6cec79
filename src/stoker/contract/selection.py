"""Which checks there are and which of them are tried.

Called by :mod:`stoker.contract.run`, and by commands that only want to know whether a name or a
level is one. Must never talk to a server.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Collection, Sequence
from importlib import import_module

from stoker.contract import checks
from stoker.errors import DataError, UsageError
from stoker.ports import Check

QUICK = "quick"
FULL = "full"
SOAK = "soak"

#: Each level holds the ones before it.
LEVELS = (QUICK, FULL, SOAK)


def discover_checks() -> tuple[Check, ...]:
    """All checks of the package, the quick ones first and by name within a level.

    Raises DataError for a module that offers none, or one with another id or an unknown level.
    """
    names = [module.name for module in pkgutil.iter_modules(checks.__path__)]
    found = [_load_check(name) for name in sorted(names)]
    return tuple(sorted(found, key=lambda check: LEVELS.index(check.level)))


def _load_check(name: str) -> Check:
    check = getattr(import_module(f"{checks.__name__}.{name}"), "CHECK", None)
    if not isinstance(check, Check) or check.id != name or check.level not in LEVELS:
        raise DataError(f"the module of the check {name} offers no CHECK of this id and a level")
    return check


def select_checks(
    level: str, only: Collection[str] = (), require: Collection[str] | None = None
) -> tuple[Check, ...]:
    """The checks to try: those named by ``only``, else by ``require``, else all of the level.

    Named checks count whatever their level. Raises UsageError for an unknown name or level, and
    for nothing but an empty ``require``: no server could ever be verified by it.
    """
    known = discover_checks()
    offered = [name for name in LEVELS if any(check.level == name for check in known)]
    if level not in offered:
        raise _unknown("level", level, offered)
    wanted = only or require
    if wanted is None:
        highest = LEVELS.index(level)
        return tuple(check for check in known if LEVELS.index(check.level) <= highest)
    if not wanted:
        raise UsageError("no check is required", "leave `require` out to require all of the level")
    ids = [check.id for check in known]
    for name in wanted:
        if name not in ids:
            raise _unknown("check", name, ids)
    return tuple(check for check in known if check.id in wanted)


def _unknown(noun: str, name: str, known: Sequence[str]) -> UsageError:
    nearest = difflib.get_close_matches(name, known, n=1)
    question = f"did you mean {nearest[0]}? " if nearest else ""
    return UsageError(f"there is no {noun} {name}", f"{question}there are: {', '.join(known)}")
