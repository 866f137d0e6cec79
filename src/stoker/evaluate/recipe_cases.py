"""One recipe as a case: a machine of its own, a deployment that names it, and what came of it.

Called by :mod:`stoker.evaluate.recipes`. Everything here is pure: facts are made up from what the
recipe says of its hardware, and the launch is resolved by the functions that `stoker plan` uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from pydantic import ValidationError

from stoker.commands.recipes import find_lifetimes, seek
from stoker.commands.resolve import resolve_launch
from stoker.errors import StokerError
from stoker.knowledge.derive import build_tree
from stoker.knowledge.gpus import GpuRow, find_gpu, load_gpus
from stoker.knowledge.recipes import load_recipe_words
from stoker.knowledge.releases import known_builds, load_table_for
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.deployment import Deployment
from stoker.model.deployment_fields import Scalar
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts, Observation, Plain
from stoker.model.launch import Launch, Origin, Setting
from stoker.model.plan import Folders
from stoker.model.recipe import Recipe
from stoker.ports import SupervisorProperties
from stoker.recipes.fit import FittedRecipe, Withheld, fit_recipe
from stoker.recipes.match import AUTO, NONE, choose_match, match_recipes

_GIB = 1 << 30
_FOLDERS = Folders(
    state="/var/lib/stoker",
    environments="/opt/stoker/environments",
    models="/opt/stoker/models",
    services="/opt/stoker/services",
)
_SUPERVISOR = SupervisorProperties(kind="systemd", starts_on_boot=True, changes_user=True)


class Outcome(StrEnum):
    """What became of a recipe: as it says, overridden by a newer source, or otherwise."""

    AGREES = "agrees"
    OVERRIDDEN = "overridden"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A recipe and how the launch differs from it; ``overridden`` names the newer sources.

    ``added`` are flags and variables that our rules set where the recipe says nothing.
    """

    recipe: Recipe
    release: str
    outcome: Outcome
    overridden: tuple[str, ...] = ()
    consents: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


def judge_recipe(recipe: Recipe) -> Judged:
    """Resolve the recipe on its own machine, and compare every setting.

    A recipe of which no deployment or launch can be made differs, with the reason.
    """
    release, is_known = newest_release(recipe)
    try:
        return _judge(recipe, release, is_known=is_known)
    except (StokerError, ValidationError) as error:
        first = str(error).splitlines()[0]
        return Judged(
            recipe=recipe,
            release=release,
            outcome=Outcome.DIFFERS,
            differences=(f"no launch can be made: {first[:200]}",),
        )


def _judge(recipe: Recipe, release: str, *, is_known: bool) -> Judged:
    table = load_table_for(recipe.engine, release)
    plain = _deployment(recipe, {}, None)
    withheld = _fit(recipe, plain, table).withheld
    consented = [each.setting for each in withheld if each.kind == "consent"]
    draft = _draft(recipe, table)
    deployment = _deployment(recipe, _consent(consented), draft, env=_variables(consented))
    fitted = _fit(recipe, deployment, table)
    facts = make_facts(recipe)
    place = _place(recipe, release, draft)
    launch = resolve_launch(deployment, facts, table, place, proposed=fitted.settings)
    overridden, differences = _compare(recipe, fitted, launch, table)
    blocks = _blocks(deployment, facts, launch, table)
    differences += [f"the plan is blocked: {each}" for each in blocks]
    if not is_known:
        overridden.append(f"no release is known for {recipe.versions}; {release} is the newest")
    outcome = Outcome.OVERRIDDEN if overridden else Outcome.AGREES
    return Judged(
        recipe=recipe,
        release=release,
        outcome=Outcome.DIFFERS if differences else outcome,
        overridden=tuple(overridden),
        consents=tuple(setting.name for setting in consented),
        added=tuple(_added(recipe, launch, table)),
        differences=tuple(differences),
    )


def judge_alone(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """What our rules say of the same things without the recipe: about what, ``same``, ``other``
    or ``silent``, and of another answer both values."""
    release, _ = newest_release(recipe)
    table = load_table_for(recipe.engine, release)
    try:
        deployment = _deployment(recipe, {}, None, wish=NONE)
        place = _place(recipe, release, None)
        launch = resolve_launch(deployment, make_facts(recipe), table, place)
    except (StokerError, ValidationError):
        return
    flags = load_recipe_words().flags[recipe.engine]
    asked = {
        "tool-call parser": flags.tool_call,
        "reasoning parser": flags.reasoning,
        "tensor size": flags.tensor,
        "quantization": flags.quantization,
    }
    told, ours = _by_identity(recipe.settings, table), _by_identity(launch.settings, table)
    for what, name in asked.items():
        identity = table.catalogue.identify(name)
        answer = ours.get(identity)
        if identity not in told:
            continue
        if answer is None:
            yield what, "silent", ""
        elif _is_same(told[identity], answer):
            yield what, "same", ""
        else:
            yield what, "other", f"the recipe {told[identity].value}, we {answer.value}"


def judge_choice(recipe: Recipe, others: Sequence[Recipe]) -> str:
    """What `recipe: auto` takes on the recipe's own machine, of all recipes in its file."""
    release, _ = newest_release(recipe)
    table = load_table_for(recipe.engine, release)
    deployment = _deployment(recipe, {}, None, wish=AUTO)
    sought = seek(deployment, make_facts(recipe), table, _place(recipe, release, None))
    match = choose_match(match_recipes(others, sought), AUTO)
    if match is None:
        return "none"
    chosen = match.recipe
    if chosen.id == recipe.id:
        return "this very recipe"
    is_same = chosen.model == recipe.model and chosen.hardware.gpu == recipe.hardware.gpu
    return "another one for the same checkpoint and GPU" if is_same else "one for something else"


@cache
def _releases(engine: str) -> tuple[str, ...]:
    return known_builds(engine)[::-1]


def newest_release(recipe: Recipe) -> tuple[str, bool]:
    """The newest known release that the recipe is for, and whether there is one."""
    wanted = parse_version_range(recipe.versions)
    for release in _releases(recipe.engine):
        version = parse_version(release)
        if wanted is None or (version is not None and version_is_in(version, wanted)):
            return release, True
    return _releases(recipe.engine)[0], False


def make_facts(recipe: Recipe) -> Facts:
    """What the probes would say on a machine of the recipe's own kind, as far as that is known.

    On a machine of another maker NVIDIA's library finds no GPU, and nobody else is asked.
    """
    row = next((row for row in load_gpus() if row.key == recipe.hardware.gpu), None)
    count = max(recipe.hardware.host_gpus, recipe.hardware.gpu_count)
    value: Plain = {
        "driver_version": "580.126.09" if row else None,
        "cuda_version": "13.0" if row else None,
        "gpus": [_gpu(row, index) for index in range(count)] if row else [],
    }
    seen = Observation(probe="gpus", value=value, source="the recipe's own hardware")
    return Facts(host="recipe", stoker_version="0", observations={"gpus": seen})


def _gpu(row: GpuRow, index: int) -> dict[str, Plain]:
    return {
        "index": index,
        "name": _gpu_name(row.key, row.names[0]),
        "compute_capability": f"{row.capability // 10}.{row.capability % 10}",
        "memory_total_bytes": min(row.memory_gb) * _GIB,
        "memory_used_bytes": 0,
        "pci_bus_id": f"0000:{index + 1:02x}:00.0",
        "uuid": f"GPU-00000000-0000-4000-8000-{index:012d}",
        "processes": [],
    }


def _gpu_name(key: str, pattern: str) -> str:
    """A name that the row of this key is found by."""
    bare = pattern.replace("\\b", "")
    name = f"NVIDIA {re.sub(r'[^A-Za-z0-9 ]', '', bare)}"
    found = find_gpu(name)
    return name if found is not None and found.key == key else f"NVIDIA {key}"


def _deployment(
    recipe: Recipe,
    settings: Mapping[str, Scalar | None],
    draft: str | None,
    *,
    env: Mapping[str, str] | None = None,
    wish: str = "",
) -> Deployment:
    data: dict[str, Plain] = {
        "name": "recipe",
        "model": f"hf:{recipe.model}",
        "engine": {
            "kind": recipe.engine,
            "environment": "system",
            "settings": dict(settings),
            "env": dict(env or {}),
        },
        "recipe": wish or recipe.id,
    }
    if draft:
        data["draft"] = f"hf:{draft}"
    return Deployment.model_validate(data)


def _consent(settings: Sequence[Setting]) -> dict[str, Scalar | None]:
    """The owner's word: the same setting in the deployment."""
    return {
        each.name.lstrip("-"): True if each.value is None else each.value
        for each in settings
        if each.kind == "flag"
    }


def _variables(settings: Sequence[Setting]) -> dict[str, str]:
    return {each.name: each.value or "" for each in settings if each.kind == "env"}


def _draft(recipe: Recipe, table: EngineTable) -> str | None:
    """The model that drafts, which a deployment names under a key of its own."""
    flag = load_recipe_words().flags[recipe.engine].draft
    told = (
        _by_identity(recipe.settings, table).get(table.catalogue.identify(flag)) if flag else None
    )
    return told.value if told else None


def _fit(recipe: Recipe, deployment: Deployment, table: EngineTable) -> FittedRecipe:
    return fit_recipe(recipe, deployment, table, find_lifetimes(recipe.engine))


def _place(recipe: Recipe, release: str, draft: str | None) -> Place:
    return Place(
        command="/usr/local/bin/engine",
        build=release,
        model_path=f"{_FOLDERS.models}/{recipe.model}",
        draft_path=f"{_FOLDERS.models}/{draft}" if draft else None,
    )


def _by_identity(settings: Sequence[Setting], table: EngineTable) -> dict[str, Setting]:
    return {table.catalogue.identify(each.name, each.kind): each for each in settings}


def _compare(
    recipe: Recipe, fitted: FittedRecipe, launch: Launch, table: EngineTable
) -> tuple[list[str], list[str]]:
    """What a newer source overrides, and what differs for no such reason."""
    overridden: list[str] = []
    differences = list(_other_sizes(recipe, launch, table))
    there = _by_identity(launch.settings, table)
    for each in fitted.withheld:
        instead = there.get(table.catalogue.identify(each.setting.name, each.setting.kind))
        taken = f"; {instead.origin.value} says {instead.value or 'set'}" if instead else ""
        told = overridden if _is_newer(each, recipe.engine) else differences
        told.append(f"{each.setting.name}: {each.reason}{taken}")
    for setting in fitted.settings:
        found = there.get(table.catalogue.identify(setting.name, setting.kind))
        if found is None:
            differences.append(f"{setting.name} is not in the launch")
        elif not _is_same(setting, found):
            says = f"{found.origin.value} says {found.value or 'set'} ({found.reason})"
            is_newer = found.origin in (Origin.USER, Origin.TUNED, Origin.EVIDENCE)
            (overridden if is_newer else differences).append(f"{setting.name}: {says}")
    return overridden, differences


def _is_newer(withheld: Withheld, engine: str) -> bool:
    """Whether what withholds a setting knows better than the recipe: the deployment's own key, or
    a release that is newer than one that had the flag."""
    lifetimes = find_lifetimes(engine)
    is_known = lifetimes is not None and lifetimes.find(withheld.setting.name) is not None
    return withheld.kind == "deployment" or (withheld.kind == "release" and is_known)


def _other_sizes(recipe: Recipe, launch: Launch, table: EngineTable) -> Iterator[str]:
    """Sizes of groups that the recipe leaves as they are, and the launch does not."""
    flags = load_recipe_words().flags[recipe.engine]
    told, there = _by_identity(recipe.settings, table), _by_identity(launch.settings, table)
    for name in (flags.tensor, flags.data, flags.pipeline):
        option = table.catalogue.find(name)
        identity = table.catalogue.identify(name)
        found = there.get(identity)
        default = option.default if option else None
        if identity not in told and found is not None and found.value not in (default, "1"):
            yield f"{identity}: {found.origin.value} says {found.value}, the recipe nothing"


def _added(recipe: Recipe, launch: Launch, table: EngineTable) -> Iterator[str]:
    told = _by_identity(recipe.settings, table)
    for identity, setting in _by_identity(launch.settings, table).items():
        if setting.origin is Origin.RULE and identity not in told:
            yield f"{setting.name} {setting.value or ''}".strip()


def _is_same(one: Setting, other: Setting) -> bool:
    if one.name != other.name and (one.value is None or other.value is None):
        return False  # --flag and --no-flag are one option
    return _plain(one) == _plain(other)


def _plain(setting: Setting) -> list[Plain]:
    words = [setting.value, *setting.more]
    try:
        return [json.loads(word) if word and word[0] in "{[" else word for word in words]
    except ValueError:
        return list(words)


def _blocks(
    deployment: Deployment, facts: Facts, launch: Launch, table: EngineTable
) -> Iterator[str]:
    """What would forbid this plan, as far as a machine that is only made up can say."""
    tree = build_tree(
        deployment=deployment,
        facts=facts,
        launch=launch,
        table=table,
        preparations=(),
        own_pids=frozenset(),
        key_file=None,
        supervisor=_SUPERVISOR,
        user="nobody",
        folders=_FOLDERS,
    )
    for finding in evaluate_rules(load_rules(), tree, stage="plan"):
        if finding.blocks:
            yield f"{finding.rule}: {finding.summary}"
