"""The Python interpreters that an engine's environment can be built from."""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.errors import HostError
from stoker.model.facts import Target
from stoker.ports import Command, Probe, ReadableHost
from stoker.probes.paths import closed_folder, read_modes
from stoker.probes.reading import list_if_any

_FOLDERS = ("/usr/bin", "/usr/local/bin")
_NAME = re.compile(r"python3(\.\d+)?")
_TIMEOUT_SECONDS = 20.0
#: The oldest Python that the engines' packages are built for (abi3 wheels of cp310).
_OLDEST = [3, 10]
#: -I: neither the folder it starts in nor anybody's variables change what it imports.
_PROGRAM = (
    "import json, os, sys, venv;"
    "print(json.dumps({'version': sys.version_info[:3], 'path': os.path.realpath(sys.executable)}))"
)


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """What each candidate says of itself, and who may enter the folders it lies in."""
    answers: dict[str, Any] = {}
    for path in _candidates(host):
        answer = _ask(host, path)
        if answer is not None and answer["path"] not in answers:
            modes = read_modes(host, answer["path"])
            answers[answer["path"]] = {"version": answer["version"], "modes": modes}
    return {path: json.dumps(answer) for path, answer in answers.items()}


def _candidates(host: ReadableHost) -> Iterator[str]:
    """The interpreter below ours, which a virtual environment is a view of, and the system's."""
    yield getattr(sys, "_base_executable", "") or sys.executable
    for folder in _FOLDERS:
        for name in list_if_any(host, folder):
            if _NAME.fullmatch(name):
                yield f"{folder}/{name}"


def _ask(host: ReadableHost, path: str) -> dict[str, Any] | None:
    """Version and real path; None for what does not run or cannot make environments."""
    env = {"LC_ALL": "C.UTF-8"}
    argv = (path, "-I", "-c", _PROGRAM)
    try:
        result = host.run(
            Command(argv=argv, timeout_seconds=_TIMEOUT_SECONDS, env=env, is_question=True)
        )
    except HostError:
        return None
    try:
        answer = json.loads(result.stdout) if result.exit_status == 0 else None
    except ValueError:
        return None
    is_whole = isinstance(answer, dict) and answer.keys() == {"version", "path"}
    return answer if is_whole else None


def parse(raw: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The interpreters that are new enough, the first candidate first.

    ``path`` has no links in it. ``reachable_by_others``: every user may run it, also one that
    owns nothing of it.
    """
    answers = {path: json.loads(text) for path, text in raw.items()}
    return {
        "interpreters": [
            {
                "path": path,
                "version": answer["version"],
                "reachable_by_others": _is_reachable(path, answer["modes"]),
            }
            for path, answer in answers.items()
            if answer["version"] >= _OLDEST
        ]
    }


def _is_reachable(path: str, modes: Mapping[str, Any]) -> bool:
    own = modes.get(path)
    may_run = own is not None and own["mode"] & 0o005 == 0o005
    return may_run and closed_folder(posixpath.dirname(path), modes) is None


PROBE = Probe(
    id="interpreters", source=f"our own interpreter, {', '.join(_FOLDERS)}", read=read, parse=parse
)
