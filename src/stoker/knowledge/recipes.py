"""How public collections of recipes speak of flags, hardware and precisions.

Called by the importers and by whoever matches recipes. Pure but for the cached loader; it knows
no recipe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.gpus import find_gpu, find_gpu_by_word
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_WHERE = "recipes.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFlags:
    """The flags, without dashes, that stand for what collections say in fields of their own."""

    tensor: str
    data: str
    expert: str
    pipeline: str
    tool_call: str
    reasoning: str
    quantization: str
    data_attention: str = ""
    chat_template: str = ""
    draft: str = ""
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Flags that begin with ``others`` mean nothing where ``flag`` is withheld."""

    engine: str
    flag: str
    others: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionLimit:
    """A precision that only hardware of one brand and generation holds."""

    name: str
    brand: str
    generation: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherGpu:
    """What collections call a GPU of another maker than NVIDIA; ``name``: a pattern."""

    words: tuple[str, ...]
    name: str
    brand: str
    arch: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareWords:
    """What a collection's word for its hardware means.

    ``key``: of ``gpus.toml``, empty for another maker. ``names``: patterns of the driver's name.
    """

    key: str
    names: tuple[str, ...]
    brand: str
    arch: str
    per_host: int

    def is_named(self, name: str) -> bool:
        """Whether a GPU of this name is one."""
        if self.key:
            found = find_gpu(name)
            return found is not None and found.key == self.key
        return any(re.search(each, name, re.IGNORECASE) for each in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeWords:
    """All of it. ``covers``: quantizations of a checkpoint by a recipe's word for its precision.

    ``keys``: the keys that the importers understand, by engine and by the part of a file.
    """

    flags: Mapping[str, FieldFlags]
    together: tuple[Together, ...]
    precision: tuple[PrecisionLimit, ...]
    other: tuple[OtherGpu, ...]
    per_host: Mapping[str, int]
    keys: Mapping[str, Mapping[str, tuple[str, ...]]]
    covers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find_hardware(self, word: str) -> HardwareWords | None:
        """What a collection's word means, in any case, with or without how many there are
        (``rtx_pro_6000_8x``); None for a word that nobody described."""
        plain = word.strip().lower()
        for each in dict.fromkeys((plain, _COUNT.sub("", plain))):
            if row := find_gpu_by_word(each):
                return HardwareWords(
                    key=row.key,
                    names=row.names,
                    brand=_NVIDIA,
                    arch=f"sm_{row.capability}",
                    per_host=self.per_host.get(row.key, _PER_HOST),
                )
            for other in self.other:
                if each in other.words:
                    return HardwareWords(
                        key="",
                        names=(other.name,),
                        brand=other.brand,
                        arch=other.arch,
                        per_host=_PER_HOST,
                    )
        return None

    def is_hardware(self, word: str, name: str) -> bool:
        """Whether a GPU of this name is what a collection calls so."""
        found = self.find_hardware(word)
        return found is not None and found.is_named(name)


_COUNT = re.compile(r"_\d+x$")
_PER_HOST = 8
_NVIDIA = "nvidia"


@cache
def load_recipe_words() -> RecipeWords:
    """What is known of the collections. Raises DataError."""
    words = structure(RecipeWords, read_toml(_WHERE), where=_WHERE)
    sources = [each.source for each in words.flags.values()]
    sources += [each.source for each in words.together]
    sources += [each.source for each in words.precision]
    for source in sources:
        check_source(source, where=_WHERE)
    for row in words.other:
        check_source(row.source, where=_WHERE)
        _check_pattern(row)
    return words


def _check_pattern(row: OtherGpu) -> None:
    try:
        re.compile(row.name)
    except re.error as error:
        raise DataError(f"{_WHERE}: {row.name!r} is not a pattern: {error}") from error
