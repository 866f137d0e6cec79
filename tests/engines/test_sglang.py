"""SGLang: what a deployment becomes, and where its key goes."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.commands.resolve import embedded_recipe
from stoker.engines import build_launch
from stoker.engines.phases import read_phase
from stoker.errors import UsageError
from stoker.knowledge.engines import load_engine_table
from stoker.model.deployment import Deployment
from stoker.model.engine_log import PhaseRow
from stoker.model.engine_table import Place
from stoker.model.facts import Facts
from stoker.model.launch import Launch, Origin, SecretFile

TABLE = load_engine_table("sglang")
FACTS = Facts(host="h", stoker_version="1")
COMMAND = "/srv/sglang/bin/python3"
#: Every launch looks for programs beside the engine first.
PATH = {"PATH": "/srv/sglang/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def make_launch(place: dict[str, str] | None = None, **changes: Any) -> Launch:
    """The launch of a deployment that differs so from the plainest one."""
    plain = {"name": "smol", "model": "path:/models/smol", "engine": {"kind": "sglang"}}
    deployment = Deployment.model_validate({**plain, **changes})
    paths = {"command": COMMAND, "build": "unknown", "model_path": "/models/smol", **(place or {})}
    return build_launch(deployment, FACTS, TABLE, Place(**paths))


def test_the_plainest_deployment() -> None:
    launch = make_launch()
    assert launch.argv == (
        *(COMMAND, "-m", "sglang.launch_server"),
        *("--model-path", "/models/smol", "--served-model-name", "smol"),
        *("--host", "127.0.0.1", "--port", "30000", "--enable-metrics"),
    )
    assert launch.env == PATH
    assert launch.secrets == ()
    assert launch.readiness.path == "/health"


def test_the_key_is_a_setting_in_a_file_and_never_a_word() -> None:
    key = "/srv/services/smol/api-key"
    launch = make_launch({"api_key_path": key}, serve={"api_key_file": "/root/key"})
    place = launch.argv.index("--config")
    assert launch.argv[place + 1] == f"{key}.yaml"
    assert "--api-key" not in launch.argv
    assert launch.secrets == (
        SecretFile(source_path="/root/key", path=key),
        SecretFile(source_path="/root/key", path=f"{key}.yaml", entry="api-key"),
    )


@pytest.mark.parametrize(
    ("gpus", "argv", "env"),
    [
        ("all", (), {}),
        ("none", ("--device", "cpu"), {}),
        (2, (), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1"}),
        ([3, 5], (), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3,5"}),
    ],
)
def test_the_engine_sees_the_chosen_gpus(
    gpus: object, argv: tuple[str, ...], env: dict[str, str]
) -> None:
    launch = make_launch(gpus=gpus)
    rest = launch.argv[launch.argv.index("30000") + 1 :]
    assert rest == (*argv, "--enable-metrics"), "how the weights are divided is for a rule to say"
    assert launch.env == {**PATH, **env}


def test_room_and_own_settings() -> None:
    launch = make_launch(
        serve={"context_tokens": 8192, "parallel_requests": 4},
        engine={
            "kind": "sglang",
            "settings": {"tensor-parallel-size": 4, "mem-fraction-static": 0.88},
        },
        gpus=2,
    )
    words = " ".join(launch.argv)
    assert "--context-length 8192 --max-running-requests 4" in words
    assert "--tensor-parallel-size 4" in words, "the user's word wins, by whatever name"
    assert "--tp-size" not in words
    assert "--mem-fraction-static 0.88" in words
    (chosen,) = [each for each in launch.settings if each.name == "--context-length"]
    assert chosen.origin is Origin.USER


def test_a_draft() -> None:
    launch = make_launch({"draft_path": "/models/eagle"}, draft="path:/models/eagle")
    place = launch.argv.index("--speculative-draft-model-path")
    assert launch.argv[place + 1] == "/models/eagle"


@pytest.mark.parametrize("row", TABLE.log.phases, ids=lambda row: row.example[-50:])
def test_each_example_tells_its_own_phase(row: PhaseRow) -> None:
    assert read_phase([row.example], TABLE).phase == row.phase


def test_a_percentage_of_the_weights() -> None:
    line = "Loading safetensors checkpoint shards:  62% Completed | 5/8 [00:09<00:05,  1.9s/it]"
    assert read_phase([line], TABLE).fraction == 0.62


def test_stoker_installs_none() -> None:
    assert embedded_recipe("path:/srv/sglang", TABLE) is None
    with pytest.raises(UsageError, match="installs no SGLang"):
        embedded_recipe("embedded", TABLE)
