"""The world of a command: every port and folder it may use, in one value.

The command line builds one for this machine; tests build one from fakes. Commands take nothing
from anywhere else.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stoker import __version__
from stoker.apply.observe import keyed_digest
from stoker.model.plan import Folders
from stoker.ports import Clock, Endpoint, Host, Reporter, Supervisor
from stoker.state.folder import StateMark, open_state_folder

#: (host, port, API key or None) -> endpoint
Connect = Callable[[str, int, str | None], Endpoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a command works with.

    ``supervisors``: all service managers by kind; ``supervisor``: the one of the deployment that
    the command is about (see :mod:`stoker.commands.supervising`). ``me``: the user that Stoker
    runs as. ``env``: the environment that Stoker was started in.
    ``python``: the interpreter that runs Stoker (for child processes of Stoker's own).
    """

    host: Host
    clock: Clock
    reporter: Reporter
    supervisor: Supervisor
    supervisors: Mapping[str, Supervisor]
    connect: Connect
    folders: Folders
    me: str
    is_root: bool
    python: str
    env: Mapping[str, str] = field(default_factory=dict)

    def open_state(self) -> StateMark:
        """The state folder, made if need be. Raises StateError."""
        return open_state_folder(
            self.host,
            self.folders,
            me=self.me,
            version=__version__,
            new_key=secrets.token_hex(32),
        )

    def digest_secret(self) -> Callable[[bytes], str]:
        """How secrets are digested in this state folder. Raises StateError."""
        return keyed_digest(bytes.fromhex(self.open_state().secret_key))


class SystemClock:
    """The machine's own clock."""

    def now_seconds(self) -> float:
        """See :class:`stoker.ports.Clock`."""
        return time.time()

    def monotonic_seconds(self) -> float:
        """See :class:`stoker.ports.Clock`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See :class:`stoker.ports.Clock`."""
        time.sleep(seconds)
