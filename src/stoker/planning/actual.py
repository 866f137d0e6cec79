"""What was observed of the resources that a plan is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.model.launch import Drift, DriftKind, ServicePhase, ServiceState
from stoker.model.plan import Image, ServiceBefore

#: Phases in which a process of the service is alive or will be without our doing.
LIVE_PHASES = frozenset(
    {
        ServicePhase.STARTING,
        ServicePhase.RUNNING,
        ServicePhase.STOPPING,
        ServicePhase.BACKOFF,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actual:
    """The other side of a plan.

    ``files`` has an entry for every path that was looked at; None means that nothing is there.
    ``is_verified``: the newest verification passed for the very process that runs now.
    ``drift``: how the service differs from the generation that is in force before the plan.
    """

    files: Mapping[str, Image | None] = field(default_factory=dict)
    service: ServiceState
    orphans: tuple[ServiceState, ...] = ()
    is_verified: bool = False
    drift: tuple[Drift, ...] = ()

    def drift_of(self, kind: DriftKind) -> tuple[str, ...]:
        """The sentences about one kind of drift."""
        return tuple(each.sentence for each in self.drift if each.kind is kind)

    @property
    def is_live(self) -> bool:
        """Whether a process of the service is alive under the supervisor."""
        return self.service.phase in LIVE_PHASES

    def before(self) -> ServiceBefore:
        """The service's part of what a roll-back returns to."""
        return ServiceBefore(
            phase=self.service.phase.value,
            digest=self.service.digest if self.is_live else "",
            verified=self.is_verified and self.is_live,
        )
