"""Who holds the chosen GPUs, whether that forbids a start, and what is to be done about it."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.knowledge.derive import build_tree
from stoker.knowledge.derived.case import Case
from stoker.knowledge.derived.devices import choose_devices, derive_elsewhere
from stoker.knowledge.derived.holders import derive_holders, is_endable, say_stop
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.model.facts import Facts, Unknown
from stoker.model.finding import Finding, Severity
from stoker.model.gpu import GpuDevice
from tests.knowledge.cases import (
    FOLDERS,
    GIB,
    MIB,
    SUPERVISOR,
    make_case,
    make_deployment,
    make_facts,
)
from tests.knowledge.gpus import ENGINE, A, B, facts_with, gpu, opener, user


def case_with(facts: Facts, *, gpus: Any = "all", **changes: Any) -> Case:
    return make_case(make_deployment(engine=ENGINE, gpus=gpus), facts, **changes)


def judge(case: Case) -> dict[str, Finding]:
    tree = build_tree(
        deployment=case.deployment,
        facts=case.facts,
        launch=case.launch,
        table=case.table,
        preparations=(),
        own_pids=case.own_pids,
        key_file=None,
        supervisor=SUPERVISOR,
        user=case.user,
        folders=FOLDERS,
        me=case.me,
        services=case.services,
        ending=case.ending,
    )
    found = evaluate_rules(load_rules(), tree, stage="plan", accept=frozenset())
    return {each.rule: each for each in found if each.rule.startswith("gpu.")}


def test_a_program_that_leaves_too_little_blocks_and_is_named() -> None:
    busy = gpu(0, 76 * GIB, user(4711, 75 * GIB))
    finding = judge(case_with(facts_with(busy)))["gpu.held"]
    assert finding.blocks
    assert finding.summary == (
        "the chosen GPUs have 5.0 GiB free, which is too little; they are held by "
        "python3 train.py (process 4711 of alice, 75.0 GiB of GPU 0)"
    )
    assert finding.remedy == (
        "--end-holders 4711 ends what may be ended; "
        "choose other GPUs (gpus), or share them: accept: [gpu.held]"
    )


def test_enough_is_left_so_it_is_a_warning() -> None:
    busy = gpu(0, 40 * GIB, user(4711, 39 * GIB))
    (finding,) = judge(case_with(facts_with(busy))).values()
    assert (finding.rule, finding.severity) == ("gpu.shared", Severity.WARNING)


def test_a_desktop_is_a_warning_even_where_the_model_fills_the_card() -> None:
    desktop = user(900, 900 * MIB, is_graphics=True, command="Xorg /usr/lib/xorg/Xorg :0")
    busy = gpu(0, 1500 * MIB, desktop)
    (finding,) = judge(case_with(facts_with(busy, size=80 * GIB))).values()
    assert finding.summary == (
        "the chosen GPUs are shared with Xorg :0 (process 900 of alice, 900.0 MiB of GPU 0)"
    )
    assert not finding.blocks


def test_an_idle_card_has_no_holder() -> None:
    assert judge(case_with(facts_with(gpu(0, 615 * MIB), size=79 * GIB))) == {}


def test_a_card_that_was_not_chosen_may_be_full() -> None:
    full = gpu(1, 79 * GIB, user(4711, 79 * GIB))
    assert judge(case_with(facts_with(gpu(0, MIB), full), gpus=[0])) == {}
    assert "gpu.held" in judge(case_with(facts_with(gpu(0, MIB), full), gpus=["GPU-1"]))


def test_our_own_service_and_what_will_be_ended_are_not_in_the_way() -> None:
    busy = gpu(0, 76 * GIB, user(4711, 40 * GIB), user(4712, 35 * GIB))
    facts = facts_with(busy, size=70 * GIB)
    assert "gpu.held" in judge(case_with(facts, own_pids=frozenset({4711})))
    assert judge(case_with(facts, own_pids=frozenset({4711}), ending=frozenset({4712}))) == {}


def test_without_the_models_size_nobody_can_tell() -> None:
    busy = gpu(0, 76 * GIB, user(4711, 75 * GIB))
    facts = make_facts({"model": "denied"}, gpus={"gpus": [busy]}, pci=[])
    finding = judge(case_with(facts))["gpu.held"]
    assert not finding.blocks
    assert finding.summary == (
        "cannot tell whether other programs hold the memory of the chosen GPUs: denied"
    )


@pytest.mark.parametrize(
    ("changes", "stop"),
    [
        ({}, ""),
        ({"container": "docker 3f2a9c41d5e6"}, ""),
        ({"unit": "ollama.service", "manager": "system"}, "`systemctl stop ollama.service`"),
        (
            {"unit": "serve.service", "manager": "user"},
            "`systemctl --user stop serve.service` as alice",
        ),
    ],
)
def test_what_would_be_started_again_is_stopped_by_its_manager(changes: Any, stop: str) -> None:
    busy = gpu(0, 76 * GIB, user(4711, 75 * GIB, **changes))
    found = derive_holders(case_with(facts_with(busy)))
    (row,) = found["rows"]
    assert say_stop(row) == stop
    assert is_endable(row) is not bool(stop)
    assert found["remedy"].startswith(stop or "--end-holders 4711 ends")
    assert ("--end-holders" in found["remedy"]) is not bool(stop)


def test_another_deployment_is_called_by_its_name() -> None:
    busy = gpu(0, 76 * GIB, user(4711, 75 * GIB))
    found = derive_holders(case_with(facts_with(busy), services={4711: "smollm2"}))
    assert found["titles"] == ["your deployment smollm2 (process 4711, 75.0 GiB of GPU 0)"]
    assert found["remedy"].startswith("`stoker stop smollm2`; choose other GPUs")


@pytest.mark.parametrize("changes", [{"process": None}, {"is_holder": False}])
def test_a_pid_of_another_pid_namespace_is_nobody_here(changes: Any) -> None:
    """It may be the pid of somebody else, who must not be ended for it."""
    busy = gpu(0, 76 * GIB, user(4711, 75 * GIB, **changes))
    found = derive_holders(case_with(facts_with(busy)))
    assert found["are_in_the_way"] is True
    assert found["titles"] == [
        "a process that is not seen from here (4711 where it runs, 75.0 GiB of GPU 0)"
    ]
    assert not is_endable(found["rows"][0])
    assert "--end-holders" not in found["remedy"]


def test_memory_that_nobody_accounts_for_counts_and_names_who_has_it_open() -> None:
    busy = gpu(0, 76 * GIB)
    nobody = derive_holders(case_with(facts_with(busy)))
    assert nobody["are_in_the_way"] is True
    assert nobody["titles"] == ["processes that are not seen from here (76.0 GiB of GPU 0)"]
    somebody = derive_holders(case_with(facts_with(busy, holders=[opener(88, A), opener(99)])))
    assert somebody["titles"] == ["python3 train.py (process 88 of alice, has GPU 0 open)"]


def test_having_a_card_open_is_no_use_of_its_memory() -> None:
    """An engine that computes on one of eight has all eight open."""
    idle = facts_with(gpu(0, 615 * MIB), holders=[opener(88, A, B)])
    found = derive_holders(case_with(idle))
    assert (found["titles"], found["are_in_the_way"]) == ([], False)
    assert [row["pid"] for row in found["rows"]] == [88]
    assert found["rows"][0]["gpus"] == ["GPU 0"]


def test_one_process_on_many_cards_is_told_once() -> None:
    row = user(4711, 30 * GIB)
    facts = facts_with(gpu(0, 31 * GIB, row), gpu(1, 31 * GIB, row), holders=[opener(4711, A, B)])
    found = derive_holders(case_with(facts))
    assert found["titles"] == ["python3 train.py (process 4711 of alice, 60.0 GiB of GPU 0, GPU 1)"]


def test_a_crowd_is_counted() -> None:
    rows = [user(pid, GIB) for pid in range(100, 112)]
    found = derive_holders(case_with(facts_with(gpu(0, 13 * GIB, *rows))))
    assert len(found["titles"]) == 9
    assert found["titles"][-1] == "4 more"


@pytest.mark.parametrize(
    ("own", "used", "others", "held"),
    [
        (None, 76 * GIB, 30 * GIB, 30 * GIB),
        (40 * GIB, 76 * GIB, None, 36 * GIB),
        (None, 76 * GIB, None, None),
    ],
)
def test_amounts_that_the_driver_does_not_tell(
    own: int | None, used: int, others: int | None, held: int | None
) -> None:
    busy = gpu(0, used, user(1, own), user(2, others))
    found = derive_holders(case_with(facts_with(busy), own_pids=frozenset({1})))
    if held is None:
        assert isinstance(found["are_in_the_way"], Unknown)
    else:
        assert found["free_bytes"] == 80 * GIB - held


def test_a_driver_that_lists_nobody() -> None:
    silent = gpu(0, 76 * GIB, processes=None)
    assert derive_holders(case_with(facts_with(silent)))["free_bytes"] == 4 * GIB
    ours = derive_holders(case_with(facts_with(silent), own_pids=frozenset({1})))
    assert isinstance(ours["free_bytes"], Unknown)


def test_nothing_is_asked_for_a_service_without_gpus() -> None:
    full = facts_with(gpu(0, 79 * GIB, user(4711, 79 * GIB)))
    for case in (case_with(full, gpus="none"), make_case(facts=full)):
        assert derive_holders(case)["rows"] == []
        assert derive_holders(case)["are_in_the_way"] is False
        assert derive_elsewhere(case)["elsewhere"] == []


def test_gpus_that_nobody_could_read() -> None:
    found = derive_holders(case_with(make_facts({"gpus": "no answer"}, pci=[])))
    assert all(isinstance(value, Unknown) for value in found.values())


# Devices


def bus(*drivers: str | None) -> list[dict[str, Any]]:
    places = zip((A, B), drivers, strict=False)
    return [{"address": a, "vendor": "0x10de", "driver": driver} for a, driver in places]


@pytest.mark.parametrize(
    ("gpus", "drivers", "is_short"),
    [
        (1, ("nvidia", "vfio-pci"), False),
        (2, ("nvidia", "vfio-pci"), True),
        ([1], ("nvidia", "vfio-pci"), True),
        (["GPU-0"], ("nvidia", "vfio-pci"), False),
        (["GPU-0", "GPU-1"], ("nvidia", "vfio-pci"), True),
        (2, ("nvidia",), False),
        ("all", ("vfio-pci", "vfio-pci"), True),
        ("all", ("nvidia", "vfio-pci"), False),
        ("none", ("vfio-pci",), False),
    ],
)
def test_gpus_that_another_driver_has(gpus: Any, drivers: Any, is_short: bool) -> None:
    case = case_with(facts_with(gpu(0, MIB), pci=bus(*drivers)), gpus=gpus)
    assert derive_elsewhere(case)["is_short"] is is_short


def test_a_gpu_of_a_virtual_machine_says_so_also_where_the_driver_has_none() -> None:
    pci = [
        *bus("vfio-pci", None),
        {"address": "0000:00:02.0", "vendor": "0x8086", "driver": "i915"},
    ]
    facts = make_facts({"gpus": "Driver Not Loaded, although there is a device"}, pci=pci)
    findings = judge(case_with(facts, gpus=2))
    blocking = [finding for finding in findings.values() if finding.blocks]
    assert [finding.summary for finding in blocking] == [
        (
            "gpus asks for 2 GPUs; "
            "GPU 0000:41:00.0 is bound to vfio-pci: it is handed to a virtual machine, "
            "GPU 0000:61:00.0: no driver is bound to it"
        )
    ]
    assert judge(case_with(facts))["gpu.all-elsewhere"].severity is Severity.WARNING


def test_a_gpu_that_does_not_answer_blocks_if_it_was_chosen() -> None:
    nothing = dict.fromkeys(("uuid", "name", "memory_total_bytes", "memory_used_bytes"))
    lost = gpu(1, None, pci_bus_id=None, processes=None, **nothing)
    facts = facts_with(gpu(0, MIB), lost, pci=bus("nvidia"))
    assert judge(case_with(facts, gpus=[1]))["gpu.lost"].blocks
    assert "gpu.lost" not in judge(case_with(facts, gpus=[0]))


def test_devices_are_known_by_all_their_names() -> None:
    driver = {"gpus": [{"address": A, "minor": 3, "uuid": "GPU-0"}], "holders": []}
    facts = facts_with(gpu(0, MIB), gpu(1, MIB), gpu_holders=driver)
    case = case_with(facts)

    def choose(gpus: Any) -> Any:
        return choose_devices(make_deployment(engine=ENGINE, gpus=gpus), facts, case.table)

    assert choose("all") == (
        GpuDevice(address=A, uuid="GPU-0", minor=3),
        GpuDevice(address=B, uuid="GPU-1"),
    )
    assert choose(1) == (GpuDevice(address=A, uuid="GPU-0", minor=3),)
    assert choose(["GPU-1"]) == (GpuDevice(address=B, uuid="GPU-1"),)
    assert choose("none") == ()
    assert choose_devices(make_deployment(gpus=1), facts, case.table) == ()
    unread = make_facts({"gpus": "no answer"})
    assert isinstance(choose_devices(case.deployment, unread, case.table), Unknown)
