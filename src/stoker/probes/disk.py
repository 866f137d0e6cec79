"""How much can still be written where Stoker will write."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The free bytes of each folder's file system; folders that are not there yet count too."""
    return {folder: str(host.free_bytes(folder)) for folder in target.folders}


def parse(raw: Mapping[str, str]) -> dict[str, dict[str, dict[str, int]]]:
    """The folders by path. Two folders on one file system share what is free."""
    return {"folders": {folder: {"free_bytes": int(text)} for folder, text in raw.items()}}


PROBE = Probe(id="disk", source="statvfs of the folders", read=read, parse=parse)
