"""vLLM: what a deployment becomes, how its key travels, and how a draft reaches it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.engines import build_launch
from stoker.engines.phases import read_phase
from stoker.engines.resolved import read_resolved
from stoker.knowledge.engines import load_engine_table
from stoker.model.deployment import Deployment
from stoker.model.engine_log import PhaseRow
from stoker.model.engine_table import Place
from stoker.model.facts import Facts
from stoker.model.launch import Launch, Origin, SecretFile, Setting

TABLE = load_engine_table("vllm")
FACTS = Facts(host="h", stoker_version="1")
COMMAND = "/srv/vllm/bin/vllm"
#: Every launch looks for programs beside the engine first.
PATH = {"PATH": "/srv/vllm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def make_launch(
    place: dict[str, str] | None = None, *, proposed: tuple[Setting, ...] = (), **changes: Any
) -> Launch:
    """The launch of a deployment that differs so from the plainest one."""
    plain = {"name": "smol", "model": "path:/models/smol", "engine": {"kind": "vllm"}}
    deployment = Deployment.model_validate({**plain, **changes})
    paths = {"command": COMMAND, "build": "unknown", "model_path": "/models/smol", **(place or {})}
    return build_launch(deployment, FACTS, TABLE, Place(**paths), proposed=proposed)


def speculative(launch: Launch) -> Any:
    """The one object that the engine is told about drafting."""
    assert launch.argv.count("--speculative-config") == 1
    return json.loads(launch.argv[launch.argv.index("--speculative-config") + 1])


def test_the_model_is_a_word_without_a_flag_and_comes_first() -> None:
    launch = make_launch()
    assert launch.argv == (
        *(COMMAND, "serve", "/models/smol", "--served-model-name", "smol"),
        *("--host", "127.0.0.1", "--port", "30000"),
    )
    assert launch.env == PATH
    assert launch.secrets == ()
    assert launch.readiness.path == "/health"
    assert TABLE.settings["model_path"].find_in(launch.settings) == "/models/smol"


def test_the_key_is_a_variable_and_never_a_word() -> None:
    key = "/srv/services/smol/api-key"
    launch = make_launch({"api_key_path": key}, serve={"api_key_file": "/root/key"})
    assert not [word for word in launch.argv if "key" in word]
    assert launch.secrets == (
        SecretFile(source_path="/root/key", path=key),
        SecretFile(source_path="/root/key", path=f"{key}.variable", variable="VLLM_API_KEY"),
    )
    assert "VLLM_API_KEY" not in launch.env


@pytest.mark.parametrize(
    ("gpus", "env"),
    [
        ("all", {}),
        ("none", {"CUDA_VISIBLE_DEVICES": ""}),
        (2, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1"}),
        ([3, 5], {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3,5"}),
    ],
)
def test_the_engine_sees_the_chosen_gpus(gpus: object, env: dict[str, str]) -> None:
    assert make_launch(gpus=gpus).env == {**PATH, **env}


def test_room_and_own_settings() -> None:
    launch = make_launch(
        serve={"context_tokens": 8192, "parallel_requests": 4},
        engine={"kind": "vllm", "settings": {"gpu-memory-utilization": 0.88, "max-num-seqs": 16}},
    )
    words = " ".join(launch.argv)
    assert "--max-model-len 8192" in words
    assert "--gpu-memory-utilization 0.88" in words
    assert "--max-num-seqs 16" in words, "what is set under engine.settings is the later word"


def test_a_draft_alone_gets_a_number_of_tokens() -> None:
    launch = make_launch({"draft_path": "/models/eagle"}, draft="path:/models/eagle")
    assert speculative(launch) == {"model": "/models/eagle", "num_speculative_tokens": 3}
    assert TABLE.settings["draft_path"].find_in(launch.settings) == "/models/eagle"


def test_a_draft_reaches_an_object_that_the_user_wrote() -> None:
    own = {"method": "eagle3", "num_speculative_tokens": 5, "model": "/elsewhere"}
    engine = {"kind": "vllm", "settings": {"speculative-config": json.dumps(own)}}
    launch = make_launch({"draft_path": "/models/eagle"}, draft="path:/models/eagle", engine=engine)
    assert speculative(launch) == {**own, "model": "/models/eagle"}
    (setting,) = [each for each in launch.settings if each.name == "--speculative-config"]
    assert setting.origin is Origin.USER


def test_a_draft_reaches_an_object_that_a_recipe_proposes() -> None:
    proposal = Setting(
        name="--speculative-config",
        value='{"method":"mtp","num_speculative_tokens":2}',
        origin=Origin.RECIPE,
        reason="a recipe",
    )
    launch = make_launch(
        {"draft_path": "/models/mtp"}, draft="path:/models/mtp", proposed=(proposal,)
    )
    expected = {"method": "mtp", "num_speculative_tokens": 2, "model": "/models/mtp"}
    assert speculative(launch) == expected


def test_an_object_without_a_draft_stays_as_it_is() -> None:
    text = '{"method": "ngram", "num_speculative_tokens": 4}'
    launch = make_launch(engine={"kind": "vllm", "settings": {"speculative-config": text}})
    assert launch.argv[-1] == text


@pytest.mark.parametrize("text", ["no json", "[1]", '{"a":'])
def test_what_is_no_object_stays_as_it_is(text: str) -> None:
    engine = {"kind": "vllm", "settings": {"speculative-config": text}}
    launch = make_launch({"draft_path": "/models/e"}, draft="path:/models/e", engine=engine)
    assert launch.argv[-1] == text
    assert TABLE.settings["draft_path"].find_in(launch.settings) is None


@pytest.mark.parametrize("row", TABLE.log.phases, ids=lambda row: row.example[-50:])
def test_each_example_tells_its_own_phase(row: PhaseRow) -> None:
    phase = read_phase([row.example], TABLE)
    assert (phase.phase, phase.title) == (row.phase, row.title)


@pytest.mark.parametrize(
    ("line", "phase", "fraction"),
    [
        (
            "Loading safetensors checkpoint shards:  62% Completed | 5/8 [00:09<00:05]",
            "loading-weights",
            0.62,
        ),
        (
            "Loading safetensors using Runai Model Streamer:  40%|####      | 2/5",
            "loading-weights",
            0.4,
        ),
        (
            "Capturing CUDA graphs (decode, FULL):  25%|##   | 9/35 [00:01<00:02]",
            "capturing",
            0.25,
        ),
        ("Capturing CUDA graph shapes:  10%|#   | 3/35", "capturing", 0.1),
        ("DeepGEMM warmup:  40%|####      | 820/2048", "warming-up", 0.4),
    ],
)
def test_percentages(line: str, phase: str, fraction: float) -> None:
    told = read_phase([line], TABLE)
    assert (told.phase, told.fraction) == (phase, fraction)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("Using Flash Attention backend on V1 engine.", "attention_backend", "Flash Attention"),
        ("Using FLASHINFER backend.", "attention_backend", "FLASHINFER"),
        (
            "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].",
            "attention_backend",
            "FLASH_ATTN",
        ),
        (
            "Using TRITON Unquantized MoE backend out of potential backends: ['TRITON'].",
            "moe_runner",
            "TRITON",
        ),
        ("Using 'MARLIN' Mxfp4 MoE backend.", "moe_runner", "MARLIN"),
        ("GPU KV cache size: 1,360,384 tokens", "kv_tokens", 1360384),
        ("Available KV cache memory: 19.47 GiB", "kv_bytes", round(19.47 * 2**30)),
        ("Model loading took 55.67 GiB and 96.1 seconds", "weight_bytes", round(55.67 * 2**30)),
    ],
)
def test_lines_of_several_releases(line: str, name: str, value: object) -> None:
    told = read_resolved([f"(EngineCore_DP0 pid=1) INFO 10-04 [x.py:1] {line}"], TABLE)
    assert told.values[name].value == value
    assert told.values[name].by_rank == {"DP0": value}
    others = {"attention_backend", "moe_runner"} - {name}
    assert not others & set(told.values)
