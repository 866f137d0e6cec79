"""The workloads that come with Stoker, and what is refused in a file of the same form."""

from __future__ import annotations

import pytest

from stoker.errors import DataError
from stoker.fake_engine.script import MANNERS
from stoker.knowledge.workloads import (
    load_whole_lengths,
    load_workloads,
    parse_workload,
    whole_length_fields,
)
from stoker.model.benchmark import Lengths

GOOD = """
title = "A title"
shape = "chat"
prompt_tokens = { median = 100 }
output_tokens = { spread = "uniform", median = 20, least = 10, most = 30 }
source = { kind = "observed", where = "a trial", date = "2026-12-01" }
"""


def parse(text: str) -> object:
    return parse_workload(text, name="own", origin="own.toml")


def test_there_is_one_for_each_kind_of_traffic() -> None:
    found = load_workloads()
    assert set(found) == {
        *("chat", "code", "long-prompt", "shared-prefix", "short", "tool-loop", "random"),
    }
    assert {each.shape for each in found.values()} == {
        "chat",
        "shared_prefix",
        "tool_loop",
        "random",
    }
    assert all(name == each.name and each.title and each.source for name, each in found.items())


def test_a_file_of_the_users_own_is_read() -> None:
    workload = parse_workload(GOOD, name="own", origin="own.toml")
    assert workload.name == "own"
    assert workload.source == "a trial"
    assert workload.output_tokens == Lengths(spread="uniform", median=20, least=10, most=30)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('shape = "chat"', 'shape = "file"', "shape is one of chat, shared_prefix"),
        ('shape = "chat"', 'shape = "shared_prefix"', "needs prefixes and prefix_tokens"),
        ('shape = "chat"', "prefixes = 3", "prefixes and prefix_tokens are given together"),
        ('shape = "chat"', "prefixes = -1\nprefix_tokens = -1", "are at least 0"),
        ('shape = "chat"', 'text = "poems"', "text is one of prose, code, not 'poems'"),
        ('shape = "chat"', "turns = 0", "turns is at least 1"),
        ('shape = "chat"', "turns = 2", "turn_tokens.median is at least 1"),
        ("median = 100", "median = 0", "prompt_tokens.median is at least 1"),
        ('"uniform"', '"zipf"', "output_tokens.spread is one of fixed"),
        ("least = 10", "least = 25", "least, median and most"),
        ("most = 30", "sigma = 9.5, most = 30", "output_tokens.sigma lies between 0 and 4"),
        ("median = 100", "mean = 100", "unknown key mean"),
        ('title = "A title"', "", "missing key title"),
        ('where = "a trial", ', "", "source"),
        ("shape =", "shape", "is not TOML"),
    ],
)
def test_what_is_wrong_is_told(old: str, new: str, problem: str) -> None:
    with pytest.raises(DataError, match=r"own[.]toml") as refused:
        parse(GOOD.replace(old, new))
    assert problem in refused.value.summary


def test_all_wrong_values_are_told_at_once() -> None:
    text = GOOD.replace('"chat"', '"talk"').replace("median = 100", "median = 0")
    with pytest.raises(DataError) as refused:
        parse(text)
    assert "shape is one of" in refused.value.summary
    assert "prompt_tokens.median" in refused.value.summary


def test_engines_that_know_a_field_for_whole_lengths_have_it() -> None:
    assert set(load_whole_lengths()) == set(MANNERS)
    assert whole_length_fields("vllm") == {"ignore_eos": True}


def test_a_stranger_gets_no_field_that_it_may_refuse() -> None:
    assert whole_length_fields("transformers") == {}
