"""The hub's own client in a process of its own. A script, never imported.

Started by :mod:`stoker.weights.hub` as ``python hub_reader.py list|fetch REPOSITORY REVISION
--cache FOLDER [--file NAME ...]``. It answers one JSON object on its standard output. A process,
because the client may be missing, takes long to import, keeps threads, and must be stoppable at
any moment. The token comes from the environment alone. Uses nothing of Stoker, so that any Python
that has the client will do.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import glob
import json
import os
import signal
import sys
from typing import Any

#: The client's errors by name, and the problem that each one is; the first that fits counts.
PROBLEMS = {
    "GatedRepoError": "gated",
    "RepositoryNotFoundError": "not-found",
    "RevisionNotFoundError": "no-revision",
    "LocalEntryNotFoundError": "not-cached",
    "EntryNotFoundError": "no-file",
    "OfflineModeIsEnabled": "offline",
    "HfHubHTTPError": "refused",
    "HTTPError": "unreachable",
    "ConnectionError": "unreachable",
    "TimeoutError": "unreachable",
}

FIRST_STATUS_OF_A_FAULT = 500

#: prctl(2): the signal that the kernel sends when the parent has died.
PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Do what the arguments say, and print the answer. Answers the exit status."""
    wish = parse_arguments(arguments)
    # Nobody would hear the answer, and the next fetch would meet a transfer that is not its own.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        import huggingface_hub as hub  # type: ignore[import-not-found, unused-ignore]
        from huggingface_hub.errors import HTTPError  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        return answer({"problem": "no-client", "detail": str(error)})
    do = list_files if wish.verb == "list" else fetch_files
    try:
        return answer(do(hub, wish))
    except (OSError, ValueError, HTTPError) as error:  # what the client says that it raises
        found = list_cached(hub, wish) if wish.verb == "list" else None
        return answer(found or describe(error))


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line as a value."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("list", "fetch"))
    parser.add_argument("repository")
    parser.add_argument("revision")
    parser.add_argument("--cache", required=True)
    parser.add_argument("--file", action="append", default=[])
    return parser.parse_args(arguments)


def list_files(hub: Any, wish: argparse.Namespace) -> dict[str, Any]:
    """The commit of the revision and the files in it, as the hub has them."""
    client = hub.HfApi()
    commit = client.repo_info(wish.repository, revision=wish.revision).sha
    tree = client.list_repo_tree(wish.repository, revision=commit, recursive=True)
    files = [[entry.path, entry.size] for entry in tree if hasattr(entry, "size")]
    return {"commit": commit, "files": sorted(files)}


def list_cached(hub: Any, wish: argparse.Namespace) -> dict[str, Any] | None:
    """What the cache holds of the revision when the hub does not answer, None if not all."""
    try:
        folder = hub.snapshot_download(
            wish.repository,
            revision=wish.revision,
            cache_dir=wish.cache,
            local_files_only=True,
        )
    except (OSError, ValueError):
        return None
    names = (name for name in glob.iglob("**", root_dir=folder, recursive=True))
    paths = [(name, os.path.join(folder, name)) for name in names]
    files = [[name, os.path.getsize(path)] for name, path in paths if os.path.isfile(path)]
    return {"commit": os.path.basename(folder), "files": sorted(files)}


def fetch_files(hub: Any, wish: argparse.Namespace) -> dict[str, Any]:
    """Have the files of one commit in the cache: those named, or all."""
    hub.snapshot_download(
        wish.repository,
        revision=wish.revision,
        cache_dir=wish.cache,
        allow_patterns=[glob.escape(name) for name in wish.file] or None,
    )
    return {"commit": wish.revision}


def describe(error: BaseException) -> dict[str, Any]:
    """The problem behind an error, or behind the one that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return {"problem": "no-space", "detail": str(cause)}
        names = [kind.__name__ for kind in type(cause).__mro__]
        problem = next((PROBLEMS[name] for name in PROBLEMS if name in names), None)
        # What the client could not find in its cache was caused by what it could not reach.
        if problem and not (problem == "not-cached" and cause.__cause__):
            status = getattr(getattr(cause, "response", None), "status_code", 0)
            problem = "failing" if status >= FIRST_STATUS_OF_A_FAULT else problem
            return {"problem": problem, "detail": str(cause), "status": status}
        cause = cause.__cause__
    return {"problem": "other", "detail": f"{type(error).__name__}: {error}"}


def answer(result: dict[str, Any]) -> int:
    """Print the result; a problem is exit status 1."""
    print(json.dumps(result))  # noqa: T201
    return 1 if "problem" in result else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
