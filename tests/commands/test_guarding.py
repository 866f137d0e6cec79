"""A guard around a service: what changes, what does not, and whom its status speaks for."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.builds.environment import environment_path
from stoker.commands import guarding, resolve
from stoker.commands.guarding import (
    guard_config,
    guard_files,
    guard_recipe,
    guard_timing,
    guarded,
    read_guard,
)
from stoker.commands.secret_files import check_secret_files
from stoker.errors import UsageError
from stoker.guard.config import read_config
from stoker.guard.values import Rules
from stoker.guard.vigil import longest_doubt_seconds
from stoker.guard.words import GuardStatus
from stoker.hosts.local import LocalHost
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.rules import load_rules
from stoker.model.gpu import GpuDevice
from stoker.model.launch import LaunchGpus, SecretFile, ServicePhase
from stoker.model.layout import guard_status_path, is_secret, starts_path, work_folder
from stoker.model.plan import ActivationKind
from stoker.state.documents import read_starts
from tests.conftest import PROJECT
from tests.laws.worlds import FOLDERS, NAME, Machine, apply_variant, make_generation, stop

ENV = {"NCCL_DEBUG": "INFO", "LD_PRELOAD": "/usr/lib/libtcmalloc.so", "PYTHONPATH": "/srv/patched"}


def test_the_orders_are_read_by_the_guard(tmp_path: Path) -> None:
    world = Machine().world()
    generation = make_generation(world, "a")
    ((path, image),) = guard_files(world, generation).items()
    file = tmp_path / "guard.json"
    file.write_text(image.content or "")
    assert read_config(str(file)) == guard_config(world, generation)
    assert not is_secret(FOLDERS, path)
    assert is_secret(FOLDERS, generation.launch.secrets[0].path)


def test_a_manager_waits_longer_than_the_guard() -> None:
    world = Machine().world()
    config = guard_config(world, make_generation(world, "a"))
    timing, limits = guard_timing(config), config.limits
    rules = Rules(limits=limits, canary=config.canary)
    assert timing.start_seconds is not None
    assert timing.watchdog_seconds is not None
    assert timing.stop_seconds > limits.stop_timeout_seconds + 60
    assert timing.start_seconds > limits.stall_seconds + limits.stop_timeout_seconds
    assert timing.watchdog_seconds > longest_doubt_seconds(rules) + limits.stop_timeout_seconds


def test_variables_of_the_linker_do_not_reach_the_guard() -> None:
    world = Machine().world()
    plain = make_generation(world, "a")
    generation = replace(
        plain,
        launch=replace(plain.launch, env=ENV),
        service=replace(plain.service, env=ENV),
    )
    service = guarded(world, generation)
    assert service.argv[:4] == (guarding.guard_python(world), "-I", "-m", "stoker.guard")
    assert service.env == {"NCCL_DEBUG": "INFO", "PYTHONPATH": "/srv/patched"}
    assert guard_config(world, generation).engine.env == {"LD_PRELOAD": ENV["LD_PRELOAD"]}
    assert service.digest == generation.service.digest


def test_secrets_are_paths_in_the_orders() -> None:
    world = Machine().world()
    plain = make_generation(world, "a")
    token = SecretFile(source_path="/root/token", path="/srv/token", variable="HF_TOKEN")
    launch = replace(plain.launch, secrets=(token, *plain.launch.secrets))
    config = guard_config(world, replace(plain, launch=launch))
    assert config.engine.secret_env == {"HF_TOKEN": "/srv/token"}
    assert config.server.key_path == plain.launch.secrets[0].path


@pytest.mark.parametrize(("accept", "share"), [([], 0.1), (["gpu.held"], None)])
def test_gpus_must_be_there_and_free_unless_sharing_is_meant(
    accept: list[str], share: float | None
) -> None:
    world = Machine().world()
    plain = make_generation(world, "a")
    gpus = LaunchGpus(devices=(GpuDevice(address="0000:41:00.0"),), needed_bytes=7)
    generation = replace(
        plain,
        launch=replace(plain.launch, gpus=gpus),
        deployment={**plain.deployment, "accept": accept},
    )
    devices = guard_config(world, generation).devices
    assert (devices.gpus, devices.needed_bytes) == (gpus.devices, 7)
    assert devices.held_share == share


def test_the_rule_of_held_gpus_is_there() -> None:
    assert guarding.HELD_RULE in {rule.id for rule in load_rules()}


@pytest.mark.parametrize("stall", [None, 7])
def test_the_deployment_says_when_a_start_is_stuck(stall: int | None) -> None:
    world = Machine().world()
    plain = make_generation(world, "a")
    deployment = {**plain.deployment, "service": {"stall_timeout_seconds": stall}}
    config = guard_config(world, replace(plain, deployment=deployment))
    assert config.limits.stall_seconds == (
        stall or load_engine_table("llamacpp").timeouts.stall_seconds
    )


def test_another_guard_changes_files_and_restarts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an upgrade of Stoker does to a service that runs."""
    machine = Machine()
    apply_variant("a")(machine.world())
    effects = list(machine.supervisor.effects)
    newer = replace(guard_recipe(), build="another")
    monkeypatch.setattr(guarding, "guard_recipe", lambda: newer)
    monkeypatch.setattr(resolve, "guard_recipe", lambda: newer)
    done = apply_variant("a")(machine.world())
    activations = [each.kind for each in done.plan.activations]  # type: ignore[attr-defined]
    assert activations == [ActivationKind.RELOAD]
    assert machine.supervisor.effects[len(effects) :] == ["reload"]


def test_other_orders_wait_for_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    apply_variant("a")(machine.world())
    effects = list(machine.supervisor.effects)
    table = load_engine_table("llamacpp")
    other = replace(table, log=replace(table.log, phases=table.log.phases[1:]))
    monkeypatch.setattr(guarding, "load_engine_table", lambda kind: other)
    done = apply_variant("a")(machine.world())
    (change,) = done.plan.changes  # type: ignore[attr-defined]
    assert change.path.endswith("guard.json")
    assert "from its next start on" in change.reasons[0]
    assert machine.supervisor.effects == effects


def test_a_status_speaks_for_its_own_process_alone() -> None:
    machine = Machine()
    apply_variant("a")(machine.world())
    world = machine.world()
    state = world.supervisor.state(NAME)
    found = read_guard(world, state)
    assert found is not None
    assert found.verified
    assert read_guard(world, replace(state, process="4711:1")) is None
    assert read_guard(world, replace(state, digest="another")) is None
    assert read_guard(world, replace(state, process="", phase=ServicePhase.STOPPED)) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", "\0" * 100, '{"schema": "guard-status/9"}'])
def test_a_status_that_cannot_be_read_says_nothing(text: str) -> None:
    machine = Machine()
    apply_variant("a")(machine.world())
    machine.host.put(guard_status_path(FOLDERS, NAME), text)
    world = machine.world()
    assert read_guard(world, world.supervisor.state(NAME)) is None


def test_the_guard_is_pinned_as_we_are() -> None:
    pins = (PROJECT / "requirements" / "runtime.txt").read_text()
    for pin in guard_recipe().requirements:
        assert f"{pin.name}=={pin.version} " in pins
        for digest in pin.sha256:
            assert f"--hash=sha256:{digest}" in pins


def test_the_guard_lies_in_an_environment_of_its_own() -> None:
    world = Machine().world()
    path = environment_path(guard_recipe(), FOLDERS)
    assert guarding.guard_python(world) == os.path.join(path, "bin", "python")


def put_status(machine: Machine, **changes: object) -> GuardStatus | None:
    """What is believed after the service itself has written this into its status."""
    path = guard_status_path(FOLDERS, NAME)
    data = json.loads(machine.host.read_text(path))
    machine.host.put(path, json.dumps({**data, **changes}))
    world = machine.world()
    return read_guard(world, world.supervisor.state(NAME))


def test_a_status_cannot_reach_the_terminal() -> None:
    machine = Machine()
    apply_variant("a")(machine.world())
    text = "\x1b]0;owned\x07\x1b[2J\u202eline\r\nnext" + "x" * 60_000
    found = put_status(machine, text=text, phase="\x1b[31m")
    assert found is not None
    assert found.text.isprintable()
    assert found.phase.isprintable()
    assert len(found.text) <= 300


@pytest.mark.parametrize(
    "changes", [{"percent": 10**400}, {"percent": -1}, {"percent": 101}, {"left_seconds": 10**300}]
)
def test_a_status_with_absurd_figures_says_nothing(changes: dict[str, object]) -> None:
    machine = Machine()
    apply_variant("a")(machine.world())
    assert put_status(machine, **changes) is None


@pytest.mark.parametrize("seconds", ["1e400", "-1", "0", "1e308", "1" + "0" * 400, '"soon"'])
def test_absurd_starts_are_no_estimate(seconds: str) -> None:
    """The service may write there as well; nothing may come of it but no estimate."""
    machine = Machine()
    apply_variant("a")(machine.world())
    start = f'{{"digest": "d", "model": "m", "seconds": {seconds}, "at_seconds": 1}}'
    text = f'{{"schema": "starts/1", "name": "{NAME}", "starts": [{start}]}}'
    machine.host.put(starts_path(FOLDERS, NAME), text)
    assert read_starts(machine.host, FOLDERS, NAME).expected_seconds("m") is None
    done = apply_variant("b")(machine.world())
    assert done.plan.activations  # type: ignore[attr-defined]
    stop(machine.world())


def test_another_user_is_refused_while_the_folder_belongs_to_the_first() -> None:
    machine = Machine()
    apply_variant("a")(machine.world())
    machine.host.remove_tree(work_folder(FOLDERS, NAME))
    machine.host.make_folder(work_folder(FOLDERS, NAME), 0o700, "root")
    with pytest.raises(UsageError, match="would run as nobody"):
        apply_variant("b")(machine.world())


@pytest.mark.parametrize(
    ("content", "mode", "flaw"),
    [
        (b"token\n", 0o600, ""),
        (b"\n  token \r\n", 0o600, ""),
        (b"token\n", 0o644, "can be read by others"),
        (b" \n\n", 0o600, "is empty"),
        (b"to\0ken\n", 0o600, "holds a NUL"),
        (b"\xff\xfe", 0o600, "is not UTF-8"),
        (b"x" * 40_000, 0o600, "is longer than 32 KiB"),
    ],
)
def test_files_of_secret_variables(content: bytes, mode: int, flaw: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(mode)
    if not flaw:
        return check_secret_files(LocalHost(), {"HF_TOKEN": str(path)})
    with pytest.raises(UsageError, match=flaw):
        check_secret_files(LocalHost(), {"HF_TOKEN": str(path)})
    return None


def test_a_file_of_a_secret_variable_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not there"):
        check_secret_files(LocalHost(), {"HF_TOKEN": str(tmp_path / "none")})
    with pytest.raises(UsageError, match="is no file"):
        check_secret_files(LocalHost(), {"HF_TOKEN": str(tmp_path)})
