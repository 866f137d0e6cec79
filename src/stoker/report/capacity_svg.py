"""Where the memory of a deployment lies, as a picture: one bar for each GPU and for the host."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from stoker.model.capacity import Capacity, MemoryMap, MemoryPart
from stoker.report.capacity_text import group_maps

_GIB = 1 << 30
#: What every picture begins with.
SVG_START = '<svg xmlns="http://www.w3.org/2000/svg"'
_WIDTH, _LEFT, _BAR_HEIGHT, _LINE, _GAP = 860, 20, 34, 20, 26
#: One colour for each part, the same in every bar; told apart without colours by their order.
_COLOURS = {
    "weights": "#4e79a7",
    "kv_pool": "#59a14f",
    "state_pool": "#8cd17d",
    "draft": "#b07aa1",
    "request_table": "#f28e2b",
    "graphs": "#edc948",
    "workspace": "#ff9da7",
    "others": "#9c755f",
    "unused": "#e8e8e8",
    "host_cache": "#76b7b2",
    "pinned_weights": "#4e79a7",
    "processes": "#9c755f",
}


def render_svg(capacity: Capacity) -> str:
    """A whole SVG document; bars are of what the engine told, else of what is predicted."""
    body: list[str] = []
    top = 40
    for memory in group_maps(capacity.maps):
        drawn = list(_draw_map(memory, top))
        body += drawn
        top += 24 + _BAR_HEIGHT + _LINE * len(_sized(memory)) + _GAP
    title = f"{capacity.name}: {capacity.engine} {capacity.release}".strip()
    head = (
        f'{SVG_START} viewBox="0 0 {_WIDTH} {top}" '
        f'width="{_WIDTH}" height="{top}" font-family="sans-serif" font-size="13">'
    )
    lines = [head, f"<title>{escape(title)}</title>", _text(_LEFT, 24, title, size=16), *body]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _draw_map(memory: MemoryMap, top: int) -> Iterator[str]:
    parts = _sized(memory)
    total = memory.total_bytes or sum(size for _, size in parts) or 1
    yield _text(_LEFT, top + 14, f"{memory.title}: {total / _GIB:.1f} GiB")
    place = float(_LEFT)
    whole = _WIDTH - 2 * _LEFT
    for number, (part, size) in enumerate(parts):
        width = max(0.0, min(whole * size / total, _LEFT + whole - place))
        yield _box(part, place, top + 24, width=width, height=_BAR_HEIGHT)
        place += width
        line = top + 24 + _BAR_HEIGHT + _LINE * number
        yield _box(part, _LEFT, line + 6, width=12, height=12)
        yield _text(_LEFT + 20, line + 17, _label(part, size))


def _label(part: MemoryPart, size: float) -> str:
    told = "told" if part.resolved_bytes is not None else "predicted"
    return f"{part.title}: {size / _GIB:.2f} GiB ({told})"


def _sized(memory: MemoryMap) -> list[tuple[MemoryPart, float]]:
    found = []
    for part in memory.parts:
        if part.resolved_bytes is not None:
            found.append((part, float(part.resolved_bytes)))
        elif part.predicted_bytes is not None:
            found.append((part, part.predicted_bytes.likely))
    return found


def _box(part: MemoryPart, left: float, top: float, *, width: float, height: float) -> str:
    colour = _COLOURS.get(part.part, "#bab0ac")
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    look = f'fill="{colour}" stroke="#555" stroke-width="0.5"'
    return f"<rect {place} {look}><title>{escape(part.title)}</title></rect>"


def _text(left: float, top: float, text: str, *, size: int = 13) -> str:
    return f'<text x="{left:.0f}" y="{top:.0f}" font-size="{size}">{escape(text)}</text>'
