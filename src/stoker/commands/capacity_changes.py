"""The changes of an option as one deployment file spells them.

Called by :mod:`stoker.commands.capacity`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stoker.commands.resolve import Resolved
from stoker.knowledge.capacity_flags import load_capacity_flags
from stoker.model.capacity import Capacity, Option
from stoker.model.facts import Plain

_CONTEXT, _PARALLEL = "serve.context_tokens", "serve.parallel_requests"
#: Keys of the deployment file that stand for a flag, by the flag's meanings.
_OWN_KEYS = {
    _CONTEXT: ("context_tokens",),
    _PARALLEL: ("requests", "sequences"),
}
_SETTINGS = "engine.settings."
_AGAINST = "no-"


def fit_options(capacity: Capacity, resolved: Resolved) -> Capacity:
    """The same with the changes of its options as this file has them; none that the file says no
    to by the flag's opposite."""
    fitted = (replace(option, changes=fit_changes(option, resolved)) for option in capacity.options)
    return replace(capacity, options=tuple(each for each in fitted if not _is_refused(each)))


def _is_refused(option: Option) -> bool:
    return any(key.startswith(f"{_SETTINGS}{_AGAINST}") for key in option.changes)


def fit_changes(option: Option, resolved: Resolved) -> dict[str, Plain]:
    """The keys of an option as this file spells them: a flag that it sets keeps its spelling.

    A context that an engine divides among its requests goes into the file's own key as that of one
    request, unless the file sets the engine's flag.
    """
    changes = {_fit_key(key, resolved): value for key, value in option.changes.items()}
    return _divide_context(changes, resolved)


def _fit_key(key: str, resolved: Resolved) -> str:
    flags = load_capacity_flags()[resolved.table.kind].meanings
    if key in _OWN_KEYS:
        meant = [flags[meaning] for meaning in _OWN_KEYS[key] if meaning in flags]
    else:
        meant = [key.removeprefix(_SETTINGS)]
    return _find_spelling(meant, resolved) or key


def _find_spelling(flags: list[str], resolved: Resolved) -> str:
    """The key of the file that sets one of these flags; empty where none does."""
    catalogue = resolved.table.catalogue
    wanted = {catalogue.identify(catalogue.spell(flag)) for flag in flags}
    for name in resolved.deployment.engine.settings:
        if catalogue.identify(catalogue.spell(name)) in wanted:
            return f"{_SETTINGS}{name}"
    return ""


def _divide_context(changes: Mapping[str, Plain], resolved: Resolved) -> dict[str, Plain]:
    row = resolved.table.settings.get("context_tokens")
    flag = load_capacity_flags()[resolved.table.kind].meanings.get("context_tokens", "")
    whole = changes.get(f"{_SETTINGS}{flag}")
    is_own = row is not None and row.is_shared and not _find_spelling([flag], resolved)
    if not is_own or not isinstance(whole, int):
        return dict(changes)
    parallel = changes.get(_PARALLEL, resolved.deployment.serve.parallel_requests)
    each = whole // parallel if isinstance(parallel, int) and parallel > 0 else whole
    kept = {key: value for key, value in changes.items() if key != f"{_SETTINGS}{flag}"}
    return {**kept, _CONTEXT: each}
