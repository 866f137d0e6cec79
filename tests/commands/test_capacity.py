"""`stoker capacity` on a machine in memory: a file, logs, and one option into the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.commands import capacity as capacity_command
from stoker.commands.capacity import (
    FoundCapacity,
    Question,
    apply_option,
    find_capacity,
)
from stoker.commands.capacity_changes import fit_changes, fit_options
from stoker.commands.capacity_inputs import describe_deployment
from stoker.commands.capacity_told import hear
from stoker.commands.resolve import Resolved
from stoker.commands.resolve import resolve as resolve_genuinely
from stoker.commands.upgrade_check import resolve_file
from stoker.commands.world import World
from stoker.engines.resolved import read_resolved
from stoker.errors import UsageError
from stoker.hosts.local import LocalHost
from stoker.knowledge.engines import load_engine_table
from stoker.model.capacity import Capacity, Option
from stoker.model.document import render_document
from stoker.model.facts import Facts, Observation, Plain
from stoker.model.resolved import Resolved as Told
from stoker.model.resolved import ResolvedValue
from stoker.report.capacity_svg import render_svg
from stoker.report.capacity_text import render_capacity
from tests.capacity.configs import GIB, KIMI, LLAMA_8B
from tests.capacity.test_llamacpp import SMALL
from tests.commands.boxes import ENGINE
from tests.commands.test_upgrade_check import machine

LOGS = Path(__file__).parent.parent / "recorded" / "engine_logs"
TEXT = """\
name: kimi
model: path:/m
engine:
  kind: sglang
  environment: path:/opt/v
  settings:
    tp: 8
    mem-fraction-static: 0.88   # as measured
    context-length: 262144
gpus: all
service: {supervisor: supervisord}
"""
PRO = {"name": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "memory_total_bytes": 97887 << 20}
H200 = {"name": "NVIDIA H200", "memory_total_bytes": 143771 << 20}


def world_of(config: Plain = None) -> World:
    made = machine("0.5.9")
    made.host.put("/m/config.json", json.dumps(config or KIMI))
    world = made.world()
    return replace(world, supervisors={"supervisord": world.supervisor})


def gpus(*rows: dict[str, Plain], used_bytes: int = 600 << 20) -> Observation:
    listed = [
        {"index": n, "compute_capability": "12.0", "memory_used_bytes": used_bytes, **row}
        for n, row in enumerate(rows)
    ]
    return seen("gpus", {"gpus": listed, "cuda_version": "13.0", "driver_version": "580"})


def seen(probe: str, value: Plain) -> Observation:
    return Observation(probe=probe, source="a test", value=value)


def observed(resolved: Resolved, *observations: Observation) -> Resolved:
    """The same on another machine."""
    told = {each.probe: each for each in observations}
    facts = Facts(
        host="x", stoker_version="1", observations={**resolved.facts.observations, **told}
    )
    return replace(resolved, facts=facts)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kimi.yaml"
    path.write_text(TEXT)
    return str(path)


def find(
    monkeypatch: pytest.MonkeyPatch, question: Question, *observations: Observation
) -> FoundCapacity:
    """What the command finds where the machine is as these observations say."""

    def resolve(world: World, source: str, origin: str) -> Resolved:
        return observed(resolve_genuinely(world, source, origin), *observations)

    monkeypatch.setattr(capacity_command, "resolve", resolve)
    return find_capacity(world_of(), question)


MEMORY = seen(
    "memory",
    {
        "total_bytes": 503 * GIB,
        "available_bytes": 396 * GIB,
        "usable_bytes": 396 * GIB,
        "limit_bytes": 503 * GIB,
    },
)


def test_a_file_on_eight_gpus(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    question = Question(file=file, context_tokens=32768, parallel=4)
    shown = find(monkeypatch, question, gpus(*[PRO] * 8), MEMORY).shown
    capacity = shown.capacity
    assert capacity.token_bytes == 70_272
    assert capacity.kv_tokens is not None
    assert len(capacity.maps) == 9
    ids = [option.id for option in capacity.options]
    assert {"kv-8-bit-fp8_e4m3", "host-cache-2", "host-cache-4"} <= set(ids)
    text = render_capacity(shown)
    assert "GPU 0 to 7 (rtx-pro-6000-blackwell), each: 95.59 GiB" in text
    assert "requests of 32,768 tokens at the same time" in text
    assert "longest context with 4 at the same time" in text
    assert "\n1. " in text
    assert '"schema": "capacity/2"' in render_document(capacity)
    assert render_svg(capacity).startswith("<svg")


def test_what_the_deployment_itself_holds_is_given_back(file: str) -> None:
    resolved = resolve_file(world_of(), file)
    held = {**PRO, "processes": [{"pid": 7, "used_bytes": 80 * GIB}]}
    busy = observed(resolved, gpus(*[held] * 8, used_bytes=81 * GIB))
    free, kept = (
        describe_deployment(busy, pids).inputs.gpus[0].free_bytes
        for pids in (frozenset({7}), frozenset[int]())
    )
    assert free is not None
    assert kept is not None
    assert free - kept == 80 * GIB


def test_limits_and_nodes_of_the_host(file: str) -> None:
    resolved = resolve_file(world_of(), file)
    rest = {"fabric": None, "is_persistent": True}
    joined = [{"index": n, "numa_node": n // 4, "is_divided": n == 0, **rest} for n in range(8)]
    tight = {**MEMORY.value, "limit_bytes": 128 * GIB}
    described = describe_deployment(
        observed(
            resolved,
            gpus(*[PRO] * 8),
            seen("memory", tight),
            seen("limits", {"memory_lock_bytes": 8 << 20}),
            seen("topology", {"gpus": joined, "pairs": []}),
        )
    )
    assert described.nodes == (0, 0, 0, 0, 1, 1, 1, 1)
    assert described.inputs.host.limit_bytes == 128 * GIB
    assert described.inputs.host.pinned_limit_bytes == 8 << 20
    assert [gpu.is_slice for gpu in described.inputs.gpus] == [True] + [False] * 7
    assert described.inputs.release == "0.5.9"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "there are no GPUs"),
        ([PRO] * 2, "need 8 GPUs and there are 2"),
        ([PRO] * 7 + [H200], "different sizes"),
    ],
)
def test_machines_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, file: str, rows: list[dict[str, Plain]], told: str
) -> None:
    shown = find(monkeypatch, Question(file=file), gpus(*rows), MEMORY).shown
    assert told in " ".join(shown.capacity.unknown)
    assert told in render_capacity(shown)


def test_a_model_that_nobody_described(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    model = seen("model", {"format": "missing"})
    shown = find(monkeypatch, Question(file=file), gpus(*[PRO] * 8), model).shown
    assert shown.capacity.kv_tokens is None
    assert "not here yet" in render_capacity(shown)
    assert shown.capacity.options == ()


def test_an_option_goes_into_the_file(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    found = find(monkeypatch, Question(file=file), gpus(*[PRO] * 8), MEMORY)
    options = found.shown.capacity.options
    number = next(n for n, each in enumerate(options, 1) if each.id.startswith("memory-share"))
    world = replace(world_of(), host=LocalHost())
    applied = apply_option(world, found, number)
    assert applied.option is options[number - 1]
    (share,) = applied.changes.values()
    assert Path(file).read_text() == TEXT.replace("0.88", str(share))
    # Somebody else has written it by now.
    with pytest.raises(UsageError, match="changed meanwhile"):
        apply_option(world, found, number)


@pytest.mark.parametrize("number", [0, 99])
def test_a_number_that_is_no_option(
    monkeypatch: pytest.MonkeyPatch, file: str, number: int
) -> None:
    found = find(monkeypatch, Question(file=file), gpus(*[PRO] * 8), MEMORY)
    with pytest.raises(UsageError, match="no option"):
        apply_option(world_of(), found, number)
    with pytest.raises(UsageError, match="deployment file"):
        apply_option(world_of(), replace(found, file=None), 1)


def test_a_key_keeps_the_spelling_of_the_file(file: str) -> None:
    resolved = resolve_file(world_of(), file)
    option = Option(
        id="x",
        title="x",
        gain_tokens=None,
        changes={
            "serve.context_tokens": 1024,
            "serve.parallel_requests": 4,
            "engine.settings.tp-size": 4,
        },
        cost="x",
    )
    assert fit_changes(option, resolved) == {
        "engine.settings.context-length": 1024,
        "serve.parallel_requests": 4,
        "engine.settings.tp": 4,
    }


@pytest.mark.parametrize(
    ("serve", "settings", "written"),
    [
        ("context_tokens: 8192, parallel_requests: 4", "", {"serve.context_tokens": 16384}),
        ("context_tokens: 8192", "parallel: 4", {"serve.context_tokens": 65536}),
        ("parallel_requests: 4", "c: 32768", {"engine.settings.c": 65536}),
        ("parallel_requests: 4", "", {"serve.context_tokens": 16384}),
    ],
)
def test_a_context_that_slots_share_is_written_as_the_file_has_it(
    tmp_path: Path, serve: str, settings: str, written: dict[str, Plain]
) -> None:
    """65,536 tokens for four slots: of each in the file's own key, of all in the engine's flag."""
    resolved = resolve_llamacpp(tmp_path, serve, settings)
    option = Option(
        id="x", title="x", gain_tokens=None, changes={"engine.settings.ctx-size": 65536}, cost="x"
    )
    assert fit_changes(option, resolved) == written
    fewer = replace(
        option, changes={"engine.settings.ctx-size": 65536, "serve.parallel_requests": 2}
    )
    fitted = fit_changes(fewer, resolved)
    is_own = "serve.context_tokens" in fitted and "serve.parallel_requests" in fitted
    assert fitted.get("serve.parallel_requests", fitted.get("engine.settings.parallel")) == 2
    assert not is_own or fitted["serve.context_tokens"] == 32768


def test_an_option_that_the_file_says_no_to_is_not_offered(tmp_path: Path) -> None:
    option = Option(
        id="x", title="x", gain_tokens=None, changes={"engine.settings.kv-unified": True}, cost="x"
    )
    capacity = Capacity(
        name="x",
        engine="llamacpp",
        release="",
        kv_tokens=None,
        token_bytes=None,
        context_tokens=None,
        options=(option,),
    )
    open_to_it = resolve_llamacpp(tmp_path, "parallel_requests: 4", "")
    assert fit_options(capacity, open_to_it).options == (option,)
    against = resolve_llamacpp(tmp_path, "parallel_requests: 4", "no-kv-unified: true")
    assert fit_options(capacity, against).options == ()


def test_slots_of_llamacpp_go_into_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was offered is what the file then gives, as the command reads it again."""
    resolve_llamacpp(tmp_path, "context_tokens: 1024, parallel_requests: 4", "")
    path = str(tmp_path / "a.yaml")
    model = seen("model", {**SMALL, "path": "/m/a.gguf", "size_bytes": GIB})
    found = find(monkeypatch, Question(file=path), MEMORY, model)
    capacity = found.shown.capacity
    assert capacity.kv_tokens is not None
    assert capacity.options
    world = replace(world_of(), host=LocalHost())
    text = Path(path).read_text()
    for number, option in enumerate(capacity.options, start=1):
        Path(path).write_text(text)
        apply_option(world, found, number)
        after = find(monkeypatch, Question(file=path), MEMORY, model).shown.capacity
        assert after.kv_tokens is not None
        assert option.gain_tokens is not None
        gained = after.kv_tokens.likely - capacity.kv_tokens.likely
        assert gained == option.gain_tokens.likely, option


def resolve_llamacpp(folder: Path, serve: str, settings: str) -> Resolved:
    path = folder / "a.yaml"
    path.write_text(
        f"name: small\nmodel: path:/m/a.gguf\nengine: {{kind: llamacpp, "
        f"environment: 'path:{ENGINE}', settings: {{{settings}}}}}\ngpus: none\n"
        f"serve: {{{serve}}}\nservice: {{supervisor: supervisord}}\n"
    )
    return resolve_file(world_of(LLAMA_8B), str(path))


def test_llamacpp_needs_no_gpu(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        f"name: small\nmodel: path:/m/a.gguf\nengine: {{kind: llamacpp, "
        f"environment: 'path:{ENGINE}'}}\ngpus: none\nservice: {{supervisor: supervisord}}\n"
    )
    found = find_capacity(world_of(LLAMA_8B), Question(file=str(path)))
    assert found.shown.capacity.kv_tokens is None
    assert render_capacity(found.shown)


def told_of(name: str, *, is_running: bool = True) -> Told:
    log = (LOGS / f"{name}.log").read_text()
    told = read_resolved(log.splitlines(), load_engine_table("sglang"))
    return replace(told, deployment="kimi", is_running=is_running)


def put_running(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """A deployment in force whose engine told this."""
    generation = SimpleNamespace(source=TEXT.replace("tp: 8", "tp: 1"))
    for name, answer in {
        "choose_deployment": "kimi",
        "read_deployment": told,
        "require_current": generation,
    }.items():
        monkeypatch.setattr(capacity_command, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(capacity_command, "using_supervisor_of", lambda world, _: world)


def test_a_deployment_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    told = told_of("sglang-0.5.17-h200-by-stoker")
    put_running(monkeypatch, told)
    model = seen("model", {"format": "safetensors", "config": dict(LLAMA_8B)})
    found = find(monkeypatch, Question(running="kimi"), gpus(H200), MEMORY, model)
    assert found.file is None
    assert found.shown.told_tokens == 5_840_644
    assert any(part.resolved_bytes for part in found.shown.capacity.maps[0].parts)
    with pytest.raises(UsageError, match="deployment file"):
        apply_option(world_of(), found, 1)


def test_what_was_told_is_shown_where_nothing_may_be_predicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_running(monkeypatch, told_of("sglang-0.5.17-h200-by-stoker"))
    model = seen("model", {"format": "missing"})
    shown = find(monkeypatch, Question(running="kimi"), gpus(H200), model).shown
    assert shown.capacity.kv_tokens is not None
    assert shown.capacity.kv_tokens.likely == 5_840_644
    assert shown.capacity.options == ()
    assert "not here yet" in render_capacity(shown)


def test_a_deployment_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    put_running(monkeypatch, told_of("sglang-0.5.17-h200-by-stoker", is_running=False))
    with pytest.raises(UsageError, match="does not run"):
        find(monkeypatch, Question(running="kimi"))


def test_without_gpus_weights_and_cache_are_in_main_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        f"name: small\nmodel: path:/m/a.gguf\nengine: {{kind: llamacpp, "
        f"environment: 'path:{ENGINE}'}}\ngpus: none\nserve: {{context_tokens: 4096}}\n"
        "service: {supervisor: supervisord}\n"
    )
    model = seen("model", {**SMALL, "path": "/m/a.gguf", "size_bytes": GIB})
    shown = find(monkeypatch, Question(file=str(path)), MEMORY, model).shown
    (host,) = shown.capacity.maps
    parts = {part.part: part.predicted_bytes for part in host.parts}
    pool, unused = parts["kv_pool"], parts["unused"]
    assert pool is not None
    assert unused is not None
    assert pool.likely == 30 * 3 * (64 + 64) * 2 * 4096
    assert unused.likely <= 396 * GIB - pool.likely
    assert "of each GPU" not in render_capacity(shown)


def test_sizes_that_are_written_as_text(tmp_path: Path) -> None:
    path = tmp_path / "v.yaml"
    path.write_text(
        "name: v\nmodel: path:/m\nengine: {kind: vllm, environment: 'path:/opt/v', "
        "settings: {max-model-len: 32k}}\nservice: {supervisor: supervisord}\n"
    )
    described = describe_deployment(resolve_file(world_of(LLAMA_8B), str(path)))
    assert described.inputs.settings.context_tokens == 32_000


@pytest.mark.parametrize(
    "question",
    [
        Question(),
        Question(file="a", running="b"),
        Question(running="b", log="c"),
        Question(file="a", engine="sglang"),
        Question(engine="sglang"),
    ],
)
def test_questions_that_are_none(question: Question) -> None:
    with pytest.raises(UsageError):
        find_capacity(world_of(), question)


@pytest.mark.parametrize(
    "name", ["sglang-0.5.17-h200-by-stoker", "vllm-0.32.0-processor", "llamacpp-b11549-verbose"]
)
def test_a_log_alone(name: str) -> None:
    world = world_of()
    made = machine("0.5.9")
    made.host.put("/log", (LOGS / f"{name}.log").read_text())
    world = replace(world, host=made.host)
    shown = find_capacity(world, Question(log="/log", context_tokens=1024)).shown
    text = render_capacity(shown)
    assert shown.capacity.engine in name
    assert shown.capacity.kv_tokens is not None or "does not tell it" in text
    assert "name the deployment file too" in text
    assert shown.capacity.options == ()


@pytest.mark.parametrize(
    ("tokens", "size", "left_out"),
    [
        (10**29, None, "1e+29 tokens"),
        (-1, None, "-1 tokens"),
        (10**400, None, "a number of 401 digits"),
        (10**10, 0, "0 bytes for each token"),
        (1, 10**11, "1e+11 bytes for each token"),
        (4096, 10**20, "1e+20 bytes"),
    ],
)
def test_figures_that_cannot_be_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tokens: int, size: int | None, left_out: str
) -> None:
    values = {"kv_tokens": ResolvedValue(value=tokens, unit="tokens")}
    if size is not None:
        values["kv_bytes"] = ResolvedValue(value=size, unit="bytes")
    told = Told(engine="sglang", phase="", title="", values=values)
    monkeypatch.setattr(capacity_command, "read_log", lambda *_: told)
    shown = find_capacity(world_of(), Question(log="/log")).shown
    assert left_out in shown.capacity.unknown[0]
    assert shown.capacity.token_bytes is None
    assert shown.capacity.kv_tokens is None or tokens == 4096
    assert "takes 0 bytes" not in render_capacity(shown)


def test_a_pool_that_is_printed_as_none_leaves_its_tokens() -> None:
    values = {
        "kv_tokens": ResolvedValue(value=4096, unit="tokens"),
        "kv_bytes": ResolvedValue(value=0, unit="bytes"),
    }
    heard = hear(Told(engine="vllm", phase="", title="", values=values))
    assert set(heard.told.values) == {"kv_tokens"}
    assert len(heard.doubts) == 1


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_what_engines_told_is_believed(path: Path) -> None:
    table = load_engine_table(path.stem.split("-")[0])
    told = read_resolved(path.read_text().splitlines(), table)
    heard = hear(told)
    assert heard.told == told
    assert not heard.doubts


def test_a_file_with_the_log_of_its_start(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """What the engine told stands beside what was predicted without it."""
    text = TEXT.replace("tp: 8", "tp: 1").replace("    context-length: 262144\n", "")
    Path(file).write_text(text)
    log = (LOGS / "sglang-0.5.17-h200-by-stoker.log").read_text()
    told_by_log = read_resolved(log.splitlines(), load_engine_table("sglang"))
    monkeypatch.setattr(capacity_command, "read_log", lambda *_: told_by_log)
    model = seen("model", {"format": "safetensors", "config": dict(LLAMA_8B)})
    shown = find(monkeypatch, Question(file=file, log="/log"), gpus(H200), MEMORY, model).shown
    assert shown.told_tokens is not None
    told = {part.part: part.resolved_bytes for part in shown.capacity.maps[0].parts}
    assert told["weights"] is not None
    assert "DIFFERENCE" in render_capacity(shown)
    assert "the engine told" in render_capacity(shown)
