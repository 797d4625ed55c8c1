"""Whether a shoot is probed at all (rules 2), with which facts, and from when on it may be scaled (rules 4.1)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self, assert_never

from app.core.model.policy import ProberPolicy
from app.core.model.shoots import ClusterView, ShootView, Undecodable
from app.prober.rules import candidates
from app.prober.rules.candidates import PoolConditions
from app.prober.rules.leases import Timings


class LifecycleAction(StrEnum):
    """What a Cluster asks for."""

    PROBE = "Probe"
    """Start probing, or go on."""
    STOP = "Stop"
    KEEP = "Keep"
    """A prober that runs goes on; none is started, unless protection is active."""
    UNKNOWN = "Unknown"
    """The Shoot cannot be decoded: nothing changes."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What to do about a shoot, and why."""

    action: LifecycleAction
    reason: str
    """CamelCase, as the API shows it."""
    message: str

    def runs(self, *, running: bool, protected: bool) -> bool:
        """Whether the shoot is probed from now on."""
        match self.action:
            case LifecycleAction.PROBE:
                return True
            case LifecycleAction.STOP:
                return False
            case LifecycleAction.KEEP:
                return running or protected
            case LifecycleAction.UNKNOWN:
                return running
            case _:
                assert_never(self.action)


MADE_AGAIN: Final = Lifecycle(
    LifecycleAction.STOP, "ClusterGone", "the Cluster is gone: the one that is there was made again"
)


def decide(cluster: ClusterView | None) -> Lifecycle:
    """Decides by the table of rules 2; None stands for a Cluster that is gone."""
    if cluster is None:
        return Lifecycle(LifecycleAction.STOP, "ClusterGone", "the Cluster is gone")
    if cluster.deleting:
        return Lifecycle(LifecycleAction.STOP, "Deleting", "the Cluster is being deleted")
    if isinstance(cluster.shoot, Undecodable):
        return Lifecycle(
            LifecycleAction.UNKNOWN,
            "Undecodable",
            f"the Shoot cannot be read: {cluster.shoot.reason}",
        )
    return _stopped(cluster.shoot) or _by_operation(cluster.shoot)


def _stopped(shoot: ShootView) -> Lifecycle | None:
    operation = shoot.last_operation
    if shoot.deleting:
        return Lifecycle(LifecycleAction.STOP, "Deleting", "the Shoot is being deleted")
    if shoot.hibernation_enabled:
        return Lifecycle(
            LifecycleAction.STOP, "Hibernated", "the Shoot is hibernated or hibernating"
        )
    if operation is not None and operation.type == "Migrate":
        return Lifecycle(LifecycleAction.STOP, "Migrating", "the Shoot is moving to another seed")
    if not shoot.workers:
        return Lifecycle(LifecycleAction.STOP, "NoWorkers", "the Shoot has no workers")
    if shoot.self_hosted:
        return Lifecycle(
            LifecycleAction.STOP, "SelfHosted", "the Shoot runs its control plane on its own nodes"
        )
    return None


def _by_operation(shoot: ShootView) -> Lifecycle:
    operation = shoot.last_operation
    if shoot.is_hibernated:
        return Lifecycle(LifecycleAction.KEEP, "WakingUp", "the Shoot is waking up")
    if operation is None:
        return Lifecycle(LifecycleAction.KEEP, "NoOperation", "the Shoot has no last operation yet")
    ready = operation.type in {"Create", "Restore"} and operation.state == "Succeeded"
    if operation.type == "Reconcile" or ready:
        return Lifecycle(
            LifecycleAction.PROBE, "Eligible", f"last operation {operation.type} {operation.state}"
        )
    return Lifecycle(
        LifecycleAction.KEEP,
        f"{operation.type}NotSucceeded",
        f"{operation.type} is {operation.state}",
    )


def scaling_from(
    shoot: ShootView, *, initial_delay: float, now: float, in_first_list: bool
) -> float:
    """The instant from which on a shoot that has just become eligible may be scaled.

    `initialDelay` counts from the time of the shoot's last operation, so that a restart or a change of leader does not
    hold a shoot back again. A time in the future counts as now, so the wait is never longer than `initialDelay`.

    Args:
        shoot: the Shoot that became eligible.
        initial_delay: `initialDelay` of the configuration, in seconds.
        now: the present instant.
        in_first_list: the Cluster was in the first list that this process read; with a Reconcile it is not held back.
    """
    operation = shoot.last_operation
    if operation is None:
        return now + initial_delay
    if in_first_list and operation.type == "Reconcile":
        return now
    eligible_at = now if operation.last_update is None else min(operation.last_update, now)
    return max(eligible_at + initial_delay, now)


@dataclass(frozen=True, slots=True)
class ProbedShoot:
    """The facts of a Shoot that its probes depend on; a change takes effect at the next probe."""

    namespace: str
    timings: Timings
    conditions: PoolConditions
    uid: str = ""
    """Of its Cluster: one with another uid was deleted and made again."""

    @classmethod
    def of(cls, cluster: ClusterView, shoot: ShootView, policy: ProberPolicy) -> Self:
        """Extracts the facts from the Shoot of a Cluster; `policy` has the grace period of one that sets none."""
        timings = Timings(shoot.node_monitor_grace or policy.grace)
        return cls(cluster.name, timings, candidates.pool_conditions(shoot.workers), cluster.uid)
