"""Among how many GPUs a model may be divided, and among how many it should be.

Called by :mod:`stoker.knowledge.describe`. A size that the engine would refuse is never chosen;
of the others it is the largest one that the deployment's GPUs allow. What the engines name their
sizes and what must come out even is data (``data/parallel.toml``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.knowledge.derived.divisions import Part, Split, find_uneven
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.parallel import Constraint, SizeFlags, load_parallel
from stoker.model.facts import Plain, Unknown

#: No deployment of one model on one machine divides it further.
_MOST_RANKS = 64
_NOTHING: Mapping[str, Plain] = {
    **dict.fromkeys(("count", "tensor", "expert", "needed", "least", "fewest")),
    **dict.fromkeys(("fewest_expert", "replicas", "allowed")),
    **dict.fromkeys(("asked", "ranks", "idle", "copies")),
    **dict.fromkeys(("needs_expert", "is_too_many", "is_idle", "would_do", "is_too_small"), False),
    "is_hopeless": False,
    "problems": [],
    "doubts": [],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes that are set, 1 for what is not. ``attention`` counts groups of attention.

    ``expert`` is the number of groups of experts; with ``whole_experts`` it is all ranks.
    """

    tensor: int | None
    pipeline: int
    replicas: int
    replicas_here: int
    nodes: int
    expert: int
    whole_experts: bool
    attention: int
    spreads: bool

    def split(self, tensor: int) -> Split:
        """How a model is divided over so many tensor ranks."""
        spread = tensor * self.replicas if self.spreads else tensor
        attention = tensor // self.attention if tensor % self.attention == 0 else tensor
        groups = spread if self.whole_experts else self.expert
        return Split(
            tensor=tensor,
            attention=max(1, attention),
            expert=groups,
            expert_tensor=max(1, spread // groups),
        )

    @property
    def ranks_here(self) -> int | None:
        """How many GPUs of this machine they use; None where the tensor size is not set."""
        if self.tensor is None:
            return None
        return -(-self.tensor * self.pipeline * self.replicas_here // self.nodes)


def derive_parallel(
    subject: Subject,
    *,
    hardware: Mapping[str, Plain],
    checkpoint: Mapping[str, Plain],
    settings: Mapping[str, Plain],
) -> dict[str, Plain]:
    """What rules ask about parallel sizes.

    ``count``: the GPUs of the deployment. ``allowed``: tensor sizes up to it that nothing known
    speaks against; ``tensor``: the one to use; ``needs_expert`` and ``expert``: whether and over
    how many groups experts must be shared for that. ``needed``: the GPUs whose memory holds the
    weights, ``fewest``: the smallest size of at least so many that the engine accepts, with
    ``fewest_expert`` groups of experts where such groups are set; ``replicas``: how many copies
    of that size there is room for; ``would_do``: half of what is set is enough.
    ``is_too_small``: the deployment has fewer GPUs than the ``least`` that could hold the weights
    with hardly any room for anything else; ``is_hopeless``: the weights are surely more than all
    of their memory, False also where that is not known.
    ``asked``: the size that is set, ``ranks`` and ``idle``: the GPUs it uses and leaves;
    ``copies``: of what is set now, how many there is room for. ``problems`` and ``doubts`` are
    sentences about the size that is set.
    """
    table = load_parallel()
    flags = table.engine.get(subject.table.kind)
    if flags is None:
        return dict(_NOTHING)
    release = subject.table.catalogue.build
    rows = [
        row
        for row in table.constraints
        if row.engine == subject.table.kind and row.is_about(release)
    ]
    divider = Divider(rows=rows, checkpoint=checkpoint, sizes=read_sizes(flags, settings))
    count, allowed = count_gpus(subject, hardware), divider.list_allowed()
    room = table.memory
    needed = _count_needed(checkpoint, hardware, share=room.share)
    least = _count_needed(checkpoint, hardware, share=room.most)
    fewest = _find_fewest(divider, allowed, needed)
    barest = _count_needed(checkpoint, hardware, share=room.whole)
    return {
        **_NOTHING,
        "count": count,
        "needed": needed,
        "least": least,
        "fewest": fewest,
        "fewest_expert": _find_groups(divider, allowed, fewest),
        **_choose(divider, allowed, count, needed),
        **_count_copies(count, fewest),
        **_compare(divider, count, fewest),
        "is_too_small": _is_more(least, count),
        "is_hopeless": _is_more(barest, count) is True,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Divider:
    """A model, what its engine wants to come out even, and the sizes that are set."""

    rows: Sequence[Constraint]
    checkpoint: Mapping[str, Plain]
    sizes: Sizes

    def find(self, tensor: int, *, certain: bool) -> list[str] | Unknown:
        """What speaks against a size; Unknown where nothing does and not all is known."""
        rows = [row for row in self.rows if row.certain is certain]
        found = list(find_uneven(rows, self.checkpoint, self.sizes.split(tensor)))
        told = list(dict.fromkeys(each for each in found if isinstance(each, str)))
        if certain and tensor % self.sizes.attention:
            told.append(f"{tensor} ranks cannot be shared by {self.sizes.attention} groups")
        unknown = [each.reason for each in found if isinstance(each, Part)]
        return unknown[0] if unknown and not told else told

    def list_allowed(self) -> list[int]:
        """The sizes that nothing known speaks against; all of them for a model nobody has seen."""
        answers = {size: self.find(size, certain=True) for size in range(1, _MOST_RANKS + 1)}
        return [size for size, told in answers.items() if isinstance(told, Unknown) or not told]

    def is_doubtful(self, size: int) -> bool:
        """Whether something speaks against it that may not be so."""
        doubts = self.find(size, certain=False)
        return isinstance(doubts, list) and bool(doubts)

    @property
    def can_share_experts(self) -> bool:
        """Whether there are experts, and nobody has said how they are shared."""
        is_open = self.sizes.expert == 1 and not self.sizes.whole_experts
        return is_open and self.checkpoint.get("is_moe") is True

    def takes_shared(self, tensor: int) -> bool:
        """Whether the engine accepts a size where each expert lies whole on one rank."""
        sizes = replace(self.sizes, expert=tensor, whole_experts=True)
        shared = replace(self, sizes=sizes)
        return shared.find(tensor, certain=True) == [] and not shared.is_doubtful(tensor)

    def find_shared(self, most: int, *, above: int) -> int | None:
        """The largest size for which sharing the experts whole is worth while; None without."""
        if not self.can_share_experts:
            return None
        return next((size for size in range(most, above, -1) if self.takes_shared(size)), None)


def count_gpus(subject: Subject, hardware: Mapping[str, Plain]) -> int | Unknown | None:
    """How many GPUs the deployment is to have; None for none."""
    gpus = subject.deployment.gpus
    if isinstance(gpus, int):
        return gpus or None
    if not isinstance(gpus, str):
        return len(gpus) or None
    found: int | Unknown = hardware["count"]
    return found if isinstance(found, Unknown) else found or None


def read_sizes(flags: SizeFlags, settings: Mapping[str, Plain]) -> Sizes:
    """The sizes as they are set; what is no count is 1."""

    def size(name: str) -> int:
        return _as_count(settings.get(name)) or 1

    replicas, groups = size(flags.replicas), size(flags.attention)
    if flags.attention_switch and settings.get(flags.attention_switch) is True:
        replicas, groups = 1, max(groups, replicas)
    return Sizes(
        tensor=_as_count(settings.get(flags.tensor)),
        pipeline=size(flags.pipeline),
        replicas=replicas,
        replicas_here=_as_count(settings.get(flags.replicas_here)) or replicas,
        nodes=size(flags.nodes),
        expert=size(flags.expert),
        whole_experts=bool(flags.expert_switch) and settings.get(flags.expert_switch) is True,
        attention=groups,
        spreads=flags.spreads_replicas,
    )


def _as_count(value: Plain) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count else None


def _choose(
    divider: Divider,
    accepted: list[int],
    count: int | Unknown | None,
    needed: Plain,
) -> dict[str, Plain]:
    """The size to use, of those that leave room for the copies and stages that are set."""
    if not isinstance(count, int):
        return dict.fromkeys(("tensor", "allowed"), count)
    sizes = divider.sizes
    most = max(1, min(_MOST_RANKS, count * sizes.nodes // (sizes.pipeline * sizes.replicas)))
    allowed = [size for size in accepted if size <= most]
    least = needed if isinstance(needed, int) else 1
    enough = [size for size in allowed if size >= least]
    sound = [size for size in enough if not divider.is_doubtful(size)]
    plain = max(sound or enough or allowed, default=1)
    said: dict[str, Plain] = {"tensor": plain, "allowed": allowed}
    shared = divider.find_shared(most, above=plain if enough else max(0, least - 1))
    return said if shared is None else {**said, "tensor": shared, **_share(divider, shared)}


def _share(divider: Divider, shared: int) -> dict[str, Plain]:
    """Over how many ranks experts lie whole: over those that are set, where some are."""
    asked = divider.sizes.tensor or 1
    if asked in (1, shared):
        return {"expert": shared, "needs_expert": True}
    problems = divider.find(asked, certain=True)
    is_needed = isinstance(problems, list) and bool(problems) and divider.takes_shared(asked)
    return {"expert": asked, "needs_expert": True} if is_needed else {}


def _count_copies(count: int | Unknown | None, fewest: Plain) -> dict[str, Plain]:
    """How many copies of the fewest GPUs there is room for."""
    if isinstance(count, int) and isinstance(fewest, int):
        return {"replicas": count // fewest}
    return {"replicas": fewest if isinstance(count, int) else count}


def _is_more(least: Plain, count: int | Unknown | None) -> bool | Unknown:
    for value in (least, count):
        if isinstance(value, Unknown):
            return value
    return isinstance(least, int) and isinstance(count, int) and least > count


def _count_needed(
    checkpoint: Mapping[str, Plain], hardware: Mapping[str, Plain], *, share: float
) -> Plain:
    """How many GPUs have this share of their memory for the weights, evenly divided or not."""
    weight_bytes, memory_bytes = checkpoint.get("weight_bytes"), hardware.get("memory_bytes")
    for value in (weight_bytes, memory_bytes):
        if isinstance(value, Unknown):
            return value
    weights, memory = _as_count(weight_bytes), _as_count(memory_bytes)
    if weights is None or memory is None:
        return None
    return math.ceil(weights / (share * memory))


def _find_fewest(divider: Divider, allowed: list[int], needed: Plain) -> Plain:
    """The smallest size that the engine accepts and that holds the weights; None for none."""
    if not isinstance(needed, int):
        return needed
    enough = next((size for size in allowed if size >= needed), None)
    has_groups = divider.sizes.expert > 1
    if not has_groups and (enough is not None or not divider.can_share_experts):
        return enough
    # Groups that are set can be as many as the ranks of a smaller size.
    sizes = range(needed, _MOST_RANKS + 1 if enough is None else enough)
    return next((size for size in sizes if divider.takes_shared(size)), enough)


def _find_groups(divider: Divider, allowed: list[int], fewest: Plain) -> Plain:
    """The groups of experts for the fewest GPUs; None where nobody has set any."""
    if divider.sizes.expert == 1 or not isinstance(fewest, int):
        return None
    return divider.sizes.expert if fewest in allowed else fewest


def _compare(divider: Divider, count: int | Unknown | None, fewest: Plain) -> dict[str, Plain]:
    """What is set now against the model and against the GPUs."""
    asked = divider.sizes.tensor
    ranks = divider.sizes.ranks_here
    said: dict[str, Plain] = {"asked": asked, "ranks": ranks}
    if asked is None or asked > _MOST_RANKS:
        return said
    said["problems"] = divider.find(asked, certain=True)
    said["doubts"] = divider.find(asked, certain=False)
    if not isinstance(count, int) or ranks is None:
        unknown = count if isinstance(count, Unknown) else None
        parts = ("idle", "copies", "is_too_many", "is_idle", "would_do")
        return {**said, **({} if unknown is None else dict.fromkeys(parts, unknown))}
    one = max(1, asked * divider.sizes.pipeline)
    would_do = isinstance(fewest, int) and 2 * fewest <= asked
    return {
        **said,
        "idle": max(0, count - ranks),
        "copies": count // one,
        "is_too_many": ranks > count,
        "is_idle": 0 < ranks < count,
        "would_do": fewest if isinstance(fewest, Unknown) else would_do,
    }
