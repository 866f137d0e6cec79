"""The law for all rules and derived facts: learning one more fact never turns an answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker.knowledge.conditions import evaluate_condition
from stoker.knowledge.derive import build_tree
from stoker.knowledge.rules import load_rules
from stoker.model.deployment import Deployment
from stoker.model.facts import Facts
from stoker.model.plan import Preparation
from tests.knowledge.cases import (
    DRAFT,
    ENVIRONMENT,
    FOLDERS,
    GGUF,
    GIB,
    HEALTHY,
    MODEL,
    SUPERVISOR,
    make_case,
    make_deployment,
    make_facts,
)

LISTENERS = st.lists(
    st.fixed_dictionaries(
        {
            "address": st.sampled_from(["127.0.0.1", "0.0.0.0", "::", "10.0.0.5"]),
            "port": st.sampled_from([30000, 30001]),
            "pid": st.sampled_from([None, 7, 8]),
            "command": st.just("x"),
            "user": st.just("root"),
        }
    ),
    max_size=3,
)
WEIGHTS = st.fixed_dictionaries(
    {
        "format": st.sampled_from(["gguf", "safetensors", "missing", "unknown"]),
        "size_bytes": st.sampled_from([GIB, 30 * GIB]),
        "is_truncated": st.sampled_from([True, False, None]),
        "context_length": st.sampled_from([None, 1024, 8192]),
    }
).map(lambda seen: {**GGUF, **seen})
GPU = st.fixed_dictionaries(
    {
        "index": st.just(0),
        "uuid": st.sampled_from(["GPU-a", None]),
        "pci_bus_id": st.just("0000:41:00.0"),
        "memory_total_bytes": st.sampled_from([24 * GIB, None]),
        "memory_used_bytes": st.sampled_from([GIB // 2, 4 * GIB, 23 * GIB, None]),
        "processes": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {
                    "pid": st.sampled_from([7, 8]),
                    "used_bytes": st.sampled_from([None, GIB, 22 * GIB]),
                    "is_holder": st.sampled_from([True, False, None]),
                }
            ),
            max_size=2,
            unique_by=lambda row: row["pid"],
        ),
    }
)
HOLDERS = st.lists(
    st.sampled_from([7, 9]).map(
        lambda pid: {"pid": pid, "gpus": ["0000:41:00.0"], "process": f"{pid}:1", "command": "x"}
    ),
    max_size=2,
    unique_by=lambda row: row["pid"],
).map(lambda rows: {"gpus": [], "holders": rows, "is_whole": True, "reason": None})
PCI = st.lists(
    st.sampled_from(["nvidia", "vfio-pci", None]).map(
        lambda driver: {"address": f"{driver}", "vendor": "0x10de", "driver": driver}
    ),
    max_size=2,
)
PROBES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([HEALTHY["cpu"], {**HEALTHY["cpu"], "flags": []}]),
        "memory": st.sampled_from([GIB, 40 * GIB]).map(
            lambda size: {"usable_bytes": size, "limit_bytes": size}
        ),
        "disk": st.sampled_from([HEALTHY["disk"], {"folders": {}}]),
        "gpus": st.sampled_from([{"gpus": []}, {"gpus": [{"index": 0, "uuid": "GPU-a"}]}])
        | GPU.map(lambda gpu: {"gpus": [gpu]}),
        "gpu_holders": HOLDERS,
        "pci": PCI,
        "listeners": LISTENERS.map(lambda rows: {"listeners": rows}),
        "model": WEIGHTS,
        "draft": WEIGHTS,
        "reach": st.booleans().map(lambda exists: {**HEALTHY["reach"], "exists": exists}),
        "interpreters": st.sampled_from([HEALTHY["interpreters"], {"interpreters": []}]),
    }
)
DEPLOYMENTS = st.builds(
    lambda gpus, host, draft, environment, context: make_deployment(
        gpus=gpus,
        serve={"host": host, "context_tokens": context},
        engine={"kind": "llamacpp", "environment": environment},
        draft=f"path:{DRAFT}" if draft else None,
    ),
    st.sampled_from(["all", "none", 1, [0, 3]]),
    st.sampled_from(["127.0.0.1", "0.0.0.0"]),
    st.booleans(),
    st.sampled_from(["embedded", f"path:{ENVIRONMENT}/bin/llama-server"]),
    st.sampled_from([None, 2048, 100_000]),
)
PREPARATIONS = st.lists(
    st.sampled_from([MODEL, ENVIRONMENT]).map(
        lambda target: Preparation(kind="model", target=target, summary="", size_bytes=60 * GIB)
    ),
    max_size=2,
)
NAMES = st.frozensets(st.sampled_from([*HEALTHY, "draft", "gpu_holders", "pci"]))


def judge(
    deployment: Deployment, facts: Facts, preparations: list[Preparation], own_pids: frozenset[int]
) -> dict[str, bool | None]:
    case = make_case(deployment, facts, preparations=preparations, own_pids=own_pids)
    tree = build_tree(
        deployment=case.deployment,
        facts=case.facts,
        launch=case.launch,
        table=case.table,
        preparations=case.preparations,
        own_pids=case.own_pids,
        key_file=None,
        supervisor=SUPERVISOR,
        user=case.user,
        folders=FOLDERS,
        me=case.me,
    )
    return {rule.id: evaluate_condition(rule.when, tree).truth for rule in load_rules()}


@given(
    deployment=DEPLOYMENTS,
    probes=PROBES,
    preparations=PREPARATIONS,
    own_pids=st.sampled_from([frozenset[int](), frozenset({7})]),
    unread=NAMES,
    learnt=NAMES,
)
def test_learning_more_never_turns_a_rule(
    deployment: Deployment,
    probes: dict[str, Any],
    preparations: list[Preparation],
    own_pids: frozenset[int],
    unread: frozenset[str],
    learnt: frozenset[str],
) -> None:
    few = make_facts(dict.fromkeys(unread, "not read"), **probes)
    more = make_facts(dict.fromkeys(unread - learnt, "not read"), **probes)
    before = judge(deployment, few, preparations, own_pids)
    after = judge(deployment, more, preparations, own_pids)
    turned = {
        rule: (truth, after[rule])
        for rule, truth in before.items()
        if truth is not None and truth is not after[rule]
    }
    assert turned == {}
