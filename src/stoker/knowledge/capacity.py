"""What engines and GPUs do with memory, by release: package data, typed.

Called by :mod:`stoker.capacity`. Loads what ships with the package and names no engine's flag, no
model and no GPU itself. Sizes are in bytes, in MiB (``_mib``) or in GiB (``_gib``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol, TypeVar

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.finding import Source

MIB = 1 << 20
GIB = 1 << 30
#: Later than any release.
_NEWEST = (1 << 30,)


class ByRelease(Protocol):
    """A row that holds for some releases."""

    @property
    def versions(self) -> str:
        """The range in which it holds."""
        ...


Row = TypeVar("Row", bound=ByRelease)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberType:
    """A number format of a cache: ``bytes`` of an element, and ``scale_bytes`` of each block."""

    words: tuple[str, ...]
    bytes: float
    source: Source
    block: int = 0
    scale_bytes: float = 0.0
    follows_model: bool = False

    @property
    def element_bytes(self) -> float:
        """With its share of the scale."""
        return self.bytes + (self.scale_bytes / self.block if self.block else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """A GPU: what the driver prints, what torch can use; ``shared`` with the machine.

    ``fabric``: boards of several have switches between them.
    """

    key: str
    words: tuple[str, ...]
    total_mib: int
    visible_gib: float
    source: Source
    fabric: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """What is gone of a GPU before the weights, for so many ``ranks`` (least and most)."""

    engine: str
    ranks: tuple[int, ...]
    likely_mib: int
    low_mib: int
    high_mib: int
    source: Source
    fabric: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What lies between the reading of free memory and the line that tells of it."""

    versions: str
    alone_mib: int
    shared_mib: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What is gone between the weights and the reading that sizes pools of a kind."""

    versions: str
    pools: str
    layer_width_bytes: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """What comes off the budget of a model that reads images."""

    versions: str
    multimodal_mib: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRule:
    """How the share of a GPU is chosen; ``is_rough``: the rule is known in part only.

    ``prefill_is_plain``: prompts are captured in the plainest deployments alone. ``by_role``: what
    reads prompts alone keeps nothing for decoding, and the other way round.
    """

    versions: str
    form: str
    source: Source
    ranks: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[tuple[float, ...], ...] = ()
    prefill_mib: int = 0
    latent_prefill_mib: int = 0
    draft_mib: int = 0
    alone_draft_mib: int = 0
    prefill_is_plain: bool = False
    by_role: bool = False
    is_rough: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a step by the card's memory; see the data file for the columns."""

    rows: tuple[tuple[int, ...], ...]
    source: Source
    versions: str = ">=0"

    def find(self, total_mib: float) -> tuple[int, ...]:
        """The row for a card."""
        return next(row for row in self.rows if total_mib < row[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRule:
    """Which classes have a pool for sliding layers, and how it is divided."""

    versions: str
    form: str
    classes: tuple[str, ...]
    source: Source
    is_capped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Some classes of models."""

    classes: tuple[str, ...]
    source: Source
    versions: str = ">=0"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRule:
    """How the pool of recurrent states is sized."""

    versions: str
    draft: str
    source: Source
    padding: int = 0
    plain_slots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Slots of states for each running request."""

    strategy: str
    versions: str
    slots: int
    no_overlap_slots: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRule:
    """Where the cache of a draft model comes from."""

    versions: str
    form: str
    priced_kinds: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseRule:
    """Bytes of a row of sparse attention in 8 bit: as it is, and as it is budgeted."""

    row_bytes: int
    source: Source
    budget_row_bytes: int = 0
    versions: str = ">=0"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTable:
    """The table from requests to tokens."""

    least: int
    most: int
    for_each_context: int
    extra_tokens: int
    entry_bytes: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What SGLang takes where nothing is set."""

    window_ratio: float
    state_ratio: float
    host_ratio: float
    page_tokens: int
    context_draft_requests: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Graphs and workspaces: least, likely and most."""

    graphs_mib: tuple[int, ...]
    source: Source
    workspace_mib: tuple[int, ...] = (0, 0, 0)
    versions: str = ">=0"
    ranks: tuple[int, ...] = (1, 1 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """What a loader keeps, as a share of the files: least, likely and most."""

    versions: str
    classes: tuple[str, ...]
    share: tuple[float, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Bytes of an element of the table of positions."""

    element_bytes: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangRules:
    """The whole of sglang.toml."""

    baseline: tuple[Baseline, ...]
    lost: tuple[Lost, ...]
    reserve: tuple[Reserve, ...]
    share: tuple[ShareRule, ...]
    sizes: tuple[Sizes, ...]
    window: tuple[WindowRule, ...]
    pools: SglangPools
    other_pools: tuple[Classes, ...]
    leak: tuple[Leak, ...]
    work: tuple[Work, ...]
    rope: Rope
    usual: Usual


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangPools:
    """The rules of single pools."""

    state: tuple[StateRule, ...]
    slots: tuple[Slots, ...]
    draft: tuple[DraftRule, ...]
    sparse: tuple[SparseRule, ...]
    request_table: RequestTable


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultShare:
    """The share of a GPU where none is set."""

    versions: str
    share: float
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRule:
    """Whether the graphs' estimate comes off the pool."""

    versions: str
    is_taken: bool
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRule:
    """How tokens are counted."""

    versions: str
    form: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Transient:
    """What is in use for a moment; see the data file."""

    logit_bytes: float
    wide_bytes: float
    hidden_bytes: float
    base_mib: int
    expert_bytes: float
    latent_extra: float
    spread: tuple[float, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is held beside torch by so many ranks: least, likely and most."""

    ranks: tuple[int, ...]
    mib: tuple[int, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Tokens of a block."""

    usual: int
    latent: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmRules:
    """The whole of vllm.toml."""

    share: tuple[DefaultShare, ...]
    graphs: tuple[GraphRule, ...]
    count: tuple[CountRule, ...]
    sizes: tuple[Sizes, ...]
    transient: Transient
    beside: tuple[Beside, ...]
    work: tuple[Work, ...]
    sparse: SparseRule
    blocks: Blocks
    other_pools: Classes
    rope: Rope


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCache:
    """How llama.cpp pads and types its cache."""

    padding_tokens: int
    usual_type: str
    micro_batch_tokens: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaWork:
    """Buffers of a step and the driver's context: least, likely and most."""

    workspace_mib: tuple[int, ...]
    context_mib: tuple[int, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaRules:
    """The whole of llamacpp.toml."""

    cache: LlamaCache
    state: Rope
    work: LlamaWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """How weights are stored; see the data file."""

    method: str
    bits: int
    element_bytes: float
    kept: tuple[str, ...]
    spread: tuple[float, ...]
    source: Source
    group: int = 0
    scale_bytes: float = 0.0
    needs: str = ""
    classes: tuple[str, ...] = ()


@cache
def load_number_types() -> Mapping[str, NumberType]:
    """The number formats by each of their words. Raises DataError."""
    rows = _load_rows(NumberType, "capacity/numbers.toml", "type")
    return {word: row for row in rows for word in row.words}


@cache
def load_gpu_rows() -> tuple[GpuRow, ...]:
    """All GPUs that are described. Raises DataError."""
    return _load_rows(GpuRow, "capacity/gpus.toml", "gpu")


@cache
def load_contexts() -> tuple[ContextRow, ...]:
    """What is gone before the weights. Raises DataError."""
    return _load_rows(ContextRow, "capacity/gpus.toml", "context")


@cache
def load_stored() -> tuple[Stored, ...]:
    """How weights are stored. Raises DataError."""
    return _load_rows(Stored, "capacity/weights.toml", "stored")


@cache
def load_sglang() -> SglangRules:
    """The rules of SGLang. Raises DataError."""
    where = "capacity/sglang.toml"
    data = read_toml(where)
    names = SglangPools.__dataclass_fields__
    inner = {name: data.pop(name) for name in tuple(data) if name in names}
    return structure(SglangRules, {**data, "pools": inner}, where=where)


@cache
def load_vllm() -> VllmRules:
    """The rules of vLLM. Raises DataError."""
    where = "capacity/vllm.toml"
    return structure(VllmRules, read_toml(where), where=where)


@cache
def load_llamacpp() -> LlamaRules:
    """The rules of llama.cpp. Raises DataError."""
    where = "capacity/llamacpp.toml"
    return structure(LlamaRules, read_toml(where), where=where)


def find_row(rows: Sequence[Row], release: str) -> Row | None:
    """The first row that holds for a release; one without numbers is taken as the newest. None for
    none."""
    version = parse_version(release) or _NEWEST
    return next((row for row in rows if _holds(row.versions, version)), None)


def need_row(rows: Sequence[Row], release: str) -> Row:
    """The same where there must be one. Raises DataError."""
    found = find_row(rows, release)
    if found is None:
        raise DataError(f"no row holds for release {release}")
    return found


def _holds(versions: str, version: tuple[int, ...]) -> bool:
    wanted = parse_version_range(versions)
    if wanted is None:
        raise DataError(f"{versions} is no range of versions")
    return version_is_in(version, wanted)


Made = TypeVar("Made", NumberType, GpuRow, ContextRow, Stored)


def _load_rows(kind: type[Made], where: str, name: str) -> tuple[Made, ...]:
    data = read_toml(where).get(name, [])
    rows = tuple(
        structure(kind, row, where=f"{where}: {name} {n + 1}") for n, row in enumerate(data)
    )
    for number, row in enumerate(rows):
        check_source(row.source, where=f"{where}: {name} {number + 1}")
    return rows
