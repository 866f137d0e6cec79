"""All switches of the fake engine: what each module beneath ``faults`` offers."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module

from stoker.errors import DataError
from stoker.fake_engine import faults
from stoker.fake_engine.fault import Fault


def discover_faults() -> Mapping[str, Fault]:
    """All switches by their names. Raises DataError for a name that stands twice."""
    found: dict[str, Fault] = {}
    for module in sorted(pkgutil.iter_modules(faults.__path__), key=lambda each: each.name):
        for fault in import_module(f"{faults.__name__}.{module.name}").FAULTS:
            if fault.name in found:
                raise DataError(f"the fault {fault.name} stands twice")
            found[fault.name] = fault
    return found
