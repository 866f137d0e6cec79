"""The stamps that every process of ours carries in its environment, and how they are read back.

Called by the adapters of this package when they render a service and when they look at processes.
A stamp says which definition a process runs, for which deployment and for which state folder; it
is what tells our processes from everybody else's, so nothing else may be taken for one.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.model.launch import Service

#: Which definition the process was started with (``Service.digest``).
DIGEST = "STOKER_DIGEST"
#: Which deployment it serves (``Service.name``).
DEPLOYMENT = "STOKER_DEPLOYMENT"
#: The state folder that it belongs to: two Stokers on one machine do not touch each other.
HOME = "STOKER_HOME"


def stamped_environment(service: Service, *, home: str) -> dict[str, str]:
    """The service's own environment with our stamps over it, sorted by name."""
    stamps = {DIGEST: service.digest, DEPLOYMENT: service.name, HOME: home}
    return dict(sorted({**service.env, **stamps}.items()))


def is_stamped(environment: Mapping[str, str], *, name: str, home: str) -> bool:
    """Whether a process with this environment serves this deployment of this state folder."""
    return environment.get(DEPLOYMENT) == name and environment.get(HOME) == home


def differing_names(environment: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """The variables of a process that are not as they were to be given to it, sorted.

    None for a process that does not carry our stamp: it overwrote its environment, or it cannot
    be read, and says nothing.
    """
    if DIGEST not in environment:
        return ()
    return tuple(sorted(name for name in wanted if environment.get(name) != wanted[name]))
