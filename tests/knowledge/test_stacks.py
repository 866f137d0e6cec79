"""Versions of the engine and of what it stands on, from what lies in its environment."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.knowledge.derived.stack import derive_stack
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.knowledge.stacks import find_build, load_reader, load_stacks
from stoker.model.deployment import Deployment
from stoker.model.facts import Facts, Observation, Unknown

READ = {
    "state": "read",
    "interpreter": "/opt/v/bin/python3",
    "prefix": "/opt/v",
    "doubled": {},
    "origins": {},
    "torch_cuda": "12.8",
    "packages": {"sglang": "0.5.9", "sgl-kernel": "0.3.21", "torch": "2.9.1", "triton": "3.5.1"},
}


def facts_of(**values: Any) -> Facts:
    seen = {name: Observation(probe=name, value=value) for name, value in values.items()}
    return Facts(host="h", stoker_version="1", observations=seen)


def stack_of(facts: Facts, kind: str = "sglang", environment: str = "path:/opt/v") -> Any:
    engine = {"kind": kind, "environment": environment}
    deployment = Deployment.model_validate({"name": "x", "model": "path:/m", "engine": engine})
    build = find_build(kind, facts)
    return derive_stack(
        Subject(
            deployment=deployment,
            facts=facts,
            table=load_engine_table(kind),
            build="unknown" if isinstance(build, Unknown) else build,
            settings=(),
        )
    )


def test_every_engine_says_how_it_is_asked() -> None:
    assert set(engine_kinds()) == set(load_stacks().engine)
    assert "def describe_values" in load_reader()


def test_a_whole_stack() -> None:
    gpus = {"driver_version": "580.95.05", "cuda_version": "13.0", "gpus": []}
    driver = {"version": "580.95.05", "flavour": "open"}
    assert stack_of(facts_of(engine_packages=READ, gpus=gpus, driver=driver)) == {
        "engine": "sglang",
        "version": "0.5.9",
        "commit": None,
        "torch": "2.9.1",
        "flashinfer": None,
        "kernels": "0.3.21",
        "transformers": None,
        "triton": "3.5.1",
        "nccl": None,
        "cuda": "12.8",
        "driver": "580.95.05",
        "driver_cuda": "13.0",
        "driver_flavour": "open",
    }


def test_the_embedded_build_is_what_it_was_pinned_to() -> None:
    facts = facts_of(gpus={"driver_version": None, "cuda_version": None, "gpus": []})
    stack = stack_of(facts, "llamacpp", "embedded")
    assert stack["torch"] is None
    assert stack["cuda"] is None
    assert stack["commit"] is None


def test_what_is_not_told_is_unknown() -> None:
    stack = stack_of(facts_of(gpus={"driver_version": "580", "cuda_version": None, "gpus": []}))
    for name in ("version", "torch", "kernels", "cuda", "commit", "driver_flavour"):
        assert isinstance(stack[name], Unknown), name


def test_a_name_that_is_there_twice_is_unknown() -> None:
    packages = {**READ, "doubled": {"sglang": ["0.5.8", "0.5.9"], "torch": ["2.8.0", "2.9.1"]}}
    facts = facts_of(engine_packages=packages)
    build = find_build("sglang", facts)
    assert isinstance(build, Unknown)
    assert "0.5.8 and 0.5.9" in build.reason
    assert isinstance(stack_of(facts)["torch"], Unknown)


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("version: 10068 (1a2b3c4d)\nbuilt with GCC", "b10068"),
        ("ggml_cuda_init: none\nversion: 6710 (5a34)", "b6710"),
        ("version: 0 (unknown)", None),
        ("Python 3.12", None),
    ],
)
def test_a_llama_server_tells_its_build(text: str, build: str | None) -> None:
    found = find_build("llamacpp", facts_of(engine={"version_text": text}))
    assert found == build if build else isinstance(found, Unknown)


def test_a_build_from_a_repository() -> None:
    origin = {"url": "file:///src", "commit": "abc", "is_editable": True}
    packages = {**READ, "packages": {"sglang": "0.5.10.dev12+gabc"}, "origins": {"sglang": origin}}
    stack = stack_of(facts_of(engine_packages=packages))
    assert (stack["version"], stack["commit"]) == ("0.5.10.dev12+gabc", "abc")
    origin["commit"] = None
    assert isinstance(stack_of(facts_of(engine_packages=packages))["commit"], Unknown)
