"""Recorded trials of real engines: reading them, and making new ones.

A case is a whole trial of one real server: what every check sent, what came back, and the verdict
that it must have. To record a server::

    stoker verify URL --level full --record tests/contract/recorded/ENGINE/CASE.json

Read each before it is kept: the verdict in it is what the check says today, and the test holds
every later version of the check to it.
"""

from __future__ import annotations

from pathlib import Path

from stoker.model.contract import Recording
from stoker.model.document import parse_document

FOLDER = Path(__file__).parent / "recorded"


def load_cases() -> dict[str, Recording]:
    """All cases by their path below the folder, without the suffix."""
    return {
        path.relative_to(FOLDER).with_suffix("").as_posix(): parse_document(
            path.read_text("utf-8"), Recording, origin=path.name
        )
        for path in sorted(FOLDER.rglob("*.json"))
    }
