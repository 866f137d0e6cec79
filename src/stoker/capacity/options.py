"""What would give more tokens: each option predicted again with one setting changed, best first.

Called by the commands that show a capacity. Gains are differences of two predictions from the same
readings; tokens of a cache in host memory stand apart and are never added. What the machine has no
room for is no option, and is said among what is not known or not possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from stoker.capacity import llamacpp_options, what_if
from stoker.capacity.correction import find_missing_bytes
from stoker.capacity.host_cache import find_available
from stoker.capacity.host_cache_limits import (
    list_limits,
    list_node_limits,
    tell_broken,
    tell_soft,
)
from stoker.capacity.inputs import Inputs
from stoker.capacity.predict import predict_newest
from stoker.capacity.processor import list_notes
from stoker.capacity.what_if import (
    Scene,
    Trial,
    Wish,
    change_share,
    find_unused,
    set_scene,
)
from stoker.knowledge.capacity import GIB
from stoker.knowledge.capacity_flags import load_capacity_flags
from stoker.knowledge.capacity_options import CONTEXT, VALUE, OptionRow, load_options
from stoker.model.capacity import Capacity, HostCache, Option, Span
from stoker.model.facts import Plain

#: So many times as many states are worth a line.
_MORE = 1.05
_HOST = ("host_ratio", "host_size")
#: Changes whose gain and price lie on a GPU: without one there is nothing true to say of them.
_OF_GPUS = ("memory_share", "graph_requests", "has_graphs", *_HOST)
#: Every change that a row may name, and what it tries.
CHANGES = {**what_if.CHANGES, **llamacpp_options.CHANGES}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """An option, or why there is none."""

    option: Option | None = None
    refusal: str = ""


def add_options(capacity: Capacity, inputs: Inputs, wish: Wish = Wish()) -> Capacity:  # noqa: B008
    """The same with its options, the best first; unchanged where nothing is predicted."""
    if capacity.kv_tokens is None:
        return capacity
    inputs = _free_pool(inputs)
    scene = set_scene(inputs, wish)
    if scene is None:
        return capacity
    base = predict_newest(inputs)
    found = list(_find_all(scene, base))
    options = _list_once(each.option for each in found if each.option is not None)
    options.sort(key=_worth, reverse=True)
    refusals = tuple(dict.fromkeys(each.refusal for each in found if each.refusal))
    return replace(capacity, options=tuple(options), unknown=(*capacity.unknown, *refusals))


def _list_once(options: Iterable[Option]) -> list[Option]:
    """Two rows, or two values of one, may come to the same change."""
    by_changes: dict[str, Option] = {}
    for option in options:
        by_changes.setdefault(repr(sorted(option.changes.items())), option)
    return list(by_changes.values())


def _free_pool(inputs: Inputs) -> Inputs:
    """A pool that was read holds for one setting; as a correction it holds for others too."""
    readings = inputs.readings
    if readings.pool_bytes is None:
        return inputs
    free = replace(inputs, readings=replace(readings, pool_bytes=None, missing_bytes=None))
    missing = find_missing_bytes(predict_newest(free), readings.pool_bytes)
    return replace(free, readings=replace(free.readings, missing_bytes=missing))


def _worth(option: Option) -> tuple[float, float]:
    gain, host = option.gain_tokens, option.host_tokens
    return (gain.likely if gain is not None else 0.0, host.likely if host is not None else 0.0)


def _find_all(scene: Scene, base: Capacity) -> Iterator[_Found]:
    fitting_caches = 0
    is_alone = scene.inputs.processor is not None
    for row in load_options().find(scene.inputs.engine, scene.inputs.release):
        if is_alone and row.change in _OF_GPUS:
            continue
        # A size is offered only where no ratio fits.
        if row.change == "host_size" and fitting_caches:
            continue
        for trial in CHANGES[row.change](row, scene):
            if is_alone and set(list_notes(trial.inputs)) - set(list_notes(scene.inputs)):
                continue  # with it the engine would not start
            found = _judge(row, trial, scene, base)
            fitting_caches += row.change in _HOST and found.option is not None
            yield found


def _judge(row: OptionRow, trial: Trial, scene: Scene, base: Capacity) -> _Found:
    share = _find_freed_share(row, trial, scene)
    inputs = trial.inputs if share is None else change_share(trial.inputs, share)
    after = predict_newest(inputs)
    before = base if trial.base is None else predict_newest(trial.base)
    if after.kv_tokens is None or before.kv_tokens is None:
        return _Found()
    gain = _subtract(after.kv_tokens, before.kv_tokens)
    if row.change in _HOST:
        return _judge_host(row, trial, after, gain)
    states = _tell_states(before.state_requests, after.state_requests)
    is_more = gain.likely >= load_options().bounds.least_gain * before.kv_tokens.likely
    if not is_more and not states and not trial.is_gain:
        return _Found()
    option = _make(row, trial, scene, gain=gain, share=share)
    if states:
        option = replace(option, cost=f"{states}; {option.cost}")
    left = _find_left(after) if row.change == "memory_share" else None
    if left is not None:
        least = f"{left.low / GIB:.1f} at worst"
        told = f"about {left.likely / GIB:.1f} GiB of each GPU stay free ({least})"
        option = replace(option, cost=f"{told}; {option.cost}")
    return _Found(option=option)


def _tell_states(before: int | None, after: int | None) -> str:
    """Recurrent states for more requests are a gain too; empty where there are no more."""
    if before is None or after is None or after <= before * _MORE:
        return ""
    return f"states for {after:,} requests at the same time instead of {before:,}"


def _find_left(capacity: Capacity) -> Span | None:
    parts = capacity.maps[0].parts if capacity.maps else ()
    return next((part.predicted_bytes for part in parts if part.part == "unused"), None)


def _judge_host(row: OptionRow, trial: Trial, after: Capacity, gain: Span) -> _Found:
    cache = after.host_cache
    if cache is None:
        return _Found()
    option = _make(row, trial, None, gain=gain, share=None)
    limits = (*list_limits(trial.inputs, cache), *list_node_limits(trial.inputs, cache))
    broken = tell_broken(limits)
    if broken:
        return _Found(refusal=f"not possible here: {option.title} ({broken})")
    cost = f"{_tell_room(trial.inputs, cache)}; {row.cost}"
    soft = tell_soft(limits)
    risk = f"{option.risk}; {soft}" if soft else option.risk
    return _Found(
        option=replace(
            option,
            cost=cost,
            risk=risk,
            host_tokens=cache.tokens,
            host_bytes=cache.total_bytes,
        )
    )


def _tell_room(inputs: Inputs, cache: HostCache) -> str:
    """What it takes of the machine, and what then remains of what is free."""
    total = cache.total_bytes.likely
    text = f"takes {total / 1e9:.1f} GB in all ({total / GIB:.1f} GiB)"
    if cache.ranks > 1:
        text += f", {cache.rank_bytes.likely / 1e9:.1f} GB for each of {cache.ranks} ranks"
    room = find_available(inputs)
    if room is None or cache.remaining_bytes is None:
        return f"{text}; how much memory is free is not known"
    left = cache.remaining_bytes.likely
    return f"{text}; of {room / GIB:.1f} GiB that are free, {left / GIB:.1f} GiB remain"


def _find_freed_share(row: OptionRow, trial: Trial, scene: Scene) -> float | None:
    """The share at which as much is left of a GPU as before; None where it is hardly another."""
    share, free = scene.budget.share, scene.budget.free_before
    if not row.frees or share is None or free is None or scene.inputs.settings.kv_bytes:
        return None
    if scene.inputs.processor is not None:
        return None
    now, then = find_unused(scene.inputs), find_unused(trial.inputs)
    if now is None or then is None:
        return None
    bounds = load_options().bounds
    found = math.floor(1000 * (share + (then - now) / max(1.0, free.likely))) / 1000
    found = min(found, bounds.most_share)
    return found if found >= share + bounds.freed_share else None


def _subtract(after: Span, before: Span) -> Span:
    """What both have in common is in doubt together, so bounds go with bounds."""
    likely = after.likely - before.likely
    ends = (after.low - before.low, likely, after.high - before.high)
    return Span(low=min(ends), likely=likely, high=max(ends))


def _make(
    row: OptionRow, trial: Trial, scene: Scene | None, *, gain: Span, share: float | None
) -> Option:
    stands_for = {VALUE: trial.value, CONTEXT: trial.context_tokens}
    changes = {key: _fill(value, stands_for) for key, value in row.sets.items()}
    title = row.title.format(before=trial.before, after=trial.after)
    if share is not None and scene is not None:
        changes[_share_key(scene.inputs.engine)] = share
        title += f", and use {share:.3g} of each GPU: the pool gets what that frees"
    word = "" if trial.value is True else f"-{trial.value}"
    return Option(
        id=f"{row.id}{word}",
        title=title,
        gain_tokens=gain,
        changes=changes,
        cost=row.cost,
        risk=row.risk,
        source=row.source,
    )


def _fill(value: Plain, stands_for: Mapping[str, Plain]) -> Plain:
    return stands_for.get(value, value) if isinstance(value, str) else value


def _share_key(engine: str) -> str:
    return f"engine.settings.{load_capacity_flags()[engine].meanings['memory_share']}"
