"""The space of a search, cut down to what can be: by rules, by what fits, by the engine itself.

Called by `stoker tune`. Every choice is put on the deployment and judged as a plan would judge it:
the ordinary resolution, the ordinary rules, with the flags of the engine that is there and with the
prediction of memory. So nothing is started of which it is known that it cannot run. It writes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.commands.forecast import foresee
from stoker.commands.holders import NOTHING, Judged
from stoker.commands.judge import judge, knowledge_tree
from stoker.commands.resolve import Resolved, resolve_launch
from stoker.commands.tuning_overlay import overlay
from stoker.commands.tuning_priors import with_recipes
from stoker.commands.world import World
from stoker.errors import SpecError, UsageError
from stoker.knowledge.capacity_flags import load_capacity_flags
from stoker.knowledge.derive import build_tree
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.present import Present, split_entry
from stoker.knowledge.space_cutting import (
    Count,
    count_configurations,
    default_configuration,
    excludes,
    find_cut,
    is_active,
    take_out,
)
from stoker.knowledge.space_rows import SpaceRows, load_space_rows
from stoker.knowledge.spaces import Left, Wishes, build_space, list_names, tell_source
from stoker.knowledge.speculation import load_speculation
from stoker.model.deployment import Deployment
from stoker.model.event import Event, EventKind
from stoker.model.facts import Plain
from stoker.model.finding import Finding, Severity, Status
from stoker.model.tuning import Budget, Choice, Configuration, Cut, Knob, Space
from stoker.spec import apply_changes, edit_deployment, parse_deployment
from stoker.spec.plain import read_plain
from stoker.state.documents import read_starts

#: How much less a choice is thought of that a rule warns of, as the logarithm of a ratio: behind
#: all that nothing is known against, and still before what was measured to be slower.
_DOUBT = 0.05
NO_WISHES = Wishes()
NO_BOUND = Budget()
#: Parts of the description that come from a look at processes, ports and the owner's key file.
_LOOKED_AT = ("holders", "key_file", "listening", "port")
#: Of what decides whether there is room, the one thing that gives more of it.
_SHARE = "memory_share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a configuration is not started: a sentence, and where it is known from.

    ``rule``: the rule that forbids it; empty for a constraint of the space itself.
    """

    because: str
    source: str = ""
    rule: str = ""
    evidence: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A space for one deployment on this host, what was left out of it, and what it was made from.

    ``blocked``: what forbids the deployment as it is. ``known``: the findings that it has as it is
    (rule and sentence), which therefore say nothing against a configuration. ``values``: the
    deployment file as plain data.
    """

    resolved: Resolved
    present: Present
    space: Space
    left: tuple[Left, ...]
    blocked: tuple[Refusal, ...] = ()
    known: frozenset[tuple[str, str]] = frozenset()
    values: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSpace:
    """What a search would walk through, before it does.

    ``restarts`` None: as many as there are configurations. ``seconds``: what the restarts would
    take, None where no earlier start of these weights is known.
    """

    name: str
    space: Space
    left: tuple[Left, ...]
    blocked: tuple[Refusal, ...]
    count: Count
    restarts: int | None
    start_seconds: float | None
    seconds: float | None


def prepare_space(
    world: World,
    resolved: Resolved,
    wishes: Wishes = NO_WISHES,
    *,
    rows: SpaceRows | None = None,
) -> Prepared:
    """The space of a deployment, with everything taken out that surely cannot run here.

    Consents are also what the deployment names under ``accept``. ``rows``: what can be tuned, all
    that is known of the engine where nothing else is said.
    """
    consents = wishes.consents | frozenset(resolved.deployment.accept)
    present = _describe(world, resolved)
    rows = rows or load_space_rows(resolved.table.kind)
    built = build_space(rows, present, replace(wishes, consents=consents))
    findings = _judge(world, resolved, present.tree)
    prepared = Prepared(
        resolved=resolved,
        present=present,
        space=with_recipes(world, resolved, built.space, present),
        left=built.left,
        blocked=tuple(_refusal(each) for each in findings if each.blocks),
        known=frozenset((each.rule, each.summary) for each in findings),
        values=read_plain(resolved.source, "the deployment file").value,
    )
    return _sift(world, prepared)


def judge_configuration(
    world: World, prepared: Prepared, configuration: Configuration
) -> Refusal | None:
    """Why a configuration should not be started; None for one that may be.

    What is wrong with the deployment as it is already counts for nothing here.
    """
    if (cut := find_cut(prepared.space, configuration)) is not None:
        return Refusal(because=cut.because, source=cut.source)
    changes = overlay(prepared.space, prepared.present, configuration)
    try:
        text = edit_deployment(prepared.resolved.source, changes)
        parse_deployment(text, "the configuration", engine_kinds=engine_kinds())
    except (SpecError, UsageError) as error:
        return Refusal(because=error.summary)
    judged = _judge_changes(world, prepared, configuration)
    return next((_refusal(each) for each in judged if each.blocks), None)


def describe_space(world: World, prepared: Prepared, budget: Budget = NO_BOUND) -> DescribedSpace:
    """What `stoker tune --dry-run` shows."""
    name = prepared.resolved.deployment.name
    starts = read_starts(world.host, world.folders, name)
    each = starts.expected_seconds(prepared.resolved.model)
    restarts = budget.restarts or None
    return DescribedSpace(
        name=name,
        space=prepared.space,
        left=prepared.left,
        blocked=prepared.blocked,
        count=count_configurations(prepared.space),
        restarts=restarts,
        start_seconds=each,
        seconds=each * restarts if each is not None and restarts is not None else None,
    )


# Judging


def _describe(world: World, resolved: Resolved) -> Present:
    subject = Subject(
        deployment=resolved.deployment,
        facts=resolved.facts,
        table=resolved.table,
        build=resolved.launch.engine_build,
        settings=resolved.launch.settings,
    )
    return Present(subject=subject, tree=knowledge_tree(world, resolved))


def _judge(world: World, resolved: Resolved, tree: Mapping[str, Plain]) -> tuple[Finding, ...]:
    """The findings of a plan, with the prediction of memory."""
    judged = Judged(tree=tree, clearing=NOTHING)
    return judge(foresee(world, resolved, judged).tree, resolved.deployment)


def _tree_of(world: World, prepared: Prepared, tried: Resolved) -> Mapping[str, Plain]:
    """What rules may ask of a configuration.

    Who holds what on the host was looked at once: no configuration changes it, and a look through
    all processes for each of a hundred choices would take longer than all the rest.
    """
    seen = prepared.present.tree
    built = build_tree(
        deployment=tried.deployment,
        facts=tried.facts,
        launch=tried.launch,
        table=tried.table,
        preparations=tried.preparations,
        own_pids=frozenset(),
        key_file=None,
        supervisor=world.supervisor.properties,
        user=tried.user or world.me,
        me=world.me,
        folders=world.folders,
    )
    looked_at = {name: seen["derived"][name] for name in _LOOKED_AT}
    return {**built, "derived": {**built["derived"], **looked_at}, "drift": seen["drift"]}


def _judge_changes(
    world: World, prepared: Prepared, configuration: Configuration
) -> tuple[Finding, ...]:
    """What rules find in a configuration beyond what they find now. Raises UsageError."""
    resolved = prepared.resolved
    changes = overlay(prepared.space, prepared.present, configuration)
    if not changes:
        return ()
    deployment = Deployment.model_validate(apply_changes(prepared.values, changes))
    place = resolved.place
    if deployment.draft is None:
        place = replace(place, draft_path=None)
    launch = resolve_launch(
        deployment, resolved.facts, resolved.table, place, proposed=resolved.proposed
    )
    tried = replace(resolved, deployment=deployment, place=place, launch=launch)
    found = _judge(world, tried, _tree_of(world, prepared, tried))
    return tuple(
        each
        for each in found
        if each.status is Status.FIRED and (each.rule, each.summary) not in prepared.known
    )


def _refusal(finding: Finding) -> Refusal:
    return Refusal(
        because=finding.summary,
        source=tell_source(finding.source),
        rule=finding.rule,
        evidence=finding.evidence,
    )


# Cutting


def _sift(world: World, prepared: Prepared) -> Prepared:
    """Without the choices that are refused whatever else is chosen, each with its reason."""
    ids = [knob.id for knob in prepared.space.knobs]
    for place, knob_id in enumerate(ids):
        text = f"which choices of {knob_id} can run here ({place + 1} of {len(ids)} knobs)"
        world.reporter.emit(Event(kind=EventKind.PHASE, subject="space", text=text))
        knob = next((each for each in prepared.space.knobs if each.id == knob_id), None)
        for choice in knob.choices if knob else ():
            if knob is not None and choice.id != knob.default:
                prepared = _sift_choice(world, prepared, knob, choice)
    return prepared


def _sift_choice(world: World, prepared: Prepared, knob: Knob, choice: Choice) -> Prepared:
    space = prepared.space
    if not any(each.id == knob.id for each in space.knobs):
        return prepared
    configuration = _alone(space, knob, choice.id)
    if configuration is None or _is_cut(space, configuration, knob):
        return prepared
    found = _judge_changes(world, prepared, configuration)
    blocks = [_refusal(each) for each in found if each.blocks]
    if not blocks:
        return _note_doubts(prepared, knob, choice, found)
    if (
        cut := _find_pair(world, prepared, configuration, knob=knob, refusal=blocks[0])
    ) is not None:
        return replace(prepared, space=replace(space, cuts=(*space.cuts, cut)))
    told = Left(
        knob=knob.id,
        choices=(choice.id,),
        kind="cut",
        because=blocks[0].because,
        source=f"{blocks[0].rule}: {blocks[0].source}",
    )
    return replace(
        prepared,
        space=take_out(space, knob.id, (choice.id,)),
        left=(*prepared.left, told),
    )


def _is_cut(space: Space, configuration: Configuration, knob: Knob) -> bool:
    """Whether a constraint that speaks of this knob forbids a configuration already."""
    return any(knob.id in cut.where and excludes(cut, configuration) for cut in space.cuts)


def _alone(space: Space, knob: Knob, choice: str) -> dict[str, str] | None:
    """The deployment with this choice, and with what it needs to mean something."""
    configuration = {**default_configuration(space), knob.id: choice}
    by_id = {each.id: each for each in space.knobs}
    for name, choices in by_id[knob.id].only_with.items():
        there = [each.id for each in by_id[name].choices if each.id in choices]
        if not there:
            return None
        if configuration[name] not in there:
            configuration[name] = there[0]
    return configuration


def _find_pair(
    world: World,
    prepared: Prepared,
    configuration: Mapping[str, str],
    *,
    knob: Knob,
    refusal: Refusal,
) -> Cut | None:
    """The constraint with another knob, where another choice of that one lifts a refusal."""
    for other in _related(prepared.space, knob, refusal):
        refused, is_lifted = [configuration[other.id]], False
        for choice in other.choices:
            if choice.id == configuration[other.id]:
                continue
            with_it = {**configuration, other.id: choice.id}
            if not is_active(knob, with_it) or _is_cut(prepared.space, with_it, knob):
                continue
            is_refused = any(each.blocks for each in _judge_changes(world, prepared, with_it))
            refused += [choice.id] if is_refused else []
            is_lifted |= not is_refused
        if is_lifted:
            where = {knob.id: (configuration[knob.id],), other.id: tuple(refused)}
            where |= {
                name: choices
                for name, choices in knob.only_with.items()
                if name not in where and choices
            }
            source = f"{refusal.rule}: {refusal.source}"
            return Cut(where=where, because=refusal.because, source=source)
    return None


def _related(space: Space, knob: Knob, refusal: Refusal) -> Iterator[Knob]:
    """Other knobs that write something of which a refusal speaks."""
    named = set(_flags_of(space.engine, refusal))
    for other in space.knobs:
        if other.id != knob.id and {split_entry(name)[0] for name in list_names(other)} & named:
            yield other


def _flags_of(engine: str, refusal: Refusal) -> Iterator[str]:
    """The flags and variables that a rule has looked at, as far as its evidence tells."""
    for path in refusal.evidence:
        part, _, name = path.partition(".")
        if part in ("settings", "env"):
            yield name
        elif part == "capacity":
            yield load_capacity_flags()[engine].meanings.get(_SHARE, "")
        elif part == "speculation" and (flags := load_speculation().engine.get(engine)):
            yield from (flags.method, flags.steps, flags.width, flags.tokens, flags.config)


def _note_doubts(
    prepared: Prepared, knob: Knob, choice: Choice, found: Sequence[Finding]
) -> Prepared:
    """A choice that a rule warns of is thought less of, and says so."""
    told = [each for each in found if each.severity is Severity.WARNING]
    if not told:
        return prepared
    words = "; ".join(filter(None, (choice.because, *(each.summary for each in told))))
    doubted = replace(choice, prior=round(choice.prior - _DOUBT, 4), because=words)
    knobs = tuple(
        replace(
            each,
            choices=tuple(doubted if one.id == choice.id else one for one in each.choices),
        )
        if each.id == knob.id
        else each
        for each in prepared.space.knobs
    )
    return replace(prepared, space=replace(prepared.space, knobs=knobs))
