"""What llama.cpp keeps of which layer, and what its server takes by itself: package data, typed.

Called by :mod:`stoker.capacity`. Architectures are named as GGUF files name them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "capacity/llamacpp_layers.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLayers:
    """Which layers of some architectures have a window; see the data file."""

    architectures: tuple[str, ...]
    source: Source
    period: int = 0
    first: bool = False
    listed: bool = False
    usual_tokens: int = 0
    fixed_tokens: int = 0
    layers: int = 0
    kept_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWindow:
    """Architectures whose window llama.cpp does not use, although the file may give one."""

    architectures: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayers:
    """Which layers of some architectures have a recurrent state; see the data file."""

    architectures: tuple[str, ...]
    form: str
    source: Source
    usual_interval: int = 0
    ungrouped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What llama-server takes: ``sequences`` that share one cache where their number is not set,
    and ``spare_mib`` that stay free, with at least ``least_context_tokens``, where it chooses the
    context itself."""

    sequences: int
    batch_tokens: int
    spare_mib: int
    least_context_tokens: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step needs for each of its tokens, in 32 bit; see the data file."""

    hidden_widths: float
    inner_widths: float
    element_bytes: int
    mask_bytes: int
    spread: tuple[float, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaLayers:
    """The whole of llamacpp_layers.toml."""

    window: tuple[WindowLayers, ...]
    no_window: NoWindow
    state: tuple[StateLayers, ...]
    served: Served
    step: Step


@cache
def load_llamacpp_layers() -> LlamaLayers:
    """The data file. Raises DataError."""
    found = structure(LlamaLayers, read_toml(_WHERE), where=_WHERE)
    sources = [row.source for row in found.window] + [row.source for row in found.state]
    for source in (*sources, found.no_window.source, found.served.source, found.step.source):
        check_source(source, where=f"{_WHERE}: {source.where}")
    return found


def find_window(architecture: str) -> WindowLayers | None:
    """How the windows of an architecture lie; None where that is not described."""
    rows = load_llamacpp_layers().window
    return next((row for row in rows if architecture in row.architectures), None)


def find_state(architecture: str) -> StateLayers | None:
    """Which layers of an architecture have a state; None where that is not described."""
    rows = load_llamacpp_layers().state
    return next((row for row in rows if architecture in row.architectures), None)
