"""The GPUs that a deployment is to have, in the words that rules use.

Called by :mod:`stoker.knowledge.describe`. How they are joined is in
:mod:`stoker.knowledge.derived.host`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.knowledge.derived.devices import choose_gpus, may_use_gpus
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.gpus import find_gpu
from stoker.model.facts import Plain, Unknown

_ABOUT = (
    *("maker", "name", "key", "arch", "capability", "major", "memory_bytes"),
    *("is_mixed", "has_nvlink", "words", "driver_cuda"),
)
#: The one maker whose GPUs are looked for.
_MAKER = "nvidia"


def derive_hardware(subject: Subject) -> dict[str, Plain]:
    """``count`` GPUs of ``maker``; what is said of one holds for each of them.

    ``name`` as the driver prints it (of the first), ``key`` the row of ``gpus.toml`` and
    ``words`` what recipes call it (None where it is not in that list), ``capability`` 120 for
    ``arch`` sm_120 and ``major`` 12, ``memory_bytes`` of the smallest, ``is_mixed`` where names,
    architectures or sizes differ, ``has_nvlink`` whether such cards can be joined by it at all,
    ``driver_cuda`` the newest CUDA that the driver serves.
    All but ``count`` are None without a GPU; an architecture that differs among them is Unknown.
    """
    none: dict[str, Plain] = {"count": 0, **dict.fromkeys(_ABOUT)}
    if not may_use_gpus(subject.deployment, subject.table):
        return none
    chosen = choose_gpus(subject.deployment.gpus, subject.facts)
    if isinstance(chosen, Unknown):
        return dict.fromkeys(("count", *_ABOUT), chosen)
    if not chosen:
        return none
    driver_cuda = subject.facts.read("gpus.cuda_version")
    return {"count": len(chosen), **_describe(chosen), "driver_cuda": driver_cuda}


def _describe(gpus: Sequence[Any]) -> dict[str, Plain]:
    name = _told(gpus[0].get("name"), "its name")
    row = find_gpu(name) if isinstance(name, str) else None
    sizes = [gpu.get("memory_total_bytes") for gpu in gpus]
    smallest = None if None in sizes else min(sizes)
    kinds = {(gpu.get("name"), gpu.get("compute_capability")) for gpu in gpus}
    is_unknown = not isinstance(name, str)
    return {
        "maker": _MAKER,
        "name": name,
        "key": name if is_unknown else row and row.key,
        "words": name if is_unknown else row and list(row.words),
        "has_nvlink": name if is_unknown else row and row.nvlink,
        "memory_bytes": _told(smallest, "its memory"),
        "is_mixed": len(kinds) > 1 or len(set(sizes)) > 1,
        **_derive_capability({gpu.get("compute_capability") for gpu in gpus}),
    }


def _derive_capability(told: set[str | None]) -> dict[str, Plain]:
    parts = ("arch", "capability", "major")
    if len(told) > 1:
        shown = ", ".join(sorted(str(each) for each in told))
        mixed = Unknown(reason=f"the chosen GPUs are of different kinds: {shown}")
        return dict.fromkeys(parts, mixed)
    major, _, minor = str(next(iter(told))).partition(".")
    if not (major.isdigit() and minor.isdigit()):
        return dict.fromkeys(parts, _told(None, "its compute capability"))
    capability = int(major) * 10 + int(minor)
    return {"arch": f"sm_{capability}", "capability": capability, "major": int(major)}


def _told(value: Plain, what: str) -> Plain | Unknown:
    return Unknown(reason=f"the driver does not tell {what}") if value is None else value
