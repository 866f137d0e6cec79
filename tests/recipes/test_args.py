"""Lists of arguments become settings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.model.finding import Source
from stoker.model.launch import Origin, Setting
from stoker.recipes.args import MAX_WORDS, parse_arguments, parse_variables
from stoker.recipes.collection import grammar_for, like

LIKE = like("vllm:a/b", Source(kind="documented", where="here", version="c"), "because")
VLLM = grammar_for("vllm", "0.19.0")
SGLANG = grammar_for("sglang", "0.5.9")


def parsed(*words: object, engine: str = "vllm") -> list[tuple[str, str | None, tuple[str, ...]]]:
    settings, complaints = parse_arguments(
        list(words), VLLM if engine == "vllm" else SGLANG, like=LIKE
    )
    assert complaints == ()
    return [(each.name, each.value, each.more) for each in settings]


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["--max-model-len", 4096], [("--max-model-len", "4096", ())]),
        (["--max-model-len=4096"], [("--max-model-len", "4096", ())]),
        (["--max-model-len 4096"], [("--max-model-len", "4096", ())]),
        (["--max_model_len", "4096"], [("--max-model-len", "4096", ())]),
        (["--trust-remote-code"], [("--trust-remote-code", None, ())]),
        (["--no-enable-prefix-caching"], [("--no-enable-prefix-caching", None, ())]),
        (["-dp", "8"], [("-dp", "8", ())]),
        (["--gpu-memory-utilization", "-1"], [("--gpu-memory-utilization", "-1", ())]),
        (["--logits-processors", "a", "b"], [("--logits-processors", "a", ("b",))]),
        (["--no-such-flag", "x"], [("--no-such-flag", "x", ())]),
        (["--no-such-flag"], [("--no-such-flag", None, ())]),
    ],
)
def test_each_way_of_writing_a_flag(words: list[Any], settings: list[Any]) -> None:
    assert parsed(*words) == settings


def test_the_last_of_two_counts_at_the_place_of_the_first() -> None:
    words = ("--block-size", "1", "--dtype", "auto", "--block_size", "128")
    assert parsed(*words) == [("--block-size", "128", ()), ("--dtype", "auto", ())]


def test_a_flag_and_its_opposite_are_one() -> None:
    words = ("--enable-prefix-caching", "--no-enable-prefix-caching")
    assert parsed(*words) == [("--no-enable-prefix-caching", None, ())]


def test_parts_of_a_json_value_are_put_together() -> None:
    ((name, value, more),) = parsed(
        *("--speculative-config", '{"method":"mtp"}'),
        *("--speculative_config.num_speculative_tokens", "3", "--speculative-config.a.b=x"),
    )
    assert (name, more) == ("--speculative-config", ())
    assert json.loads(value or "") == {
        "method": "mtp",
        "num_speculative_tokens": 3,
        "a": {"b": "x"},
    }


def test_the_short_name_of_a_json_flag_takes_parts_too() -> None:
    ((name, value, _),) = parsed("-cc.mode", "3")
    assert (name, value) == ("-cc", '{"mode":3}')


def test_a_beginning_that_only_one_flag_has_stands_for_it() -> None:
    assert parsed("--speculative-algo", "EAGLE", engine="sglang") == [
        ("--speculative-algorithm", "EAGLE", ())
    ]
    assert parsed("--speculative", "x", engine="sglang") == [("--speculative", "x", ())]


def test_words_without_a_flag_are_told() -> None:
    settings, complaints = parse_arguments(["stray", "--dtype", "auto", "more"], VLLM, like=LIKE)
    assert [each.name for each in settings] == ["--dtype"]
    assert complaints == ("'stray' belongs to no flag", "'more' belongs to no flag")


def test_a_setting_keeps_whose_it_is() -> None:
    ((setting,), _) = parse_arguments(["--dtype", "auto"], VLLM, like=LIKE)
    assert (setting.origin, setting.rule, setting.source) == (
        Origin.RECIPE,
        "vllm:a/b",
        LIKE.source,
    )


@pytest.mark.parametrize("words", ["--dtype auto", {"a": 1}, 7])
def test_no_list_is_told(words: object) -> None:
    assert parse_arguments(words, VLLM, like=LIKE) == ((), ("a list of arguments is none",))


def test_a_list_without_end_is_cut() -> None:
    settings, complaints = parse_arguments(["--dtype", "auto"] * MAX_WORDS, VLLM, like=LIKE)
    assert len(settings) == 1
    assert complaints == (f"only the first {MAX_WORDS} arguments are read",)


def test_variables() -> None:
    data = {"GOOD": 1, "ALSO": "x", "bad name": "y", "EMPTY": None, "LIST": []}
    settings, complaints = parse_variables(data, like=LIKE)
    assert [(each.name, each.value, each.kind) for each in settings] == [
        ("GOOD", "1", "env"),
        ("ALSO", "x", "env"),
    ]
    assert len(complaints) == 3


words = st.one_of(
    st.sampled_from(
        ["--dtype", "--speculative-config.a", "-cc", "{", '{"a":1}', "--x=", "-", "--"]
    ),
    st.text(max_size=8),
    st.integers(),
    st.none(),
    st.booleans(),
    st.lists(st.text(max_size=3), max_size=2),
)


@given(st.lists(words, max_size=12))
def test_any_list_becomes_settings_of_one_value_each(items: list[Any]) -> None:
    settings, _ = parse_arguments(items, VLLM, like=LIKE)
    assert all(isinstance(each, Setting) and "\0" not in "".join(each.more) for each in settings)
    identities = [VLLM.identify(each) for each in settings]
    repeatable = {each for each in identities if (o := VLLM.find(each)) and o.repeatable}
    once = [each for each in identities if each not in repeatable]
    assert len(once) == len(set(once))
