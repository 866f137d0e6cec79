"""What a preparation works with, and how it tells what happens.

Built at the door of each preparation from what the command layer hands in. Holds no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.model.event import Event, EventKind
from stoker.ports import Clock, Host, Reporter

#: How an index, a hub and their proxies are reached and trusted, whatever the program.
_NETWORK_VARIABLES = (
    "all_proxy",
    "curl_ca_bundle",
    "http_proxy",
    "https_proxy",
    "netrc",
    "no_proxy",
    "requests_ca_bundle",
    "ssl_cert_dir",
    "ssl_cert_file",
)
_PERSONAL_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")

_DEFAULT_VARIABLES = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The ports and programs of a preparation.

    ``pip`` is an argument vector. ``environ`` is the environment that says how the network is
    reached; children get a selection of it.
    """

    host: Host
    clock: Clock
    reporter: Reporter
    pip: tuple[str, ...]
    environ: Mapping[str, str]


def select_variables(environ: Mapping[str, str], *, prefix: str) -> dict[str, str]:
    """The variables that a child needs to reach the network, and those with its own prefix.

    Nothing that changes how a Python program runs (PYTHONPATH and the like) passes.
    """
    chosen = {
        name: value
        for name, value in environ.items()
        if name.lower() in _NETWORK_VARIABLES
        or name in _PERSONAL_VARIABLES
        or name.startswith(prefix)
    }
    return _DEFAULT_VARIABLES | chosen


def tell(
    tools: Tools, kind: EventKind, subject: str, *, text: str, fraction: float | None = None
) -> None:
    """Emit one event about the preparation whose target is ``subject``."""
    tools.reporter.emit(
        Event(
            kind=kind,
            subject=subject,
            text=text,
            fraction=fraction,
            at_seconds=tools.clock.now_seconds(),
        )
    )
