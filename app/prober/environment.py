"""What all runners share: the doors to the clusters, time, chance, and the board on which everything is told."""

import random
from dataclasses import dataclass, field
from typing import Final

from app.core.endpoint_ports import EndpointMeter, Handlers, ProbedPods, Unmetered
from app.core.model.policy import ProberPolicy
from app.core.overrides_ports import NoOverrides, OverridesDesk, OverridesView
from app.core.ports import Ownership, SeedCluster, ShootConnector
from app.core.reporting.notices import NoticeBoard
from app.core.clock import Clock
from app.core.tasks import Tasks
from app.prober.operations import OperationBook
from app.prober.pacing import ProbeSlots, ScaleUpPace

NONE: Final = NoOverrides()
UNMETERED: Final = Unmetered()


@dataclass(frozen=True, slots=True)
class EndpointDoors:
    """What endpoint probes need of the outside."""

    handlers: Handlers
    pods: ProbedPods
    meter: EndpointMeter = UNMETERED


@dataclass(frozen=True, slots=True)
class Environment:
    """Handed to everything in the prober that does IO."""

    policy: ProberPolicy
    seed: SeedCluster
    connector: ShootConnector
    ownership: Ownership
    clock: Clock
    tasks: Tasks
    board: NoticeBoard
    chance: random.Random
    slots: ProbeSlots
    scale_ups: ScaleUpPace
    dry_run: bool = False
    overrides: OverridesView = NONE
    desk: OverridesDesk = NONE
    operations: OperationBook = field(default_factory=OperationBook)
    endpoints: EndpointDoors | None = None
    """None where no endpoint probe is configured."""
    together: float = 0.0
    """Seconds of a stretch of time whose regular looks begin with it (`rules.schedule.Pace`)."""
    runs_together: float = 0.0
    """The same of the runs of endpoint probes (`rules.endpoints.first_tick`)."""
