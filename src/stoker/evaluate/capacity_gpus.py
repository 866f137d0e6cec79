"""Which GPU the words of a log, of a driver or of a person mean, as an input of a prediction.

Called by :mod:`stoker.evaluate.capacity_cases`. The tables of GPUs are data; here is how names of
them are written: "NVIDIA H100 80GB HBM3", "A100-SXM4-40GB", "RTX4090", "8x H200".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.capacity.inputs import Gpu
from stoker.knowledge.capacity import GIB, MIB, GpuRow, load_gpu_rows
from stoker.knowledge.gpus import GpuRow as Kind
from stoker.knowledge.gpus import find_gpu, find_gpu_by_word

#: A size that is sold, in a name.
_SIZE = re.compile(r"(?<![\w.])(\d{1,3})\s?gi?b?\b")
_GLUED = re.compile(r"\b(rtx|gtx|pro|titan|quadro)(?=a?\d|pro)")
#: A card's name goes on with these: it is another card.
_WORD = r"(?<!\w){}(?!\w)(?! (?:ti|super|max|d)\b)"
#: A size that is sold and one that the driver prints differ by less.
_ALIKE = 0.12


def read_gpu(word: str, size_gb: float | None) -> Gpu | None:
    """The GPU of a name; None for an empty one. ``size_gb``: of its memory, where that is told."""
    if not word.strip():
        return None
    name = _plain(word)
    told = _SIZE.search(name)
    wanted = float(told[1]) if told is not None else size_gb
    row = _find_row(name, wanted)
    if row is not None:
        return Gpu(total_bytes=row.total_mib * MIB, key=row.key, is_shared_memory=row.shared)
    total = int(wanted * GIB) if wanted is not None and wanted > 0 else None
    known = _find_kind(name) if total is not None else None
    # Without a size the key of a family would stand for its first card.
    return Gpu(total_bytes=total, key=known.key if known is not None else word.strip())


def _plain(word: str) -> str:
    """Small letters, one space between words: as a pattern for a driver's name finds them."""
    spaced = re.sub(r"[\s_()\[\],/-]+", " ", word.lower())
    return _GLUED.sub(r"\1 ", _GLUED.sub(r"\1 ", spaced)).strip()


def _find_kind(name: str) -> Kind | None:
    """By the driver's name, or by the one word that people use for it."""
    return find_gpu(name) or next(filter(None, map(find_gpu_by_word, name.split())), None)


def _find_row(name: str, size_gb: float | None) -> GpuRow | None:
    """By the narrowest word that the name has, else by what a driver calls it."""
    rows = load_gpu_rows()
    words = {_plain(word): row for row in rows for word in row.words}
    found = [word for word in words if re.search(_WORD.format(re.escape(word)), name)]
    if found:
        row = words[max(found, key=len)]
        # A word of its own for one size ("H100 NVL") says which; a plain one leaves it open.
        is_narrow = any(char.isspace() for char in max(found, key=len).removeprefix("rtx "))
        alike = [each for each in rows if each.key == row.key]
        return row if is_narrow or size_gb is None else _choose(alike, size_gb)
    kind = _find_kind(name)
    if kind is None or (size_gb is None and len(kind.memory_gb) != 1):
        return None
    return _choose([row for row in rows if row.key == kind.key], size_gb or kind.memory_gb[0])


def _choose(rows: Sequence[GpuRow], size_gb: float) -> GpuRow | None:
    """The row whose memory is nearest to what is told; None where none is near."""
    nearest = min(rows, key=lambda row: abs(_size(row) - size_gb), default=None)
    is_near = nearest is not None and abs(_size(nearest) / size_gb - 1) < _ALIKE
    return nearest if is_near else None


def _size(row: GpuRow) -> float:
    """In GB as it is sold: a little more than what the driver prints in GiB."""
    return row.total_mib * MIB / 1e9
