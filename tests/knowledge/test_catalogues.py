"""The catalogues that are made from published packages: whole, consistent, and as parsers say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.read_flags.render import (
    find_lifetimes,
    find_renames,
    render_lifetimes,
    render_renames,
)
from stoker.knowledge.datafiles import list_data, read_json, read_text
from stoker.knowledge.engines import load_catalogue, load_variables
from stoker.knowledge.lifetimes import lifetime_kinds, load_lifetimes
from stoker.model.engine_table import FlagCatalogue, Option

RELEASES = [(kind, build) for kind in lifetime_kinds() for build in load_lifetimes(kind).releases]
#: What the real parser of these releases had, counted where it ran.
COUNTS = {("sglang", "0.5.9"): 331, ("sglang", "0.5.16"): 460, ("sglang", "0.5.23"): 531}
#: Flags of the command that works through a file of requests; `vllm serve` has none of them.
BATCH_ONLY = {"--input-file", "-i", "--output-file", "-o", "--output-tmp-dir", "--url"}
BATCH_ONLY |= {"--enable-metrics"}

#: What llama-server still names in its help and refuses, and a name that was cut at its dot.
REFUSED = {"--draft", "--draft-n", "--draft-max", "--draft-min", "--draft-n-min", "--fim-qwen-1"}
REFUSED |= {"--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits"}
LEFT_OUT: dict[str, set[str]] = {"llamacpp": REFUSED, "sglang": set(), "vllm": BATCH_ONLY}


def names_of(catalogue: FlagCatalogue) -> list[str]:
    return [name for option in catalogue.options for name in option.names]


def test_every_release_is_there() -> None:
    assert lifetime_kinds() == ("sglang", "vllm")
    for kind in lifetime_kinds():
        assert sorted(load_lifetimes(kind).releases) == list(list_data(f"flags/{kind}", ".json"))
    sglang, vllm = (load_lifetimes(kind).releases for kind in lifetime_kinds())
    assert (sglang[0], sglang[-1], len(sglang)) == ("0.5.6", "0.5.23", 25)
    assert (vllm[0], vllm[-1], len(vllm)) == ("0.11.0", "0.33.0", 35)


@pytest.mark.parametrize(("kind", "build"), RELEASES)
def test_a_catalogue_is_whole(kind: str, build: str) -> None:
    catalogue = load_catalogue(kind, build)
    names = names_of(catalogue)
    assert len(names) == len(set(names))
    assert all(name.startswith("-") for name in names)
    assert len(catalogue.options) > 180
    assert len(catalogue.options) == COUNTS.get((kind, build), len(catalogue.options))
    assert {"--port", "--host", "--api-key", "--served-model-name"} <= set(names)
    assert catalogue.source.version == build
    assert f"{kind}-{build}" in catalogue.source.where


@pytest.mark.parametrize(("kind", "build"), RELEASES)
def test_every_option_makes_sense(kind: str, build: str) -> None:
    catalogue = load_catalogue(kind, build)
    assert [option.names for option in catalogue.options if list(problems_of(option))] == []


def problems_of(option: Option) -> Iterator[str]:
    """What contradicts itself in a row."""
    if not option.type or option.kind not in ("", "number", "choice"):
        yield "no type, or an unknown kind"
    if set(option.unknown) - {"default", "choices"} or not all(option.unknown.values()):
        yield "an unknown without a reason"
    if ("default" in option.unknown and option.default is not None) or (
        "choices" in option.unknown and option.choices
    ):
        yield "a value for what is unknown"
    if option.argument is None and (option.nargs or option.choices or option.type != "bool"):
        yield "a bare flag with values"
    if option.kind == "choice" and not option.choices:
        yield "a choice of nothing"
    taken = (*option.choices, *option.also)
    is_old = option.deprecated_by is not None
    if option.kind == "choice" and option.default not in (*taken, None) and not is_old:
        yield "a default that is no choice"
    if option.deprecated_by in option.names:
        yield "deprecated in favour of itself"


@pytest.mark.parametrize(("kind", "build"), RELEASES)
def test_variables_are_whole(kind: str, build: str) -> None:
    variables = load_variables(kind, build)
    assert len(variables) > 100
    assert all(name == name.upper() for name in variables)
    typed = [variable for variable in variables.values() if variable.type]
    assert len(typed) > 0.9 * len(variables)
    known = [variable for variable in variables.values() if not variable.unknown]
    assert len(known) > 0.9 * len(variables)
    assert all(variable.default is None for variable in variables.values() if variable.unknown)


def test_an_engine_without_variables() -> None:
    assert load_variables("llamacpp", "b11549") == {}


@pytest.mark.parametrize("kind", lifetime_kinds())
def test_the_index_follows_from_the_catalogues(kind: str) -> None:
    releases = load_lifetimes(kind).releases
    catalogues: list[dict[str, Any]] = [
        read_json(f"flags/{kind}/{release}.json") for release in releases
    ]
    spans = render_lifetimes(kind, releases, find_lifetimes(catalogues))
    assert read_text(f"lifetimes/{kind}.json") == spans
    renames = render_renames(kind, find_renames(catalogues))
    assert read_text(f"flags/{kind}/renames.toml") == renames


def given_catalogues() -> list[Path]:
    """Catalogues that were read from real parsers where they ran; none without a corpus."""
    corpus = os.environ.get("STOKER_CORPUS")
    folder = Path(corpus).parent / "data" / "engine-flags" if corpus else None
    return sorted(folder.glob("*.json")) if folder else []


GIVEN = given_catalogues()


@pytest.mark.skipif(not GIVEN, reason="STOKER_CORPUS names no corpus with catalogues beside it")
@pytest.mark.parametrize("path", GIVEN, ids=lambda path: path.stem)
def test_a_real_parser_has_the_same_flags(path: Path) -> None:
    given = json.loads(path.read_text(encoding="utf-8"))
    kind = given["engine"].partition(" ")[0].replace(".", "")
    catalogue = load_catalogue(kind, given["version"].partition(" ")[0])
    names = set(names_of(catalogue))
    real = {name for flag in given["flags"] for name in flag["flags"]}
    assert real - names == LEFT_OUT[kind]
    if kind == "sglang":
        assert names == real


@pytest.mark.skipif(not GIVEN, reason="STOKER_CORPUS names no corpus with catalogues beside it")
@pytest.mark.parametrize(
    "path", [path for path in GIVEN if "llama" not in path.stem], ids=lambda path: path.stem
)
def test_a_real_parser_takes_the_same_values(path: Path) -> None:
    given = json.loads(path.read_text(encoding="utf-8"))
    options = load_catalogue(given["engine"], given["version"]).options
    by_name = {name: option for option in options for name in option.names}
    told = {
        flag["flags"][0]: list(differences(by_name[flag["flags"][0]], flag))
        for flag in given["flags"]
        if flag["flags"][0] in by_name
    }
    assert {name: words for name, words in told.items() if words} == {}


def differences(option: Option, real: dict[str, Any]) -> Iterator[str]:
    """What the catalogue says otherwise than the parser; what it does not know is no difference."""
    if set(option.names) != set(real["flags"]):
        yield "names"
    if (option.argument is None) != (real["nargs"] == 0):
        yield "bare"
    if option.nargs != str(real["nargs"] or ""):
        yield "nargs"
    if "default" not in option.unknown and option.default != spell(real["default"]):
        yield f"default: {option.default} is {spell(real['default'])}"
    enforced = sorted(str(choice) for choice in real["choices"] or ())
    if "choices" not in option.unknown and enforced and sorted(option.choices) != enforced:
        yield f"choices: {option.choices} are {enforced}"
    if option.kind == "choice" and not enforced:
        yield "choices that the parser does not hold to"


def spell(default: Any) -> str | None:
    """A parser's default as a catalogue writes it."""
    if default is None or default == "==SUPPRESS==":
        return None
    if isinstance(default, bool):
        return str(default).lower()
    if default == "set()":
        return "[]"
    if isinstance(default, str) and default.startswith("<") and "." in default:
        return default.rpartition(": ")[2].strip("'>")
    if isinstance(default, (list, dict)):
        return json.dumps(default, separators=(",", ":"), sort_keys=True)
    return str(default)
