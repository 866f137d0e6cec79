"""The plan of a pair: its deployment file on its recorded facts, through the commands."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from stoker.commands.assemble import plan_deployment
from stoker.commands.engine_flags import fit_engine
from stoker.commands.resolve import Resolved, find_place, resolve_launch
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.model.finding import Status
from stoker.model.launch import Setting
from stoker.model.plan import Plan
from stoker.spec import parse_deployment
from tests.commands.boxes import Box
from tests.golden.machines import HERE, read_facts

PAIRS = HERE / "pairs"


def list_pairs() -> list[str]:
    """All pairs by name."""
    return sorted(path.name for path in PAIRS.iterdir() if path.is_dir())


@cache
def make_plan(name: str) -> Plan:
    """What `stoker plan` would save for this pair."""
    return make_plan_in(PAIRS / name)


def make_plan_in(folder: Path, source: str | None = None) -> Plan:
    """The same for a folder, maybe with another deployment file."""
    source = source or (folder / "deployment.yaml").read_text()
    facts = read_facts(**tomllib.loads((folder / "pair.toml").read_text()))
    deployment = parse_deployment(source, "deployment.yaml", engine_kinds=engine_kinds())
    world = Box().world()
    table = load_engine_table(deployment.engine.kind)
    place = find_place(world, deployment, table)
    command = f"{deployment.engine.environment.removeprefix('path:')}/bin/{table.command}"
    fitted = fit_engine(world, deployment, replace(place, command=command), facts, user="nobody")
    launch = resolve_launch(deployment, fitted.facts, fitted.table, fitted.place)
    resolved = Resolved(
        deployment=deployment,
        source=source,
        table=fitted.table,
        facts=fitted.facts,
        place=fitted.place,
        launch=launch,
        user="nobody",
        model=deployment.model.ref,
        preparations=(),
    )
    return plan_deployment(world, resolved, origin="deployment.yaml")


def summarise(plan: Plan) -> dict[str, Any]:
    """What a golden plan holds fast: the launch, why each setting is there, and what is found."""
    assert plan.launch is not None
    return {
        "argv": list(plan.launch.argv),
        "env": dict(sorted(plan.launch.env.items())),
        "settings": [_tell(setting) for setting in plan.launch.settings],
        "blocked_by": sorted(each.rule for each in plan.findings if each.blocks),
        "findings": [
            {"rule": each.rule, "severity": each.severity.value, "summary": each.summary}
            for each in plan.findings
            if each.status is Status.FIRED
        ],
        "unknown": sorted(each.rule for each in plan.findings if each.status is Status.UNKNOWN),
    }


def _tell(setting: Setting) -> str:
    value = "" if setting.value is None else " " + " ".join((setting.value, *setting.more))
    by = f" {setting.rule}" if setting.rule else ""
    return f"{setting.name}{value} [{setting.origin.value}{by}]"
