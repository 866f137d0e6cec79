"""What the paths that rules read are about, in words that a person understands.

Called by :mod:`stoker.knowledge.rules` where something is not known. The words are data; a path
that nobody described is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from stoker.knowledge.datafiles import read_toml
from stoker.knowledge.structure import structure


def name_subject(path: str) -> str:
    """The words for a dotted path: those of the longest beginning of it that has some."""
    subjects = load_subjects()
    parts = path.split(".")
    beginnings = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((subjects[each] for each in beginnings if each in subjects), path)


@cache
def load_subjects() -> Mapping[str, str]:
    """The words by the beginning of a path. Raises DataError."""
    where = "subjects.toml"
    return structure(dict[str, str], read_toml(where).get("subject"), where=where)
