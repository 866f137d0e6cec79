"""The engine and what it stands on, by version.

Called by :mod:`stoker.knowledge.describe`.
"""

from __future__ import annotations

from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.stacks import Component, load_stacks
from stoker.model.facts import Plain, Unknown

_UNKNOWN_BUILD = "unknown"
_TOLD_NOWHERE = "the environment does not tell"


def derive_stack(subject: Subject) -> dict[str, Plain]:
    """``engine`` is its kind, ``version`` its release, ``commit`` that of one from a repository.

    The other keys are versions: each component of ``data/stack.toml`` (``torch``, ``kernels``)
    with what its builder added (``+cu130``), ``cuda`` of PyTorch, ``driver`` and ``driver_cuda``,
    the newest that it can serve; ``driver_flavour`` is open or proprietary. None is what surely
    is not there.
    """
    is_known = subject.build != _UNKNOWN_BUILD
    unknown = Unknown(reason="the engine's version is not known")
    components = load_stacks().component
    return {
        "engine": subject.table.kind,
        "version": subject.build if is_known else unknown,
        "commit": _commit(subject),
        **{name: _component(subject, row) for name, row in components.items()},
        "cuda": _cuda(subject),
        **_driver(subject),
    }


def _is_ours(subject: Subject) -> bool:
    return subject.deployment.engine.environment == "embedded"


def _component(subject: Subject, row: Component) -> Plain:
    embedded = subject.table.embedded
    if _is_ours(subject) and embedded is not None:
        pinned = {each.name: each.version for each in embedded.requirements}
        return next((pinned[name] for name in row.distributions if name in pinned), None)
    packages = subject.facts.read("engine_packages")
    if isinstance(packages, Unknown):
        return packages
    match packages.get("state"):
        case "no-python":
            return None
        case "read":
            return _read_version(packages, row)
    return Unknown(reason="the engine is not there")


def _read_version(packages: Plain, row: Component) -> Plain:
    """The version of the first distribution that is there."""
    for name in row.distributions:
        if name in packages["doubled"]:
            versions = " and ".join(packages["doubled"][name])
            return Unknown(reason=f"the environment says that {name} is {versions}")
        if name in packages["packages"]:
            return str(packages["packages"][name])
    return None


def _cuda(subject: Subject) -> Plain:
    """PyTorch's CUDA release; of our own builds none has a PyTorch."""
    if _is_ours(subject):
        return None
    packages = subject.facts.read("engine_packages")
    if isinstance(packages, Unknown):
        return packages
    if packages.get("state") == "no-python":
        return None
    return packages.get("torch_cuda", Unknown(reason=f"{_TOLD_NOWHERE} PyTorch's CUDA release"))


def _commit(subject: Subject) -> Plain:
    """The commit of an engine that came from a repository; None for a published release."""
    if _is_ours(subject):
        return None
    origins = subject.facts.read("engine_packages.origins")
    row = load_stacks().engine.get(subject.table.kind)
    if isinstance(origins, Unknown) or row is None:
        return Unknown(reason=f"{_TOLD_NOWHERE} where the engine came from")
    told = next((origins[name] for name in row.distributions if name in origins), None)
    if told is None:
        return None
    return told["commit"] or Unknown(reason=f"{told['url']} does not tell its commit")


def _driver(subject: Subject) -> dict[str, Plain]:
    facts = subject.facts
    version, cuda = facts.read("gpus.driver_version"), facts.read("gpus.cuda_version")
    flavour = facts.read("driver.flavour")
    if flavour is None and version is not None:
        flavour = Unknown(reason="the driver does not tell its flavour here")
    return {"driver": version, "driver_cuda": cuda, "driver_flavour": flavour}
