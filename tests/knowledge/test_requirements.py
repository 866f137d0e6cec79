"""What a release was built for, beside what lies in the engine's environment."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.knowledge.derived.requirements import derive_requirements
from stoker.knowledge.lifetimes import load_lifetimes
from stoker.knowledge.requirements import load_requirements, requirement_engines
from stoker.model.facts import Unknown

RIGHT = {
    "engine": "sglang",
    "version": "0.5.9",
    "commit": None,
    "torch": "2.9.1+cu130",
    "kernels": "0.3.21",
    "flashinfer": "0.6.3",
    "transformers": "4.57.1",
    "triton": "3.5.1",
    "nccl": "2.27.5",
}


def derive(**changes: Any) -> dict[str, Any]:
    return derive_requirements(stack={**RIGHT, **changes})


@pytest.mark.parametrize("engine", requirement_engines())
def test_releases_are_known_ones(engine: str) -> None:
    found = load_requirements(engine)
    assert found is not None
    known = set(load_lifetimes(engine).releases)
    assert len(found.releases) >= 25
    assert set(found.releases) <= known
    assert all("torch" in release.pins for release in found.releases.values())


def test_every_release_of_sglang_asserts_its_kernels() -> None:
    found = load_requirements("sglang")
    assert found is not None
    for release in found.releases.values():
        assert {"flashinfer-python"} < set(release.asserted)


def test_a_stack_as_it_was_built() -> None:
    assert derive() == {"asserted": [], "bound": [], "torch": "2.9.1", "kernels": "0.3.21"}


def test_kernels_that_are_too_old() -> None:
    found = derive(version="0.5.23", torch="2.14.1", kernels="0.4.7", flashinfer="0.7.2")
    assert found["asserted"] == ["sglang-kernel is 0.4.7, and this release needs at least 0.4.9"]


def test_another_pytorch() -> None:
    found = derive(torch="2.11.0+cu130")
    assert found["asserted"] == []
    assert found["bound"] == ["torch is 2.11.0+cu130, and this release was built for 2.9.1"]
    vllm = derive(engine="vllm", version="0.33.0", torch="2.13.0", kernels=None)
    assert vllm["bound"] == ["torch is 2.13.0, and this release was built for 2.14.0"]


def test_a_build_from_a_repository_is_not_judged() -> None:
    found = derive(version="0.5.24", commit="1a2b3c4d", torch="2.11.0")
    assert (found["asserted"], found["bound"]) == ([], [])


def test_a_release_that_was_not_read_is_not_judged() -> None:
    assert derive(version="0.4.9")["bound"] == []
    assert derive(engine="llamacpp", version="b11549")["bound"] == []


def test_what_is_not_known_is_not_guessed() -> None:
    unread = Unknown(reason="the environment cannot be read")
    assert derive(version=unread)["asserted"].reason == unread.reason
    assert derive(torch=unread, kernels=unread)["bound"].reason == unread.reason
    assert derive(torch="2.11.0", kernels=unread)["bound"] != []
