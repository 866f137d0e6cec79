"""Whether the files of secret variables can be what their owner means: asked before a plan.

A variable that is empty, cut short or another text than in the file would start an engine with
the wrong secret, which may even work.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import HostError, UsageError
from stoker.ports import ReadableHost

#: Longer than any token; the environment of a process has limits of its own (execve(2)).
LIMIT_BYTES = 32 << 10
_READABLE_BY_OTHERS = 0o077


def check_secret_files(host: ReadableHost, files: Mapping[str, str]) -> None:
    """Raises UsageError for a file whose first line cannot be the value of its variable."""
    for variable, path in files.items():
        if flaw := _find_flaw(host, path):
            raise UsageError(
                f"engine.secret_env.{variable}: {path} {flaw}",
                "the file holds the secret in its first line and is for its owner alone: "
                f"chmod 600 {path}",
            )


def _find_flaw(host: ReadableHost, path: str) -> str:
    try:
        stat = host.stat(path)
        if stat is None:
            return "is not there"
        if stat.kind != "file":
            return f"is no file ({stat.kind})"
        content = host.read_bytes(path, 0, LIMIT_BYTES + 1)
    except HostError as error:
        return f"cannot be read: {error.summary}"
    if stat.mode & _READABLE_BY_OTHERS:
        return f"can be read by others (mode {stat.mode:04o})"
    if len(content) > LIMIT_BYTES:
        return f"is longer than {LIMIT_BYTES >> 10} KiB"
    return _find_text_flaw(content)


def _find_text_flaw(content: bytes) -> str:
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return "is not UTF-8"
    if "\0" in content.decode("utf-8"):
        return "holds a NUL"
    return "" if any(line.strip() for line in lines) else "is empty"
