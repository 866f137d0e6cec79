"""Words of a command line as flags: by the engine's catalogue, and plainly without one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.knowledge.engines import load_catalogue, load_engine_table
from stoker.knowledge.servers import Grammar, find_grammar
from stoker.model.engine_table import FlagCatalogue, Option
from stoker.planning.command_line import (
    add_variables,
    anchor,
    is_negative,
    known_default,
    last_uses,
    own_name,
    parse_words,
)

CATALOGUE = load_engine_table("llamacpp").catalogue
LLAMACPP = find_grammar("llamacpp")
SGLANG = find_grammar("sglang")
VLLM = find_grammar("vllm")


def short(words: list[str], grammar: object = LLAMACPP) -> list[tuple[object, ...]]:
    """The flags in short: name, and values or whether it is on."""
    catalogue = CATALOGUE if grammar is LLAMACPP else None
    found = parse_words(words, grammar, catalogue)  # type: ignore[arg-type]
    flags = [(each.name, *(each.values or (not each.is_off,))) for each in found.flags]
    return [*flags, *(("loose", word) for word in found.loose)]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["-c", "1"], [("--ctx-size", "1")]),
        (["--ctx_size", "1"], [("--ctx-size", "1")]),
        (["-ngl", "-1", "--jinja"], [("--gpu-layers", "-1"), ("--jinja", True)]),
        (["-a", "--port", "--slots"], [("--alias", "--port"), ("--slots", True)]),
        (["-a", ""], [("--alias", "")]),
        (["--no-slots", "-nkvo"], [("--slots", False), ("--kv-offload", False)]),
        (["--control-vector-layer-range", "1", "2"], [("--control-vector-layer-range", "1", "2")]),
        (["--port=1", "--x=", "-a=b"], [("--port", "1"), ("--x", ""), ("-a=b", True)]),
        (["--new", "-1", "--port", "2"], [("--new", "-1"), ("--port", "2")]),
        (["--new", "--port", "2"], [("--new", True), ("--port", "2")]),
        (["--new", "a", "b"], [("--new", "a"), ("loose", "b")]),
        (["--port"], [("--port", True)]),
        (["-", "-.5", ""], [("loose", "-"), ("loose", "-.5"), ("loose", "")]),
        ([], []),
    ],
)
def test_one_word_for_each_value(words: list[str], flags: list[tuple[object, ...]]) -> None:
    assert short(words) == flags


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--a=b=c", "--d", "e"], [("--a", "b=c"), ("--d", "e")]),
        (["--a_b", "-1", "-2"], [("--a-b", "-1", "-2")]),
        (["--a", "--b="], [("--a", True), ("--b", "")]),
        (["x", "--a"], [("--a", True), ("loose", "x")]),
    ],
)
def test_as_argparse_reads_them(words: list[str], flags: list[tuple[object, ...]]) -> None:
    assert short(words, SGLANG) == flags


def test_a_word_that_stands_for_a_flag() -> None:
    assert short(["m", "--a", "b", "c"], VLLM) == [("--model", "m"), ("--a", "b", "c")]
    assert short(["m", "n"], VLLM) == [("--model", "m"), ("loose", "n")]


@given(st.lists(st.text(max_size=6) | st.sampled_from(["-c", "--port", "--jinja", "-1"])))
def test_no_word_is_lost(words: list[str]) -> None:
    for grammar, catalogue in ((LLAMACPP, CATALOGUE), (SGLANG, None), (VLLM, None)):
        found = parse_words(words, grammar, catalogue)
        count = sum(len(flag.values) + 1 for flag in found.flags) + len(found.loose)
        joined = sum("=" in word for word in words)
        stands = bool(grammar.positional)
        assert len(words) <= count <= len(words) + joined + stands


def test_the_last_use_counts_unless_all_do() -> None:
    words = ["-c", "1", "-r", "a", "--ctx-size", "2", "-r", "b"]
    counting, overridden = last_uses(parse_words(words, LLAMACPP, CATALOGUE).flags, LLAMACPP)
    assert [flag.values for flag in counting] == [("a",), ("2",), ("b",)]
    assert [flag.spelled for flag in overridden] == ["-c"]


def test_variables_stand_for_flags() -> None:
    flags = parse_words(["-c", "1", "--api-key", "k"], LLAMACPP, CATALOGUE).flags
    env = {
        "LLAMA_ARG_CTX_SIZE": "2",
        "LLAMA_API_KEY": "v",
        "LLAMA_ARG_SLOTS": "x",
        "LLAMA_ARG_ENDPOINT_SLOTS": "0",
        "LLAMA_ARG_ENDPOINT_METRICS": "on",
    }
    found = add_variables(flags, env, LLAMACPP, CATALOGUE)
    assert {(each.name, each.values, each.is_off) for each in found} == {
        ("--api-key", ("v",), False),
        ("--metrics", (), False),
        ("--slots", (), True),
        ("--ctx-size", ("1",), False),
        ("--api-key", ("k",), False),
    }


@pytest.mark.parametrize(
    ("default", "argument", "choices", "known"),
    [
        ("8192, -1 - no limit, 0 - disable", "N", (), "8192"),
        ("-1; -1 = disabled", "N", (), "-1"),
        ("0 = model training context size", "N", (), "0"),
        ("-1.00", "N", (), "-1.00"),
        ("f16", "TYPE", ("f16",), "f16"),
        ("none", "TYPE", ("none", "x"), "none"),
        ("none", "KEY", (), None),
        ("unused", "URL", (), None),
        ("same as --threads", "N", (), None),
        ("--poll-draft", "N", (), None),
        ("GET, POST", "METHODS", (), None),
        ('""', "M", (), ""),
        ("", "PATH", (), ""),
        ("*", "ORIGINS", (), "*"),
        ("127.0.0.1", "HOST", (), "127.0.0.1"),
        (None, "N", (), None),
        ("enabled, requires cache-ram", None, (), "on"),
        ("false", None, (), "off"),
        ("enabled if number of slots is auto", None, (), None),
        (None, None, (), None),
    ],
)
def test_defaults(
    default: str | None, argument: str | None, choices: tuple[str, ...], known: str | None
) -> None:
    option = Option(names=("--x",), argument=argument, default=default, choices=choices)
    assert known_default(option) == known


def test_which_spellings_switch_off() -> None:
    off = {
        name for option in CATALOGUE.options for name in option.names if is_negative(option, name)
    }
    assert {"--no-jinja", "-nkvo", "-nr", "-no-kvu", "--no-mmproj"} <= off
    assert not {"--no-host", "--jinja", "-kvo", "--numa", "-n", "--n-predict", "-h"} & off
    assert all(name.startswith(("--no-", "-n")) for name in off)


def test_every_option_of_the_grammar_is_one() -> None:
    names = {own_name(option) for option in CATALOGUE.options}
    named = (*LLAMACPP.repeatable, *LLAMACPP.two, *LLAMACPP.paths, *LLAMACPP.path_lists)
    assert {*named, *LLAMACPP.scaled_paths, *LLAMACPP.keys} <= names


@pytest.mark.parametrize(
    ("path", "seen"),
    [("a/../b", "/x/b"), ("/a//b/.", "/a/b"), ("", ""), (".", "/x"), ("../../..", "/")],
)
def test_paths_are_seen_from_the_root(path: str, seen: str) -> None:
    assert anchor(path, "/x") == seen


SGLANG_FLAGS = load_catalogue("sglang", "0.5.23")
VLLM_FLAGS = load_catalogue("vllm", "0.32.0")


def with_catalogue(words: list[str], grammar: Grammar, flags: FlagCatalogue) -> list[object]:
    found = parse_words(words, grammar, flags)
    read = [(each.name, *(each.values or (not each.is_off,))) for each in found.flags]
    return [*read, *(("loose", word) for word in found.loose)]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        # How many words belong to a flag stands in the catalogue.
        (["--tp-size", "2", "x"], [("--tp-size", "2"), ("loose", "x")]),
        (
            ["--prefill-delayer-wait-seconds-buckets", "1", "-2", "--enable-metrics"],
            [("--prefill-delayer-wait-seconds-buckets", "1", "-2"), ("--enable-metrics", True)],
        ),
        (["--lora-paths", "a=b", "c=d"], [("--lora-paths", "a=b", "c=d")]),
        (["--enable-metrics", "x"], [("--enable-metrics", True), ("loose", "x")]),
        # argparse takes a beginning for the whole where only one flag begins so.
        (["--context-len", "1"], [("--context-length", "1")]),
        (["--tp", "2"], [("--tp-size", "2")]),
        (["--tp=2"], [("--tp-size", "2")]),
        (["--enable", "x"], [("--enable", "x")]),
    ],
)
def test_by_the_catalogue_of_argparse(words: list[str], flags: list[object]) -> None:
    assert with_catalogue(words, SGLANG, SGLANG_FLAGS) == flags


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["m", "-tp", "2"], [("--model", "m"), ("--tensor-parallel-size", "2")]),
        (["-tp=2"], [("--tensor-parallel-size", "2")]),
        (["-tp2"], [("--tensor-parallel-size", "2")]),
        (["--no-enable-lora"], [("--enable-lora", False)]),
        (["-ep"], [("--enable-expert-parallel", True)]),
        (["--compilation-config.mode", "3"], [("--compilation-config.mode", "3")]),
        (["--hf-overrides.a.b=c"], [("--hf-overrides.a.b", "c")]),
        (["--api-key", "a", "b"], [("--api-key", "a", "b")]),
    ],
)
def test_by_the_catalogue_of_vllm(words: list[str], flags: list[object]) -> None:
    assert with_catalogue(words, VLLM, VLLM_FLAGS) == flags


def test_the_catalogue_says_which_uses_add_up() -> None:
    grammar = Grammar(source=VLLM.source)
    read = parse_words(["--middleware", "a", "--middleware", "b"], grammar, VLLM_FLAGS)
    counting, overridden = last_uses(read.flags, grammar, VLLM_FLAGS)
    assert [flag.values for flag in counting] == [("a",), ("b",)]
    assert overridden == ()


def test_opposites_of_switches() -> None:
    option = load_catalogue("vllm", "0.33.0").find("enable-lora")
    assert option is not None
    off = {name: is_negative(option, name) for name in option.names}
    assert off == {"--enable-lora": False, "--no-enable-lora": True, "--disable-lora": True}
    disabling = load_catalogue("vllm", "0.33.0").find("disable-custom-all-reduce")
    assert disabling is not None
    assert is_negative(disabling, "--enable-custom-all-reduce")
    assert not is_negative(disabling, "--disable-custom-all-reduce")
