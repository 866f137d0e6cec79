"""Whether there is room: on the disk for what is prepared, in memory for what is served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from stoker.knowledge.derived.case import Case, innermost_folder
from stoker.knowledge.derived.weights import fetched_bytes, preparation_of, weights_paths
from stoker.model.facts import Plain, Unknown

#: Keys and values of the cache are 16-bit numbers unless flags say otherwise (llama-server --help,
#: --cache-type-k and --cache-type-v).
_CACHE_VALUE_BYTES = 2


def derive_disk(case: Case) -> dict[str, Plain]:
    """``shortage``: the first file system that is too small for what is prepared, or None."""
    if not case.preparations:
        return {"shortage": None}
    folders = case.facts.read("disk.folders")
    if isinstance(folders, Unknown):
        return {"shortage": folders}
    needed: dict[str, int] = defaultdict(int)
    for preparation in case.preparations:
        folder = innermost_folder(preparation.target, folders)
        if folder is None:
            return {
                "shortage": Unknown(reason=f"nobody looked at the disk of {preparation.target}")
            }
        needed[folder] += preparation.size_bytes
    return {"shortage": _first_shortage(needed, folders)}


def derive_memory(case: Case) -> dict[str, Plain]:
    """Main memory: ``shortage`` of it, or None where it suffices, is not used or is in use.

    A service that runs holds its memory already, so there is nothing to compare then.
    """
    on_gpus = _computes_on_gpus(case)
    if case.own_pids or on_gpus is True:
        return {"shortage": None}
    if isinstance(on_gpus, Unknown):
        return {"shortage": on_gpus}
    return {"shortage": _memory_shortage(case)}


def _first_shortage(
    needed: Mapping[str, int], folders: Mapping[str, Plain]
) -> Plain | Unknown | None:
    # Folders with the very same number of free bytes lie on one file system and share them.
    shared: dict[int, list[str]] = defaultdict(list)
    for folder in needed:
        free_bytes = folders[folder].get("free_bytes")
        if not isinstance(free_bytes, int):
            return Unknown(reason=f"the free space of {folder} is not known")
        shared[free_bytes].append(folder)
    for free_bytes, names in shared.items():
        needed_bytes = sum(needed[name] for name in names)
        if needed_bytes > free_bytes:
            return {"folder": names[0], "needed_bytes": needed_bytes, "free_bytes": free_bytes}
    return None


def _computes_on_gpus(case: Case) -> bool | Unknown:
    if not case.wants_gpus or not case.can_use_gpus:
        return False
    gpus = case.facts.read("gpus.gpus")
    return gpus if isinstance(gpus, Unknown) else bool(gpus)


def _memory_shortage(case: Case) -> Plain | Unknown | None:
    """What is known to be needed may be too much already, whatever the rest is."""
    usable_bytes = case.facts.read("memory.usable_bytes")
    if isinstance(usable_bytes, Unknown):
        return usable_bytes
    needed_bytes, unknown = 0, None
    for part in _parts_bytes(case):
        if isinstance(part, Unknown):
            unknown = part
        else:
            needed_bytes += part
    if needed_bytes > usable_bytes:
        return {"needed_bytes": needed_bytes, "usable_bytes": usable_bytes}
    return unknown


def _parts_bytes(case: Case) -> Iterator[int | Unknown]:
    for probe, path in weights_paths(case).items():
        preparation = preparation_of(case, path)
        if preparation is not None:
            yield fetched_bytes(case, probe, preparation)
        else:
            yield case.facts.read(f"{probe}.size_bytes")
            yield _cache_bytes(case, probe)


def _cache_bytes(case: Case, probe: str) -> int:
    """The cache of a plain transformer for the context that is set; 0 where it cannot be told.

    An unset context counts nothing, because the engine then makes it as large as fits.
    """
    model, tokens = case.facts.read(probe), _set_value(case, "context_tokens")
    is_packed = _set_value(case, "cache_keys") or _set_value(case, "cache_values")
    if not isinstance(model, Mapping) or is_packed or model.get("sliding_window"):
        return 0
    return int(tokens) * _bytes_per_token(model) if tokens.isdigit() else 0


def _bytes_per_token(model: Mapping[str, Plain]) -> int:
    """Layers times heads times the lengths of a key and a value; 0 where one is not a number."""
    heads = _first_number(model, "head_count_kv", "head_count")
    width, head_count = _first_number(model, "embedding_length"), _first_number(model, "head_count")
    length = width // head_count if head_count else 0
    key = _first_number(model, "key_length") or length
    value = _first_number(model, "value_length") or length
    return _first_number(model, "block_count") * heads * (key + value) * _CACHE_VALUE_BYTES


def _first_number(model: Mapping[str, Plain], *names: str) -> int:
    values = [model.get(name) for name in names]
    present = next((value for value in values if value is not None), 0)
    return present if isinstance(present, int) else 0


def _set_value(case: Case, row_id: str) -> str:
    """What the launch sets for a row of the engine's table; empty where it sets nothing."""
    row = case.table.settings.get(row_id)
    option = case.table.catalogue.find(row.flag) if row else None
    names = (*option.names, option.env) if option else ()
    values = (each.value or "" for each in case.launch.settings if each.name in names)
    return next(values, "")
