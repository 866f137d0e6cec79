"""Reading what may be missing: a file that is not there, or not for us, is no error here.

Called by the probes for files that differ between kernels and containers. What a probe cannot do
without it reads from the host itself, so that the reason of the failure is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.errors import HostError
from stoker.ports import ReadableHost


def read_if_any(host: ReadableHost, path: str) -> str | None:
    """The text of a file, or None if it cannot be read for whatever reason."""
    try:
        return host.read_text(path)
    except HostError:
        return None


def read_those_there(host: ReadableHost, paths: Iterable[str]) -> dict[str, str]:
    """The texts of those of these files that can be read, by path."""
    texts = {path: read_if_any(host, path) for path in paths}
    return {path: text for path, text in texts.items() if text is not None}


def list_if_any(host: ReadableHost, path: str) -> tuple[str, ...]:
    """The names in a folder; none if it cannot be listed."""
    try:
        return host.list_folder(path)
    except HostError:
        return ()


def read_link_if_any(host: ReadableHost, path: str) -> str | None:
    """The text of a link, or None if it cannot be read."""
    try:
        return host.read_link(path)
    except HostError:
        return None
