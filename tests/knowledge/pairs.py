"""Deployments on recorded machines, as far as a search needs them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache

from stoker.commands.engine_flags import fit_engine
from stoker.commands.judge import knowledge_tree
from stoker.commands.resolve import Resolved, find_place, resolve_launch
from stoker.commands.world import World
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.knowledge.present import Present
from stoker.spec import parse_deployment
from tests.commands.boxes import Box
from tests.golden.machines import read_facts
from tests.golden.plans import PAIRS

KIMI = "kimi-k2.5-topk-2-on-8x-rtx-pro-6000-sglang-0.5.9"
QWEN = "qwen3.5-397b-nvfp4-on-8x-rtx-pro-6000-sglang-0.5.23"
DEEPSEEK = "deepseek-v3.2-on-8x-h200-vllm-0.33.0"
LLAMA = "llama-3.3-70b-on-4x-a100-vllm-0.15.0"


@cache
def resolve_pair(name: str) -> Resolved:
    """A pair's deployment, resolved on its facts."""
    folder = PAIRS / name
    return resolve_text(
        (folder / "deployment.yaml").read_text(),
        world_of_pairs(),
        tomllib.loads((folder / "pair.toml").read_text()),
    )


@cache
def world_of_pairs() -> World:
    """A machine in memory; the facts of a pair are its own."""
    return Box().world()


def resolve_text(source: str, world: World, pair: dict[str, str]) -> Resolved:
    """Any deployment file on a pair's facts."""
    facts = read_facts(**pair)
    deployment = parse_deployment(source, "deployment.yaml", engine_kinds=engine_kinds())
    table = load_engine_table(deployment.engine.kind)
    place = find_place(world, deployment, table)
    command = f"{deployment.engine.environment.removeprefix('path:')}/bin/{table.command}"
    fitted = fit_engine(world, deployment, replace(place, command=command), facts, user="nobody")
    return Resolved(
        deployment=deployment,
        source=source,
        table=fitted.table,
        facts=fitted.facts,
        place=fitted.place,
        launch=resolve_launch(deployment, fitted.facts, fitted.table, fitted.place),
        user="nobody",
        model=deployment.model.ref,
        preparations=(),
    )


def present_of(resolved: Resolved) -> Present:
    """What a resolved deployment sets now."""
    subject = Subject(
        deployment=resolved.deployment,
        facts=resolved.facts,
        table=resolved.table,
        build=resolved.launch.engine_build,
        settings=resolved.launch.settings,
    )
    return Present(subject=subject, tree=knowledge_tree(world_of_pairs(), resolved))
