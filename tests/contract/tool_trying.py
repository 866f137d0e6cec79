"""Trying the checks of tools and of reasoning on fake engines, straight and without HTTP."""

from __future__ import annotations

from collections.abc import Collection

from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.script import REASONING, USUAL_FEATURES, Script
from stoker.model.contract import CheckResult, Feature, Offer, Offered, Subject
from tests.contract.hand_made import subject_of
from tests.contract.trying import NAME, try_contract

TOOL_CHECKS = (
    "tools_called",
    "tools_auto",
    "tools_required",
    "tools_named",
    "tools_none",
    "tools_parallel",
    "tools_arguments",
    "tools_round_trip",
    "tools_streamed",
    "tools_text",
)
REASONING_CHECKS = ("reasoning_separated", "reasoning_switch", "reasoning_not_empty")
PROMISED = (
    Feature.TOOLS,
    Feature.NAMED_TOOLS,
    Feature.REASONING,
    Feature.THINKING_SWITCH,
)


def subject(kind: str, *, promised: Collection[Feature] = PROMISED) -> Subject:
    offered = Offered(offer=Offer.PROMISED, reason="the deployment says so")
    features = dict.fromkeys(promised, offered)
    return subject_of(kind, context_tokens=8192, features=features)


def try_fake(
    kind: str,
    *faults: Fault,
    only: Collection[str],
    features: frozenset[str] = USUAL_FEATURES | {REASONING},
    promised: Collection[Feature] = PROMISED,
) -> tuple[CheckResult, ...]:
    script = Script(names=(NAME,), manners=kind, features=features)
    endpoint = DirectEndpoint(Core(script, faults=faults))
    tried = subject(kind, promised=promised)
    return try_contract(endpoint, only=only, subject=tried, level="full").results
