"""The flag catalogue against the parser that it was read from."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.knowledge.datafiles import read_text
from stoker.knowledge.derived.values import fits
from stoker.knowledge.engines import load_engine_table
from tests.conftest import PROJECT

TABLE = load_engine_table("llamacpp")
SCRIPT = PROJECT / "scripts" / "read_llama_flags.py"

#: Flags that print something and end the process; they are tried by themselves.
ENDING = ("--version", "--cache-list", "--completion-bash", "--list-devices")

#: Runs in the environment: hands each flag to the real parser, followed by a flag that does not
#: exist. The parser names the first one that it does not know. All other output is put aside.
TRIAL = """
import json, os, runpy, sys, tempfile
launcher = runpy.run_path(sys.argv[1], run_name="trial")
package = launcher["load_package"]()
answers = {}
for words in json.load(sys.stdin):
    with tempfile.TemporaryFile() as told:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(told.fileno(), 2)
        launcher["parse_flags"](package, [*words, "--there-is-no-such-flag"])
        os.dup2(saved, 2)
        os.close(saved)
        told.seek(0)
        answers[" ".join(words)] = told.read().decode("utf-8", "replace")
json.dump(answers, open(sys.argv[2], "w"))
"""

HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-ot,   --override-tensor <tensor name pattern>=<buffer type>,...
                                        override tensor buffer type
                                        (env: LLAMA_ARG_OVERRIDE_TENSOR)
--spec-draft-type-k, -ctkd, --cache-type-k-draft TYPE
                                        KV cache data type for K for the draft model
                                        (default: f16)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto')
--rope-scaling {none,linear,yarn}       RoPE frequency scaling method, defaults to linear
-lm,   --load-mode MODE                 model loading mode (default: auto)
                                        - none: no special loading mode
                                        - mmap+mlock: mmap + force system to keep model in
                                        RAM rather than swapping or compressing
-ngl,  --gpu-layers N                   max. number of layers to store in VRAM, either
                                        an exact number, 'auto', or 'all' (default: auto)
-dt,   --defrag-thold N                 KV cache defragmentation threshold (DEPRECATED)
--spec-type none,draft-simple,ngram-mod
                                        comma-separated list of types
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32, f16, q8_0
                                        (default: f16)
--fim-qwen-1.5b-default                 use default Qwen 2.5 Coder 1.5B (note: can download weights)
--xtc-probability N                     probability (default: 0.00, 0.0 = disabled (by itself))
----- speculative params -----

--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or
                                        another
"""


def try_flags(trials: list[list[str]], environment: Path, folder: Path) -> dict[str, str]:
    """What the real parser prints for each flag with its value, by all words of the trial."""
    answers = folder / "answers.json"
    subprocess.run(
        [environment / "bin" / "python", "-c", TRIAL, environment / "bin/llama-server", answers],
        input=json.dumps(trials),
        text=True,
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd=folder,
    )
    told: dict[str, str] = json.loads(answers.read_text())
    assert len(told) == len(trials)
    return told


@pytest.mark.engine
def test_the_parser_knows_every_name(environment: Path, tmp_path: Path) -> None:
    trials = [
        [name] if option.argument is None else [name, "1"]
        for option in TABLE.catalogue.options
        for name in option.names
        if not set(option.names) & set(ENDING)
    ]
    found = try_flags(trials, environment, tmp_path)
    told = {words.split()[0]: text for words, text in found.items()}
    refused = {name for name, text in told.items() if f"invalid argument: {name}\n" in text}
    assert refused == set()
    # A bare flag that took a value, or one with a value that took none, shows here.
    odd = {name for name, text in told.items() if re.search(r"invalid argument: 1\b", text)}
    assert odd == set()
    swallowed = {name for name, text in told.items() if "expected value" in text}
    assert swallowed <= {"--control-vector-layer-range"}  # the one flag that takes two


def took(text: str) -> bool:
    """Whether the parser came as far as the flag that there is not."""
    return "--there-is-no-such-flag" in text


#: Values that somebody may write, some of them right for some flags. None begins with a number
#: and goes on otherwise: the parser takes 8 for ``8k``, and we do not.
TRIED = ("x-y", "5", "-1", "1.5", "auto", "all", "max", "on", "true", "none", "f16", "a=b")


@pytest.mark.engine
def test_values_that_are_refused_are_none_that_the_parser_takes(
    environment: Path, tmp_path: Path
) -> None:
    options = [option for option in TABLE.catalogue.options if option.kind]
    assert len(options) > 100
    trials = [
        [option.names[-1], value]
        for option in options
        for value in dict.fromkeys((*TRIED, *option.choices, *option.also))
    ]
    told = try_flags(trials, environment, tmp_path)
    by_name = {option.names[-1]: option for option in options}
    taken = [words for words in trials if took(told[" ".join(words)])]
    assert [words for words in taken if not fits(words[1], by_name[words[0]])] == []
    refused = [words for words in trials if words not in taken]
    # What fits is taken, but for numbers outside of bounds that the help does not tell.
    wrong = {value for name, value in refused if fits(value, by_name[name])}
    assert wrong <= {"5", "-1", "1.5"}
    # Each of these options refuses something, or it would be wrong to judge its values.
    assert {name for name, _ in refused} == by_name.keys()


@pytest.mark.engine
def test_the_parser_does_not_know_other_names(environment: Path) -> None:
    ran = subprocess.run(
        [environment / "bin" / "llama-server", "--ctx-sise", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        env={},
        check=False,
    )
    assert "invalid argument: --ctx-sise" in ran.stderr


@pytest.mark.engine
def test_the_script_reads_the_same_catalogue_again(environment: Path) -> None:
    catalogue = TABLE.catalogue
    package = catalogue.source.where.removeprefix("llama-server --help of ")
    made = subprocess.run(
        [
            *(sys.executable, SCRIPT, environment / "bin" / "llama-server"),
            *("--build", catalogue.build, "--package", package, "--date", catalogue.source.date),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert made.stdout == read_text(f"flags/{TABLE.kind}/{catalogue.build}.json")


def test_the_script_understands_the_help() -> None:
    program = f"import sys, json, runpy; module = runpy.run_path({str(SCRIPT)!r}); "
    program += "json.dump(module['parse_help'](sys.stdin.read()), sys.stdout)"
    ran = subprocess.run(
        [sys.executable, "-c", program], input=HELP, capture_output=True, text=True, check=True
    )
    rows = {tuple(row["names"]): row for row in json.loads(ran.stdout)}
    assert list(rows) == [
        ("-h", "--help", "--usage"),
        ("-t", "--threads"),
        ("-ot", "--override-tensor"),
        ("--spec-draft-type-k", "-ctkd", "--cache-type-k-draft"),
        ("-fa", "--flash-attn"),
        ("--rope-scaling",),
        ("-lm", "--load-mode"),
        ("-ngl", "--gpu-layers"),
        ("-dt", "--defrag-thold"),
        ("--spec-type",),
        ("-ctk", "--cache-type-k"),
        ("--fim-qwen-1.5b-default",),
        ("--xtc-probability",),
    ]
    assert rows[("-t", "--threads")] == {
        "names": ["-t", "--threads"],
        "argument": "N",
        "env": "LLAMA_ARG_THREADS",
        "default": "-1",
        "kind": "number",
    }
    assert rows[("-h", "--help", "--usage")]["argument"] is None
    assert rows[("-ot", "--override-tensor")]["argument"].startswith("<tensor name pattern>")
    assert rows[("--spec-draft-type-k", "-ctkd", "--cache-type-k-draft")]["argument"] == "TYPE"
    assert rows[("--xtc-probability",)]["default"] == "0.00, 0.0 = disabled (by itself)"

    values = {names[-1]: (row.get("kind"), row.get("choices")) for names, row in rows.items()}
    assert values["--flash-attn"] == ("choice", ["on", "off", "auto"])
    assert "enabled" in rows[("-fa", "--flash-attn")]["also"]
    assert values["--rope-scaling"] == ("choice", ["none", "linear", "yarn"])
    assert values["--load-mode"] == ("choice", ["none", "mmap+mlock", "auto"])
    assert values["--gpu-layers"] == ("number", ["auto", "all"])
    assert values["--spec-type"] == ("list", ["none", "draft-simple", "ngram-mod"])
    assert values["--cache-type-k"] == ("choice", ["f32", "f16", "q8_0"])
    anything = [name for name, (kind, _) in values.items() if kind is None]
    assert anything == [
        "--usage",
        "--override-tensor",
        "--cache-type-k-draft",
        "--defrag-thold",
        "--fim-qwen-1.5b-default",
    ]


def test_every_flag_of_the_table_is_in_the_catalogue() -> None:
    flags = [row.flag for row in TABLE.settings.values() if row.kind == "flag"]
    flags += [row.flag for row in TABLE.reserved]
    assert [flag for flag in flags if TABLE.catalogue.find(flag) is None] == []


def test_bare_flags_of_the_table_are_bare_in_the_catalogue() -> None:
    for row in TABLE.settings.values():
        option = TABLE.catalogue.find(row.flag)
        if option is not None:
            assert (option.argument is not None) is row.argument
