"""The installed engine is asked for its flags, once, and never to the harm of a plan."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker.commands.engine_flags import Fitted, fit_engine
from stoker.errors import AccessDenied
from stoker.knowledge.engines import load_catalogue, load_engine_table
from stoker.model.deployment import Deployment
from stoker.model.engine_table import Place
from stoker.model.facts import Facts, Observation
from stoker.ports import Command, CommandResult
from tests.laws.worlds import Machine

PYTHON = "/opt/v/bin/python3"
FILE = "/opt/v/lib/python3.12/site-packages/sglang/srt/server_args.py"
LLAMA = "/opt/llama-server"
HELP = """\
-h,    --help, --usage                  print usage and exit
-c,    --ctx-size N                     size of the prompt context (default: 0)
                                        (env: LLAMA_ARG_CTX_SIZE)
-m,    --model FNAME                    model path to load
"""


@dataclass
class Box:
    """A machine with an engine that answers as a test wants; ``asked`` counts how often."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0
    timed_out: bool = False
    asked: list[Command] = field(default_factory=list)
    machine: Machine = field(default_factory=Machine)

    def __post_init__(self) -> None:
        self.machine.host.commands = self.run
        self.machine.host.put(FILE, "x" * 10)
        self.machine.host.put(LLAMA, "ELF", mode=0o755)
        self.machine.host.put_folder(self.machine.world().folders.state, mode=0o700)

    def run(self, command: Command) -> CommandResult:
        self.asked.append(command)
        return CommandResult(
            argv=command.argv,
            exit_status=self.status,
            stdout=self.stdout,
            stderr=self.stderr,
            timed_out=self.timed_out,
        )

    def answer(self, *rows: dict[str, Any]) -> None:
        """What the reader would print."""
        stat = self.machine.host.stat(FILE)
        assert stat is not None
        files = [[FILE, stat.size_bytes, stat.modified_ns]]
        self.stdout = json.dumps({"options": list(rows), "files": files, "results": []})

    def fit(self, version: str = "0.5.23", **engine: Any) -> Fitted:
        packages = {
            "state": "read",
            "interpreter": PYTHON,
            "prefix": "/opt/v",
            "packages": {"sglang": version} if version else {},
            "doubled": {},
            "origins": {},
            "torch_cuda": None,
        }
        return self._fit({"engine_packages": packages}, kind="sglang", **engine)

    def fit_llama(self, version_text: str = "version: 10068 (1a2b)") -> Fitted:
        values = {
            "engine": {"state": "answered", "version_text": version_text},
            "engine_packages": {"state": "no-python", "program": LLAMA},
        }
        return self._fit(values, kind="llamacpp")

    def _fit(self, values: dict[str, Any], **engine: Any) -> Fitted:
        data = {"name": "x", "model": "path:/m", "engine": {"environment": "path:/opt/v", **engine}}
        seen = {name: Observation(probe=name, value=value) for name, value in values.items()}
        return fit_engine(
            self.machine.world(),
            Deployment.model_validate(data),
            Place(command=PYTHON, build="unknown", model_path="/m"),
            Facts(host="h", stoker_version="1", observations=seen),
            user=None,
        )


def told(fitted: Fitted) -> dict[str, Any]:
    value = fitted.facts.read("engine_flags")
    assert isinstance(value, dict)
    return value


OWN = {"names": ["--own"], "argument": None, "type": "bool"}
METRICS = {"names": ["--enable-metrics"], "argument": None, "type": "bool"}


def test_the_installed_parser_is_the_authority() -> None:
    box = Box()
    box.answer(OWN, METRICS)
    fitted = box.fit()
    assert [option.names for option in fitted.table.catalogue.options] == [
        ("--own",),
        ("--enable-metrics",),
    ]
    assert fitted.place.build == "0.5.23"
    value = told(fitted)
    assert (value["authority"], value["release"], value["count"]) == ("installed", "0.5.23", 2)
    assert value["difference"].startswith("it alone has --own; it lacks --abort-on-priority")
    assert value["difference"].endswith(" more")
    (command,) = box.asked
    assert command.argv[:2] == (PYTHON, "-c")
    assert command.env["HOME"] == "/dev/null"


def test_it_is_asked_once() -> None:
    box = Box()
    box.answer(OWN)
    first, second = box.fit(), box.fit()
    assert len(box.asked) == 1
    assert second.table == first.table
    assert told(second) == told(first)


@pytest.mark.parametrize("change", ["a file", "a version", "a variable", "the answer that is kept"])
def test_it_is_asked_again_once_something_has_changed(change: str) -> None:
    box = Box()
    box.answer(OWN)
    box.fit()
    host = box.machine.host
    match change:
        case "a file":
            host.put(FILE, "y" * 11)
            box.answer(METRICS)
            again = box.fit()
        case "a version":
            again = box.fit("0.5.22")
        case "a variable":
            again = box.fit(env={"SGLANG_X": "1"})
        case _:
            (path,) = [path for path in host.nodes if "/engine-flags/" in path]
            host.put(path, "{")
            again = box.fit()
    assert len(box.asked) == 2
    assert told(again)["authority"] == "installed"


def test_a_file_that_is_gone_makes_the_answer_an_old_one() -> None:
    box = Box()
    box.answer(OWN)
    box.fit()
    box.machine.host.remove_file(FILE)
    box.fit()
    assert len(box.asked) == 2


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        (Box(timed_out=True), "did not answer within 180 seconds"),
        (Box(stdout="", stderr="Traceback\nImportError: libcuda\n", status=1), "ImportError: libc"),
        (Box(stdout="[1]"), "makes no sense"),
        (Box(stdout='{"options": []}'), "no usable list"),
        (Box(stdout='{"options": [{"names": 3, "argument": null}]}'), "expected a list"),
        (Box(stdout="[" * 100_000), "without an answer"),
    ],
)
def test_the_catalogue_of_the_release_stands_in(box: Box, reason: str) -> None:
    fitted = box.fit()
    assert fitted.table.catalogue == load_catalogue("sglang", "0.5.23")
    assert fitted.place.build == "0.5.23"
    value = told(fitted)
    assert value["authority"] == "release"
    assert reason in value["reason"]
    assert not [path for path in box.machine.host.nodes if "/engine-flags/" in path]


def test_an_interpreter_that_may_not_be_run() -> None:
    box = Box()

    def refuse(command: Command) -> CommandResult:
        raise AccessDenied(f"{command.argv[0]} may not be executed")

    box.machine.host.commands = refuse
    assert "may not be executed" in told(box.fit())["reason"]


def test_an_answer_that_cannot_be_kept_counts_all_the_same() -> None:
    box = Box()
    box.answer(OWN)
    state = box.machine.world().folders.state
    box.machine.host.denied.add(f"{state}/engine-flags")
    assert told(box.fit())["authority"] == "installed"


def test_without_a_state_folder_nothing_is_kept() -> None:
    box = Box()
    box.answer(OWN)
    box.machine.host.remove_tree(box.machine.world().folders.state)
    assert told(box.fit())["authority"] == "installed"
    assert not [path for path in box.machine.host.nodes if "/engine-flags/" in path]


def test_an_engine_whose_version_is_not_known_is_not_asked() -> None:
    box = Box()
    fitted = box.fit("")
    assert box.asked == []
    assert fitted.place.build == "unknown"
    value = told(fitted)
    assert (value["version"], value["is_exact"]) == (None, False)
    assert value["reason"] == "/opt/v has no distribution named sglang"


def test_a_version_between_releases() -> None:
    box = Box(timed_out=True)
    value = told(box.fit("0.5.10.dev3+gabc"))
    assert (value["release"], value["is_exact"]) == ("0.5.9", False)


def test_a_program_without_python_is_asked_for_its_help() -> None:
    box = Box(stdout=HELP)
    fitted = box.fit_llama()
    catalogue = fitted.table.catalogue
    assert (catalogue.build, len(catalogue.options)) == ("b10068", 3)
    option = catalogue.find("ctx-size")
    assert option is not None
    assert (option.env, option.kind) == ("LLAMA_ARG_CTX_SIZE", "number")
    assert box.asked[0].argv == (LLAMA, "--help")
    box.fit_llama()
    assert len(box.asked) == 1
    box.machine.host.put(LLAMA, "ELF, newer", mode=0o755)
    box.fit_llama()
    assert len(box.asked) == 2


def test_a_program_that_tells_no_build_or_no_flags() -> None:
    assert "does not tell its version" in told(Box().fit_llama("Python 3.12"))["reason"]
    assert "names no flags" in told(Box(stdout="usage: x").fit_llama())["reason"]


def test_the_embedded_build_is_not_asked() -> None:
    box = Box()
    table = load_engine_table("llamacpp")
    assert table.embedded is not None
    deployment = Deployment.model_validate(
        {"name": "x", "model": "path:/m", "engine": {"kind": "llamacpp"}}
    )
    place = Place(command="/e/llama-server", build=table.embedded.build, model_path="/m")
    facts = Facts(host="h", stoker_version="1")
    fitted = fit_engine(box.machine.world(), deployment, place, facts, user=None)
    assert box.asked == []
    assert fitted.table.catalogue == table.catalogue
    assert told(fitted)["is_exact"] is True
    assert fitted.place == place


def test_the_last_words_of_an_engine_hold_no_secret_and_no_command() -> None:
    token = "hf_" + "aB3" * 12
    last = f"OSError: https://me:{token}@host/x: api_key={token} \x1b[31m\u202e"
    said = told(Box(stderr=f"Traceback\n{last}\n", status=1).fit())["reason"]
    assert token not in said
    assert "OSError: https://***@host/x" in said
    assert said.isprintable()
