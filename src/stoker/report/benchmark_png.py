"""A picture of benchmarks as PNG, drawn from its SVG by the optional package resvg_py."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from stoker.errors import UsageError
from stoker.report.capacity_svg import SVG_START

#: What draws, as the extra ``png`` of this package asks for it. It is named by itself: an index
#: may know another package by ours.
RENDERER = "resvg_py>=0.5"
#: Pixels for each unit of the SVG, so that text is sharp on screens of today.
ZOOM = 2.0
_PROBE = f'{SVG_START} width="40" height="20" font-family="%s">%s</svg>'


def render_png(svg: str, *, zoom: float = ZOOM) -> bytes:
    """The picture as PNG. Best drawn from an SVG of the light or dark theme, since a PNG has no
    surroundings to follow.

    Raises UsageError where the renderer is not installed, or this machine has no font.
    """
    renderer = _load_renderer()
    families = svg.partition('font-family="')[2].partition('"')[0]
    _require_font(renderer, families)
    return bytes(renderer.svg_to_bytes(svg_string=svg, zoom=zoom))


def _load_renderer() -> ModuleType:
    try:
        return import_module("resvg_py")
    except ImportError as error:
        raise UsageError(
            "a PNG needs the package resvg_py, which is not installed",
            f"install it with `{sys.executable} -m pip install '{RENDERER}'`, or write an SVG",
        ) from error


def _require_font(renderer: ModuleType, families: str) -> None:
    """Raises UsageError where a text leaves no trace: it would be missing from the picture."""
    empty, written = (
        bytes(renderer.svg_to_bytes(svg_string=_PROBE % (families, inner)))
        for inner in ("", '<text x="2" y="14">8</text>')
    )
    if empty == written:
        raise UsageError(
            "this machine has no font to write into a PNG",
            "install one (the packages fonts-dejavu-core or fonts-liberation have some), "
            "or write an SVG, which needs none",
        )
