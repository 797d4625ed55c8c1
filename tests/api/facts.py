"""Shoots as a test needs them, and fakes of what the API is given."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from app.api.dependencies import Context, ProberView
from app.core.model import annotations as ann
from app.core.model.loops import Loop
from app.core.model.nodes import NodeView
from app.core.model.policy import ConfigWarning, DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.probing import (
    Decision,
    Exclusion,
    Judgement,
    LeaseCounts,
    LeaseState,
    Reason,
    ShootState,
    Tally,
    Verdict,
)
from app.core.model.weeding import ServiceKey, ServiceStatus
from app.core.model.workloads import ResourceRef, WorkloadView
from app.core.ports import Permission
from app.core.records.history import History
from app.prober.rules.candidates import Candidacy
from app.prober.status import Condition, ShootStatus, Truth

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
NAMESPACE = "shoot--acme--prod"
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
        Reason.LEASES_RENEWED,
        "0 of 3 node leases are older than 30 s (limit 60%)",
        NOW - 600,
        conditions=(
            Condition("APIServerReachable", Truth.TRUE, "Answered", "it answers", NOW - 600),
        ),
        resources={KCM: workload(KCM), MCM: workload(MCM), CA: None},
        decision=Decision(Verdict.SCALE_UP, Reason.LEASES_RENEWED, "fine", Verdict.SCALE_UP),
        result=found,
        tally=found,
        judgements=tuple(judgement(f"node-{n}") for n in range(3)),
        expiry=30.0,
        last_look=NOW - 2,
        look_seconds=0.0213456789,
        next_look=NOW + 8,
        looks=812,
    )


def protected(namespace: str = NAMESPACE) -> ShootStatus:
    found = tally(100, 63, NotManaged=2)
    return replace(
        healthy(namespace),
        state=ShootState.PROTECTED,
        reason=Reason.LEASES_EXPIRED,
        message="63 of 100 node leases are older than 30 s (limit 60%)",
        since=NOW - 90,
        resources={KCM: protected_workload(KCM), MCM: protected_workload(MCM, 3), CA: None},
        protected_since=NOW - 100,
        decision=Decision(Verdict.SCALE_DOWN, Reason.LEASES_EXPIRED, "gone", Verdict.SCALE_DOWN),
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


@dataclass
class FakeShoots:
    known: dict[str, ShootStatus] = field(default_factory=dict)
    past: History = field(default_factory=History)
    breaks: Exception | None = None

    def add(self, *statuses: ShootStatus) -> None:
        self.known |= {each.namespace: each for each in statuses}

    def statuses(self):
        if self.breaks is not None:
            raise self.breaks
        return list(self.known.values())

    def status(self, namespace):
        return self.known.get(namespace)

    def history(self, namespace):
        return self.past.of(namespace)


@dataclass
class FakeWeeders:
    known: dict[ServiceKey, ServiceStatus] = field(default_factory=dict)

    def add(self, *statuses: ServiceStatus) -> None:
        self.known |= {each.key: each for each in statuses}

    def statuses(self):
        return [each for each in self.known.values() if each.recoveries]

    def status(self, key):
        return self.known.get(key)


@dataclass
class FakeLeader:
    leading: bool
    leader_identity: str | None


@dataclass
class FakeProcess:
    version: str = "1.2.3"
    started_at: float = NOW - 3600
    dry_run: bool = False
    loops: tuple[Loop, ...] = (Loop.PROBER,)
    leading: bool = True
    stands_by: Collection[Loop] = ()
    """Loops that it does not lead, whatever `leading` says."""
    leader_identity: str | None = "dwd-7f9"
    off: dict[str, str] = field(default_factory=dict)
    missing: list[Permission] = field(default_factory=list)
    warnings: list[ConfigWarning] = field(default_factory=list)
    unconfigured: list[str] = field(default_factory=list)
    empty_selectors: list[str] = field(default_factory=list)

    @property
    def leaders(self):
        return {
            loop: FakeLeader(self.leading and loop not in self.stands_by, self.leader_identity)
            for loop in self.loops
        }

    def features_off(self):
        return self.off

    def missing_permissions(self):
        return self.missing

    def config_warnings(self):
        return self.warnings

    def found_unconfigured(self):
        return self.unconfigured

    def selectors_without_pods(self):
        return self.empty_selectors


def context(
    shoots: FakeShoots | None = None,
    process: FakeProcess | None = None,
    weeders: FakeWeeders | None = None,
) -> Context:
    """What the API is given; what is left out is empty."""
    return Context(
        process or FakeProcess(),
        ProberView(shoots or FakeShoots(), POLICY),
        weeders or FakeWeeders(),
    )
