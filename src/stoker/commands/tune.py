"""`stoker tune FILE`: find better settings for a deployment, at the price of few restarts.

What to try next and what to believe is decided by :mod:`stoker.tuning`; the trials are made by
:mod:`stoker.commands.tune_work`. Here a search is begun, or gone on with after an interruption or
a kill: the same file and the same wish find it again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from stoker.commands.apply import apply_inside
from stoker.commands.bench_traffic import Traffic
from stoker.commands.converge import exclusive
from stoker.commands.plan import looks_like_plan, read_file
from stoker.commands.resolve import Resolved, resolve
from stoker.commands.supervising import using_wanted
from stoker.commands.tune_measuring import check_aim
from stoker.commands.tune_work import REAL_MEANS, Means, Tuned, Work, final_text, say
from stoker.commands.tuning_space import Prepared, prepare_space
from stoker.commands.world import World
from stoker.errors import Blocked, HostError, StateError, StokerError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.spaces import Wishes
from stoker.model.campaign import Campaign, CampaignWish, Effort
from stoker.model.tuning import Aim, Budget, Space
from stoker.model.units import digest_text
from stoker.spec import parse_deployment
from stoker.state.campaigns import list_campaigns, read_campaign

#: One for another configuration, and a pair beside the deployment as it was that confirms it; a
#: second pair costs one more, without which no interval is ever narrow enough.
LEAST_RESTARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneWish:
    """What is wanted, and what it may cost. ``is_fresh``: begin anew, whatever was begun before."""

    aim: Aim = field(default_factory=Aim)
    budget: Budget = field(default_factory=Budget)
    effort: Effort = field(default_factory=Effort)
    wishes: Wishes = field(default_factory=Wishes)
    is_fresh: bool = False


def prepare_tuning(
    world: World, path: str, wish: TuneWish, *, means: Means = REAL_MEANS
) -> Prepared:
    """The space of a deployment file, for a look at it. Raises as :func:`tune` does."""
    check_aim(wish.aim, wish.effort)
    text = _read(path)
    chosen = using_wanted(world, parse_deployment(text, path, engine_kinds=engine_kinds()))
    return _prepare(chosen, resolve(chosen, text, path), wish.wishes, means)


def tune(world: World, path: str, wish: TuneWish, *, means: Means = REAL_MEANS) -> Tuned:
    """Search better settings for a deployment file, confirm them, and put them into the file.

    Raises UsageError for a wish that is none or a budget that is too small for a trial, Blocked
    where the deployment itself may not be started, ApplyFailed where it does not start,
    ContractFailed where it gives no answers, and what apply raises.
    """
    traffic = check_aim(wish.aim, wish.effort)
    _check_budget(wish)
    text = _read(path)
    deployment = parse_deployment(text, path, engine_kinds=engine_kinds())
    chosen = using_wanted(world, deployment)
    sought = _seek(wish, traffic)
    with exclusive(chosen, "tune"):
        begun = None if wish.is_fresh else _find_begun(chosen, text, path, sought)
        if begun is not None and begun.end is not None:
            return Work(chosen, begun, traffic, means).close()
        source = text if begun is None else begun.source
        prepared = _prepare_ready(chosen, source, path, wish=wish, means=means)
        if begun is not None and _is_same_engine(begun.space, prepared.space):
            # What a later look finds to be possible or not must not change a search under way.
            campaign = replace(begun, budget=wish.budget)
            prepared = replace(prepared, space=begun.space)
        else:
            campaign = _begin(chosen, path, sought, prepared=prepared, budget=wish.budget)
        return Work(chosen, campaign, traffic, means).search(prepared)


def _read(path: str) -> str:
    text = read_file(path)
    if looks_like_plan(text):
        raise UsageError(f"{path} is a saved plan", "name the deployment file to have it tuned")
    return text


def _check_budget(wish: TuneWish) -> None:
    budget, effort = wish.budget, wish.effort
    if 0 < budget.restarts < LEAST_RESTARTS:
        raise UsageError(
            f"{budget.restarts} restarts are too few to try one configuration and to confirm it",
            f"give --restarts {LEAST_RESTARTS} or more, or leave it out",
        )
    measured = effort.seconds * effort.repetitions * len(wish.aim.concurrencies)
    if 0 < 60 * budget.minutes < 2 * measured:
        raise UsageError(
            f"{budget.minutes:g} minutes are too few: the deployment as it is and one trial are "
            f"measured for {2 * measured:.0f} s alone",
            "give more --minutes, or leave it out",
        )


def _prepare(world: World, resolved: Resolved, wishes: Wishes, means: Means) -> Prepared:
    return prepare_space(world, resolved, wishes, rows=means.rows)


def _prepare_ready(world: World, text: str, path: str, *, wish: TuneWish, means: Means) -> Prepared:
    """The space of a deployment whose engine and weights are here: what is not here yet cannot be
    asked what it takes, so such a deployment is started first, as the baseline would be anyway."""
    resolved = resolve(world, text, path)
    if resolved.preparations:
        say(world, "the engine or the weights are not here yet, so the deployment is applied first")
        apply_inside(world, text, path)
        resolved = resolve(world, text, path)
    prepared = _prepare(world, resolved, wish.wishes, means)
    name = resolved.deployment.name
    if prepared.blocked:
        raise Blocked(
            f"{name} may not be started as it is, so there is nothing to improve",
            [each.because for each in prepared.blocked],
        )
    if not prepared.space.knobs:
        raise UsageError(
            f"nothing can be varied for {name}",
            "`stoker tune FILE --dry-run` says why; --free KNOB frees what the file sets",
        )
    return prepared


def _seek(wish: TuneWish, traffic: Traffic) -> CampaignWish:
    sent = repr((traffic.workload, traffic.recorded))
    return CampaignWish(
        aim=wish.aim,
        effort=wish.effort,
        free=tuple(sorted(wish.wishes.free)),
        consents=tuple(sorted(wish.wishes.consents)),
        traffic=digest_text(sent)[:16],
    )


def _begin(
    world: World, path: str, sought: CampaignWish, *, prepared: Prepared, budget: Budget
) -> Campaign:
    now = datetime.fromtimestamp(world.clock.now_seconds(), UTC)
    return Campaign(
        id=f"t{now:%Y%m%d-%H%M%S}-{os.urandom(2).hex()}",
        deployment=prepared.resolved.deployment.name,
        file=os.path.abspath(path),
        source=prepared.resolved.source,
        space=prepared.space,
        wish=sought,
        budget=budget,
    )


def _find_begun(world: World, text: str, path: str, sought: CampaignWish) -> Campaign | None:
    """The newest search for this very file and wish that was not brought to its end.

    The file may have the winner already: then the search was killed between writing and closing.
    """
    for found in list_campaigns(world.host, world.folders):
        try:
            campaign = read_campaign(world.host, world.folders, found)
        except (StateError, HostError, UsageError):
            continue  # a damaged one is not gone on with
        if campaign.is_closed or campaign.file != os.path.abspath(path):
            continue
        if campaign.wish == sought and _is_text(campaign, text):
            return campaign
        if campaign.trials:
            what = "the file has changed" if campaign.wish == sought else "another was asked for"
            say(world, f"the search {found} is not gone on with, since {what}")
    return None


def _is_text(campaign: Campaign, text: str) -> bool:
    """Whether this is the file that was searched for, as it was or with what was found."""
    if campaign.source == text:
        return True
    try:
        return campaign.end is not None and final_text(campaign) == text
    except StokerError:
        return False


def _is_same_engine(old: Space, new: Space) -> bool:
    return (old.engine, old.release) == (new.engine, new.release)
