"""`stoker model show PATH`: what a model's own files say of it. Writes nothing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from stoker.commands.model_card import CARD, describe_demand
from stoker.commands.world import World
from stoker.errors import HostError, UsageError
from stoker.knowledge.derived.checkpoint import describe_checkpoint
from stoker.knowledge.derived.divisions import describe_uneven
from stoker.knowledge.derived.ranks import division_of, rank_bytes
from stoker.model.facts import Plain, Unknown
from stoker.model.shown_model import RankShare, ShownModel
from stoker.probes.model import parse_model, read_model
from stoker.recipes.notes.card import parse_card
from stoker.recipes.notes.text import MAX_BYTES

#: The sizes that are shown where none is asked for; those that the heads allow.
_USUAL_RANKS = (1, 2, 4, 8, 16)
_REPOSITORY = re.compile(r"models--[^/]+--[^/]+/?")
_MOST_COMMIT_CHARACTERS = 64
_FILES = (
    "part_count",
    "size_bytes",
    "expected_size_bytes",
    "tensor_count",
    "parameter_count",
    "tensor_types",
    "file_type",
    "quantized_by",
    "generation",
)


def show_model(
    world: World, path: str, *, tensor: int | None = None, expert: int | None = None
) -> ShownModel:
    """All that the files at an absolute path tell; a hub's folder is followed to its snapshot.

    ``tensor`` and ``expert``: among how many GPUs the model is divided; the usual numbers where
    neither is given. Raises UsageError where nothing is there, HostError where it is not readable.
    """
    place = _find_snapshot(world, path)
    seen = parse_model(read_model(world.host, place))
    if seen["format"] == "missing":
        raise UsageError(f"there is nothing at {path}", "name a folder or a file of a model")
    parts = describe_checkpoint(seen, reference=f"path:{place}")
    is_truncated = seen.get("is_truncated")
    return ShownModel(
        path=place,
        format=seen["format"],
        is_whole=None if is_truncated is None else not is_truncated,
        reason=seen.get("reason"),
        known={name: value for name, value in parts.items() if not isinstance(value, Unknown)},
        unknown={name: part.reason for name, part in parts.items() if isinstance(part, Unknown)},
        files={name: seen[name] for name in _FILES if seen.get(name) is not None},
        shares=tuple(_find_shares(seen, parts, tensor=tensor, expert=expert)),
        card=_read_card(world, place),
    )


def _read_card(world: World, place: str) -> tuple[str, ...]:
    """What the card beside the files asks for; nothing where none can be read."""
    path = posixpath.join(place, CARD)
    try:
        stat = world.host.stat(path)
        if stat is None or stat.kind != "file":
            return ()
        card = parse_card(world.host.read_text(path, MAX_BYTES), origin=path)
    except (HostError, UsageError) as error:
        return (f"its card cannot be read: {error.summary}",)
    named = [describe_demand(each) for each in card.requirements]
    sizes = ", ".join(map(str, card.tensor_sizes))
    tokens = ", ".join(f"{count:,}" for count in card.context_tokens)
    named += [f"a tensor size of {sizes}"] if sizes else []
    named += [f"{', '.join(card.precisions)} weights"] if card.precisions else []
    named += [f"a context of {tokens} tokens"] if tokens else []
    return tuple(named)


def _find_snapshot(world: World, path: str) -> str:
    """The one snapshot of a repository as the hub's client keeps it; any other path as it is."""
    if not _REPOSITORY.fullmatch(posixpath.basename(path.rstrip("/"))):
        return path
    folder = f"{path.rstrip('/')}/snapshots"
    try:
        names: Sequence[str] = world.host.list_folder(folder)
    except HostError:
        return path
    if len(names) == 1:
        return f"{folder}/{names[0]}"
    main = _read_main(world, path)
    if main in names:
        return f"{folder}/{main}"
    raise UsageError(f"{folder} has {len(names)} snapshots", "name one of them")


def _read_main(world: World, path: str) -> str:
    try:
        return world.host.read_text(
            f"{path.rstrip('/')}/refs/main", _MOST_COMMIT_CHARACTERS
        ).strip()
    except HostError:
        return ""


def _find_shares(
    seen: Mapping[str, Plain],
    parts: Mapping[str, Plain],
    *,
    tensor: int | None,
    expert: int | None,
) -> Iterator[RankShare]:
    if seen["format"] != "safetensors":
        return  # llama.cpp deals out whole layers, by the memory that it finds free
    usual = _usual_ranks(parts) if tensor is None and expert is None else (tensor or 1,)
    for count in usual:
        division = division_of(parts, tensor=count, expert=expert or 1)
        held = rank_bytes(seen.get("forms"), division)
        if isinstance(held, int):
            yield RankShare(
                tensor=count,
                expert=division.expert,
                weight_bytes=held,
                uneven=describe_uneven(parts, tensor=count, expert=division.expert),
            )


def _usual_ranks(parts: Mapping[str, Plain]) -> tuple[int, ...]:
    heads = parts.get("heads")
    if not isinstance(heads, int):
        return _USUAL_RANKS
    return tuple(count for count in _USUAL_RANKS if heads % count == 0)
