"""One search of `stoker tune` while it goes on: its trials, and its end.

Each trial is an ordinary apply, verified as always, and a benchmark. The search is kept after every
trial, so a kill loses one at most. However it ends, what was confirmed runs, or the deployment as
it was. What is wrong with the deployment as it is ends the search before it begun; what is wrong
with another configuration is what its trial found.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from stoker.commands.apply import Applied, apply_inside
from stoker.commands.bench_traffic import Traffic
from stoker.commands.deployment_file import write_back
from stoker.commands.diagnose_deployment import read_deployment
from stoker.commands.plan import read_file
from stoker.commands.start_attempt import FailedStart, attempt_start, first_line
from stoker.commands.tune_measuring import (
    Doubt,
    MeasureAim,
    Measured,
    advise_seconds,
    measure_aim,
)
from stoker.commands.tune_promises import find_broken
from stoker.commands.tune_rules import make_rules, mark_tuned
from stoker.commands.tune_words import describe_trial
from stoker.commands.tuning_overlay import overlay
from stoker.commands.tuning_space import Prepared, judge_configuration
from stoker.commands.world import World
from stoker.diagnosis.diagnose import diagnose
from stoker.errors import (
    ApplyFailed,
    Blocked,
    ContractFailed,
    EndpointError,
    HostError,
    Interrupted,
    SpecError,
    StateError,
    StokerError,
    SupervisorError,
    UsageError,
)
from stoker.knowledge.space_rows import SpaceRows
from stoker.model.campaign import Campaign, CampaignEnd, Effort
from stoker.model.event import Event, EventKind
from stoker.model.facts import Plain
from stoker.model.plan import ActivationKind
from stoker.model.tuning import Outcome, Purpose, Trial
from stoker.spec import edit_deployment
from stoker.state.campaigns import write_campaign
from stoker.tuning.search import next_step
from stoker.tuning.steps import Finish, Try

_SERVED = frozenset({ActivationKind.START, ActivationKind.RESTART})
#: A load holds at least so many answers one after the other, or it tells of their beginnings.
_LEAST_ANSWERS = 2.0
_STOPPED_SAID = "far below the best, so it was given up after a short look"
_KILLED_SAID = "Stoker was ended in the middle of it"

_Stopped = (KeyboardInterrupt, Interrupted)
#: What a server does that serves no longer, or never did as it should.
_Unserved = (EndpointError, ContractFailed, SupervisorError, UsageError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a search works with. ``measure`` and ``find_broken`` ask the server; ``rows``: what can
    be tuned, None for all that is known of the engine."""

    measure: MeasureAim = measure_aim
    find_broken: Callable[[World, str], Mapping[str, str]] = find_broken
    rows: SpaceRows | None = None


REAL_MEANS = Means()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A search and what runs now. ``was_interrupted``: by the person; the same command goes on."""

    campaign: Campaign
    applied: Applied | None
    was_interrupted: bool = False


def say(world: World, text: str) -> None:
    """Tell a person of a search."""
    world.reporter.emit(Event(kind=EventKind.NOTE, subject="tune", text=text))


def final_text(campaign: Campaign) -> str:
    """The deployment file with what a search has ended with."""
    changes = campaign.end.changes if campaign.end else {}
    if not changes:
        return campaign.source
    return edit_deployment(campaign.source, changes, origin=campaign.file)


class Work:
    """One search while it goes on."""

    def __init__(self, world: World, campaign: Campaign, traffic: Traffic, means: Means) -> None:
        self._world, self._campaign = world, campaign
        self._traffic, self._means = traffic, means
        self._kept: set[tuple[tuple[str, str], ...]] = set()

    def search(self, prepared: Prepared) -> Tuned:
        """Trials until the search ends or is ended; then what was confirmed is applied."""
        return self._guarded(lambda: self._search(prepared))

    def close(self) -> Tuned:
        """The end of a search that was decided and then cut short."""
        return self._guarded(self._close)

    def _guarded(self, work: Callable[[], Tuned]) -> Tuned:
        is_settled = False
        try:
            tuned = work()
            is_settled = True
        except _Stopped:
            is_settled = True
            self._say("interrupted; the deployment as it was is applied again")
            applied = self._restore()
            tuned = Tuned(campaign=self._campaign, applied=applied, was_interrupted=True)
        finally:
            if not is_settled:
                with suppress(StokerError):
                    self._restore()
        return tuned

    def _restore(self) -> Applied:
        """Apply the deployment as it was, or the winner where the file has it already."""
        campaign = self._campaign
        text = campaign.source
        with suppress(UsageError):
            if campaign.end is not None and read_file(campaign.file) == final_text(campaign):
                text = final_text(campaign)
        return self._apply(text)

    def _search(self, prepared: Prepared) -> Tuned:
        campaign = self._campaign
        if campaign.under_way is not None:
            self._add(campaign.under_way)
        if self._campaign.trials:
            self._say(f"going on with {campaign.id} after {len(self._campaign.trials)} trials")
        rules = make_rules(campaign.space, campaign.aim)
        while True:
            campaign = self._campaign
            # Made anew for each step, so that a search which was killed goes on as it would have.
            chance = random.Random(campaign.effort.seed * 1_000_003 + len(campaign.trials))
            step = next_step(
                campaign.space,
                campaign.trials,
                budget=campaign.budget,
                chance=chance,
                rules=rules,
            )
            if isinstance(step, Finish):
                self._decide(prepared, step)
                return self._close()
            self._say(f"trial {len(campaign.trials) + 1}: {step.reason}")
            self._add(self._try(prepared, step))

    def _add(self, trial: Trial) -> None:
        trials = (*self._campaign.trials, trial)
        self._keep(replace(self._campaign, trials=trials, under_way=None))
        self._say(describe_trial(self._campaign, trial))

    def _keep(self, campaign: Campaign) -> None:
        self._campaign = campaign
        write_campaign(self._world.host, self._world.folders, campaign)

    # --- one trial ---

    def _try(self, prepared: Prepared, step: Try) -> Trial:
        trial = Trial(
            number=len(self._campaign.trials) + 1,
            configuration=step.configuration,
            purpose=step.purpose,
            outcome=Outcome.MEASURED,
            restarted=False,
            reason=step.reason,
            pair=step.pair,
        )
        refusal = judge_configuration(self._world, prepared, step.configuration)
        if refusal is not None:
            said = f"{refusal.because} ({refusal.source})" if refusal.source else refusal.because
            return replace(trial, outcome=Outcome.REFUSED, said=said)
        cut = replace(
            trial, outcome=Outcome.INTERRUPTED, restarted=step.restarts, said=_KILLED_SAID
        )
        self._keep(replace(self._campaign, under_way=cut))
        began = self._world.clock.monotonic_seconds()
        try:
            trial = self._start_and_measure(prepared, step, trial)
        except _Stopped:
            self._add(replace(cut, said="it was interrupted", seconds=self._since(began)))
            raise
        except StokerError:
            if not self._has_baseline():  # nothing was learned; mended, it begins anew
                self._keep(replace(self._campaign, under_way=None))
            raise
        return replace(trial, seconds=self._since(began))

    def _since(self, began: float) -> float:
        return self._world.clock.monotonic_seconds() - began

    def _has_baseline(self) -> bool:
        """Whether the deployment as it is was measured: from then on trouble is a trial's own."""
        return any(trial.values for trial in self._campaign.trials)

    def _start_and_measure(self, prepared: Prepared, step: Try, trial: Trial) -> Trial:
        changes = overlay(self._campaign.space, prepared.present, step.configuration)
        text = edit_deployment(self._campaign.source, changes, origin=self._campaign.file)
        started = self._start(text, trial)
        if isinstance(started, Trial):
            return started
        activations = started.converged.plan.activations
        trial = replace(trial, restarted=any(each.kind in _SERVED for each in activations))
        before = self._world.supervisor.state(self._campaign.deployment).process
        try:
            if step.purpose is Purpose.CONFIRMATION and (broken := self._find_lies(step)):
                return replace(trial, outcome=Outcome.LIAR, said=broken)
            return self._measure(step, trial)
        except _Unserved as error:
            if not self._has_baseline():
                raise
            outcome = Outcome.LIAR if isinstance(error, ContractFailed) else Outcome.FAILED
            trial = replace(trial, outcome=outcome, said=first_line(error))
            return replace(trial, causes=self._find_causes(before))

    def _start(self, text: str, trial: Trial) -> Applied | Trial:
        """What runs now, or what a trial says that could not be started."""
        try:
            started = attempt_start(self._world, text, self._campaign.file, say=self._say)
        except (Blocked, UsageError, SpecError) as error:
            if not self._has_baseline():
                raise
            return replace(trial, outcome=Outcome.REFUSED, said=first_line(error))
        except ApplyFailed as error:
            if not self._has_baseline():
                raise
            said = first_line(error)
            return replace(trial, outcome=Outcome.FAILED, restarted=True, said=said)
        if isinstance(started, FailedStart):
            if not self._has_baseline():
                raise started.error
            return replace(
                trial,
                outcome=Outcome.LIAR if started.has_served else Outcome.FAILED,
                restarted=True,
                said=first_line(started.error),
                causes=tuple(cause.kind for cause in started.diagnosis.causes),
            )
        return started

    def _find_causes(self, before: str) -> tuple[str, ...]:
        """Why the process that was measured is no longer there; nothing where it still is."""
        name = self._campaign.deployment
        with suppress(HostError, StateError, SupervisorError, UsageError):
            if self._world.supervisor.state(name).process != before:
                found = diagnose(read_deployment(self._world, name))
                return tuple(cause.kind for cause in found.causes)
        return ()

    def _find_lies(self, step: Try) -> str:
        """What a finalist breaks of the full contract that the deployment as it was keeps.

        Each configuration is tried once. A finalist that comes before the deployment as it was, and
        breaks something, is tried again in its next pair.
        """
        key = tuple(sorted(step.configuration.items()))
        if key in self._kept:
            return ""
        broken = self._means.find_broken(self._world, self._campaign.deployment)
        known = self._campaign.broken
        if all(step.configuration[knob.id] == knob.default for knob in self._campaign.space.knobs):
            # What it breaks once it may break at any time: that is no reproach to another.
            self._keep(replace(self._campaign, broken=tuple({*(known or ()), *broken})))
        elif known is not None:
            new = [f"{check}: {said}" for check, said in broken.items() if check not in known]
            if new:
                return "; ".join(new)
        elif broken:
            return ""
        self._kept.add(key)
        return ""

    # --- what it is worth ---

    def _measure(self, step: Try, trial: Trial) -> Trial:
        effort = self._campaign.effort
        if step.short_share and step.give_up_below:
            seconds = max(effort.seconds * step.short_share, 1.0)
            first = self._ask(replace(effort, seconds=seconds, repetitions=1))
            is_slow = bool(first.values) and first.values[0] < step.give_up_below
            if first.doubt is None and is_slow:
                return replace(
                    trial,
                    outcome=Outcome.STOPPED,
                    values=first.values,
                    benchmarks=first.benchmarks,
                    said=_STOPPED_SAID,
                )
        found = self._ask(effort)
        if not self._has_baseline():
            self._check_first(found)
        trial = replace(trial, values=found.values, benchmarks=found.benchmarks, said=found.said)
        if found.doubt is None:
            return trial
        if found.doubt is Doubt.TOO_SHORT and found.values:
            # Much slower than the deployment as it is: that it is so is believed, not how much.
            return replace(trial, outcome=Outcome.STOPPED)
        is_ours = found.doubt is Doubt.STARVED  # not the server's, so nothing is learned of it
        return replace(trial, outcome=Outcome.INTERRUPTED if is_ours else Outcome.FAILED, values=())

    def _ask(self, effort: Effort) -> Measured:
        """Raises KeyboardInterrupt where the person interrupted it."""
        campaign = self._campaign
        found = self._means.measure(
            self._world,
            campaign.deployment,
            campaign.aim,
            effort,
            traffic=self._traffic,
            spared=[each for one in campaign.trials for each in one.benchmarks],
        )
        if found.was_interrupted:
            raise KeyboardInterrupt
        return found

    def _check_first(self, found: Measured) -> None:
        """Raises where the deployment as it is cannot be measured as was asked."""
        name, effort = self._campaign.deployment, self._campaign.effort
        if found.doubt is Doubt.UNANSWERED:
            raise ContractFailed(
                f"{name} as it is cannot be measured: {found.said}",
                f"`stoker bench {name}` and `stoker diagnose {name}` show more",
            )
        if found.doubt is Doubt.STARVED:
            raise UsageError(
                f"{name} as it is cannot be measured from here: {found.said}",
                "give fewer requests at once, or a machine with less other work",
            )
        takes = found.answer_seconds
        if found.doubt is None and takes * _LEAST_ANSWERS <= effort.seconds:
            return
        if not takes:
            raise UsageError(
                f"no answer of {name} ended in a load of {effort.seconds:g} s",
                "measure longer (--measure), or choose a workload with shorter answers",
            )
        raise UsageError(
            f"an answer of {name} takes {takes:.1f} s, so a load of {effort.seconds:g} s tells of "
            "hardly more than its beginning",
            f"measure longer: --measure {advise_seconds(takes)}s",
        )

    # --- the end ---

    def _decide(self, prepared: Prepared, finish: Finish) -> None:
        """Keep how it ended before anything follows from it."""
        campaign = self._campaign
        changes: dict[str, Plain] = {}
        if finish.is_improved:
            changes = overlay(campaign.space, prepared.present, finish.configuration)
            changes["engine.tuned"] = mark_tuned(campaign, finish, changes)
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
        self._keep(replace(campaign, end=end))

    def _close(self) -> Tuned:
        """Apply what was confirmed, write the file, and close the search: a kill between any two
        of these leaves something that the same command brings to its end."""
        campaign = self._campaign
        end = campaign.end
        assert end is not None
        self._say(end.reason)
        text = final_text(campaign)
        applied = self._apply(text)
        end = replace(end, unwritten=self._write(text))
        self._keep(replace(campaign, end=end, is_closed=True))
        return Tuned(campaign=self._campaign, applied=applied)

    def _write(self, text: str) -> str:
        """Put the text into the file, once; why that could not be, else empty."""
        campaign = self._campaign
        if text == campaign.source:
            return ""
        try:
            if read_file(campaign.file) != text:
                write_back(self._world, campaign.file, campaign.source, text)
        except UsageError as error:
            return error.summary
        return ""

    def _apply(self, text: str) -> Applied:
        return apply_inside(self._world, text, self._campaign.file)

    def _say(self, text: str) -> None:
        say(self._world, text)
