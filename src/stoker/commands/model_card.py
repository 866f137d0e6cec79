"""What a model's card asks of the engine that is here, as a fact that rules judge by.

Called where a launch is resolved. The card is a stranger's text: its sentences are read, bounded,
and nothing in it is followed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace

from stoker.commands.world import World
from stoker.errors import HostError, UsageError
from stoker.knowledge.changes import load_asked
from stoker.knowledge.derived.stack import derive_stack
from stoker.knowledge.derived.subject import Subject
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts, Observation, Plain, Unknown
from stoker.model.model_card import CardRequirement
from stoker.recipes.notes.card import is_met, parse_requirements
from stoker.recipes.notes.text import MAX_BYTES

OBSERVATION = "card"
CARD = "README.md"
#: More demands than a person reads.
_MOST_TOLD = 20


def note_card(
    world: World, facts: Facts, *, deployment: Deployment, table: EngineTable, place: Place
) -> Facts:
    """The facts with what the card of the model's folder asks for; as they are without a card."""
    path = posixpath.join(place.model_path, CARD)
    try:
        stat = world.host.stat(path)
        if stat is None or stat.kind != "file":
            return facts
        demands = parse_requirements(world.host.read_text(path, MAX_BYTES), origin=path)
    except (HostError, UsageError) as error:
        observation = Observation(probe=OBSERVATION, unknown=error.summary, source=path)
        return _with(facts, observation)
    subject = Subject(
        deployment=deployment, facts=facts, table=table, build=place.build, settings=()
    )
    value = judge_demands(demands, table, derive_stack(subject))
    return _with(facts, Observation(probe=OBSERVATION, value=value, source=path))


def judge_demands(
    demands: tuple[CardRequirement, ...], table: EngineTable, stack: Mapping[str, Plain]
) -> dict[str, Plain]:
    """``unmet`` and ``unknown`` demands of this engine's and of packages under it, as phrases."""
    releases = _releases(table, stack)
    ours = [each for each in demands if each.engine in ("", table.kind)]
    judged = [(each, is_met(each, releases)) for each in ours]
    unmet = [
        f"{describe_demand(each)} (line {each.line}), and {releases[each.package]} is here"
        for each, met in judged
        if met is False
    ]
    unknown = [
        f"{describe_demand(each)} (line {each.line}): {met.reason}"
        for each, met in judged
        if isinstance(met, Unknown) and each.engine
    ]
    return {"unmet": unmet[:_MOST_TOLD], "unknown": unknown[:_MOST_TOLD]}


def _releases(table: EngineTable, stack: Mapping[str, Plain]) -> dict[str, str | Unknown]:
    """The installed releases by the name that cards use."""
    found: dict[str, str | Unknown] = {}
    commit = stack.get("commit")
    for package in load_asked().package:
        value = stack.get("version" if package.kind == table.kind else package.name)
        if package.kind == table.kind and isinstance(commit, str):
            reason = f"it was built from the commit {commit[:12]}, which no release stands for"
            value = Unknown(reason=reason)
        if isinstance(value, (str, Unknown)):
            found[package.name] = value
    return found


def describe_demand(demand: CardRequirement) -> str:
    """A demand as a phrase: ``sglang >=0.5.9``, ``vllm with change 1234``."""
    if demand.kind == "change":
        return f"{demand.package} with change {demand.number}"
    return f"{demand.package} {demand.versions or 'built from source'}"


def _with(facts: Facts, observation: Observation) -> Facts:
    return replace(facts, observations={**facts.observations, OBSERVATION: observation})
