"""Short names for the facts that rules are asked about."""

from app.core.model import workloads as ann
from app.core.model.policy import DependentPolicy, ScalePolicy
from app.core.model.probing import Judgement, LeaseCounts, LeaseState, Tally
from app.core.model.shoots import LeaseReading, LeaseView, MachineView, NodeView
from app.core.model.workloads import ResourceRef, WorkloadView
from app.prober.rules import scaling

NOW = 1_800_000_000.0
GRACE = 40.0
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")
CA = ResourceRef("apps/v1", "Deployment", "cluster-autoscaler")
SINCE = "2027-01-15T08:00:00Z"  # NOW


def reading(sent, leases, took=0.02):
    """A reading at NOW + `sent`; leases by name as seconds after NOW, None without renewTime."""
    views = tuple(
        LeaseView(name, None if at is None else NOW + at, 40) for name, at in leases.items()
    )
    return LeaseReading(views, NOW + sent, NOW + sent + took)


def judgement(name="n", state=LeaseState.FRESH, *, renewed=NOW, late=False, expires_at=None):
    return Judgement(name, state, renewed, 0.0, 1.0, late=late, expires_at=expires_at)


def judgements(fresh=0, expired=0, unknown=0, expires_at=NOW + 30):
    """So many leases of each state; the fresh ones expire at `expires_at`, one second after another."""
    return (
        *(judgement(f"fresh-{n}", expires_at=expires_at + n) for n in range(fresh)),
        *(
            judgement(f"late-{n}", LeaseState.EXPIRED, late=True, expires_at=NOW - 5 + n)
            for n in range(expired)
        ),
        *(judgement(f"new-{n}", LeaseState.UNKNOWN) for n in range(unknown)),
    )


def counted(fresh=0, expired=0, unknown=0, *, machines=None, nodes_read=True, excluded=None):
    """A tally; `machines` is (total, expired, unknown) of N′."""
    return Tally(
        LeaseCounts(fresh + expired + unknown, expired, unknown),
        None if machines is None else LeaseCounts(*machines),
        nodes_read,
        judgements(fresh, expired, unknown),
        excluded or {},
    )


def node(name="n", **more):
    return NodeView(name, **more)


def machine(node_name="n", phase="Running", name="m"):
    return MachineView(name, node_name, phase)


def workload(replicas=1, annotations=None, ref=KCM, **more):
    return WorkloadView(ref, "shoot--a--b", "uid", "7", replicas, annotations or {}, **more)


def protected(replicas=0, saved="3", since=SINCE, **more):
    """A dependent as our scale-down leaves it."""
    keys = {ann.REPLICAS: saved, ann.MELTDOWN: "", ann.SINCE: since}
    return workload(replicas, {k: v for k, v in keys.items() if v is not None}, **more)


def dependent(ref=KCM, up=0, down=0, *, optional=False):
    return DependentPolicy(ref, ScalePolicy(up), ScalePolicy(down), optional)


def ignored(replicas, **annotations):
    return workload(replicas, {ann.IGNORE_SCALING: "true", **annotations})


def pending(view):
    """What a scaling run would write where `view` is the only dependent."""
    return scaling.pending_writes([dependent()], {KCM: view}, NOW)
