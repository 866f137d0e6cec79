"""What a prediction starts from: the model's dimensions, the GPUs, the settings, and readings.

Called by whoever builds inputs from facts or from recorded cases. Everything is by meaning and in
bytes or tokens; None is always "not known", never "none".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Layers of one kind that keep keys and values of each token.

    ``kv_heads`` of ``key_width`` and ``value_width`` elements. With a ``latent_width`` one vector
    (that and ``rope_width``) stands for all heads; without one ``rope_width`` is the part of a head
    that has a position (0: all of it). ``index_width``: a sparse attention's own key
    of so many elements beside it. ``window_tokens``: each token attends to so many only.
    ``shared_layers`` of them use what other layers keep, in engines that know of it.
    """

    layers: int
    kv_heads: int
    key_width: int
    value_width: int
    latent_width: int = 0
    rope_width: int = 0
    index_width: int = 0
    window_tokens: int | None = None
    shared_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Layers of one kind that keep a state of fixed size for each request.

    ``conv_width`` channels of a convolution over ``conv_tokens``; ``heads`` of ``key_width`` times
    ``value_width`` elements. ``state_type``: the number format of the state, where the model says.
    """

    mechanism: str
    layers: int
    conv_width: int
    conv_tokens: int
    heads: int
    key_width: int
    value_width: int
    state_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vision:
    """An image encoder beside the language model; ``mergers`` make one token of four patches."""

    layers: int
    hidden_width: int
    intermediate_width: int = 0
    mergers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The experts of each layer that has them, ``used`` of them for a token; ``shared_width`` of
    those that all tokens use; ``dense_layers`` have none. ``latent_width``: experts work on vectors
    of so many elements, not of the hidden width."""

    count: int
    width: int
    used: int = 0
    shared_width: int = 0
    dense_layers: int = 0
    latent_width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How the weights are stored: a ``method`` in the words of config files, ``bits`` and the
    elements that share a scale (0: a whole row or tensor). Empty ``method``: not quantized.
    ``kept``: classes of tensors that the model says are left as they were (None: it says nothing
    of them)."""

    method: str = ""
    bits: int = 16
    group: int = 0
    kept: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What not every model has. ``query_latent_width``: queries are made of a latent vector.
    ``nope_width``: the part of a latent attention's key without a position. ``draft_layers``: for
    drafting tokens, of the model's own. ``table_elements`` of tables of words beside the usual."""

    experts: Experts | None = None
    vision: Vision | None = None
    is_multimodal: bool = False
    is_tied: bool = False
    query_latent_width: int = 0
    nope_width: int = 0
    draft_layers: int = 0
    table_elements: int = 0
    quantization: Quantization = Quantization()
    number_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The dimensions of a model, by meaning.

    ``unknown`` is a sentence where a part of it is not described, so that no figure may be given.
    """

    model_class: str
    layers: int
    hidden_width: int
    intermediate_width: int
    vocabulary: int
    heads: int
    context_tokens: int | None
    attention: tuple[Attention, ...]
    states: tuple[State, ...] = ()
    other: Extras = Extras()
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU that the engine uses.

    ``total_bytes`` as the driver says, ``free_bytes`` before the engine starts (None: not looked
    at). ``key`` is its row in the table of GPUs. ``is_shared_memory``: it has no memory of its own
    (GB10); ``is_slice``: a MIG slice. ``node``: the NUMA node that it is nearest to (None: not
    known).
    """

    total_bytes: int | None
    free_bytes: int | None = None
    key: str = ""
    is_shared_memory: bool = False
    is_slice: bool = False
    node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """How many processes share the model and in which ways.

    ``tensor`` ranks split each layer, ``pipeline`` stages split the layers, ``replicas`` are copies
    of the whole. With ``attention_groups`` above 1 the tensor ranks form so many groups, each with
    tokens of its own. ``context`` ranks share out the tokens of one request's cache (DCP).
    ``on_host``: the ranks on this machine, None where it is all of them.
    """

    tensor: int = 1
    pipeline: int = 1
    replicas: int = 1
    attention_groups: int = 1
    expert: int = 1
    context: int = 1
    on_host: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Drafting of tokens: ``kind`` is the engine's own word for it in lower case.

    ``layers`` of the draft model (None: not known); ``shape`` where it is a model of its own;
    ``weight_bytes`` on one rank. ``tokens`` are drafted for each step.
    """

    kind: str
    tokens: int | None = None
    layers: int | None = None
    shape: Shape | None = None
    weight_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSettings:
    """What sizes the pool of recurrent states.

    ``slots`` set outright, or the ``ratio`` of that pool to the rest. ``strategy``: how states are
    kept for reuse, in the engine's own word; ``number_type`` of the states.
    """

    slots: int | None = None
    ratio: float | None = None
    strategy: str = ""
    number_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """The cache in host memory: ``size_bytes`` outright or a ``ratio`` to the pool on the GPU.

    ``share`` of what is free, which the engine fits itself into where it has neither.
    ``weight_bytes`` of the weights stay in host memory, for each rank. ``binds``: whether each rank
    is bound to the node of its GPU (None: as the release does by itself); ``nodes`` of the ranks
    where they are set.
    """

    is_on: bool = False
    ratio: float | None = None
    size_bytes: int | None = None
    weight_bytes: int = 0
    share: float | None = None
    binds: bool | None = None
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What sizes the work of one step, all None where the engine chooses.

    ``requests`` at the same time, ``chunk_tokens`` of a prompt in one step, ``batch_tokens`` of all
    requests in one step, ``graph_requests``: the largest captured batch, ``prefill_graph_tokens``:
    the longest captured prompt.
    """

    requests: int | None = None
    chunk_tokens: int | None = None
    batch_tokens: int | None = None
    graph_requests: int | None = None
    has_graphs: bool = True
    has_prefill_graphs: bool | None = None
    prefill_graph_tokens: int | None = None
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSettings:
    """llama.cpp: ``sequences`` served at the same time (None: as many as its server takes, which
    then share one cache), the tokens of a physical batch, whether they share one cache, whether
    sliding layers keep everything, and how many layers are on the GPU (None: all)."""

    sequences: int | None = None
    micro_batch_tokens: int = 512
    is_unified: bool = False
    keeps_all: bool = False
    gpu_layers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undescribed:
    """A setting that moves memory in a way that is not described: ``says`` is a sentence without a
    full stop. ``refuses``: then no figure may be given. ``of_weights``: it moves these alone.
    ``of_gpus``: it moves nothing where there is no GPU."""

    says: str
    refuses: bool = False
    of_weights: bool = False
    of_gpus: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsParts:
    """The settings of single parts; ``llama`` is for llama.cpp alone.

    ``keeps_all``: sliding layers keep all tokens, as the others do. ``undescribed``: settings that
    move memory and are not described. ``has_memory_saver``: what the weights had is held when it is
    freed.
    """

    batch: Batch = Batch()
    state: StateSettings = StateSettings()
    host: HostSettings = HostSettings()
    speculation: Speculation | None = None
    llama: LlamaSettings = LlamaSettings()
    keeps_all: bool = False
    has_memory_saver: bool = False
    undescribed: tuple[Undescribed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the deployment sets, by meaning; None where the engine's default holds.

    ``memory_share`` of a GPU for weights and pool; ``kv_type`` in the engine's word ("" or auto:
    the model's own format), ``value_type`` where values have another one (llama.cpp);
    ``window_ratio``: tokens of the sliding layers' pool for each of the full ones; ``kv_bytes``:
    the pool set outright; ``most_tokens``: no more than these.
    """

    context_tokens: int | None = None
    memory_share: float | None = None
    kv_type: str = ""
    value_type: str = ""
    page_tokens: int | None = None
    window_ratio: float | None = None
    has_prefix_reuse: bool = True
    has_overlap: bool = True
    most_tokens: int | None = None
    kv_bytes: int | None = None
    backend: str = ""
    parts: SettingsParts = SettingsParts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What an earlier start of this very build and model told, in bytes for the fullest rank.

    ``free_before_bytes`` and ``free_after_bytes``: free memory before and after the weights were
    loaded, the least over the ranks. ``pool_bytes``: what the engine found for the pool.
    ``missing_bytes``: what that start had less than predicted from its own readings.
    ``resolved_parts``: other parts as the engine told them, by name and bytes; ``host_cache`` as
    one process told it.
    """

    free_before_bytes: int | None = None
    free_after_bytes: int | None = None
    weight_bytes: int | None = None
    pool_bytes: int | None = None
    missing_bytes: int | None = None
    resolved_parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMemory:
    """One NUMA node of the machine: what of its memory is free or would be given back."""

    node: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine's memory: all of it, what is available now, and the least limit on it (None:
    none). ``pinned_limit_bytes``: how much a process may lock. ``nodes``: its NUMA nodes, empty
    where nobody looked; ``shared_bytes``: what is free of the memory that processes share."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    limit_bytes: int | None = None
    pinned_limit_bytes: int | None = None
    nodes: tuple[NodeMemory, ...] = ()
    shared_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """The engine computes on the machine's processors, and all of it lies in the machine's memory.

    What its environment sets: ``kv_bytes`` of the cache outright, and whether it is told which
    cores to use.
    """

    kv_bytes: int | None = None
    has_chosen_cores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All of it. ``weight_bytes``: of the weights on the fullest rank, from the headers of the
    files (None: estimated from ``shape``). ``release`` is the engine's version ("" unknown).
    ``processor`` None: the engine uses GPUs, or may."""

    name: str
    engine: str
    release: str
    shape: Shape
    gpus: tuple[Gpu, ...]
    ranks: Ranks = Ranks()
    settings: Settings = Settings()
    weight_bytes: int | None = None
    readings: Readings = Readings()
    host: Host = Host()
    processor: Processor | None = None
