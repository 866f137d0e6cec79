"""What can be tuned: the rows against the engines' own flags, and the space of one deployment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from stoker.errors import DataError
from stoker.knowledge.conditions import Condition, evaluate_condition, list_paths
from stoker.knowledge.engines import load_catalogue, load_engine_table, load_variables
from stoker.knowledge.lifetimes import lifetime_kinds, load_lifetimes
from stoker.knowledge.present import Present
from stoker.knowledge.space_cutting import (
    count_configurations,
    default_configuration,
    find_cut,
    fold,
    is_active,
    take_out,
)
from stoker.knowledge.space_rows import (
    DRAFT_KEY,
    KnobRow,
    SpaceRows,
    load_space_rows,
    parse_space_rows,
    space_engines,
)
from stoker.knowledge.spaces import Built, Wishes, build_space
from stoker.model.engine_table import FlagCatalogue
from stoker.model.tuning import Choice, Cut, Knob, Space
from stoker.model.units import write_word
from tests.knowledge.pairs import (
    DEEPSEEK,
    KIMI,
    LLAMA,
    QWEN,
    present_of,
    resolve_pair,
    resolve_text,
    world_of_pairs,
)

OWN = ("SGLANG_", "VLLM_")
KNOBS = [(engine, row) for engine in space_engines() for row in load_space_rows(engine).knob]
SOURCE = {"kind": "documented", "where": "somewhere", "version": "1"}
WHY = {"because": "so", "source": SOURCE}


def releases_of(engine: str) -> tuple[str, ...]:
    if engine in lifetime_kinds():
        return load_lifetimes(engine).releases
    return (load_engine_table(engine).catalogue.build,)


def may_hold(condition: Condition | None, release: str) -> bool:
    """Whether a condition can hold for a release, whatever else is the case."""
    tree = {"stack": {"version": release}}
    return condition is None or evaluate_condition(condition, tree).truth is not False


def written(row: KnobRow) -> Iterator[tuple[str, Any, Condition | None]]:
    """Every flag and variable of a knob with its values; None where it is left out."""
    for choice in row.choice:
        for name, value in {**choice.settings, **choice.along, **choice.variables}.items():
            yield name, value, choice.when
        for name in choice.leaves_out:
            yield name, None, choice.when


def test_the_three_engines_are_described() -> None:
    assert space_engines() == ("llamacpp", "sglang", "vllm")
    assert load_space_rows("nobody").knob == ()


@pytest.mark.parametrize(("engine", "row"), KNOBS, ids=lambda each: getattr(each, "id", each))
def test_flags_exist_and_take_the_values(engine: str, row: KnobRow) -> None:
    """Each name in some release that the row is for, and each value in one that has the name."""
    for name, value, when in written(row):
        if name == DRAFT_KEY or (name.isupper() and not name.startswith(OWN)):
            continue
        found = [
            release
            for release in releases_of(engine)
            if may_hold(row.when, release)
            and may_hold(when, release)
            and (
                name in load_variables(engine, release)
                if name.isupper()
                else takes(load_catalogue(engine, release), name, value)
            )
        ]
        assert found, (row.id, name, value)


def takes(catalogue: FlagCatalogue, name: str, value: Any) -> bool:
    flag, _, entry = name.partition(".")
    option = catalogue.find_whole(flag)
    if option is None:
        return False
    if entry:
        assert option.type == "json"
        return True
    if value is None:
        return True
    assert (option.argument is None) == (value is True), (name, value)
    listed = {*option.choices, *option.also}
    is_open = not listed or option.kind == "number"
    return value is True or is_open or write_word(value) in listed


def test_each_flag_is_set_by_the_same_knob_in_every_release_that_has_it() -> None:
    """Where two knobs of one release write one flag, one of them alone means something."""
    for engine in space_engines():
        for release in releases_of(engine):
            owners: dict[str, list[KnobRow]] = {}
            for row in load_space_rows(engine).knob:
                if may_hold(row.when, release):
                    for name in {name for each in row.choice for name in each.settings}:
                        owners.setdefault(name, []).append(row)
            shared = {name: rows for name, rows in owners.items() if len(rows) > 1}
            assert set(shared) <= {"speculative-num-draft-tokens", "attention-backend"}


@pytest.mark.parametrize("pair", [QWEN, DEEPSEEK])
def test_conditions_ask_for_what_is_there(pair: str) -> None:
    """A path that nobody ever describes would keep a knob away for good, and in silence."""
    present = present_of(resolve_pair(pair))
    rows = load_space_rows(present.subject.table.kind)
    conditions = [each.when for each in rows.knob if each.when is not None]
    conditions += [each.when for each in rows.cut if each.when is not None]
    conditions += [each.when for row in rows.knob for each in row.choice if each.when is not None]
    paths = {path for condition in conditions for path in list_paths(condition)}
    unread = {
        path
        for path in paths
        for reason in evaluate_condition(parse(path), present.tree).missing.values()
        if reason == "nothing was read there"
    }
    assert unread == set()


def parse(path: str) -> Condition:
    rows = parse_space_rows(
        {"knob": [knob(when={"path": path, "exists": True})]}, engine="x", origin="x"
    )
    assert rows.knob[0].when is not None
    return rows.knob[0].when


def knob(**more: Any) -> dict[str, Any]:
    return {"id": "a", "title": "a", "name": "flag", "values": [1, 2], "source": SOURCE, **more}


def cut_row(choice: str, because: str) -> dict[str, Any]:
    return {"where": {"a": [choice]}, "because": because, "source": SOURCE}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"knob": [knob(values=[1])]}, "two choices"),
        ({"knob": [knob(values=[1, 1])]}, "two choices"),
        ({"knob": [knob(default="3")]}, "none of its choices"),
        ({"knob": [knob(name="")]}, "values of what"),
        ({"knob": [knob(), knob()]}, "one name"),
        ({"knob": [knob(only_with={"b": ["1"]})]}, "no knob b"),
        ({"knob": [knob(source={"kind": "documented", "where": "x"})]}, "version or a date"),
        ({"knob": [knob(speling=1)]}, "unknown key"),
        ({"knob": [knob()], "cuts": []}, "unknown cuts"),
        ({"knob": [knob()], "cut": [cut_row("3", "So.")]}, "no choice 3"),
        ({"knob": [knob()], "cut": [cut_row("1", "so")]}, "sentence"),
        ({"knob": [knob(prior=[{"choices": ["9"], "value": 0.1, **WHY}])]}, "prior is about 9"),
    ],
)
def test_a_malformed_row_is_refused(data: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        parse_space_rows(data, engine="x", origin="x")


# The space of one deployment


def build(name: str, *, free: str = "", consents: str = "") -> Built:
    present = present_of(resolve_pair(name))
    wishes = Wishes(free=frozenset(free.split()), consents=frozenset(consents.split()))
    return build_space(load_space_rows(present.subject.table.kind), present, wishes)


def find(built: Built, name: str) -> Knob:
    return next(each for each in built.space.knobs if each.id == name)


def names(built: Built) -> set[str]:
    return {each.id for each in built.space.knobs}


def test_what_the_file_fixes_is_not_varied_unless_asked() -> None:
    built = build(KIMI)
    assert not {"speculation", "steps", "topk", "draft-tokens", "spec-overlap"} & names(built)
    (told,) = [each for each in built.left if each.knob == "topk"]
    assert (told.kind, told.choices) == ("fixed", ("1", "4", "8"))
    assert "speculative-eagle-topk" in told.because
    asked = build(KIMI, free="topk steps")
    assert {"topk", "steps"} <= names(asked)
    by_flag = build(KIMI, free="speculative-eagle-topk")
    assert "topk" in names(by_flag)


def test_the_default_is_what_the_deployment_has() -> None:
    built = build(KIMI, free="topk steps speculation draft-tokens")
    values = default_configuration(built.space)
    assert values["speculation"] == "EAGLE3"
    assert (values["steps"], values["topk"], values["draft-tokens"]) == ("2", "2", "4")
    assert values["schedule"] == "fcfs"  # by the engine's own default
    assert default_configuration(build(QWEN).space)["moe"] == "flashinfer_cutlass"  # by a rule


def test_a_present_value_that_is_no_choice_becomes_one() -> None:
    source = resolve_pair(QWEN).source.replace(
        "path:/opt/sglang\n",
        "path:/opt/sglang\n  settings: {chunked-prefill-size: 3000, schedule-policy: random}\n",
    )
    present = present_of_text(source)
    rows = load_space_rows("sglang")
    built = build_space(rows, present, Wishes(free=frozenset({"chunk", "schedule"})))
    chunk = find(built, "chunk")
    assert chunk.default == "3000"
    ids = [each.id for each in chunk.choices]
    assert ids.index("2048") < ids.index("3000") < ids.index("4096")
    assert find(built, "schedule").default == "random"


def present_of_text(source: str) -> Present:
    pair = {"machine": "8x-rtx-pro-6000", "stack": "sglang-0.5.23-cu130"}
    return present_of(
        resolve_text(source, world_of_pairs(), {**pair, "model": "qwen3.5-397b-nvfp4"})
    )


def test_what_may_change_answers_waits_for_consent() -> None:
    built = build(QWEN)
    assert not {"kv-dtype", "accept-threshold"} & names(built)
    (told,) = [each for each in built.left if each.knob == "kv-dtype"]
    assert told.kind == "consent"
    assert "may make answers worse" in told.because
    assert "kv-dtype" not in names(build(QWEN, free="kv-dtype"))
    assert "kv-dtype" in names(build(QWEN, consents="kv-dtype"))


def test_a_release_has_what_it_has() -> None:
    built = build(KIMI)
    told = {each.knob: each for each in built.left if each.kind == "release"}
    assert told["prefill-graphs"].because == "this release has no cuda-graph-backend-prefill"
    assert "pcie-all-reduce" in told
    assert {"graph-size-before", "all-reduce-fusion"} <= names(built)
    newer = names(build(QWEN))
    assert {"graph-size", "all-reduce-fusion-kernel", "pcie-all-reduce"} <= newer
    assert not {"graph-size-before", "all-reduce-fusion"} & newer


def test_one_gpu_has_nobody_to_talk_to() -> None:
    built = build("qwen3-8b-bf16-on-1x-rtx-3090-vllm-0.11.0")
    assert not {each for each in names(built) if each.startswith("nccl")}
    assert "moe" not in names(built)


def test_priors_are_against_what_is_there() -> None:
    drafting = find(build(KIMI, free="speculation"), "speculation")
    by_id = {each.id: each for each in drafting.choices}
    assert by_id["EAGLE3"].prior == 0.0
    assert by_id["off"].prior == -0.25
    assert by_id["NGRAM"].prior < by_id["off"].prior
    assert "observed" in by_id["NGRAM"].because


def test_a_constraint_holds_only_where_its_knobs_mean_something() -> None:
    space = build(KIMI, free="topk steps speculation draft-tokens spec-overlap").space
    tree = {**default_configuration(space), "topk": "4", "spec-overlap": "1"}
    cut = find_cut(space, tree)
    assert cut is not None
    assert "topk 1 only" in cut.because
    assert "no matter of speed" in cut.because
    assert "server_args.py" in cut.source
    assert find_cut(space, {**tree, "speculation": "off"}) is None
    assert find_cut(space, {**tree, "topk": "1"}) is None


def test_a_fixed_value_becomes_part_of_the_constraints() -> None:
    """With spec v2 fixed by the file, other branches than 1 are gone for good, with the reason."""
    built = build(KIMI, free="topk")
    topk = find(built, "topk")
    assert [each.id for each in topk.choices] == ["1", "2"]  # 2 is what the file has
    told = [each for each in built.left if each.knob == "topk" and each.kind == "cut"]
    assert any("spec v2" in each.because and each.source for each in told)


def test_entries_of_a_json_object_are_knobs() -> None:
    built = build(DEEPSEEK)
    drafting = find(built, "draft-tokens")
    assert drafting.default == "3"
    assert set(drafting.only_with) == {"speculation"}
    assert not is_active(drafting, default_configuration(built.space))


# Folding and counting


def made(*cuts: Cut) -> Space:
    def knob_of(name: str, ids: str, **more: Any) -> Knob:
        choices = tuple(Choice(id=each, settings={name: each}) for each in ids)
        return Knob(id=name, title=name, choices=choices, default=ids[0], **more)

    knobs = (
        knob_of("a", "012"),
        knob_of("b", "xyz", only_with={"a": ("1", "2")}),
        knob_of("c", "pq"),
        knob_of("d", "rs", only_with={"b": ("y",), "a": ("1", "2")}),
    )
    return Space(engine="x", release="1", knobs=knobs, cuts=cuts)


def cut(**where: str) -> Cut:
    return Cut(where={name: tuple(ids) for name, ids in where.items()}, because="So.")


def count_by_hand(space: Space) -> int:
    ids = [[each.id for each in knob.choices] for knob in space.knobs]
    seen = set()
    for values in product(*ids):
        point = dict(zip([knob.id for knob in space.knobs], values, strict=True))
        if find_cut(space, point) is None:
            seen.add(tuple(point[k.id] if is_active(k, point) else "" for k in space.knobs))
    return len(seen)


@pytest.mark.parametrize(
    "space",
    [made(), made(cut(a="1", c="q")), made(cut(a="12", b="y", c="p"), cut(c="q", a="0"))],
)
def test_configurations_are_counted(space: Space) -> None:
    counted = count_configurations(space)
    assert counted.is_exact
    assert counted.number == count_by_hand(space)


def test_a_real_space_is_counted_or_bounded() -> None:
    small = count_configurations(build("qwen3-8b-bf16-on-1x-rtx-3090-vllm-0.11.0").space)
    assert small.is_exact
    assert count_configurations(build(LLAMA).space).number > small.number


def test_a_constraint_about_one_knob_takes_its_choices() -> None:
    folded = fold(made(cut(c="q")), {})
    assert [knob.id for knob in folded.knobs] == ["a", "b", "d"]
    assert folded.cuts == ()


def test_what_can_mean_nothing_any_more_goes() -> None:
    folded = take_out(made(), "a", ("1", "2"))
    assert [knob.id for knob in folded.knobs] == ["c"]


def test_what_is_settled_is_worked_into_the_rest() -> None:
    folded = take_out(made(cut(c="p", a="2")), "c", ("q",))
    assert [each.id for each in folded.knobs[0].choices] == ["0", "1"]
    assert folded.knobs[1].only_with == {"a": ("1",)}


def test_the_present_choice_is_never_taken_out() -> None:
    assert len(take_out(made(), "c", ("p", "q")).knobs) == 3
    assert isinstance(load_space_rows("sglang"), SpaceRows)
