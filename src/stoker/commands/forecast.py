"""What fits, beside a plan: the capacity that is predicted, and what rules may ask of it.

Called where a plan is made. It reads what earlier starts found and writes nothing; where nothing
can be predicted, the plan is made all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from stoker.capacity.correction import correct_capacity
from stoker.capacity.judging import HostNeed, judge_capacity, judge_host_cache
from stoker.capacity.main_memory import add_main_memory
from stoker.capacity.predict import predict
from stoker.commands.capacity_inputs import describe_deployment
from stoker.commands.capacity_starts import correct_described
from stoker.commands.holders import Judged
from stoker.commands.judge import pids_of_service
from stoker.commands.resolve import Resolved
from stoker.commands.world import World
from stoker.model.capacity import Capacity, Forecast, Span
from stoker.model.facts import Facts, Plain, Unknown

RUNS = (
    "this deployment runs now, so its own cache in host memory is not counted as free: stop it "
    "first to see what would remain"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """The tree of rules with what is predicted in it, and the prediction itself."""

    tree: Mapping[str, Plain]
    forecast: Forecast


def foresee(world: World, resolved: Resolved, judged: Judged) -> Foreseen:
    """Predict, and tell the rules. ``judged`` is the deployment with its holders cleared away."""
    own_pids = _find_own(world, resolved)
    described = describe_deployment(resolved, own_pids | judged.going, tree=judged.tree)
    corrected = correct_described(world, resolved, described)
    inputs = corrected.inputs
    found = add_main_memory(predict(inputs), inputs)
    capacity = _without_nonsense(correct_capacity(found, corrected))
    serve = resolved.deployment.serve
    is_wished = serve.context_tokens is not None or inputs.settings.context_tokens is not None
    told = judge_capacity(inputs, capacity, is_wished=is_wished)
    all_bytes = _all_memory(resolved.facts) if own_pids else None
    need = judge_host_cache(inputs, capacity, all_bytes=all_bytes)
    return Foreseen(
        tree=_tell_rules(judged.tree, told, need),
        forecast=Forecast(
            capacity=capacity,
            context_tokens=serve.context_tokens or capacity.context_tokens,
            parallel=serve.parallel_requests,
            notes=(RUNS,) if own_pids and capacity.host_cache is not None else (),
        ),
    )


def _find_own(world: World, resolved: Resolved) -> frozenset[int]:
    """The service's processes, whose memory comes back; nobody where no GPU is in use."""
    gpus = resolved.facts.read("gpus.gpus")
    if isinstance(gpus, Unknown) or not gpus:
        return frozenset()
    return pids_of_service(world, resolved.deployment.name)


def _all_memory(facts: Facts) -> int | None:
    """What the machine, or its control group, has in all."""
    found = facts.read("memory.limit_bytes")
    return found if isinstance(found, int) else None


def _tell_rules(
    tree: Mapping[str, Plain], told: Mapping[str, Plain], need: HostNeed | None
) -> Mapping[str, Plain]:
    """The tree with the prediction; the cache in host memory is judged by it, not by bounds of the
    weights and the GPUs alone."""
    capacity = {**tree["capacity"], **told}
    if need is None or need.usable_bytes is None:
        return {**tree, "capacity": capacity}
    capacity |= {
        "host_cache": need.answer,
        "host_needed_bytes": int(need.needed.likely),
        "host_usable_bytes": need.usable_bytes,
        "host_line": need.line,
    }
    hicache = {
        **tree["hicache"],
        "is_too_large": need.answer == "no",
        "needed_bytes": int(need.needed.low),
        "usable_bytes": need.usable_bytes,
        "line": need.line,
    }
    return {**tree, "capacity": capacity, "hicache": hicache}


def _without_nonsense(capacity: Capacity) -> Capacity:
    """A figure that is none (from a number of the file beyond all measure) is no figure."""
    spans = [capacity.kv_tokens, *(part.predicted_bytes for m in capacity.maps for part in m.parts)]
    cache = capacity.host_cache
    if cache is not None:
        spans += [cache.tokens, cache.rank_bytes, cache.total_bytes, cache.remaining_bytes]
    if all(each is None or _is_finite(each) for each in spans) and isfinite(
        capacity.token_bytes or 0.0
    ):
        return capacity
    return Capacity(
        name=capacity.name,
        engine=capacity.engine,
        release=capacity.release,
        kv_tokens=None,
        token_bytes=None,
        context_tokens=None,
        unknown=("a number of the file is beyond all measure",),
    )


def _is_finite(span: Span) -> bool:
    return all(isfinite(each) for each in (span.low, span.likely, span.high))
