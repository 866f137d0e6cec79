"""What of a model must come out even when it is divided among GPUs.

Called by :mod:`stoker.knowledge.derived.parallel`. Each check looks at one part of the model for
one way of dividing it; which checks an engine makes is data (``data/parallel.toml``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.knowledge.parallel import BLOCK, GROUP, Constraint, load_parallel
from stoker.model.facts import Plain, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way of dividing a model: over how many ranks each part goes.

    ``tensor`` ranks in all, ``attention`` of them share the heads, ``expert`` groups share the
    experts, and ``expert_tensor`` ranks share the width of one expert.
    """

    tensor: int
    attention: int
    expert: int
    expert_tensor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the model that a check asks for and nobody knows."""

    reason: Unknown


Answer = str | Part | None
_Check = Callable[[Mapping[str, Plain], Split, int], Answer]


def find_uneven(
    constraints: Sequence[Constraint], checkpoint: Mapping[str, Plain], split: Split
) -> Iterator[str | Part]:
    """A sentence for each part that does not come out even, and each part that is not known."""
    for row in constraints:
        answer = _apply(row, checkpoint, split)
        if answer is not None:
            yield answer


def describe_uneven(checkpoint: Mapping[str, Plain], *, tensor: int, expert: int) -> str:
    """What surely does not come out even, whichever engine divides the model; empty for nothing.

    ``tensor`` ranks split it, and ``expert`` groups of them share the experts.
    """
    table = load_parallel()
    certain = [row for row in table.constraints if row.certain and not row.versions]
    rows = [
        row for row in certain if {row.engine} | _engines_alike(row, certain) >= set(table.engine)
    ]
    ways = max(1, tensor // expert)
    split = Split(tensor=tensor, attention=tensor, expert=expert, expert_tensor=ways)
    told = (each for each in find_uneven(rows, checkpoint, split) if isinstance(each, str))
    return "; ".join(dict.fromkeys(told))


def _engines_alike(row: Constraint, others: Sequence[Constraint]) -> set[str]:
    """The engines that make the same check of the same models."""
    same = (row.check, row.multiple, row.quantizations, row.experts)
    return {
        each.engine
        for each in others
        if (each.check, each.multiple, each.quantizations, each.experts) == same
    }


def _apply(row: Constraint, checkpoint: Mapping[str, Plain], split: Split) -> Answer:
    is_moe, quantization = checkpoint.get("is_moe"), checkpoint.get("quantization")
    if row.experts is not None and isinstance(is_moe, Unknown):
        return Part(reason=is_moe)
    if row.experts is not None and is_moe is not row.experts:
        return None
    if row.quantizations and isinstance(quantization, Unknown):
        return _apply_usual(row, checkpoint, split, quantization)
    if row.quantizations and quantization not in row.quantizations:
        return None
    multiple = _multiple(row, checkpoint)
    if isinstance(multiple, Unknown):
        return _apply_usual(row, checkpoint, split, multiple)
    return CHECKS[row.check](checkpoint, split, multiple)


def _apply_usual(
    row: Constraint, checkpoint: Mapping[str, Plain], split: Split, reason: Unknown
) -> Answer:
    """Nothing where even the largest size that is in use comes out even; else it is not known."""
    multiple = row.multiple if isinstance(row.multiple, int) else row.usual
    answer = CHECKS[row.check](checkpoint, split, multiple)
    return Part(reason=reason) if isinstance(answer, str) else answer


def _multiple(row: Constraint, checkpoint: Mapping[str, Plain]) -> int | Unknown:
    if isinstance(row.multiple, int):
        return row.multiple
    paths = {BLOCK: "quantization_block", GROUP: "quantization_group"}
    found = checkpoint.get(paths[row.multiple])
    if isinstance(found, Unknown):
        return found
    sizes = (
        [each for each in found if isinstance(each, int)] if isinstance(found, list) else [found]
    )
    return max((each for each in sizes if isinstance(each, int) and each > 0), default=1)


def _check_heads(checkpoint: Mapping[str, Plain], split: Split, _: int) -> Answer:
    heads = _count(checkpoint, "heads")
    if not isinstance(heads, int):
        return heads
    if heads % split.attention:
        return f"{heads} attention heads cannot be divided among {split.attention} GPUs"
    return None


def _check_kv_heads(checkpoint: Mapping[str, Plain], split: Split, _: int) -> Answer:
    if checkpoint.get("attention") == "mla":
        return None
    heads = _count(checkpoint, "kv_heads")
    if not isinstance(heads, int):
        return heads
    more, less = max(heads, split.attention), min(heads, split.attention)
    if more % less:
        how = "divided among" if heads > split.attention else "repeated evenly on"
        return f"{heads} key-value heads cannot be {how} {split.attention} GPUs"
    return None


def _check_linear_heads(checkpoint: Mapping[str, Plain], split: Split, _: int) -> Answer:
    for path in ("linear_key_heads", "linear_value_heads"):
        heads = _count(checkpoint, path)
        if not isinstance(heads, int):
            return heads
        if heads % split.attention:
            return (
                f"{heads} heads of linear attention cannot be divided among {split.attention} GPUs"
            )
    return None


def _check_vocabulary(checkpoint: Mapping[str, Plain], split: Split, multiple: int) -> Answer:
    words = _count(checkpoint, "vocabulary")
    if not isinstance(words, int):
        return words
    padded = -(-words // multiple) * multiple
    if padded % split.tensor:
        return f"a vocabulary of {padded} cannot be divided among {split.tensor} GPUs"
    return None


def _check_experts(checkpoint: Mapping[str, Plain], split: Split, _: int) -> Answer:
    experts = _count(checkpoint, "experts")
    if not isinstance(experts, int):
        return experts
    if experts % split.expert:
        return f"{experts} experts cannot be divided among {split.expert} groups"
    return None


def _check_expert_groups(checkpoint: Mapping[str, Plain], split: Split, _: int) -> Answer:
    if split.tensor % split.expert:
        return f"{split.tensor} ranks cannot be divided among {split.expert} groups of experts"
    return None


def _check_enough_experts(checkpoint: Mapping[str, Plain], split: Split, _: int) -> Answer:
    experts = _count(checkpoint, "experts")
    if not isinstance(experts, int):
        return experts
    if split.tensor > experts:
        return f"{split.tensor} ranks are more than the {experts} experts"
    return None


def _check_width(path: str, what: str) -> _Check:
    """A check that the part of one rank is a multiple of what the quantization needs."""

    def check(checkpoint: Mapping[str, Plain], split: Split, multiple: int) -> Answer:
        width = _count(checkpoint, path)
        if not isinstance(width, int):
            return width
        ranks = split.expert_tensor if path == "expert_width" else split.tensor
        if width % ranks:
            return f"{what} of {width} cannot be divided among {ranks} GPUs"
        if (width // ranks) % multiple:
            part = f"{what} of {width} on {ranks} GPUs is {width // ranks} on each"
            return f"{part}, not a multiple of {multiple} as its quantization needs"
        return None

    return check


def _check_dense_width(checkpoint: Mapping[str, Plain], split: Split, multiple: int) -> Answer:
    if checkpoint.get("is_moe") is True:
        layers = _count(checkpoint, "dense_layers")
        if not isinstance(layers, int):
            return layers
    check = _check_width("intermediate_width", "a feed-forward width")
    return check(checkpoint, split, multiple)


def _count(checkpoint: Mapping[str, Plain], path: str) -> int | Part | None:
    """A count of the model, None for a part that it does not have."""
    value = checkpoint.get(path)
    if isinstance(value, Unknown):
        return Part(reason=value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count else None


CHECKS: Mapping[str, _Check] = {
    "heads": _check_heads,
    "kv-heads": _check_kv_heads,
    "linear-heads": _check_linear_heads,
    "vocabulary": _check_vocabulary,
    "experts": _check_experts,
    "expert-groups": _check_expert_groups,
    "enough-experts": _check_enough_experts,
    "expert-width": _check_width("expert_width", "an expert width"),
    "shared-width": _check_width("shared_expert_width", "a shared expert's width"),
    "dense-width": _check_dense_width,
}
