"""Shoots, pauses and holds as a test needs them."""

from dataclasses import replace
from typing import Any

from app.core.model import workloads as ann
from app.core.model.endpoints import CachedResult, Effect, GateReason, ProbeOutcome, ProbeType
from app.core.model.overrides import API_PAUSE, ObjectId, Pause, ScaleRequest
from app.core.model.overrides import Scope as PauseScope
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.probing import (
    Decision,
    Exclusion,
    Judgement,
    LeaseCounts,
    LeaseState,
    ShootState,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.scaling_runs import OperationPhase, ScaleSpec, ScalingRunStatus, Trigger
from app.core.model.shoots import NodeView
from app.core.model.weeding import (
    Cause,
    DeletedPod,
    DeletionResult,
    End,
    OwnerView,
    Phase,
    RecoveryStatus,
    ServiceKey,
    ServiceStatus,
)
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.core.reporting.audit import Attempt
from app.prober.endpoints.gates import GateView
from app.prober.endpoints.worker import EndpointResultView, ProbeTarget
from app.prober.rules.candidates import Candidacy
from app.prober.status import ConditionStatus, ShootCondition, ShootStatus

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
HOME = "garden"
"""The watchdog's own namespace."""
NAMESPACE = "shoot--acme--prod"
SERVICE = ServiceKey(NAMESPACE, "kube-apiserver")
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")
CA = ResourceRef("apps/v1", "Deployment", "cluster-autoscaler")
POLICY = ProberPolicy(
    kubeconfig_secret="kubeconfig",
    dependents=(
        DependentPolicy(KCM, scale_down=ScalePolicy(level=1)),
        DependentPolicy(MCM, scale_up=ScalePolicy(level=1)),
        DependentPolicy(CA, scale_up=ScalePolicy(level=2), optional=True),
    ),
)


def workload(ref: ResourceRef, replicas: int | None = 1, **annotations: str) -> WorkloadView:
    return WorkloadView(ref, NAMESPACE, "uid", "7", replicas, annotations, ready=replicas)


def protected_workload(ref: ResourceRef, saved: int = 1) -> WorkloadView:
    kept = {ann.MELTDOWN: "", ann.REPLICAS: str(saved)}
    return WorkloadView(ref, NAMESPACE, "uid", "8", 0, kept, ready=0)


def judgement(
    name: str, state: LeaseState = LeaseState.FRESH, renewed: float | None = NOW - 5, **more: Any
) -> Judgement:
    age = None if renewed is None else NOW - renewed
    return Judgement(
        name, state, renewed, more.get("offset", 0.0), age, late=False, expires_at=None
    )


def tally(total: int = 3, expired: int = 0, unknown: int = 0, **excluded: int) -> Tally:
    why = {Exclusion(name): number for name, number in excluded.items()}
    return Tally(
        LeaseCounts(total, expired, unknown), None, nodes_read=True, judgements=(), excluded=why
    )


def candidacy(**exclusions: Exclusion | None) -> Candidacy:
    nodes = tuple(NodeView(name, pool="workers", zone="a") for name in exclusions)
    return Candidacy(NOW - 60, exclusions, frozenset(exclusions), nodes)


def healthy(namespace: str = NAMESPACE) -> ShootStatus:
    found = tally()
    return ShootStatus(
        namespace,
        ShootState.HEALTHY,
        VerdictReason.LEASES_RENEWED,
        "0 of 3 node leases are older than 30 s (limit 60%)",
        NOW - 600,
        conditions=(
            ShootCondition(
                "APIServerReachable", ConditionStatus.TRUE, "Answered", "it answers", NOW - 600
            ),
        ),
        resources={KCM: workload(KCM), MCM: workload(MCM), CA: None},
        decision=Decision(Verdict.SCALE_UP, VerdictReason.LEASES_RENEWED, "fine", Verdict.SCALE_UP),
        result=found,
        tally=found,
        read_at=NOW - 2,
        judgements=tuple(judgement(f"node-{n}") for n in range(3)),
        expiry=30.0,
        last_probe=NOW - 2,
        probe_seconds=0.0213456789,
        next_probe=NOW + 8,
        probes=812,
    )


def protected(namespace: str = NAMESPACE) -> ShootStatus:
    found = tally(100, 63, NotManaged=2)
    return replace(
        healthy(namespace),
        state=ShootState.PROTECTED,
        reason=VerdictReason.LEASES_EXPIRED,
        message="63 of 100 node leases are older than 30 s (limit 60%)",
        since=NOW - 90,
        resources={KCM: protected_workload(KCM), MCM: protected_workload(MCM, 3), CA: None},
        protected_since=NOW - 100,
        decision=Decision(
            Verdict.SCALE_DOWN, VerdictReason.LEASES_EXPIRED, "gone", Verdict.SCALE_DOWN
        ),
        result=found,
        tally=found,
        candidacy=candidacy(**{"node-0": None, "node-1": Exclusion.NOT_MANAGED}),
        failures=3,
    )


def not_probed(namespace: str = NAMESPACE, **more: Any) -> ShootStatus:
    views = {ref: workload(ref, 0) for ref in (KCM, MCM)}
    return ShootStatus(
        namespace,
        ShootState.NOT_PROBED,
        "Hibernated",
        "it is hibernated",
        NOW,
        resources=views,
        **more,
    )


CANARY = ProbeTarget(host="canary.example.org")


def container(pod: str, name: str = "etcd") -> ProbeTarget:
    return ProbeTarget(uid=f"uid-of-{pod}", pod=pod, container=name)


def endpoint(
    name: str = "canary",
    target: ProbeTarget = CANARY,
    result: CachedResult = CachedResult.SUCCESS,
    **more: Any,
) -> EndpointResultView:
    """A probe that has run 4 s ago."""
    found = EndpointResultView(
        name,
        ProbeType.READINESS,
        Effect.OBSERVE,
        target,
        result,
        counted=True,
        since=NOW - 600,
        last_run=NOW - 4,
        last_outcome=ProbeOutcome.SUCCESS,
        message="HTTP 200",
        run=60,
    )
    return replace(found, **more)


def gate(name: str = "canary", reason: GateReason = GateReason.PASSING, **more: Any) -> GateView:
    closed = reason is GateReason.FAILING
    found = GateView(name, closed, reason, f"the gate {name} says {reason}", NOW - 30)
    return replace(found, **more)


def pause(
    scope: PauseScope = PauseScope.ALL,
    seconds: float = 3_600.0,
    *,
    of: str = NAMESPACE,
    name: str = API_PAUSE,
    **more: Any,
) -> Pause:
    """The API's, unless it has another name: then somebody has made it with kubectl."""
    found = Pause(
        scope,
        "maintenance of the seed",
        "alice",
        NOW - 60,
        NOW + seconds,
        ObjectId(of, name, f"uid-of-{of}-{name}", "1"),
        verified=name == API_PAUSE,
    )
    return replace(found, **more)


def request(
    direction: Direction = Direction.UP,
    operation: str = "op-1",
    *,
    done: bool = True,
    of: str = NAMESPACE,
    author: str = "alice",
    reason: str = "brought back by hand",
) -> ScaleRequest:
    """One that holds verdicts back."""
    return ScaleRequest(
        ObjectId(of, f"api-{operation}", operation, "1"),
        ScaleSpec(direction, reason, author, 1_860.0),
        NOW - 60,
        OperationPhase.DONE if done else OperationPhase.RUNNING,
        started=NOW - 60,
        ended=NOW - 60 if done else None,
        hold_until=NOW + 1_800 if done else None,
        verified=True,
    )


def run(name: str = "op-1", **more: Any) -> ScalingRunStatus:
    """A scaling run by hand that is under way."""
    up, phase = Direction.UP, OperationPhase.RUNNING
    return replace(ScalingRunStatus(name, NAMESPACE, up, Trigger.MANUAL, phase, NOW), **more)


def attempt(name: str = "r1", status: int = 200, **more: Any) -> Attempt:
    """Of eve, to pause something."""
    made = Attempt(name, "PUT", "/x", "10.0.0.1", status, caller="eve", action="pause")
    return replace(made, **more)


OWNER = OwnerView("apps/v1", "ReplicaSet", "kube-scheduler-5d", "uid-1")


def deleted(pod: str = "kube-scheduler-5d-x2p", **more: Any) -> DeletedPod:
    """A pod that the weeder has deleted."""
    what = DeletionResult.DELETED, "kube-scheduler", 283.1234567
    return replace(DeletedPod(pod, "uid-2", OWNER, NOW - 9, *what), **more)


def service(*recoveries: RecoveryStatus, key: ServiceKey = SERVICE, **more: Any) -> ServiceStatus:
    """One that is ready."""
    found = ServiceStatus(key, ready=True, since=NOW - 10, recoveries=recoveries)
    return replace(found, **more)


def recovery(
    key: ServiceKey = SERVICE, began: float = NOW - 10, *, over: bool = False, **more: Any
) -> RecoveryStatus:
    """One of a service that became ready."""
    found = RecoveryStatus(
        7, key, Cause.BECAME_READY, Phase.WATCHING, began, began, began + 300.0, **more
    )
    return replace(found, phase=Phase.ENDED, ended=NOW, end=End.LOST) if over else found
