"""Whether there is room on the disk for what is prepared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from stoker.knowledge.derived.case import Case, innermost_folder
from stoker.model.facts import Plain, Unknown


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
