"""How the chosen GPUs are joined and what the machine grants, as rules see it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import DataError
from stoker.knowledge.derived.host import derive_host
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.driver_flavours import find_flavour, load_flavours
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.structure import structure
from stoker.model.facts import Facts, Unknown
from tests.knowledge.cases import GIB, make_deployment, make_facts

TABLE = load_engine_table("sglang")
WAY = {"way": "numa-node", "nvlink": False, "can_peer": True, "refusal": None}


def rows(*names: str) -> list[dict[str, Any]]:
    return [{"index": n, "name": name, "uuid": f"GPU-{n}"} for n, name in enumerate(names)]


def joined(*pairs: dict[str, Any], count: int, **changes: Any) -> dict[str, Any]:
    gpu = {"numa_node": 0, "fabric": None, "is_divided": False, "is_persistent": True, **changes}
    return {"gpus": [{"index": n, **gpu} for n in range(count)], "pairs": list(pairs)}


def pair(one: int, other: int, **changes: Any) -> dict[str, Any]:
    return {**WAY, "gpus": [one, other], **changes}


def facts_of(topology: Any, *names: str, **changes: Any) -> Facts:
    return make_facts(gpus={"gpus": rows(*names)}, topology=topology, **changes)


def host_of(facts: Facts, gpus: Any = "all") -> dict[str, Any]:
    deployment = make_deployment(engine={"kind": "sglang"}, gpus=gpus)
    return derive_host(
        Subject(deployment=deployment, facts=facts, table=TABLE, build="0.5.23", settings=())
    )


def test_only_the_chosen_gpus_count() -> None:
    bridged = joined(pair(0, 1, nvlink=True), pair(0, 2), pair(1, 2, way="system"), count=3)
    facts = facts_of(bridged, "NVIDIA A", "NVIDIA A", "NVIDIA B")
    assert host_of(facts)["links"] == "pcie"
    assert host_of(facts)["way"] == "system"
    assert host_of(facts)["kinds"] == ["NVIDIA A", "NVIDIA B"]
    two = host_of(facts, 2)
    assert (two["links"], two["can_peer"], two["kinds"]) == ("nvlink", True, ["NVIDIA A"])
    one = host_of(facts, 1)
    assert (one["links"], one["can_peer"], one["way"]) == (None, None, None)


def test_one_pair_that_cannot_is_enough_and_one_that_does_not_tell_leaves_it_open() -> None:
    refused = pair(0, 1, can_peer=False, refusal="the chipset does not support it")
    facts = facts_of(joined(refused, pair(0, 2, can_peer=None), pair(1, 2), count=3), *"aaa")
    assert host_of(facts)["can_peer"] is False
    assert host_of(facts)["refusals"] == ["the chipset does not support it"]
    silent = facts_of(joined(pair(0, 1, can_peer=None, nvlink=None), count=2), *"aa")
    assert isinstance(host_of(silent)["can_peer"], Unknown)
    assert isinstance(host_of(silent)["links"], Unknown)


def test_what_single_gpus_lack_is_named() -> None:
    facts = facts_of(
        joined(pair(0, 1), count=2, fabric="in-progress", is_divided=True, is_persistent=False),
        *"aa",
    )
    host = host_of(facts)
    assert (host["fabric"], host["divided"], host["resting"]) == (
        ["0", "1"],
        ["0", "1"],
        ["0", "1"],
    )
    assert host["nodes"] == [0]
    ready = facts_of(joined(pair(0, 1), count=2, fabric="completed"), *"aa")
    assert host_of(ready)["fabric"] == []


def test_gpus_that_are_not_used_join_nothing() -> None:
    host = host_of(facts_of(joined(pair(0, 1), count=2), *"aa"), "none")
    assert (host["links"], host["kinds"], host["divided"]) == (None, [], [])


def test_two_answers_of_the_driver_that_do_not_agree_are_unknown() -> None:
    host = host_of(facts_of(joined(count=0), *"aa"))
    assert isinstance(host["links"], Unknown)
    assert "other GPUs" in host["links"].reason
    assert isinstance(host["fabric"], Unknown)


def test_the_reason_of_the_iommu_probe_is_kept() -> None:
    seen = {"translates": None, "redirects": None, "is_guest": True, "reason": "its host decides"}
    host = host_of(make_facts(iommu=seen))
    assert host["translates"] == Unknown(reason="its host decides")
    assert host["is_guest"] is True
    unread = host_of(make_facts({"iommu": "denied"}))
    assert unread["translates"] == Unknown(reason="denied")


@pytest.mark.parametrize(
    ("device", "flavour", "misfits", "wanted"),
    [
        ("0x2bb1", "proprietary", [True], "open"),
        ("0x2bb1", "open", [], None),
        ("0x2335", "proprietary", [], None),
        ("0x2342", "proprietary", [True], "open"),
        ("0x1db4", "open", [True], "proprietary"),
        ("0x2bb1", None, [], None),
    ],
)
def test_the_flavour_of_the_driver_fits_or_not(
    device: str, flavour: str | None, misfits: list[bool], wanted: str | None
) -> None:
    bus = [{"address": "0000:41:00.0", "vendor": "0x10de", "device": device, "driver": "nvidia"}]
    version = "590.48.01" if flavour else None
    host = host_of(make_facts(pci=bus, driver={"version": version, "flavour": flavour}))
    assert bool(host["misfits"]) is bool(misfits)
    assert host["wanted_flavour"] == wanted


def test_a_driver_whose_flavour_is_hidden_is_unknown() -> None:
    host = host_of(make_facts(driver={"version": "590.48.01", "flavour": None}))
    assert isinstance(host["misfits"], Unknown)


def test_other_makers_need_no_flavour_and_the_table_is_sound() -> None:
    bus = [{"address": "0000:03:00.0", "vendor": "0x1a03", "device": "0x2000", "driver": "ast"}]
    loaded = {"version": "590.48.01", "flavour": "proprietary"}
    assert host_of(make_facts(pci=bus, driver=loaded))["misfits"] == []
    assert {row.needs for row in load_flavours()} == {"open", "proprietary"}
    assert find_flavour("0x2330") is None
    with pytest.raises(ValueError, match="x"):
        find_flavour("x")
    with pytest.raises(DataError):
        structure(tuple[str, ...], 7, where="x")


MAYBE = st.sampled_from([True, False, None])


@given(
    links=st.lists(MAYBE, min_size=3, max_size=3),
    peers=st.lists(MAYBE, min_size=3, max_size=3),
    translates=MAYBE,
)
def test_learning_what_the_driver_did_not_tell_never_turns_an_answer(
    links: list[bool | None], peers: list[bool | None], translates: bool | None
) -> None:
    """Every None that becomes known settles something or changes nothing."""

    def derive(fill: bool | None) -> dict[str, Any]:
        def known(value: bool | None) -> bool | None:
            return fill if value is None else value

        pairs = [
            pair(one, other, nvlink=known(link), can_peer=known(peer))
            for (one, other), link, peer in zip(((0, 1), (0, 2), (1, 2)), links, peers, strict=True)
        ]
        seen = {
            "translates": known(translates),
            "redirects": None,
            "is_guest": False,
            "reason": "?",
        }
        return host_of(facts_of(joined(*pairs, count=3), *"aaa", iommu=seen))

    before = derive(None)
    for after in (derive(True), derive(False)):
        for name in ("links", "can_peer", "translates"):
            if not isinstance(before[name], Unknown):
                assert after[name] == before[name]


def test_what_the_machine_grants_is_passed_on() -> None:
    facts = make_facts(shm={"size_bytes": 64 << 20, "free_bytes": 1, "is_own": True})
    host = host_of(facts)
    assert host["shm_bytes"] == 64 << 20
    assert host["memory_bytes"] == 20 * GIB
    assert host["ptrace_scope"] == 0
