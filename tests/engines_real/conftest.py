"""Where the real engines lie, and which deployment each of them gets.

Built by scripts/build_engines.py, which `make test-engines` calls; without STOKER_ENGINES, which
it sets, all of these tests are skipped: each starts an engine for half a minute and longer.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker.model.facts import Plain
from tests.conftest import PROJECT
from tests.engines.environment import ensure_model
from tests.system.runner import Stoker, edit, free_port

_HERE = Path(__file__).parent
#: A start that compiles nothing takes 25 s on an idle machine; these share two busy cores.
_PATIENCE_SECONDS = 480.0
_TEMPLATE = _HERE / "tools.jinja"

PLAIN = """\
name: real
model: path:/somewhere
engine:
  kind: llamacpp
  environment: embedded
gpus: none
serve:
  host: 127.0.0.1
  port: 30000
  published_name: real-model
  context_tokens: 2048
  parallel_requests: 4
service:
  supervisor: supervisord
  on_boot: false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One engine: its settings, and what it must say that it resolved.

    ``resolved`` are values by our names that follow from the deployment.
    """

    kind: str
    package: str = ""
    settings: Mapping[str, Plain] = field(default_factory=dict)
    env: Mapping[str, Plain] = field(default_factory=dict)
    resolved: Mapping[str, Plain] = field(default_factory=dict)


CASES = (
    Case(
        kind="sglang",
        package="sglang-0.5.23",
        settings={
            "attention-backend": "torch_native",
            "max-total-tokens": 16384,
            "tool-call-parser": "hermes",
            "chat-template": str(_TEMPLATE),
        },
        env={
            "SGLANG_USE_CPU_ENGINE": "1",
            "SGLANG_CPU_OMP_THREADS_BIND": "0",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        },
        resolved={
            "kv_tokens": 16384,
            "context_tokens": 2048,
            "max_running_requests": 4,
            "attention_backend": "torch_native",
            "tool_call_parser": "hermes",
            "tensor_size": 1,
            "engine_version": "0.5.23",
        },
    ),
    Case(
        kind="vllm",
        package="vllm-0.32.0",
        settings={
            "enforce-eager": True,
            "enable-auto-tool-choice": True,
            "tool-call-parser": "hermes",
            "chat-template": str(_TEMPLATE),
        },
        env={
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        },
        resolved={
            "kv_bytes": 1 << 30,
            "context_tokens": 2048,
            "max_running_requests": 4,
            "enforces_eager": True,
            "tool_call_parser": "hermes",
            "tensor_size": 1,
            "engine_version": "0.32.0",
        },
    ),
    Case(
        kind="llamacpp",
        settings={"threads": 1, "verbosity": 4, "chat-template-file": str(_TEMPLATE)},
        resolved={
            "kv_tokens": 8192,
            "context_tokens": 2048,
            "max_running_requests": 4,
            "threads": 1,
        },
    ),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these run a real engine, and none of them in a hurry."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(2 * _PATIENCE_SECONDS))


@pytest.fixture(scope="session")
def engines() -> Path:
    """The folder that scripts/build_engines.py fills."""
    folder = os.environ.get("STOKER_ENGINES", "")
    if not folder:
        pytest.skip("real engines are run by `make test-engines`")
    return PROJECT / folder


@pytest.fixture(scope="session", params=CASES, ids=lambda case: case.kind)
def case(request: pytest.FixtureRequest, engines: Path) -> Case:
    """Each engine in turn."""
    found: Case = request.param
    if found.package and not (engines / found.package / ".built").is_file():
        pytest.skip(f"{found.package} is not built; `make test-engines` builds it")
    return found


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the key of all servers."""
    path = tmp_path_factory.mktemp("key") / "key"
    path.write_text("k3y-0f-the-0wner\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="session")
def running(
    case: Case,
    engines: Path,
    own_folders: None,
    key: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stoker]:
    """A Stoker that has applied the deployment of one engine; it is named ``real``."""
    place = tmp_path_factory.mktemp(case.kind)
    stoker = Stoker(place / "state", Path(os.environ["STOKER_DATA"]), place=place)
    stoker.patience_seconds = _PATIENCE_SECONDS
    file = place / "real.yaml"
    file.write_text(PLAIN)
    is_gguf = case.kind == "llamacpp"
    model = ensure_model() if is_gguf else engines / "models" / "smollm2-hf"
    edit(
        str(file),
        {
            "model": f"path:{model}",
            "engine.kind": case.kind,
            "engine.environment": f"path:{engines / case.package}" if case.package else "embedded",
            "engine.settings": dict(case.settings),
            "engine.env": dict(case.env),
            "serve.port": free_port(),
            "serve.api_key_file": str(key),
            "service.user": pwd.getpwuid(os.geteuid()).pw_name,
        },
    )
    try:
        yield stoker
    finally:
        stoker.close()
