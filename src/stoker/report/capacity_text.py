"""Where the memory of a deployment lies, what fits and what could be gained, for a person.

Memory of GPUs and of the machine is in GiB (1,073,741,824 bytes); a cache in host memory is in GB
(1,000,000,000 bytes), as its flags count, with the same in GiB beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker.capacity.answers import longest_context, requests_at, tokens_per_gb
from stoker.capacity.host_cache_limits import Limit
from stoker.model.capacity import (
    Capacity,
    Correction,
    Forecast,
    HostCache,
    MemoryMap,
    MemoryPart,
    Option,
    Span,
)
from stoker.report.table import render_table

_GIB, _GB = 1 << 30, 1e9
_BAR = 30
#: So many parts of a map are named in a plan.
_LARGEST = 3
#: What a correction carries over, where its name in data is no word for a person.
_WORDS = {"pool": "the difference of the pool", "workspace": "what a step needs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCapacity:
    """What is shown: requests of ``context_tokens``, ``parallel`` of them at the same time.

    ``told_tokens``: what the engine itself told, None before it ran. ``limits`` of the cache in
    host memory. ``notes`` are sentences for the end.
    """

    capacity: Capacity
    context_tokens: int | None = None
    parallel: int | None = None
    told_tokens: int | None = None
    limits: tuple[Limit, ...] = ()
    notes: tuple[str, ...] = ()


def render_capacity(shown: ShownCapacity) -> str:
    """Maps, answers, options, and what is not known."""
    capacity = shown.capacity
    head = f"{capacity.name}: {capacity.engine} {capacity.release or '(release not known)'}"
    sections = [
        head,
        *map(_render_map, group_maps(capacity.maps)),
        _render_answers(shown),
        _render_host(shown),
        _render_options(capacity),
        _render_sentences(shown),
    ]
    return "\n\n".join(section.rstrip() for section in sections if section) + "\n"


def render_forecast(forecast: Forecast) -> str:
    """The same in a few lines, for a plan: what fits, the largest parts, the cache in host memory.

    One sentence where nothing is predicted.
    """
    capacity = forecast.capacity
    if capacity.kv_tokens is None:
        why = "; ".join(capacity.unknown) or "nothing is known of it"
        return f"What fits is not predicted: {why}."
    shown = ShownCapacity(
        capacity=capacity,
        context_tokens=forecast.context_tokens,
        parallel=forecast.parallel,
    )
    lines = [
        "What fits (predicted; `stoker capacity FILE` shows all of it):",
        *(f"  {line}" for line in _render_answers(shown).splitlines()),
        *(f"  {_render_parts(each)}" for each in group_maps(capacity.maps) if _is_used(each)),
        *(f"  {line}" for line in _render_host(shown).splitlines()),
        *(f"  note: {each}" for each in (*capacity.unknown, *forecast.notes)),
    ]
    if capacity.corrected_by is not None:
        lines.append(f"  {tell_correction(capacity.corrected_by)}")
    return "\n".join(lines)


def _is_used(memory: MemoryMap) -> bool:
    """Whether anything of the deployment lies there."""
    return any(part.part not in ("processes", "unused") for part in memory.parts)


def _render_parts(memory: MemoryMap) -> str:
    """The largest parts of a map, and what stays unused, on one line."""
    sizes = {part.part: part.predicted_bytes for part in memory.parts if part.part != "unused"}
    known = {name: size.likely for name, size in sizes.items() if size is not None}
    # The cache is what a person asks for, however small it is.
    order = sorted(known, key=lambda name: (name != "kv_pool", -known[name]))[:_LARGEST]
    titles = {part.part: part.title for part in memory.parts}
    told = [f"{titles[name]} {_gib(known[name])}" for name in order]
    told += [
        f"unused {_gib(part.predicted_bytes.likely)}"
        for part in memory.parts
        if part.part == "unused" and part.predicted_bytes is not None
    ]
    total = "size not known" if memory.total_bytes is None else _gib(memory.total_bytes)
    return f"{memory.title}, {total}: {', '.join(told) or 'nothing is known'}"


def tell_correction(by: Correction) -> str:
    """By which start a prediction was corrected, when it was, and what it took from it."""
    when = datetime.fromtimestamp(by.at_seconds, UTC)
    told = [] if by.told_tokens is None else [f"it told {by.told_tokens:,} tokens"]
    if by.missing_bytes is not None:
        word = "less" if by.missing_bytes >= 0 else "more"
        size = _gib(abs(by.missing_bytes))
        told.append(f"its pool had {size} {word} than its own readings gave")
    carried = ", ".join(_WORDS.get(each, each) for each in by.carried)
    told.append(f"taken from it: {carried}")
    return f"corrected by the start of {by.deployment} ({when:%Y-%m-%d %H:%M} UTC): " + "; ".join(
        told
    )


def group_maps(maps: Sequence[MemoryMap]) -> list[MemoryMap]:
    """Maps of GPUs that are alike as one, which says of which."""
    groups: dict[object, list[MemoryMap]] = {}
    for each in maps:
        is_gpu = each.rank is not None
        key = (is_gpu, each.total_bytes, each.parts, each.title.partition("(")[2])
        groups.setdefault(key, []).append(each)
    return [_merge(group) for group in groups.values()]


def _merge(group: Sequence[MemoryMap]) -> MemoryMap:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    kind = first.title.partition(" (")[2]
    title = f"GPU {first.rank} to {last.rank}" if _is_row(group) else f"{len(group)} GPUs"
    title += f" ({kind}" if kind else ""
    return MemoryMap(
        title=f"{title}, each", total_bytes=first.total_bytes, rank=first.rank, parts=first.parts
    )


def _is_row(group: Sequence[MemoryMap]) -> bool:
    return [each.rank for each in group] == list(
        range(group[0].rank or 0, (group[0].rank or 0) + len(group))
    )


def _render_map(memory: MemoryMap) -> str:
    has_told = any(part.resolved_bytes is not None for part in memory.parts)
    total = "size not known" if memory.total_bytes is None else _gib(memory.total_bytes)
    if not any(part.predicted_bytes for part in memory.parts) and has_told:
        told = [[part.title, _told(part), _bar_of(part, memory)] for part in memory.parts]
        return f"{memory.title}: {total}\n{render_table(['PART', 'TOLD', ''], told)}"
    head = ["PART", "PREDICTED", "BETWEEN"]
    head += ["TOLD", "DIFFERENCE"] if has_told else []
    rows = [_row(part, memory, has_told=has_told) for part in memory.parts]
    return f"{memory.title}: {total}\n{render_table([*head, ''], rows)}"


def _row(part: MemoryPart, memory: MemoryMap, *, has_told: bool) -> list[str]:
    size, told = part.predicted_bytes, part.resolved_bytes
    row = [part.title]
    row += ["not known", part.reason or "-"] if size is None else [_gib(size.likely), _ends(size)]
    if has_told:
        is_both = told is not None and size is not None
        row.append(_told(part))
        row.append(_gib((told or 0) - size.likely, signed=True) if is_both and size else "-")
    return [*row, _bar_of(part, memory)]


def _told(part: MemoryPart) -> str:
    return "-" if part.resolved_bytes is None else _gib(part.resolved_bytes)


def _bar_of(part: MemoryPart, memory: MemoryMap) -> str:
    """Of what was told, else of what is likely."""
    best: float | None = part.resolved_bytes
    if best is None and part.predicted_bytes is not None:
        best = part.predicted_bytes.likely
    return "" if best is None or not memory.total_bytes else _bar(best / memory.total_bytes)


def _bar(share: float) -> str:
    filled = round(_BAR * min(1.0, max(0.0, share)))
    return "#" * filled + "." * (_BAR - filled)


def _ends(size: Span) -> str:
    if size.high - size.low < 0.05 * _GIB:
        return "-"
    return f"{size.low / _GIB:.1f} to {size.high / _GIB:.1f}"


def _gib(size_bytes: float, *, signed: bool = False) -> str:
    value = round(size_bytes / _GIB, 2) + 0.0
    return f"{value:+.2f} GiB" if signed else f"{value:.2f} GiB"


def _count(span: Span) -> str:
    """A count with its bounds, where they differ."""
    if round(span.low) == round(span.high):
        return f"{span.likely:,.0f}"
    return f"{span.likely:,.0f} ({span.low:,.0f} to {span.high:,.0f})"


def _render_answers(shown: ShownCapacity) -> str:
    capacity = shown.capacity
    if capacity.kv_tokens is None:
        return "How many tokens fit is not known."
    rows = [("tokens of context in all", _count(capacity.kv_tokens))]
    if shown.told_tokens is not None:
        less = shown.told_tokens / max(1.0, capacity.kv_tokens.likely) - 1
        rows.append(("the engine told", f"{shown.told_tokens:,} ({less:+.2%})"))
    rows += _answer_rows(shown)
    if capacity.state_requests is not None:
        rows.append(("requests whose states fit", f"{capacity.state_requests:,}"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)


def _answer_rows(shown: ShownCapacity) -> Iterator[tuple[str, str]]:
    capacity, context, parallel = shown.capacity, shown.context_tokens, shown.parallel
    count = requests_at(capacity, context) if context else None
    if count is not None and context:
        yield f"requests of {context:,} tokens at the same time", _count(count)
        if count.likely < 1:
            yield "", "a single request of that length does not fit"
    longest = longest_context(capacity, parallel or 1)
    if longest is not None:
        yield f"longest context with {parallel or 1:,} at the same time", _count(longest)
    for_gb = tokens_per_gb(capacity)
    if for_gb is not None and capacity.token_bytes:
        where = " of each GPU" if any(each.rank is not None for each in capacity.maps) else ""
        told = f"{for_gb:,.0f} (a token takes {capacity.token_bytes:,.0f} bytes{where})"
        yield f"tokens for 1 GB{where}", told


def _render_host(shown: ShownCapacity) -> str:
    cache = shown.capacity.host_cache
    if cache is None:
        return ""
    tokens = f"{_count(cache.tokens)} tokens on each of {cache.ranks} ranks"
    locked = ", locked" if cache.is_pinned else ""
    lines = [
        f"Prompts in host memory: {tokens}, for reuse: never more context at the same time",
        f"  {_both(cache.rank_bytes)} for each rank, {_both(cache.total_bytes)} in all{locked}",
        *_render_left(cache),
        *(f"  {_render_limit(limit)}" for limit in shown.limits),
    ]
    return "\n".join(lines)


def _render_left(cache: HostCache) -> Iterator[str]:
    left = cache.remaining_bytes
    if left is not None and left.likely < 0:
        yield f"  {_gib(-left.likely)} more than is free"
    elif left is not None:
        yield f"  {_gib(left.likely)} of what is free then remain for all others"


def _both(size: Span) -> str:
    return f"{size.likely / _GB:.1f} GB ({size.likely / _GIB:.1f} GiB)"


def _render_limit(limit: Limit) -> str:
    needed = f"{limit.needed_bytes / _GIB:.1f} GiB"
    if limit.allowed_bytes is None:
        return f"{limit.title}: not known; {needed} are needed"
    broken = "DOES NOT FIT" if limit.is_hard else limit.beyond
    word = "fits" if limit.is_kept else broken
    kept = f", {limit.reserve_bytes / _GIB:.0f} GiB kept back" if limit.reserve_bytes else ""
    return f"{limit.title}: {needed} of {limit.allowed_bytes / _GIB:.1f} GiB{kept}: {word}"


def _render_options(capacity: Capacity) -> str:
    if not capacity.options:
        return ""
    lines = [
        f"{number}. {_render_option(option, capacity)}"
        for number, option in enumerate(capacity.options, start=1)
    ]
    return "What would give more, the most first:\n" + "\n".join(lines)


def _render_option(option: Option, capacity: Capacity) -> str:
    risk = f" Risk: {option.risk}." if option.risk else ""
    restart = "" if option.needs_restart else " No restart."
    return f"{option.title}: {_render_gain(option, capacity)}. Cost: {option.cost}.{risk}{restart}"


def _render_gain(option: Option, capacity: Capacity) -> str:
    gain, words = option.gain_tokens, []
    if gain is not None and round(gain.likely) and capacity.kv_tokens is not None:
        share = gain.likely / max(1.0, capacity.kv_tokens.likely)
        words.append(f"{gain.likely:+,.0f} tokens ({share:+.1%})")
    if option.host_tokens is not None:
        words.append(f"{option.host_tokens.likely:,.0f} tokens in host memory, apart")
    return ", ".join(words) or "no more tokens"


def _render_sentences(shown: ShownCapacity) -> str:
    sentences = [f"note: {each}" for each in shown.capacity.unknown]
    by = shown.capacity.corrected_by
    sentences += [] if by is None else [tell_correction(by)]
    return "\n".join([*sentences, *(f"note: {each}" for each in shown.notes)])
