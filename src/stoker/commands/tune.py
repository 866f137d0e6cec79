"""`stoker tune FILE`: find better settings for a deployment, at the price of few restarts.

What to try next and what to believe is decided by :mod:`stoker.tuning`; each trial is an ordinary
apply, verified as always, and a benchmark. The search is kept after every trial, so a kill loses
one at most; however it ends, the best that was confirmed runs, and the file is written once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from stoker.commands.apply import Applied, apply_inside
from stoker.commands.bench_traffic import Traffic
from stoker.commands.converge import exclusive
from stoker.commands.deployment_file import write_back
from stoker.commands.plan import looks_like_plan, read_file
from stoker.commands.resolve import resolve
from stoker.commands.start_attempt import FailedStart, attempt_start, first_line
from stoker.commands.supervising import using_wanted
from stoker.commands.tune_measuring import check_aim, measure_aim
from stoker.commands.tune_promises import find_broken
from stoker.commands.tune_words import describe_gain, describe_trial
from stoker.commands.tuning_overlay import overlay
from stoker.commands.tuning_space import Prepared, judge_configuration, prepare_space
from stoker.commands.world import World
from stoker.errors import (
    ApplyFailed,
    Blocked,
    HostError,
    SpecError,
    StateError,
    StokerError,
    UsageError,
)
from stoker.knowledge.causes import load_causes
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.spaces import Wishes, list_names
from stoker.model.campaign import Campaign, CampaignEnd, Effort
from stoker.model.event import Event, EventKind
from stoker.model.facts import Plain
from stoker.model.plan import ActivationKind
from stoker.model.tuning import Aim, Budget, Configuration, Outcome, Purpose, Space, Trial
from stoker.spec import edit_deployment, parse_deployment
from stoker.spec.plain import read_plain
from stoker.state.campaigns import list_campaigns, read_campaign, write_campaign
from stoker.tuning.search import Rules, next_step
from stoker.tuning.steps import Finish, Try

_SETTINGS, _ENV = "engine.settings.", "engine.env."
_SERVED = frozenset({ActivationKind.START, ActivationKind.RESTART})


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneWish:
    """What is wanted, and what it may cost. ``is_fresh``: begin anew, whatever was begun before."""

    aim: Aim = field(default_factory=Aim)
    budget: Budget = field(default_factory=Budget)
    effort: Effort = field(default_factory=Effort)
    wishes: Wishes = field(default_factory=Wishes)
    is_fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A search and what runs now. ``unwritten``: why the file could not be written, else empty.
    ``was_interrupted``: by the person; the same command goes on with it."""

    campaign: Campaign
    applied: Applied | None
    unwritten: str = ""
    was_interrupted: bool = False


def prepare_tuning(world: World, path: str, wish: TuneWish) -> Prepared:
    """The space of a deployment file, for a look at it. Raises as :func:`tune` does."""
    check_aim(wish.aim, wish.effort)
    text = _read(path)
    chosen = using_wanted(world, parse_deployment(text, path, engine_kinds=engine_kinds()))
    return prepare_space(chosen, resolve(chosen, text, path), wish.wishes)


def tune(world: World, path: str, wish: TuneWish) -> Tuned:
    """Search better settings for a deployment file, confirm them, and put them into the file.

    Raises UsageError for a wish that is none, Blocked where the deployment itself may not be
    started, ApplyFailed where the end could not be applied, and what apply raises.
    """
    traffic = check_aim(wish.aim, wish.effort)
    text = _read(path)
    deployment = parse_deployment(text, path, engine_kinds=engine_kinds())
    chosen = using_wanted(world, deployment)
    with exclusive(chosen, "tune"):
        prepared = prepare_space(chosen, resolve(chosen, text, path), wish.wishes)
        if prepared.blocked:
            raise Blocked(
                f"{deployment.name} may not be started as it is, so there is nothing to improve",
                [each.because for each in prepared.blocked],
            )
        campaign = _find_begun(chosen, text, path, wish) or _begin(chosen, path, wish, prepared)
        return _Work(chosen, prepared, campaign, traffic).search()


def _read(path: str) -> str:
    text = read_file(path)
    if looks_like_plan(text):
        raise UsageError(f"{path} is a saved plan", "name the deployment file to have it tuned")
    return text


def _begin(world: World, path: str, wish: TuneWish, prepared: Prepared) -> Campaign:
    now = datetime.fromtimestamp(world.clock.now_seconds(), UTC)
    return Campaign(
        id=f"t{now:%Y%m%d-%H%M%S}-{os.urandom(2).hex()}",
        deployment=prepared.resolved.deployment.name,
        file=os.path.abspath(path),
        source=prepared.resolved.source,
        space=prepared.space,
        aim=wish.aim,
        budget=wish.budget,
        effort=wish.effort,
    )


def _find_begun(world: World, text: str, path: str, wish: TuneWish) -> Campaign | None:
    """The newest search for this very file and aim that has not ended, with today's budget."""
    if wish.is_fresh:
        return None
    for found in list_campaigns(world.host, world.folders):
        try:
            campaign = read_campaign(world.host, world.folders, found)
        except (StateError, HostError, UsageError):
            continue  # a damaged one is not gone on with
        same = (campaign.source, campaign.aim, campaign.effort) == (text, wish.aim, wish.effort)
        if same and campaign.file == os.path.abspath(path) and campaign.end is None:
            return replace(campaign, budget=wish.budget)
    return None


class _Work:
    """One search while it goes on."""

    def __init__(
        self, world: World, prepared: Prepared, campaign: Campaign, traffic: Traffic
    ) -> None:
        self._world, self._prepared, self._traffic = world, prepared, traffic
        self._campaign = campaign
        self._path = campaign.file
        self._rules = make_rules(campaign.space, campaign.aim)
        self._kept: set[tuple[tuple[str, str], ...]] = set()

    def search(self) -> Tuned:
        """Trials until the search ends or is ended; then what was confirmed is applied."""
        if self._campaign.under_way:
            self._add(self._interrupted(self._campaign.under_way))
        if self._campaign.trials:
            self._say(
                f"going on with {self._campaign.id} after {len(self._campaign.trials)} trials"
            )
        finish = None
        try:
            while finish is None:
                finish = self._step()
        except KeyboardInterrupt:
            self._say("interrupted; the deployment as it was is applied again")
            applied = self._apply(self._campaign.source)
            return Tuned(campaign=self._campaign, applied=applied, was_interrupted=True)
        except StokerError:
            with suppress(StokerError):
                self._apply(self._campaign.source)
            raise
        return self._end(finish)

    def _step(self) -> Finish | None:
        campaign = self._campaign
        # Made anew for each step, so that a search which was killed goes on as it would have.
        chance = random.Random(campaign.effort.seed * 1_000_003 + len(campaign.trials))
        step = next_step(
            campaign.space,
            campaign.trials,
            budget=campaign.budget,
            chance=chance,
            rules=self._rules,
        )
        if isinstance(step, Finish):
            return step
        self._say(f"trial {len(campaign.trials) + 1}: {step.reason}")
        self._add(self._try(step))
        return None

    def _add(self, trial: Trial) -> None:
        self._campaign = replace(
            self._campaign, trials=(*self._campaign.trials, trial), under_way={}
        )
        self._save()
        self._say(describe_trial(self._campaign, trial))

    def _save(self) -> None:
        write_campaign(self._world.host, self._world.folders, self._campaign)

    def _interrupted(self, configuration: Configuration) -> Trial:
        return Trial(
            number=len(self._campaign.trials) + 1,
            configuration=configuration,
            purpose=Purpose.PROPOSAL if self._campaign.trials else Purpose.BASELINE,
            outcome=Outcome.INTERRUPTED,
            said="Stoker was ended in the middle of it",
        )

    # --- one trial ---

    def _try(self, step: Try) -> Trial:
        trial = Trial(
            number=len(self._campaign.trials) + 1,
            configuration=step.configuration,
            purpose=step.purpose,
            outcome=Outcome.MEASURED,
            restarted=False,
            reason=step.reason,
            pair=step.pair,
        )
        refusal = judge_configuration(self._world, self._prepared, step.configuration)
        if refusal is not None:
            said = f"{refusal.because} ({refusal.source})" if refusal.source else refusal.because
            return replace(trial, outcome=Outcome.REFUSED, said=said)
        self._campaign = replace(self._campaign, under_way=step.configuration)
        self._save()
        began = self._world.clock.monotonic_seconds()
        try:
            trial = self._start_and_measure(step, trial)
        except KeyboardInterrupt:
            self._add(replace(trial, outcome=Outcome.INTERRUPTED, said="it was interrupted"))
            raise
        return replace(trial, seconds=self._world.clock.monotonic_seconds() - began)

    def _start_and_measure(self, step: Try, trial: Trial) -> Trial:
        changes = overlay(self._campaign.space, self._prepared.present, step.configuration)
        text = edit_deployment(self._campaign.source, changes, origin=self._path)
        try:
            started = attempt_start(self._world, text, self._path, say=self._say)
        except (Blocked, UsageError, SpecError) as error:
            return replace(trial, outcome=Outcome.REFUSED, said=first_line(error))
        except ApplyFailed as error:
            said = first_line(error)
            return replace(trial, outcome=Outcome.FAILED, restarted=True, said=said)
        if isinstance(started, FailedStart):
            return replace(
                trial,
                outcome=Outcome.LIAR if started.has_served else Outcome.FAILED,
                restarted=True,
                said=first_line(started.error),
                causes=tuple(cause.kind for cause in started.diagnosis.causes),
            )
        activations = started.converged.plan.activations
        trial = replace(trial, restarted=any(each.kind in _SERVED for each in activations))
        if step.purpose is Purpose.CONFIRMATION and (broken := self._find_lies(step)):
            return replace(trial, outcome=Outcome.LIAR, said=broken)
        return self._measure(step, trial)

    def _find_lies(self, step: Try) -> str:
        """What a finalist breaks of the full contract that the deployment as it was keeps.

        Each configuration is tried once; the baseline comes first in each pair.
        """
        key = tuple(sorted(step.configuration.items()))
        if key in self._kept:
            return ""
        name = self._campaign.deployment
        broken = find_broken(self._world, name)
        is_baseline = all(
            step.configuration[knob.id] == knob.default for knob in self._campaign.space.knobs
        )
        if is_baseline:
            self._campaign = replace(self._campaign, broken=tuple(broken))
            self._save()
        elif self._campaign.broken is not None or not broken:
            known = self._campaign.broken or ()
            new = [f"{check}: {said}" for check, said in broken.items() if check not in known]
            if new:
                return "; ".join(new)
        self._kept.add(key)
        return ""

    def _measure(self, step: Try, trial: Trial) -> Trial:
        campaign = self._campaign
        spared = [each for one in campaign.trials for each in one.benchmarks]
        if step.short_share and step.give_up_below:
            seconds = max(campaign.effort.seconds * step.short_share, 1.0)
            short = replace(campaign.effort, seconds=seconds, repetitions=1)
            first = measure_aim(
                self._world,
                campaign.deployment,
                campaign.aim,
                short,
                traffic=self._traffic,
                spared=spared,
            )
            if first.was_interrupted:
                raise KeyboardInterrupt
            if first.values and first.values[0] < step.give_up_below:
                return replace(
                    trial,
                    outcome=Outcome.STOPPED,
                    values=first.values,
                    benchmarks=first.benchmarks,
                    said="far below the best, so it was given up after a short look",
                )
        found = measure_aim(
            self._world,
            campaign.deployment,
            campaign.aim,
            campaign.effort,
            traffic=self._traffic,
            spared=spared,
        )
        if found.was_interrupted:
            raise KeyboardInterrupt
        if not found.values:
            return replace(
                trial, outcome=Outcome.FAILED, benchmarks=found.benchmarks, said=found.said
            )
        return replace(trial, values=found.values, benchmarks=found.benchmarks, said=found.said)

    # --- the end ---

    def _end(self, finish: Finish) -> Tuned:
        """Apply what was confirmed, write the file, and close the search: a kill between any two
        of these leaves something from which the same command goes on."""
        campaign = self._campaign
        changes: dict[str, Plain] = {}
        text = campaign.source
        if finish.is_improved:
            changes = overlay(campaign.space, self._prepared.present, finish.configuration)
            changes["engine.tuned"] = self._mark(finish, changes)
            text = edit_deployment(campaign.source, changes, origin=self._path)
        self._say(finish.reason)
        applied = self._apply(text)
        unwritten = ""
        if finish.is_improved:
            try:
                write_back(self._world, self._path, campaign.source, text)
            except UsageError as error:
                unwritten = error.summary
        ratio = finish.ratio
        end = CampaignEnd(
            configuration=finish.configuration,
            is_improved=finish.is_improved,
            reason=finish.reason,
            ratio=ratio.ratio if ratio else None,
            low=ratio.low if ratio else None,
            high=ratio.high if ratio else None,
            changes=changes,
        )
        self._campaign = replace(campaign, end=end)
        self._save()
        return Tuned(campaign=self._campaign, applied=applied, unwritten=unwritten)

    def _mark(self, finish: Finish, changes: Mapping[str, Plain]) -> Plain:
        """What says in the file which settings were found, and how."""
        values = read_plain(self._campaign.source, self._path).value
        engine = values.get("engine") if isinstance(values, dict) else None
        before = engine.get("tuned") if isinstance(engine, dict) else None
        before = before if isinstance(before, dict) else {}
        return {
            "evidence": self._campaign.id,
            "says": describe_gain(self._campaign.aim, finish),
            "settings": _found(before.get("settings"), changes, _SETTINGS),
            "env": _found(before.get("env"), changes, _ENV),
        }

    def _apply(self, text: str) -> Applied:
        return apply_inside(self._world, text, self._path)

    def _say(self, text: str) -> None:
        self._world.reporter.emit(Event(kind=EventKind.NOTE, subject="tune", text=text))


def _found(before: object, changes: Mapping[str, Plain], prefix: str) -> dict[str, Plain]:
    """What an earlier search found and this one left alone, and what this one found."""
    kept = dict(before) if isinstance(before, dict) else {}
    for key, value in changes.items():
        if key.startswith(prefix):
            name = key.removeprefix(prefix)
            kept.pop(name, None)
            if value is not None:
                kept[name] = value
    return kept


def make_rules(space: Space, aim: Aim) -> Rules:
    """Which knobs a diagnosed cause blames: those that its repairs would change."""
    knobs = {name: knob.id for knob in space.knobs for name in list_names(knob)}
    blamed: dict[str, tuple[str, ...]] = {}
    for cause in load_causes().values():
        names = [
            key.removeprefix(_SETTINGS).removeprefix(_ENV)
            for repair in cause.repair
            for key in repair.changes
        ]
        found = tuple(dict.fromkeys(knobs[name] for name in names if name in knobs))
        if found:
            blamed[cause.kind] = found
    return Rules(blamed=blamed, metric=aim.metric)
