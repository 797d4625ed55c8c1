"""Answers of the API: the examples of its schemas, with what a view has to show besides."""

from typing import Any

from app.api import schemas

NOW = "2026-11-20T14:10:05Z"
"""A moment after the examples."""
PAUSE = schemas.Pause.example(reason="hands off", author="jane")
HOLD = {
    "direction": "up",
    "operation": "op-1",
    "force": False,
    "done": False,
    "reason": "back now",
    "author": "joe",
    "createdAt": "2026-11-20T14:05:00Z",
    "until": "2026-11-20T14:35:00Z",
}
RESOURCE = schemas.LiveResource.example()
_NOTHING = schemas.Resource.example(
    name="cluster-autoscaler",
    optional=True,
    scaleUpLevel=2,
    scaleDownLevel=0,
    replicas={"spec": None, "ready": None, "saved": None},
    ignoreScaling=None,
    protectionActive=None,
)
_LEASES = schemas.Leases.example(unknown=2, excluded={"NotManaged": 2, "NoMachine": 1})
SHOOT = schemas.Shoot.example(
    message="63 of 100 node leases are older than 30s (limit 60%)",
    probe=schemas.ProbeInfo.example(verdict="Hold", consecutiveFailures=3),
    leases=_LEASES,
    resources=[schemas.Resource.example(), _NOTHING],
    pause=PAUSE | {"covers": "all", "scope": "scaleDown"},
    pauses=1,
    endpointProbes=[],
    endpointProbesTotal=0,
    gates=[],
)
UNREACHABLE: dict[str, Any] = SHOOT | {
    "namespace": "shoot--a--c",
    "state": "Unreachable",
    "reason": "Unreachable",
    "pause": None,
    "leases": _LEASES | {"asOf": "2026-11-20T14:07:05Z", "expired": 0, "unknown": 0},
}
HEALTHY: dict[str, Any] = SHOOT | {
    "namespace": "shoot--a--b",
    "state": "Healthy",
    "reason": "LeasesRenewed",
    "pause": None,
    "since": "2026-11-15T14:10:05Z",
    "leases": _LEASES | {"candidates": 3, "expired": 0, "unknown": 0},
    "resources": [],
    "hold": HOLD,
}
NODE = schemas.Node.example(candidate=False, reason="NotManaged", clockOffsetSeconds=-0.25)
ENTRY = schemas.HistoryEntry.example(message="1 to 0")


def operation(phase="Running", *steps, **more):
    """A scaling run."""
    return schemas.Operation.example(id="op-1", phase=phase, steps=list(steps), **more)


def step(phase="Done", resource="Deployment/kube-controller-manager", **more):
    """One resource of a scaling run."""
    end = {"ended": "2026-11-20T14:10:04Z"}
    return schemas.OperationStep.example(phase=phase, resource=resource, **end | more)


_STEP = schemas.PlannedStep.example(initialDelay="10s")
PLAN = schemas.Plan.example(levels=[{"level": 0, "steps": [_STEP]}], replaces="op-0")
RECOVERY = schemas.Recovery.example(cause="Asked", phase="Opening", deletions=[], spared=[])
WEEDER = schemas.Weeder.example(
    recoveries=[
        schemas.Recovery.example(queued=1),
        RECOVERY
        | {"phase": "Ended", "ended": "2026-11-20T14:25:00Z", "end": "Completed", "id": 6}
        | {"asked": schemas.Asked.example(), "trouble": "may not delete pods"},
    ]
)
_KCM = {"group": "apps", "resource": "deployments", "name": "kube-controller-manager"}
STATUS = schemas.Status.example(
    leaders={
        "prober": {"identity": "dwd-7f9_1", "address": "10.0.0.7:8080"},
        "weeder": schemas.Leader.example(identity=None),
    },
    counts={"Protected": 2, "Failing": 0, "Healthy": 27},
    pause=PAUSE,
    featuresOff=[{"feature": "api", "reason": "no TLS"}],
    missingPermissions=[
        schemas.MissingPermission.example(verb="patch", **_KCM),
        schemas.MissingPermission.example(
            verb="create", resource="configmaps", namespace="garden", feature="overrides"
        ),
    ],
    configWarnings=[schemas.ConfigFinding.example(message="unknown key")],
    foundUnconfigured=["Deployment/x in shoot--a--b"],
    selectorsWithoutPods=["kube-apiserver[0]"],
)
ATTEMPT = schemas.AuditEntry.example(times=3, status=403, problem="urn:x", after=None)
CANARY = schemas.EndpointProbe.example(
    result="Failure",
    since="2026-11-20T14:09:23Z",
    lastResult="Failure",
    message="no connection",
    gate="Closed",
)
ETCD = CANARY | {
    "name": "etcd",
    "type": "Startup",
    "effect": "Observe",
    "result": "Unknown",
    "target": {"host": None, "pod": "etcd-main-0", "container": "etcd"},
    "counted": False,
    **dict.fromkeys(("since", "lastTime", "lastResult", "gate")),
    "message": "",
    "waiting": "InitialDelay",
}
GATE = schemas.Gate.example(
    state="Closed",
    reason="Failing",
    message="the gate canary is closed, its target fails: no connection",
    since="2026-11-20T14:09:23Z",
)
