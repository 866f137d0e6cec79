"""The search for a deployment that serves: what it tries, in which order, and where it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnosis.repair import (
    Candidate,
    Limits,
    Search,
    Stop,
    begin_search,
    choose_next,
    find_consents,
    record_failure,
    take,
)
from stoker.model.diagnosis import Cause, Certainty, Diagnosis, Gravity, Repair
from stoker.model.facts import Plain
from stoker.spec import apply_changes

FILE = {"engine": {"settings": {"tp": 4, "attention-backend": "flashinfer"}}}
KEY = "engine.settings."

#: What a start with these settings shows: its causes; None where it serves rightly.
Shows = Callable[[Mapping[str, Plain]], "tuple[Cause, ...] | None"]


def repair(text: str = "", consent: str = "", **settings: Plain) -> Repair:
    changes = {f"{KEY}{name.replace('_', '-')}": value for name, value in settings.items()}
    return Repair(text=text or f"set {changes}", changes=changes, consent=consent)


def cause(kind: str, *repairs: Repair, gravity: Gravity = Gravity.ERROR) -> Cause:
    return Cause(
        kind=kind,
        title=kind,
        meaning=kind,
        gravity=gravity,
        certainty=Certainty.CERTAIN,
        repairs=repairs,
    )


def diagnosis(*causes: Cause, unknown: str = "") -> Diagnosis:
    return Diagnosis(name="x", engine="sglang", release="0.5.9", causes=causes, unknown=unknown)


def changed(changes: Mapping[str, Plain]) -> Plain:
    return apply_changes(FILE, changes)


def begin(*causes: Cause, has_served: bool = True, **limits: Plain) -> Search:
    return begin_search(
        diagnosis(*causes),
        limits=replace(Limits(), **limits),
        changed=changed,
        has_served=has_served,
    )


def settings_of(changes: Mapping[str, Plain]) -> dict[str, Plain]:
    return {key.removeprefix(KEY): value for key, value in changes.items()}


class Trial:
    """A search against an engine that shows ``shows`` for the settings it is started with."""

    def __init__(self, shows: Shows, *, has_served: bool = True, **limits: Plain) -> None:
        self.shows, self.has_served = shows, has_served
        first = shows(FILE["engine"]["settings"])
        assert first is not None
        self.search = begin(*first, has_served=has_served, **limits)
        self.tried: list[dict[str, Plain]] = []

    def step(self, *, passed_seconds: float = 0.0) -> Candidate | Stop | None:
        """One trial; the candidate where it served, a stop at the end, None to go on."""
        found = choose_next(self.search, passed_seconds=passed_seconds)
        if isinstance(found, Stop):
            return found
        self.search = take(self.search, found)
        self.tried.append(settings_of(found.changes))
        causes = self.shows(changed(found.changes)["engine"]["settings"])
        if causes is None:
            return found
        self.search = record_failure(self.search, diagnosis(*causes), has_served=self.has_served)
        return None

    def run(self) -> Candidate | Stop:
        for _ in range(200):
            found = self.step()
            if found is not None:
                return found
        raise AssertionError("it does not end")


def backends(current: Plain) -> tuple[Repair, ...]:
    names = ("triton", "flashinfer", "fa3")
    return tuple(repair(attention_backend=name) for name in names if name != current)


def needs(name: str) -> Shows:
    """An engine that answers well with one attention backend alone."""

    def shows(settings: Mapping[str, Plain]) -> tuple[Cause, ...] | None:
        current = settings["attention-backend"]
        return None if current == name else (cause("nonsense", *backends(current)),)

    return shows


def test_a_repair_that_does_not_help_goes_and_the_next_one_comes() -> None:
    trial = Trial(needs("fa3"))
    found = trial.run()
    assert isinstance(found, Candidate)
    assert trial.tried == [{"attention-backend": "triton"}, {"attention-backend": "fa3"}]
    assert settings_of(found.changes) == {"attention-backend": "fa3"}


def test_all_tried_in_vain_and_none_twice() -> None:
    trial = Trial(needs("none of them"))
    stop = trial.run()
    assert isinstance(stop, Stop)
    assert stop.reason == "nothing"
    assert len(trial.tried) == 2  # the file's own was tried first


def test_another_cause_is_mended_on_top() -> None:
    def shows(settings: Mapping[str, Plain]) -> tuple[Cause, ...] | None:
        if settings["attention-backend"] != "triton":
            return (cause("nonsense", repair(attention_backend="triton")),)
        if "mem-fraction-static" not in settings:
            return (cause("memory", repair(mem_fraction_static=0.8)),)
        return None

    found = Trial(shows).run()
    assert isinstance(found, Candidate)
    assert settings_of(found.changes) == {"attention-backend": "triton", "mem-fraction-static": 0.8}


def test_a_step_that_was_too_small_is_followed_by_the_next() -> None:
    def shows(settings: Mapping[str, Plain]) -> tuple[Cause, ...] | None:
        now = settings.get("mem-fraction-static", 0.9)
        assert isinstance(now, float)
        return None if now < 0.72 else (cause("memory", repair(mem_fraction_static=now - 0.1)),)

    trial = Trial(shows, has_served=False)
    found = trial.run()
    assert isinstance(found, Candidate)
    assert len(trial.tried) == 2


def test_what_got_farther_is_gone_on_with_first() -> None:
    other = repair(fp4_gemm_backend="flashinfer_cudnn")
    search = begin(cause("nonsense", repair(attention_backend="fa3"), other), has_served=True)
    first = choose_next(search, passed_seconds=0)
    assert isinstance(first, Candidate)
    refused = diagnosis(cause("unsupported", repair(page_size=64)))
    search = record_failure(take(search, first), refused, has_served=False)
    second = choose_next(search, passed_seconds=0)
    assert isinstance(second, Candidate)
    assert second.repair == other
    search = record_failure(take(search, second), diagnosis(cause("nonsense")), has_served=True)
    third = choose_next(search, passed_seconds=0)
    assert isinstance(third, Candidate)
    assert settings_of(third.changes) == {"attention-backend": "fa3", "page-size": 64}


def test_one_that_cannot_be_planned_counts_and_does_not_return() -> None:
    search = begin(cause("nonsense", *backends("flashinfer")))
    first = choose_next(search, passed_seconds=0)
    assert isinstance(first, Candidate)
    search = record_failure(take(search, first), None, has_served=False)
    assert search.attempts == 1
    second = choose_next(search, passed_seconds=0)
    assert isinstance(second, Candidate)
    assert second.changes != first.changes


def test_bounds_are_kept_and_say_what_would_be_next() -> None:
    trial = Trial(needs("fa3"), attempts=1)
    assert trial.step() is None
    stop = trial.step()
    assert isinstance(stop, Stop)
    assert stop.reason == "attempts"
    assert "fa3" in stop.text
    stop = Trial(needs("fa3"), seconds=60.0).step(passed_seconds=61.0)
    assert isinstance(stop, Stop)
    assert (stop.reason, "1 minutes" in stop.text) == ("time", True)


def test_a_repair_with_consent_waits_for_it() -> None:
    eager = repair("run eagerly", "it is slow", enforce_eager=True)
    stop = choose_next(begin(cause("graphs", eager)), passed_seconds=0)
    assert isinstance(stop, Stop)
    assert [each.names for each in stop.withheld] == [("enforce-eager",)]
    for name in ("enforce-eager", "engine.settings.enforce-eager", "graphs"):
        search = begin(cause("graphs", eager), consents=frozenset({name}))
        assert isinstance(choose_next(search, passed_seconds=0), Candidate)


@pytest.mark.parametrize(
    "changes",
    [
        {f"{KEY}trust-remote-code": True},
        {f"{KEY}trust_remote_code": True},
        {f"{KEY}host": "0.0.0.0"},
        {f"{KEY}enforce-eager": True},
        {f"{KEY}kv-cache-dtype": "fp8_e4m3"},
        {f"{KEY}chat-template": "/tmp/x.jinja"},
        {"engine.env.LD_PRELOAD": "x.so"},
        {"engine.env.VLLM_SKIP_P2P_CHECK": "1"},
        {"contract.require": []},
        {"accept": ["x"]},
        {"serve.api_key_file": None},
        {"serve.host": "0.0.0.0"},
        {"service.user": "root"},
        {"model.ref": "hf:other/model"},
    ],
)
def test_nothing_is_loosened_whatever_a_row_says(changes: dict[str, Plain]) -> None:
    candidate = Candidate(cause=cause("x"), repair=Repair(text="x", changes=changes), base={})
    assert find_consents(candidate, frozenset())
    assert find_consents(candidate, frozenset({"another"}))


@pytest.mark.parametrize(
    "changes",
    [
        {f"{KEY}mem-fraction-static": 0.8},
        {f"{KEY}trust-remote-code": None},
        {f"{KEY}kv-cache-dtype": "auto"},
        {f"{KEY}fp4-gemm-backend": "flashinfer_cudnn"},
        {"serve.context_tokens": 4096},
        {"engine.env.NCCL_P2P_DISABLE": "1"},
    ],
)
def test_ordinary_repairs_need_nobody(changes: dict[str, Plain]) -> None:
    candidate = Candidate(cause=cause("x"), repair=Repair(text="x", changes=changes), base={})
    assert find_consents(candidate, frozenset()) == ()


def test_one_name_agrees_to_one_key() -> None:
    both = Repair(text="x", changes={f"{KEY}trust-remote-code": True, f"{KEY}enforce-eager": True})
    candidate = Candidate(cause=cause("x"), repair=both, base={})
    assert len(find_consents(candidate, frozenset({"enforce-eager"}))) == 1


def test_no_cause_and_no_change() -> None:
    search = begin_search(
        diagnosis(unknown="nothing fits"), limits=Limits(), changed=changed, has_served=False
    )
    stop = choose_next(search, passed_seconds=0)
    assert isinstance(stop, Stop)
    assert (stop.reason, "nothing fits" in stop.text) == ("unknown", True)
    by_hand = Repair(text="install ninja")
    stop = choose_next(begin(cause("ninja", by_hand)), passed_seconds=0)
    assert isinstance(stop, Stop)
    assert stop.by_hand == ("install ninja",)


def test_what_only_costs_is_mended_where_answers_are_wrong_and_not_where_nothing_loads() -> None:
    warning = cause("scales", repair(kv_cache_dtype="auto"), gravity=Gravity.WARNING)
    assert isinstance(choose_next(begin(warning), passed_seconds=0), Candidate)
    assert isinstance(choose_next(begin(warning, has_served=False), passed_seconds=0), Stop)


_NAMES = ("a", "b", "c", "d")
_REPAIRS = st.lists(
    st.builds(
        lambda name, value, consent: repair(consent=consent, **{name: value}),
        st.sampled_from(_NAMES),
        st.integers(0, 2),
        st.sampled_from(("", "", "no")),
    ),
    max_size=4,
)
_CAUSES = st.lists(
    st.builds(lambda kind, repairs: cause(kind, *repairs), st.sampled_from(_NAMES), _REPAIRS),
    max_size=3,
)


@given(st.lists(st.tuples(_CAUSES, st.booleans()), min_size=1, max_size=12), st.integers(1, 6))
def test_any_search_ends_repeats_nothing_and_asks_first(
    starts: list[tuple[list[Cause], bool]], attempts: int
) -> None:
    """Whatever starts show; and a search that is cut short goes on from its value as it would."""
    first, has_served = starts[0]
    search = begin(*first, has_served=has_served, attempts=attempts)
    seen = [changed({})]
    for causes, has_served in (starts[1:] + starts) * 2:
        found = choose_next(search, passed_seconds=0)
        assert choose_next(search, passed_seconds=0) == found  # no hidden state
        if isinstance(found, Stop):
            break
        assert find_consents(found, frozenset()) == ()
        assert changed(found.changes) not in seen
        seen.append(changed(found.changes))
        search = take(search, found)
        # Cut short while it was being started: what was taken is not begun again.
        again = choose_next(search, passed_seconds=0)
        assert isinstance(again, Stop) or changed(again.changes) not in seen
        search = record_failure(search, diagnosis(*causes), has_served=has_served)
    assert search.attempts == len(seen) - 1 <= attempts
