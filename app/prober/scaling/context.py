"""What a scaling run is given (its order, what its resources share), and what it results in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from app.core.errors import Refused
from app.core.model.overrides import ScaleRequest
from app.core.model.scaling_runs import OperationPhase, ScalingRunStatus, Trigger
from app.core.model.workloads import Direction, ResourceRef
from app.core.overrides.rules import hold_end
from app.core.ports import Watched
from app.prober.environment import ProberEnvironment
from app.prober.rules import lifecycle
from app.prober.scaling.guard import RunGuard
from app.prober.scaling.memory import ScalingMemory


class StepResult(StrEnum):
    """How a scaling run ended for one resource, as metrics name it."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DRY_RUN = "dry-run"


@dataclass(frozen=True, slots=True)
class ScalingOrder:
    """Which scaling run to start, and on whose behalf."""

    operation: str
    """The id of the operation in the API."""
    direction: Direction
    created: float
    trigger: Trigger = Trigger.AUTO
    reason: str = ""
    author: str | None = None
    forced: bool = False
    """The run goes on when the shoot is no longer probed."""
    carried_on: bool = False
    """An earlier leader started it."""
    hold_until: float | None = None
    """When the hold that goes with it would end if the run ended at once; None for a run without a hold."""

    verified: bool = True
    """Whether the API wrote the author."""

    @property
    def manual(self) -> bool:
        """Whether the run has a hold of its own and is ended by no verdict."""
        return self.trigger is Trigger.MANUAL

    @staticmethod
    def of(request: ScaleRequest, *, carried_on: bool) -> "ScalingOrder":
        """The order for the scaling run of a request, which an earlier leader may have begun."""
        spec = request.spec
        return ScalingOrder(
            request.id.uid,
            spec.direction,
            request.created_at,
            Trigger.MANUAL,
            spec.reason,
            spec.author,
            request.outlives_probing,
            carried_on,
            hold_until=hold_end(request),
            verified=request.verified,
        )

    def shown(self, namespace: str, phase: OperationPhase, message: str = "") -> ScalingRunStatus:
        """The order as an operation of the API, without steps."""
        return ScalingRunStatus(
            self.operation,
            namespace,
            self.direction,
            self.trigger,
            phase,
            self.created,
            self.reason,
            self.author,
            self.forced,
            self.carried_on,
            message=message,
            hold_until=self.hold_until,
            verified=self.verified,
        )


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """What the resources of one scaling run share."""

    environment: ProberEnvironment
    namespace: str
    order: ScalingOrder
    guard: RunGuard
    memory: ScalingMemory

    @property
    def direction(self) -> Direction:
        return self.order.direction

    def found_at_zero(self, ref: ResourceRef) -> bool:
        """Whether a resource at 0 without our keys is to be scaled up; a manual run always does that."""
        return self.order.manual or self.memory.found_at_zero(ref)


async def check_probed(environment: ProberEnvironment, namespace: str) -> None:
    """Reads the Cluster live if its watch is stale, and checks that the shoot is still to be probed.

    Raises:
        Refused: the shoot is not to be probed any more.
        ClusterError: the watch is stale, and the Cluster could not be read.
    """
    if not environment.seed.watch_state(Watched.CLUSTERS).stale(environment.clock.now()):
        return
    found = lifecycle.decide(await environment.seed.read_cluster(namespace))
    if not found.runs(running=True, protected=True):
        raise Refused(f"the shoot is not probed: {found.message}")


def one_line_each(resources: Mapping[ResourceRef, str]) -> tuple[str, ...]:
    """Names each resource with what is to be said of it."""
    return tuple(f"{ref}: {why}" for ref, why in resources.items())


@dataclass(frozen=True, slots=True)
class ScalingResult:
    """How a scaling run ended."""

    operation: str
    direction: Direction
    trigger: Trigger
    started: float
    ended: float
    failed: Mapping[ResourceRef, str]
    """The resources that failed, unavailable ones left out, with the reason."""
    cancelled: str | None
    """Why the run was ended early; None if it was not."""
    unavailable: Mapping[ResourceRef, str] = field(default_factory=dict)
    """The resources that are unavailable (rules 4.3), with what the seed said."""

    @property
    def failures(self) -> tuple[str, ...]:
        """All resources that failed, unavailable ones included; one line each."""
        return one_line_each({**self.failed, **self.unavailable})
