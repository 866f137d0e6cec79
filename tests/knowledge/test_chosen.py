"""Settings as rules read them: a switch with a spelling for each way."""

from __future__ import annotations

import pytest

from stoker.knowledge.derived.chosen import derive_settings
from tests.knowledge.test_speculation import make_subject


@pytest.mark.parametrize(
    ("engine", "release", "spelling", "told"),
    [
        ("vllm", "0.32.0", "enable-prefix-caching", {"enable": True, "no-enable": False}),
        ("vllm", "0.32.0", "no-enable-prefix-caching", {"enable": False, "no-enable": True}),
        ("vllm", "0.33.0", "disable-prefix-caching", {"enable": False, "disable": True}),
    ],
)
def test_one_spelling_is_what_the_other_is_not(
    engine: str, release: str, spelling: str, told: dict[str, bool]
) -> None:
    values = derive_settings(make_subject(engine, release, {spelling: ""}, None, {}))
    for word, value in told.items():
        assert values[f"{word}-prefix-caching"] is value


def test_a_switch_whose_first_name_forbids() -> None:
    name = "hybrid-kv-cache-manager"
    for spelling, value in (("disable", True), ("no-disable", False), ("enable", False)):
        subject = make_subject("vllm", "0.33.0", {f"{spelling}-{name}": ""}, None, {})
        values = derive_settings(subject)
        assert values[f"disable-{name}"] is value
        assert values[f"enable-{name}"] is not value


def test_defaults_and_switches_that_nobody_set() -> None:
    values = derive_settings(make_subject("vllm", "0.32.0", {}, None, {}))
    assert values["enforce-eager"] is False
    assert values["no-enforce-eager"] is True
    assert values["enable-prefix-caching"] is None
    short = derive_settings(make_subject("llamacpp", "b11549", {"no-kv-offload": ""}, None, {}))
    assert short["kv-offload"] is False
    assert short["nkvo"] is True
