"""Whether what runs, or would run, is what was measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stoker.commands.measured import describe_unmeasured
from stoker.commands.measured_digest import measured_digest, plain_settings
from stoker.commands.world import World
from stoker.model.benchmark import Benchmark, Served
from stoker.model.document import render_document
from stoker.model.facts import Facts, Observation
from stoker.model.generation import Generation
from stoker.model.launch import Origin, Setting
from stoker.model.layout import benchmark_path, facts_path
from stoker.state.benchmarks import keep_benchmark
from tests.laws.worlds import FOLDERS, NAME, Machine, make_generation
from tests.report.benchmarks import benchmark


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def world(machine: Machine) -> World:
    return machine.world()


def generation(world: World, **flags: str | None) -> Generation:
    """One whose launch has these flags."""
    made = make_generation(world, " ".join(f"{k}={v}" for k, v in flags.items()))
    settings = tuple(
        Setting(name=f"--{name}", value=value, origin=Origin.USER, reason="a test")
        for name, value in flags.items()
    )
    return replace(made, launch=replace(made.launch, settings=settings))


def measure(
    world: World, of: Generation, *, at: str = "b20261201-020500-0001", name: str = NAME
) -> Benchmark:
    """Keep a benchmark of it."""
    launch = of.launch
    served = Served(
        url="http://127.0.0.1:30000",
        model=launch.published_name,
        name=name,
        engine=launch.engine,
        release=launch.engine_build,
        digest=measured_digest(world, of),
        settings=plain_settings(launch.settings),
    )
    kept = benchmark(name=at, served=served)
    keep_benchmark(world.host, FOLDERS, kept)
    return kept


def test_what_was_measured_is_not_warned_of(world: World) -> None:
    now = generation(world, threads="1")
    assert describe_unmeasured(world, now) == ""  # nothing was measured, so nothing is said
    measure(world, now)
    assert describe_unmeasured(world, now) == ""
    measure(world, generation(world, threads="2"), at="b20261202-000000-0001")
    assert describe_unmeasured(world, now) == ""  # an older one is this very launch


def test_what_differs_is_told_flag_by_flag(world: World) -> None:
    then = generation(world, threads="1", batch="512", flash=None)
    kept = measure(world, then)
    said = describe_unmeasured(world, generation(world, threads="2", batch="512", fresh="a"))
    assert said.startswith(f"what was measured last ({kept.id}) is not this: ")
    assert "--threads 1 then, 2 now" in said
    assert "--flash set then, not set now" in said
    assert "--fresh not set then, a now" in said
    assert "batch" not in said
    assert said.endswith("`stoker bench law` measures what runs")


def test_many_differences_are_counted(world: World) -> None:
    measure(world, generation(world))
    said = describe_unmeasured(world, generation(world, **{f"f{n}": "1" for n in range(9)}))
    assert "; and 3 more; " in said


def test_another_release_is_told(world: World) -> None:
    then = generation(world, threads="1")
    measure(world, then)
    now = replace(then, launch=replace(then.launch, engine_build="b2"))
    assert "llamacpp b1 then, llamacpp b2 now" in describe_unmeasured(world, now)


def test_a_mark_in_the_file_changes_no_speed(world: World) -> None:
    """The generation's own digest covers the deployment file; what is served is the same."""
    then = generation(world, threads="1")
    measure(world, then)
    assert describe_unmeasured(world, replace(then, digest="f" * 64, source="# mine\n")) == ""


def test_other_weights_or_another_machine_are_told(machine: Machine, world: World) -> None:
    then = generation(world, threads="1")
    measure(world, then)

    def put_facts(**cpu: str | int) -> None:
        told = Observation(probe="cpu", source="a test", value=cpu)
        facts = Facts(host="x", stoker_version="1", observations={"cpu": told})
        machine.host.put(facts_path(FOLDERS), render_document(facts))

    put_facts(model="old")
    assert describe_unmeasured(world, then) == ""  # when it was measured nobody had looked
    measure(world, then, at="b20261202-000000-0001")
    (machine.host.remove_file(benchmark_path(FOLDERS, "b20261201-020500-0001")))
    put_facts(model="old", usable_cores=1)  # who may use fewer cores looks at the same machine
    assert describe_unmeasured(world, then) == ""
    put_facts(model="new")
    assert "other weights, or another machine or driver" in describe_unmeasured(world, then)


def test_benchmarks_of_others_and_damaged_ones_say_nothing(machine: Machine, world: World) -> None:
    now = generation(world, threads="1")
    measure(world, generation(world, threads="2"), at="b20261203-000000-0001", name="other")
    assert describe_unmeasured(world, now) == ""
    # Of another deployment, but with a workload that is called as ours is.
    other = measure(world, generation(world, threads="2"), at="b20261204-000000-0001", name="other")
    named = replace(other, workload=replace(other.workload, name=NAME))
    machine.host.put(benchmark_path(FOLDERS, other.id), render_document(named))
    measure(world, generation(world, threads="3"))
    said = describe_unmeasured(world, now)
    assert "--threads 3 then, 1 now" in said
    path = benchmark_path(FOLDERS, "b20261201-020500-0001")
    text = machine.host.read_text(path)
    machine.host.put(path, text[: len(text) // 2])
    assert describe_unmeasured(world, now) == ""
    assert json.loads(text)["served"]["name"] == NAME


def test_a_first_apply_that_is_under_way_is_no_empty_machine() -> None:
    from stoker.model.status import Status
    from stoker.report.status_text import render_status

    assert "`stoker up` starts" in render_status(Status(deployments=()))
    told = render_status(Status(deployments=(), busy="`stoker apply` (pid 1)"))
    assert told == "No deployment yet.\n`stoker apply` (pid 1) is changing something\n"
