"""How many bytes of weights each GPU holds, by how the model is divided among them.

Called where a checkpoint is described or shown, and by whoever plans memory. Pure sums over the
forms of names that the model probe counted; which tensors are split is data
(``data/tensor_classes.toml``). Padding, and what an engine repacks, is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.knowledge.tensor_classes import TensorClass, class_of
from stoker.model.facts import Plain, Unknown

#: Bounds for the sizes of a division that a person asks for.
MOST_RANKS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How a model is divided: ``tensor`` ranks split it, ``expert`` ranks share out its experts
    (1: experts are split as the rest is). ``kv_heads`` and ``experts`` are the model's, None
    where they are not known. ``has_draft``: the layers that draft tokens are loaded too."""

    tensor: int = 1
    expert: int = 1
    kv_heads: int | None = None
    experts: int | None = None
    has_draft: bool = False


def sum_classes(forms: Plain) -> dict[str, int] | Unknown:
    """Bytes by the class of the tensors, the largest first."""
    if not isinstance(forms, (list, tuple)):
        return Unknown(reason="not all headers of the weights could be read")
    sums: dict[str, int] = {}
    for row, size in _sized(forms):
        sums[row.name] = sums.get(row.name, 0) + size
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def rank_bytes(forms: Plain, division: Division) -> int | Unknown:
    """The most that one rank holds, in bytes; Unknown where not all headers could be read."""
    if not isinstance(forms, (list, tuple)):
        return Unknown(reason="not all headers of the weights could be read")
    return sum(_share(row, size, division) for row, size in _sized(forms))


def _sized(forms: Sequence[Plain]) -> Iterator[tuple[TensorClass, int]]:
    for name, _, _, size in forms:
        yield class_of(name), size


def _share(row: TensorClass, size: int, division: Division) -> int:
    match row.division:
        case "tensor":
            ways = division.tensor
        case "keys":
            ways = min(division.tensor, division.kv_heads or division.tensor)
        case "experts":
            return _expert_share(size, division)
        case "skipped":
            # A draft layer is divided as the others are; how much of it is experts is not counted.
            return _divide(size, division.tensor) if division.has_draft else 0
        case _:
            ways = 1
    return _divide(size, ways)


def _expert_share(size: int, division: Division) -> int:
    """Whole experts for each rank where they are shared out; one more where they do not divide."""
    ways = max(division.expert, division.tensor)
    if division.expert > 1 and division.experts and division.experts % division.expert:
        held = _divide(division.experts, division.expert)
        return _divide(size * held * division.expert, division.experts * ways)
    return _divide(size, ways)


def _divide(size: int, ways: int) -> int:
    return -(-size // ways)


def division_of(checkpoint: Mapping[str, Plain], *, tensor: int, expert: int = 1) -> Division:
    """A division of this model among so many ranks."""
    kv_heads, experts = checkpoint.get("kv_heads"), checkpoint.get("experts")
    return Division(
        tensor=tensor,
        expert=expert,
        kv_heads=kv_heads if isinstance(kv_heads, int) else None,
        experts=experts if isinstance(experts, int) else None,
    )
