"""A host that remembers what was read through it, so that another machine can read it again.

Wrapped around a readable host by the command layer when a bundle is made. What comes out is plain
JSON-shaped data for :mod:`stoker.hosts.replay`. It never keeps a secret: files that the caller
names, and what the processes of the machine were given as arguments and environment.
"""

from __future__ import annotations

import base64
import posixpath
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from stoker.errors import HostError
from stoker.model.facts import Plain
from stoker.ports import Command, CommandResult, ReadableHost, Stat

SCHEMA = "recording/1"
KINDS = ("texts", "bytes", "folders", "links", "stats", "free", "commands", "runs")
WITHHELD = "(withheld)"
OWN_PYTHON = "(python)"

#: Other people's processes may have been started with a key in their arguments or environment.
_PROCESS_SECRETS = re.compile(r"^/proc/[^/]+(/task/[^/]+)?/(environ|cmdline)$")


def portable_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The argument vector with a word for our own interpreter: its path differs elsewhere."""
    return (OWN_PYTHON, *argv[1:]) if argv[:1] == (sys.executable,) else argv


class RecordingHost:
    """A readable host that records the last answer, or error, of every read.

    ``withheld`` are paths, each for itself and all that lies below it, whose content is read but
    not recorded. A replay answers :data:`WITHHELD` there.
    """

    def __init__(self, host: ReadableHost, withheld: Collection[str] = ()) -> None:
        self._host = host
        self._withheld = tuple(posixpath.normpath(path) for path in withheld)
        self._reads: dict[str, dict[Hashable, dict[str, Plain]]] = {kind: {} for kind in KINDS}

    def record(self) -> dict[str, Plain]:
        """All that was read so far, as JSON-shaped data of the schema ``recording/1``.

        One list of entries for each of :data:`KINDS`: what was asked, and ``answer`` or ``error``.
        """
        reads = {kind: [*entries.values()] for kind, entries in self._reads.items()}
        return {"schema": SCHEMA, "host": self._host.name, **reads}

    @property
    def name(self) -> str:
        """The name of the host that is read."""
        return self._host.name

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """See :meth:`stoker.ports.ReadableHost.read_text`."""
        with self._kept("texts", path=path, limit_bytes=limit_bytes) as entry:
            text = self._host.read_text(path, limit_bytes)
            entry["answer"] = WITHHELD if self._is_withheld(path) else text
        return text

    def read_bytes(self, path: str, offset: int, length: int) -> bytes:
        """See :meth:`stoker.ports.ReadableHost.read_bytes`."""
        with self._kept("bytes", path=path, offset=offset, length=length) as entry:
            content = self._host.read_bytes(path, offset, length)
            kept = WITHHELD.encode()[:length] if self._is_withheld(path) else content
            entry["answer"] = base64.b64encode(kept).decode("ascii")
        return content

    def list_folder(self, path: str) -> tuple[str, ...]:
        """See :meth:`stoker.ports.ReadableHost.list_folder`."""
        with self._kept("folders", path=path) as entry:
            names = self._host.list_folder(path)
            entry["answer"] = [*names]
        return names

    def read_link(self, path: str) -> str:
        """See :meth:`stoker.ports.ReadableHost.read_link`."""
        with self._kept("links", path=path) as entry:
            entry["answer"] = text = self._host.read_link(path)
        return text

    def stat(self, path: str) -> Stat | None:
        """See :meth:`stoker.ports.ReadableHost.stat`."""
        with self._kept("stats", path=path) as entry:
            found = self._host.stat(path)
            entry["answer"] = None if found is None else asdict(found)
        return found

    def free_bytes(self, path: str) -> int:
        """See :meth:`stoker.ports.ReadableHost.free_bytes`."""
        with self._kept("free", path=path) as entry:
            entry["answer"] = count = self._host.free_bytes(path)
        return count

    def find_command(self, name: str) -> str | None:
        """See :meth:`stoker.ports.ReadableHost.find_command`."""
        with self._kept("commands", name=name) as entry:
            entry["answer"] = path = self._host.find_command(name)
        return path

    def run(self, command: Command, poll: Callable[[], None] | None = None) -> CommandResult:
        """See :meth:`stoker.ports.ReadableHost.run`. The environment is not recorded."""
        with self._kept("runs", argv=portable_argv(command.argv)) as entry:
            result = self._host.run(command, poll)
            entry["answer"] = {
                "exit_status": result.exit_status,
                "stdout": result.stdout,
                "stderr": result.stderr,
                "timed_out": result.timed_out,
            }
        return result

    def _is_withheld(self, path: str) -> bool:
        plain = posixpath.normpath(path)
        if _PROCESS_SECRETS.match(plain):
            return True
        return any(plain == prefix or plain.startswith(f"{prefix}/") for prefix in self._withheld)

    @contextmanager
    def _kept(
        self, kind: str, **question: str | int | tuple[str, ...]
    ) -> Iterator[dict[str, Plain]]:
        """An entry to put the answer in; an error of the host is put there by itself."""
        entry: dict[str, Plain] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in question.items()
        }
        try:
            yield entry
        except HostError as error:
            entry["error"] = {
                "kind": type(error).__name__,
                "summary": error.summary,
                "hint": error.hint,
            }
            raise
        finally:
            if entry.keys() & {"answer", "error"}:  # an interrupted read leaves no entry
                self._reads[kind][tuple(question.values())] = entry
