"""Where the packages of an engine are found, from its executable on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stoker.errors import HostError
from stoker.model.facts import Target
from stoker.ports import Command, CommandResult
from stoker.probes import engine
from stoker.probes.engine_packages import PROBE
from tests.fakes.host import MemoryHost

VENV = {
    "/opt/v/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n"
    "version = 3.12.3\n",
    "/opt/v/bin/python3": "",
    "/opt/v/lib/python3.12/site-packages/torch-2.9.1.dist-info/METADATA": "",
    "/opt/v/lib/python3.12/site-packages/torch/version.py": "cuda: Optional[str] = '12.8'\n",
    "/opt/v/lib/python3.12/site-packages/~orch-2.8.0.dist-info/METADATA": "",
    "/opt/v/lib/python3.11/site-packages/old-1.dist-info/METADATA": "",
    "/usr/lib/python3/dist-packages/PyYAML-6.0.egg-info": "",
}


def look(files: Mapping[str, str | bytes], command: str = "/opt/v/bin/python3") -> dict[str, Any]:
    found = PROBE.parse(PROBE.read(MemoryHost(files), Target(command=(command,))))
    assert isinstance(found, dict)
    return found


def test_a_virtual_environment_has_its_own_packages_alone() -> None:
    found = look(VENV)
    assert found["prefix"] == "/opt/v"
    assert found["packages"] == {"torch": "2.9.1"}
    assert found["torch_cuda"] == "12.8"


def test_a_virtual_environment_may_see_those_of_the_system() -> None:
    config = VENV["/opt/v/pyvenv.cfg"].replace("= false", "= true")
    found = look({**VENV, "/opt/v/pyvenv.cfg": config})
    assert found["packages"] == {"torch": "2.9.1", "pyyaml": "6.0"}


@pytest.mark.parametrize(
    "script",
    [
        "#!/opt/v/bin/python3\nimport vllm\n",
        "#! /opt/v/bin/python3.12 -sE\n",
        "#!/bin/sh\n'''exec' \"/opt/v/bin/python3\" \"$0\" \"$@\"\n' '''\n",
        "#!/bin/sh\n'''exec' /opt/v/bin/python3 \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_a_script_names_its_python(script: str) -> None:
    assert look({**VENV, "/opt/v/bin/vllm": script}, "/opt/v/bin/vllm")["prefix"] == "/opt/v"


def test_a_script_that_asks_the_path() -> None:
    files = {
        "/srv/vllm": "#!/usr/bin/env python3\n",
        "/usr/lib/python3/dist-packages/vllm-0.32.0.dist-info/METADATA": "",
        "/usr/local/lib/python3.12/dist-packages/vllm-0.33.0.dist-info/METADATA": "",
    }
    host = MemoryHost(files)
    host.put("/usr/bin/python3", "", mode=0o755)
    found: Any = PROBE.parse(PROBE.read(host, Target(command=("/srv/vllm",))))
    assert found["interpreter"] == "/usr/bin/python3"
    # What an administrator installed beside the system's packages comes first.
    assert found["packages"] == {"vllm": "0.33.0"}


def test_links_lead_to_the_prefix_where_there_is_no_environment() -> None:
    host = MemoryHost(
        {
            "/opt/conda/bin/python3.11": "",
            "/opt/conda/lib/python3.11/site-packages/sglang-0.5.9.dist-info/METADATA": "",
            "/opt/conda/lib/python3.12/site-packages/sglang-0.5.8.dist-info/METADATA": "",
        }
    )
    host.put_link("/usr/local/bin/python3", "/opt/conda/bin/python3")
    host.put_link("/opt/conda/bin/python3", "python3.11")
    found: Any = PROBE.parse(PROBE.read(host, Target(command=("/usr/local/bin/python3",))))
    assert found["packages"] == {"sglang": "0.5.9"}


def test_programs_without_a_python() -> None:
    found = look({"/opt/llama-server": b"\x7fELF\x02"}, "/opt/llama-server")
    assert found == {"state": "no-python", "program": "/opt/llama-server"}
    assert look({}, "/opt/llama-server") == {"state": "missing"}
    with pytest.raises(HostError, match="script of another kind"):
        look({"/opt/run.sh": "#!/bin/bash\npython3 x\n"}, "/opt/run.sh")
    with pytest.raises(HostError, match="no engine command"):
        PROBE.read(MemoryHost({}), Target())


def test_an_editable_install_tells_its_commit() -> None:
    record = '{"url": "file:///src/sg%20lang/python", "dir_info": {"editable": true}}'
    folder = "/opt/v/lib/python3.12/site-packages/sglang-0.5.9.dist-info"
    commit = "0123456789" * 4
    files = {**VENV, f"{folder}/direct_url.json": record}
    files |= {
        "/src/sg lang/.git/HEAD": "ref: refs/heads/main\n",
        "/src/sg lang/.git/refs/heads/main": f"{commit}\n",
    }
    assert look(files)["origins"]["sglang"]["commit"] == commit
    del files["/src/sg lang/.git/refs/heads/main"]
    assert look(files)["origins"]["sglang"]["commit"] is None


def test_credentials_in_an_address_are_left_out() -> None:
    commit = "c" * 40
    record = f'{{"url": "https://me:token@host/x.git", "vcs_info": {{"commit_id": "{commit}"}}}}'
    folder = "/opt/v/lib/python3.12/site-packages/sglang-0.5.9.dist-info"
    found = look({**VENV, f"{folder}/direct_url.json": record})
    assert found["origins"]["sglang"] == {
        "url": "https://host/x.git",
        "commit": commit,
        "is_editable": False,
    }


@pytest.mark.parametrize(
    ("version", "text", "cuda"),
    [
        ("2.9.1", "cuda = None\n", {"torch_cuda": None}),
        ("2.9.1+cu128", "", {"torch_cuda": "12.8"}),
        ("2.9.1+cu118", "", {"torch_cuda": "11.8"}),
        ("2.9.1+cpu", "", {"torch_cuda": None}),
        ("2.9.1", "", {}),
    ],
)
def test_the_cuda_release_of_pytorch(version: str, text: str, cuda: dict[str, Any]) -> None:
    site = "/opt/v/lib/python3.12/site-packages"
    files = {
        "/opt/v/pyvenv.cfg": "version = 3.12.3\n",
        "/opt/v/bin/python3": "",
        f"{site}/torch-{version}.dist-info/METADATA": "",
        f"{site}/torch/version.py": text,
    }
    found = look(files)
    assert {key: found[key] for key in ("torch_cuda",) if key in found} == cuda


def test_a_script_is_not_run_for_its_version() -> None:
    """It would import the whole engine; that its interpreter runs is what is asked."""
    asked: list[tuple[str, ...]] = []

    def run(command: Command) -> CommandResult:
        asked.append(command.argv)
        return CommandResult(argv=command.argv, exit_status=0, stdout="Python 3.12.3", stderr="")

    host = MemoryHost({**VENV, "/opt/v/bin/vllm": "#!/opt/v/bin/python3\n"}, run)
    target = Target(command=("/opt/v/bin/vllm",))
    assert engine.PROBE.read(host, target) == {"state": "not-executable"}
    host.put("/opt/v/bin/vllm", "#!/opt/v/bin/python3\n", mode=0o755)
    assert engine.PROBE.read(host, target)["stdout"] == "Python 3.12.3"
    assert asked == [("/opt/v/bin/python3", "--version")]


def test_names_that_a_terminal_would_obey_are_no_distributions() -> None:
    site = "/opt/v/lib/python3.12/site-packages"
    record = '{"url": "https://h/x", "vcs_info": {"commit_id": "\\u001b[31m"}}'
    odd = ("a-1\x1b[31m", "b-1\u202e", "c\x9b-1", "d-1 2")
    files = {**VENV, **{f"{site}/{name}.dist-info/METADATA": "" for name in odd}}
    found = look({**files, f"{site}/good-1.dist-info/direct_url.json": record})
    assert found["packages"].keys().isdisjoint({"a", "b", "c", "d"})
    assert found["packages"]["good"] == "1"
    assert found["origins"]["good"]["commit"] is None
