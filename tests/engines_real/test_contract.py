"""Each engine keeps the quick level as it should be set up, and breaks it where it is not.

The deployment is what the other tests of this folder start; a parser that does not fit the model,
or a template that has no place for tools, is the only difference.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker.model.facts import Plain
from tests.engines.environment import ensure_model
from tests.engines_real.conftest import PLAIN, Case
from tests.system.runner import Stoker, edit, free_port

#: A start that compiles nothing takes 25 s on an idle machine; these share two busy cores.
_PATIENCE_SECONDS = 480.0

Deploy = Callable[[Mapping[str, Plain]], Stoker]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A setup that starts and cannot be used: what it changes, and how that must be found."""

    without: tuple[str, ...] = ()
    settings: Mapping[str, Plain] = field(default_factory=dict)
    changes: Mapping[str, Plain] = field(default_factory=dict)
    symptom: str = "tool_markers_in_content"


_WRONG = {
    "sglang": Wrong(settings={"tool-call-parser": "mistral"}),
    "vllm": Wrong(settings={"tool-call-parser": "pythonic"}),
    # llama.cpp reads calls by its template; the model's own has no place for tools.
    "llamacpp": Wrong(
        without=("chat-template-file",),
        changes={"contract.promises": ["tools"]},
        symptom="tools_not_in_prompt",
    ),
}


@pytest.fixture
def deploy(
    case: Case, engines: Path, own_folders: None, key: Path, tmp_path: Path
) -> Iterator[Deploy]:
    """A function that applies the engine's deployment with changes; all is ended after the test."""
    with ExitStack() as stack:

        def apply(changes: Mapping[str, Plain]) -> Stoker:
            stoker = Stoker(tmp_path / "state", Path(os.environ["STOKER_DATA"]), place=tmp_path)
            stoker.patience_seconds = _PATIENCE_SECONDS
            stack.callback(stoker.close)
            file = tmp_path / "real.yaml"
            file.write_text(PLAIN)
            edit(str(file), {**_settings_of(case, engines, key), **changes})
            stoker.succeed("apply", str(file))
            return stoker

        yield apply


def _settings_of(case: Case, engines: Path, key: Path) -> Mapping[str, Plain]:
    package = engines / case.package
    model = engines / "models" / "smollm2-hf" if case.package else ensure_model()
    return {
        "model": f"path:{model}",
        "engine.kind": case.kind,
        "engine.environment": f"path:{package}" if case.package else "embedded",
        "engine.settings": dict(case.settings),
        "engine.env": dict(case.env),
        "serve.port": free_port(),
        "serve.api_key_file": str(key),
        "service.user": pwd.getpwuid(os.geteuid()).pw_name,
    }


def test_the_right_setup_keeps_its_promises(deploy: Deploy) -> None:
    """What its settings promise is tried, and none of it is broken."""
    results = _results(deploy({}).succeed("verify", "--json").document)
    broken = {name: each for name, each in results.items() if each["verdict"] == "failed"}
    assert broken == {}
    for check in ("chat_answer", "key_required", "published_name", "tools_called", "usage_adds_up"):
        assert results[check]["verdict"] == "passed", results[check]


def test_a_wrong_setup_is_found_and_named(case: Case, deploy: Deploy) -> None:
    """It answers, so a start that asks no more of it counts; the trial finds it unfit for tools.

    Asked as agents ask, with the choice left to the model: a call that must be made some engines
    force by a grammar of their own, without the parser.
    """
    wrong = _WRONG[case.kind]
    kept = {name: value for name, value in case.settings.items() if name not in wrong.without}
    settings = {**kept, **wrong.settings}
    stoker = deploy(
        {"engine.settings": settings, "contract.require": ["chat_answer"], **wrong.changes}
    )
    verified = stoker.run("verify", "--only", "tools_auto", "--json")
    assert verified.exit_code == 5, verified
    found = _results(verified.document)["tools_auto"]
    assert (found["verdict"], found["symptom"]) == ("failed", wrong.symptom), found
    assert found["remedies"], found


def _results(document: Any) -> dict[str, Any]:
    return {result["check"]: result for result in document["results"]}
