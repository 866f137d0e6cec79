"""The hardware of vLLM's collection: its profiles, and which part of an entry is about which.

Called by :mod:`stoker.recipes.vllm`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.knowledge.recipes import load_recipe_words
from stoker.model.recipe import RecipeStatus
from stoker.recipes.collection import group, number, text

#: What the collection says of a GPU, and what that is to us.
_STATUSES = {
    "verified": RecipeStatus.VERIFIED,
    "supported": RecipeStatus.STATED,
    "unsupported": RecipeStatus.UNSUPPORTED,
    "": RecipeStatus.UNTESTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One machine of the collection: ``gpu_count`` GPUs with ``memory_gb`` in all.

    ``is_open``: shown for every entry, whether it names it or not. ``is_known``: the collection's
    own list of machines has it.
    """

    word: str
    brand: str
    generation: str
    gpu_count: int
    memory_gb: int
    gpu: str = ""
    arch: str = ""
    is_scalable: bool = True
    is_open: bool = False
    is_known: bool = True

    @property
    def counts_sockets(self) -> bool:
        """Whether it has no GPUs: its count is no limit then."""
        return self.generation == "cpu"


def read_profiles(taxonomy: Mapping[str, object]) -> dict[str, Profile]:
    """The machines of the collection's own list, by their word."""
    rows = group(taxonomy.get("hardware_profiles"))
    return {word: _profile(word, group(row)) for word, row in rows.items()}


def find_profile(word: str, profiles: Mapping[str, Profile]) -> Profile:
    """The machine of a word; one that the list lacks is what our own table knows of it."""
    if word in profiles:
        return profiles[word]
    known = load_recipe_words().find_hardware(word)
    return Profile(
        word=word,
        brand=known.brand if known else "",
        generation="",
        gpu_count=known.per_host if known else 1,
        memory_gb=0,
        gpu=known.key if known else "",
        arch=known.arch if known else "",
        is_known=False,
    )


def _profile(word: str, row: Mapping[str, object]) -> Profile:
    known = load_recipe_words().find_hardware(word)
    return Profile(
        word=word,
        brand=text(row.get("brand")).lower(),
        generation=text(row.get("generation")),
        gpu_count=number(row.get("gpu_count")) or 1,
        memory_gb=number(row.get("vram_gb")),
        gpu=known.key if known else "",
        arch=known.arch if known else "",
        is_scalable=row.get("scalable") is not False,
        is_open=row.get("restricted") is not True,
    )


def status_of(said: str) -> RecipeStatus:
    """What the collection's word says; a word that nobody knows is taken as no test."""
    return _STATUSES.get(said, RecipeStatus.STATED)


def by_hardware(data: object, profile: Profile) -> object:
    """A value that may be written for each machine: its word, generation, brand, ``default``."""
    if not isinstance(data, Mapping):
        return data
    for key in (profile.word, profile.generation, profile.brand, "default"):
        if key and key in data and data[key] is not None:
            return data[key]
    return None


def of_generation(data: object, profile: Profile) -> Mapping[str, object]:
    """The block for a generation; the one for the whole brand where there is none."""
    blocks = group(data)
    for key in (profile.generation, profile.brand):
        if key and blocks.get(key):
            return group(blocks[key])
    return {}


def of_word(data: object, profile: Profile) -> Mapping[str, object]:
    """The block for this very machine."""
    blocks = group(data)
    return group(blocks.get(profile.word)) if profile.word != profile.generation else {}


def holds(variant: Mapping[str, object], profile: Profile) -> bool:
    """Whether a machine computes with a variant's precision, and is not left out by name."""
    allowed = variant.get("supported_hardware")
    if isinstance(allowed, list) and allowed and profile.word not in allowed:
        return False
    named = group(variant.get("precision_hardware"))
    if named:
        brand, generation = text(named.get("brand")).lower(), text(named.get("generation"))
        fits_brand = not brand or brand == profile.brand
        return fits_brand and (not generation or generation == profile.generation)
    for limit in load_recipe_words().precision:
        if limit.name == variant.get("precision"):
            return (limit.brand, limit.generation) == (profile.brand, profile.generation)
    return True


def fits(variant: Mapping[str, object], profile: Profile) -> bool:
    """Whether one machine has the memory that a variant needs, as far as both are told."""
    needed = number(variant.get("vram_minimum_gb"))
    return not needed or not profile.memory_gb or needed <= profile.memory_gb


def tensor_size(
    variant: Mapping[str, object], override: Mapping[str, object], profile: Profile
) -> int:
    """Among how many GPUs of one machine a variant is divided by tensor parallelism alone."""
    for told in (variant.get("tp"), override.get("tp")):
        size = number(by_hardware(told, profile))
        if size:
            return size if profile.counts_sockets else min(size, profile.gpu_count)
    needed = number(variant.get("vram_minimum_gb"))
    each = profile.memory_gb / profile.gpu_count
    fits_one = bool(needed) and each > 0 and needed <= each
    return 1 if fits_one else profile.gpu_count
