"""The checks of the chat interface on fake engines: correct ones pass, each fault is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.contract.asking import Asker
from stoker.contract.judgement import Judgement
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.faults import chat, chat_logprobs, chat_streams
from stoker.fake_engine.script import (
    ALL_FEATURES,
    LLAMACPP,
    MANNERS,
    USUAL_FEATURES,
    VLLM,
    Delivery,
    Script,
)
from stoker.knowledge.manners import load_manners
from stoker.model.contract import Exchange, Manners, Subject, Verdict
from stoker.ports import Check
from tests.contract.chat_replies import CHECKS

MINE = (
    "chat_answer",
    "published_name",
    "question_reaches_model",
    "stream_ends_done",
    "usage_adds_up",
    "length_limit",
    "logprobs_add_up",
    "multi_turn",
    "seed_repeats",
    "sampled_answers",
    "several_choices",
    "stop_strings",
    "stream_equals_plain",
    "stream_usage",
    "system_prompt",
    "unicode_whole",
)
FAULTS = (*chat.FAULTS, *chat_logprobs.FAULTS, *chat_streams.FAULTS)

#: Only with engines that keep seeds is it a fault not to.
SEED = ("seed_ignored", "seed_forgotten")
KEEPING = (VLLM, LLAMACPP)


def try_on(core: Core, check: Check, *, known: bool = True) -> Judgement:
    manners = load_manners()[core.script.manners].manners if known else Manners()
    subject = Subject(published_name=core.script.name, manners=manners)
    asker, exchanges = Asker(DirectEndpoint(core)), tuple[Exchange, ...]()
    while batch := check.plan(subject, exchanges):
        exchanges += asker.ask(batch)
    judgement = check.judge(subject, exchanges)
    assert isinstance(judgement, Judgement)
    return judgement


@pytest.mark.parametrize("known", [True, False], ids=["known", "stranger"])
@pytest.mark.parametrize("features", [frozenset(), USUAL_FEATURES, ALL_FEATURES], ids=len)
@pytest.mark.parametrize("manners", MANNERS)
def test_a_correct_engine_raises_no_alarm(
    manners: str, features: frozenset[str], known: bool
) -> None:
    for seed in range(3):
        delivery = Delivery(seed=seed, most_tokens_per_chunk=1 + 2 * seed)
        core = Core(Script(manners=manners, features=features, delivery=delivery))
        for name in MINE:
            judgement = try_on(core, CHECKS[name], known=known)
            is_skipped = name == "seed_repeats" and judgement.verdict is Verdict.SKIPPED
            assert judgement.verdict is Verdict.PASSED or is_skipped, (name, judgement)


@pytest.mark.parametrize("text", ["4", "...", "It is 4.", "Ja. " * 12, "\u56db\u3002", "a b " * 99])
@pytest.mark.parametrize("manners", MANNERS)
def test_a_model_that_says_one_thing_raises_no_alarm(manners: str, text: str) -> None:
    core = Core(Script(manners=manners).saying(text))
    # A model that never stops saying the same two words is none that answers.
    for name in MINE[1:] if len(text) > 99 else MINE:
        assert try_on(core, CHECKS[name]).verdict is not Verdict.FAILED, name


@pytest.mark.parametrize("manners", MANNERS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_noticed(fault: Fault, manners: str) -> None:
    if fault.name in SEED and manners not in KEEPING:
        pytest.skip("it promises no seed")
    for chunk_tokens in (1, 4):
        script = Script(manners=manners, delivery=Delivery(most_tokens_per_chunk=chunk_tokens))
        core = Core(replace(script), faults=(fault,))
        for name in fault.killed_by:
            judgement = try_on(core, CHECKS[name])
            assert judgement.verdict is Verdict.FAILED, (name, judgement)
            assert judgement.symptom
            assert judgement.expected
            assert judgement.found


def test_each_check_has_two_faults_that_it_notices() -> None:
    added = set(MINE) - {"stream_ends_done", "usage_adds_up", "sampled_answers"}
    for name in added:
        assert sum(name in fault.killed_by for fault in FAULTS) >= 2, name
