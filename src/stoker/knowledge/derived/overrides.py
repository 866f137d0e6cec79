"""Engine flags that win over a key of the deployment which says the same thing in our words.

Called by :mod:`stoker.knowledge.derived.flags`. Only keys that somebody wrote count: what Stoker
chooses by itself is there to be overridden.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from stoker.knowledge.derived.case import Case, find_count
from stoker.model.facts import Plain

#: The rows of the engine's table that a key under ``serve`` of the same name sets.
_KEYS = ("context_tokens", "parallel_requests")


def find_overrides(case: Case) -> dict[str, Plain]:
    """``overrides``: which flag wins over which key; ``outcome``: what a request gets then."""
    found = list(_overrides(case))
    return {"overrides": found, "outcome": _outcome(case) if found else ""}


def _overrides(case: Case) -> Iterator[str]:
    for key in _KEYS:
        wanted = getattr(case.deployment.serve, key)
        for path, value in _written(case, key) if wanted is not None else ():
            yield f"{path}: {value} wins over serve.{key}: {wanted}"


def _written(case: Case, key: str) -> Iterator[tuple[str, str]]:
    """Where the deployment sets the flag of a row itself, and to what."""
    row = case.table.settings.get(key)
    option = case.table.catalogue.find(row.flag) if row else None
    if option is None:
        return
    engine = case.deployment.engine
    for name, value in engine.settings.items():
        if case.table.catalogue.find_written(name) is option:
            yield f"engine.settings.{name}", _word(value)
    if option.env is not None and option.env in engine.env:
        yield f"engine.env.{option.env}", engine.env[option.env]


def _outcome(case: Case) -> str:
    """A given number of slots divides the context among them; without one they share it."""
    tokens, count = (find_count(case, key) for key in _KEYS)
    if tokens == 0:
        return "the engine chooses how many tokens a request gets"
    if count == 0:
        return f"all requests together get {tokens} tokens"
    return f"each request gets {tokens // count} tokens, {count} at once"


def _word(value: Plain) -> str:
    """A value as the file spells it."""
    return value if isinstance(value, str) else json.dumps(value)
