"""`stoker explain FILE [FLAG]`: why each setting has its value, and what would be without it.

Reads the file and the machine as a plan does; saves and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from difflib import get_close_matches

from stoker.commands.plan import read_file
from stoker.commands.resolve import Resolved, resolve, resolve_tree
from stoker.commands.supervising import using_wanted
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.knowledge.engines import engine_kinds, load_variables
from stoker.knowledge.lifetimes import Lifetimes, lifetime_kinds, load_lifetimes
from stoker.knowledge.releases import find_release
from stoker.knowledge.resolution import explain_rules
from stoker.knowledge.rules import load_rules
from stoker.knowledge.templates import render_template
from stoker.model.engine_table import Option
from stoker.model.explanation import Explained, Explanation, RuleAnswer
from stoker.model.facts import Plain
from stoker.model.finding import Status
from stoker.model.launch import Origin, Setting
from stoker.spec import parse_deployment


def explain_file(world: World, path: str, *, flag: str | None = None) -> Explained:
    """The settings of a deployment file, or one flag or variable of its engine.

    Raises SpecError, UsageError (also for a flag that no release of the engine has), HostError.
    """
    world.open_state()
    text = read_file(path)
    world = using_wanted(world, parse_deployment(text, path, engine_kinds=engine_kinds()))
    resolved = resolve(world, text, path)
    tree = resolve_tree(
        resolved.deployment,
        resolved.facts,
        resolved.table,
        resolved.place,
        proposed=resolved.proposed,
    )
    scene = _Scene(
        resolved=resolved,
        tree=tree,
        lifetimes=_lifetimes(resolved.table.kind),
        today=_today(world),
    )
    settings = resolved.launch.settings
    names = [find_name(flag, resolved)] if flag else [(each.name, each.kind) for each in settings]
    return Explained(
        name=resolved.deployment.name,
        engine=resolved.table.kind,
        build=resolved.place.build,
        explanations=tuple(_explain(scene, *each) for each in dict.fromkeys(names)),
    )


def find_name(wanted: str, resolved: Resolved) -> tuple[str, str]:
    """The flag or variable that a person means, with its kind. Raises UsageError for none."""
    catalogue = resolved.table.catalogue
    chosen = {(each.name, each.kind) for each in resolved.launch.settings}
    bare = wanted.removeprefix("$")
    known = find_release(catalogue.engine, catalogue.build).build
    if (bare, "env") in chosen or bare in load_variables(catalogue.engine, known):
        return bare, "env"
    if catalogue.find_written(wanted.lstrip("-")) is not None:
        return catalogue.spell(wanted.lstrip("-")), "flag"
    lifetimes = _lifetimes(resolved.table.kind)
    found = lifetimes.find(wanted) if lifetimes else None
    if found is not None:
        return found.name, "flag"
    names = {name.lstrip("-"): name for option in catalogue.options for name in option.names}
    near = get_close_matches(wanted.lstrip("-").replace("_", "-"), names, n=1)
    raise UsageError(
        f"{resolved.table.title} has no flag or variable named {wanted}, in no known release",
        f"did you mean {names[near[0]]}?" if near else "`stoker explain FILE` lists what is set",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """What every explanation of one deployment needs."""

    resolved: Resolved
    tree: Mapping[str, Plain]
    lifetimes: Lifetimes | None
    today: date


def _explain(scene: _Scene, name: str, kind: str) -> Explanation:
    """One flag or variable, whether it is set or not."""
    catalogue = scene.resolved.table.catalogue
    identity = catalogue.identify(name, kind)
    settings = scene.resolved.launch.settings
    group = [each for each in settings if catalogue.identify(each.name, each.kind) == identity]
    setting = _with_evidence(group[-1], identity, scene.resolved) if group else None
    option = catalogue.find(name) if kind == "flag" else None
    lifetime = scene.lifetimes.find(name) if scene.lifetimes and kind == "flag" else None
    answers = explain_rules(load_rules(), scene.tree, catalogue, name=name, kind=kind)
    return Explanation(
        name=name,
        kind=kind,
        setting=setting,
        without=_without_rule(scene, setting, answers) or _without_anybody(option, kind),
        age_days=_age_days(setting, scene.today),
        choices=option.choices if option else (),
        since=lifetime.first if lifetime else "",
        until=lifetime.last if lifetime else "",
        rules=answers,
    )


def _with_evidence(setting: Setting, identity: str, resolved: Resolved) -> Setting:
    """The same, knowing what mended such a deployment before, where the file sets it itself."""
    if setting.origin is not Origin.USER:
        return setting
    catalogue = resolved.table.catalogue
    kept = (each for each in resolved.kept if catalogue.identify(each.name, each.kind) == identity)
    return replace(setting, instead_of=(*kept, *setting.instead_of))


def _without_rule(scene: _Scene, setting: Setting | None, answers: Sequence[RuleAnswer]) -> str:
    """What would be without the one who chose, where a rule says it or another would choose."""
    if setting is None:
        return ""
    if setting.origin is Origin.RULE:
        rule = next(each for each in load_rules() if each.id == setting.rule)
        return render_template(rule.remedy, scene.tree)
    if setting.instead_of:
        other = setting.instead_of[0]
        return f"{_word(other)}, which {other.chosen_by} would choose: {other.reason}"
    fired = [each for each in answers if each.status is Status.FIRED]
    return f"{fired[0].value or 'set'}, by rule {fired[0].rule}" if fired else ""


def _without_anybody(option: Option | None, kind: str) -> str:
    if kind == "positional":
        return "the engine would not know what to serve"
    if kind == "env":
        return "the variable is not set, and the engine does as it does by itself"
    if option is None:
        return "this release of the engine does not have the flag"
    if option.default is None:
        return "the engine's flags name no default: it decides as it starts, or does without"
    return f"the engine's own default: {option.default}"


def _word(setting: Setting) -> str:
    return "set" if setting.value is None else " ".join((setting.value, *setting.more))


def _today(world: World) -> date:
    return datetime.fromtimestamp(world.clock.now_seconds(), UTC).date()


def _age_days(setting: Setting | None, today: date) -> int | None:
    """How old the knowledge is; None where its source carries no date."""
    told = setting.source.date if setting is not None and setting.source is not None else ""
    try:
        return max(0, (today - date.fromisoformat(told)).days)
    except ValueError:
        return None


def _lifetimes(kind: str) -> Lifetimes | None:
    return load_lifetimes(kind) if kind in lifetime_kinds() else None
