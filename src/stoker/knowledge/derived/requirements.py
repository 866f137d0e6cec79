"""Whether what lies in the engine's environment is what this release was built for.

Called by :mod:`stoker.knowledge.describe`. A build from a repository is not judged: its pins are
those of no release.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

from stoker.knowledge.requirements import Release, load_requirements
from stoker.knowledge.stacks import load_stacks
from stoker.knowledge.versions import Version, parse_version
from stoker.model.facts import Plain, Unknown

#: What is compiled against one exact release of the other.
_BOUND = ("torch", "kernels")
_PARTS = ("asserted", "bound")


def derive_requirements(*, stack: Mapping[str, Plain]) -> dict[str, Plain]:
    """``asserted``: a sentence for each distribution that is older than the engine insists on when
    it starts. ``bound``: one for each that its compiled kernels were built for in another version.
    ``torch`` and ``kernels``: the versions that this release pins, None where it pins none.
    """
    found = _find_release(stack)
    if isinstance(found, Unknown):
        return dict.fromkeys((*_PARTS, *_BOUND), found)
    if found is None:
        return {"asserted": [], "bound": [], **dict.fromkeys(_BOUND)}
    exact = _exact(found)
    asserted = dict(_told(found.asserted, stack))
    bound = dict(_told(exact, stack, only=_BOUND))
    return {
        "asserted": _tell(
            {name: (value, found.asserted[name]) for name, value in asserted.items()},
            words="needs at least",
            is_wrong=operator.lt,
        ),
        "bound": _tell(
            {name: (value, exact[name]) for name, value in bound.items()},
            words="was built for",
            is_wrong=operator.ne,
        ),
        **{name: _pinned(name, found) for name in _BOUND},
    }


def _find_release(stack: Mapping[str, Plain]) -> Release | Unknown | None:
    requirements = load_requirements(str(stack.get("engine")))
    if requirements is None:
        return None
    version, commit = stack.get("version"), stack.get("commit")
    for leaf in (version, commit):
        if isinstance(leaf, Unknown):
            return leaf
    return None if commit is not None else requirements.releases.get(str(version))


def _exact(release: Release) -> dict[str, str]:
    """The distributions of which one exact version is pinned."""
    return {
        name: pin.removeprefix("==")
        for name, pin in release.pins.items()
        if pin.startswith("==") and "," not in pin
    }


def _pinned(component: str, release: Release) -> str | None:
    exact = _exact(release)
    names = load_stacks().component[component].distributions
    return next((exact[name] for name in names if name in exact), None)


def _told(
    wanted: Mapping[str, str], stack: Mapping[str, Plain], only: tuple[str, ...] = ()
) -> Iterator[tuple[str, Plain]]:
    """What the environment has of each wanted distribution, of those that the stack knows."""
    for component, row in load_stacks().component.items():
        for name in row.distributions:
            if name in wanted and (not only or component in only):
                yield name, stack.get(component)


def _tell(
    pairs: Mapping[str, tuple[Plain, str]],
    *,
    words: str,
    is_wrong: Callable[[Version, Version], bool],
) -> Plain:
    """A sentence for each distribution whose version is wrong beside the wanted one."""
    sentences: list[str] = []
    reasons: list[str] = []
    for name, (value, wanted) in pairs.items():
        if isinstance(value, Unknown):
            reasons.append(value.reason)
        elif isinstance(value, str) and _are(value, wanted, is_wrong):
            sentences.append(f"{name} is {value}, and this release {words} {wanted}")
    if not sentences and reasons:
        return Unknown(reason="; ".join(dict.fromkeys(reasons)))
    return sentences


def _are(value: str, wanted: str, is_wrong: Callable[[Version, Version], bool]) -> bool:
    """Whether two versions stand so to each other; what follows their numbers plays no part."""
    left, right = parse_version(value), parse_version(wanted)
    if left is None or right is None:
        return False
    length = max(len(left), len(right))
    return is_wrong(_pad(left, length), _pad(right, length))


def _pad(version: Version, length: int) -> Version:
    return version + (0,) * (length - len(version))
