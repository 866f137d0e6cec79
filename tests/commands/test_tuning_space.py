"""The space of a search: what configurations write, and what is cut because it cannot run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from stoker.commands.recipe_sync import sync_recipes
from stoker.commands.resolve import Resolved, resolve_launch
from stoker.commands.tuning_overlay import find_choice, overlay
from stoker.commands.tuning_priors import with_recipes
from stoker.commands.tuning_space import (
    Prepared,
    describe_space,
    judge_configuration,
    prepare_space,
)
from stoker.commands.world import World
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.releases import load_table_for
from stoker.knowledge.space_cutting import default_configuration, is_active
from stoker.knowledge.space_rows import load_space_rows
from stoker.knowledge.spaces import Wishes, build_space
from stoker.model.facts import Plain
from stoker.model.tuning import Budget, Choice, Knob, Space
from stoker.spec import edit_deployment, parse_deployment
from tests.knowledge.pairs import (
    DEEPSEEK,
    KIMI,
    QWEN,
    present_of,
    resolve_pair,
    resolve_text,
    world_of_pairs,
)
from tests.recipes.reading import FIXTURES
from tests.recipes.test_choosing import PLACE, RELEASE, deployment, gpus
from tests.recipes.test_sync import world

__all__ = ["world"]

#: Eight RTX PRO 6000 and a model whose spec v2 and topk contradict each other, as it stands.
DRAFTING = frozenset({"speculation", "steps", "topk", "draft-tokens", "spec-overlap"})
H200 = {"machine": "8x-h200", "stack": "vllm-0.33.0-cu130", "model": "deepseek-v3.2"}


def every_choice(space: Space) -> Iterator[dict[str, str]]:
    """The deployment with one choice more, and with what that needs to mean something."""
    for knob in space.knobs:
        for choice in knob.choices:
            configuration = {**default_configuration(space), knob.id: choice.id}
            for name, choices in knob.only_with.items():
                if configuration[name] not in choices:
                    configuration[name] = choices[0]
            yield configuration


def changed(resolved: Resolved, changes: Mapping[str, Plain]) -> Resolved:
    """The deployment whose file has these changes."""
    text = edit_deployment(resolved.source, changes)
    made = parse_deployment(text, "deployment.yaml", engine_kinds=engine_kinds())
    place = resolved.place if made.draft else replace(resolved.place, draft_path=None)
    launch = resolve_launch(made, resolved.facts, resolved.table, place)
    return replace(resolved, deployment=made, source=text, place=place, launch=launch)


@pytest.mark.parametrize(("pair", "first"), [(KIMI, 0), (QWEN, 1), (DEEPSEEK, 2)])
def test_a_deployment_has_what_a_configuration_writes(pair: str, first: int) -> None:
    """The law of overlays: read back, the changed file is that configuration.

    One choice in ten where nobody asks for all (``FULL=1``), which takes minutes.
    """
    resolved = resolve_pair(pair)
    present, rows = present_of(resolved), load_space_rows(resolved.table.kind)
    everything = frozenset(row.id for row in rows.knob)
    wishes = Wishes(free=everything, consents=everything)
    space = build_space(rows, present, wishes).space
    knobs = {knob.id: knob for knob in space.knobs}
    step = 1 if os.environ.get("FULL") else 10
    for configuration in list(every_choice(space))[first % step :: step]:
        changes = overlay(space, present, configuration)
        built = build_space(rows, present_of(changed(resolved, changes)), wishes)
        now = {**built.constants, **default_configuration(built.space)}
        wrong = {
            name: (wanted, now.get(name))
            for name, wanted in configuration.items()
            if is_active(knobs[name], configuration) and now.get(name) != wanted
        }
        assert wrong == {}, changes


def space_of(resolved: Resolved, *free: str) -> Space:
    rows = load_space_rows(resolved.table.kind)
    return build_space(rows, present_of(resolved), Wishes(free=frozenset(free))).space


def write(resolved: Resolved, *free: str, **wanted: str) -> dict[str, Plain]:
    space = space_of(resolved, *free)
    configuration = default_configuration(space)
    configuration |= {name.replace("_", "-"): value for name, value in wanted.items()}
    return overlay(space, present_of(resolved), configuration)


def test_the_baseline_writes_nothing() -> None:
    assert write(resolve_pair(KIMI), *DRAFTING) == {}
    assert write(resolve_pair(DEEPSEEK)) == {}


def test_a_chain_has_one_token_more_than_steps() -> None:
    changes = write(resolve_pair(KIMI), *DRAFTING, steps="3", topk="1")
    assert changes == {
        "engine.settings.speculative-num-steps": 3,
        "engine.settings.speculative-num-draft-tokens": 4,
        "engine.settings.speculative-eagle-topk": 1,
    }
    tree = write(resolve_pair(KIMI), *DRAFTING, steps="5")
    assert tree["engine.settings.speculative-num-draft-tokens"] == 4  # what the tree has now


def test_without_drafting_nothing_of_it_stays() -> None:
    changes = write(resolve_pair(KIMI), *DRAFTING, speculation="off")
    assert changes == {
        "engine.settings.speculative-algorithm": None,
        "draft": None,
        "engine.settings.speculative-num-steps": None,
        "engine.settings.speculative-eagle-topk": None,
        "engine.settings.speculative-num-draft-tokens": None,
        "engine.env.SGLANG_ENABLE_SPEC_V2": None,
    }


def test_what_a_rule_sets_is_left_out_by_a_no() -> None:
    changes = write(resolve_pair(QWEN), moe="auto")
    assert changes == {"engine.settings.moe-runner-backend": False}


def test_an_object_in_json_is_written_whole() -> None:
    changes = write(resolve_pair(DEEPSEEK), speculation="ngram", draft_tokens="5")
    assert changes == {
        "engine.settings.speculative-config": (
            '{"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4}'
        )
    }


def on_h200(settings: str, more: str = "") -> Resolved:
    text = (
        "name: d\nmodel: path:/m\nengine:\n  kind: vllm\n  environment: path:/opt/vllm\n"
        f"  settings: {settings}\ngpus: 8\n{more}"
    )
    return resolve_text(text, world_of_pairs(), H200)


def test_an_object_keeps_what_nobody_tunes() -> None:
    told = """{speculative-config: '{"method": "mtp", "num_speculative_tokens": 1, "x": 2}'}"""
    changes = write(on_h200(told), "draft-tokens", draft_tokens="4")
    assert changes == {
        "engine.settings.speculative-config": '{"method":"mtp","num_speculative_tokens":4,"x":2}'
    }


def test_a_flag_has_one_of_its_two_spellings() -> None:
    changes = write(on_h200("{async-scheduling: true}"), "async", **{"async": "off"})
    assert changes == {
        "engine.settings.async-scheduling": None,
        "engine.settings.no-async-scheduling": True,
    }


def test_a_key_of_the_file_is_used_for_what_it_stands_for() -> None:
    assert write(on_h200("{}"), requests="64") == {"serve.parallel_requests": 64}
    own = on_h200("{max_num_seqs: 32}")
    assert write(own, "requests", requests="64") == {"engine.settings.max_num_seqs": 64}
    said = on_h200("{}", "serve: {parallel_requests: 7}\n")
    assert "requests" not in {knob.id for knob in space_of(said).knobs}
    assert write(said, "requests", requests="auto") == {"serve.parallel_requests": None}


def test_an_unknown_choice_is_no_configuration() -> None:
    space = space_of(resolve_pair(QWEN))
    with pytest.raises(KeyError):
        find_choice(space.knobs[0], {space.knobs[0].id: "nonsense"})


# Cutting


@pytest.fixture(scope="module")
def kimi() -> Prepared:
    """Knobs that say something here; judging all of them takes long."""
    return prepare_small(KIMI, DRAFTING | {"attention", "symmetric-memory", "chunk", "memory"})


def prepare_small(pair: str, knobs: frozenset[str], free: frozenset[str] = DRAFTING) -> Prepared:
    """A space of these knobs alone: what is left out is fixed by the file."""
    resolved = resolve_pair(pair)
    rows = load_space_rows(resolved.table.kind)
    fixed = [row for row in rows.knob if row.id not in knobs]
    kept = replace(
        rows,
        knob=tuple(row for row in rows.knob if row.id in knobs),
        cut=tuple(row for row in rows.cut if not set(row.where) & {each.id for each in fixed}),
    )
    return prepare_space(world_of_pairs(), resolved, Wishes(free=free), rows=kept)


def test_what_rules_forbid_is_cut_with_their_words(kimi: Prepared) -> None:
    told = {(each.knob, each.choices): each for each in kimi.left if each.kind == "cut"}
    crash = told["symmetric-memory", ("on",)]
    assert "KeyError on sm_120" in crash.because
    assert crash.source.startswith("communication.symmetric-memory-crash: documented")
    assert "sm_80 to sm_90" in told["attention", ("fa3",)].because
    assert "symmetric-memory" not in {knob.id for knob in kimi.space.knobs}


def test_what_cannot_fit_is_cut(kimi: Prepared) -> None:
    told = {(each.knob, each.choices): each for each in kimi.left if each.kind == "cut"}
    assert "no room for a cache" in told["memory", ("0.7",)].because
    assert told["memory", ("0.7",)].source.startswith("capacity.no-room")


def test_what_another_knob_would_lift_is_a_constraint_of_both(kimi: Prepared) -> None:
    cuts = [each for each in kimi.space.cuts if each.where.get("chunk") == ("32768",)]
    assert [each.where["memory"] for each in cuts] == [("auto",)]
    assert "no room for a cache" in cuts[0].because


def test_and_topk_2(kimi: Prepared) -> None:
    """The story's question is answered by a constraint, with its source, without a trial."""
    asked = {**default_configuration(kimi.space), "topk": "4", "draft-tokens": "8", "steps": "3"}
    refusal = judge_configuration(world_of_pairs(), kimi, asked)
    assert refusal is not None
    assert "topk 1 only: that is a limit of the engine, no matter of speed" in refusal.because
    assert "server_args.py" in refusal.source


def test_a_deployment_that_cannot_start_as_it_is_says_so(kimi: Prepared) -> None:
    assert [each.rule for each in kimi.blocked] == ["speculative.tree-with-overlap"]


def test_pairs_are_judged_before_a_trial(kimi: Prepared) -> None:
    world_, base = world_of_pairs(), default_configuration(kimi.space)
    chain = {**base, "topk": "1"}
    assert judge_configuration(world_, kimi, chain) is None
    without = {**chain, "speculation": "off"}
    assert judge_configuration(world_, kimi, without) is None
    beyond = {**base, "spec-overlap": "off", "topk": "8", "steps": "1", "draft-tokens": "16"}
    refusal = judge_configuration(world_, kimi, beyond)
    assert refusal is not None
    assert "9 tokens" in refusal.because


def test_what_a_rule_warns_of_is_thought_less_of() -> None:
    prepared = prepare_small(QWEN, frozenset({"moe", "symmetric-memory"}))
    by_id = {each.id: each for knob in prepared.space.knobs for each in knob.choices}
    assert by_id["triton"].prior == -0.05
    assert by_id["triton"].because
    assert by_id["on"].prior == 0.05  # 0.1 were it not for the warning


def test_the_space_is_described(kimi: Prepared) -> None:
    shown = describe_space(world_of_pairs(), kimi, Budget(restarts=20))
    assert (shown.name, shown.restarts) == ("kimi-k2-5-int4", 20)
    assert shown.count.is_exact
    assert shown.count.number > 100
    assert shown.seconds is None  # nothing was ever started here
    assert {each.kind for each in shown.left} >= {"cut", "elsewhere"}
    assert describe_space(world_of_pairs(), kimi).restarts is None


# What others chose


def test_a_choice_of_a_recipe_goes_first(world: World) -> None:
    sync_recipes(world, str(FIXTURES))
    table, facts, wish = load_table_for("vllm", RELEASE), gpus(), deployment(recipe="none")
    resolved = Resolved(
        deployment=wish,
        source="",
        table=table,
        facts=facts,
        place=PLACE,
        launch=resolve_launch(wish, facts, table, PLACE),
        user=None,
        model="m",
        preparations=(),
    )
    choices = tuple(Choice(id=each, settings={"max-num-seqs": int(each)}) for each in ("32", "64"))
    knob = Knob(id="requests", title="requests", choices=choices, default="32")
    space = Space(engine="vllm", release=RELEASE, knobs=(knob,))
    found = with_recipes(world, resolved, space, present_of(resolved)).knobs[0].choices
    assert [each.prior for each in found] == [0.0, 0.1]
    assert "the recipe vllm:acme/Rocket-300B" in found[1].because
    other = gpus("NVIDIA B200", "10.0")
    elsewhere = replace(resolved, facts=other)
    found = with_recipes(world, elsewhere, space, present_of(resolved)).knobs[0].choices
    assert found[1].prior in (0.05, 0.1)
