"""Answers of the API, as its page has them."""

from typing import Any

SHOOT: dict[str, Any] = {
    "namespace": "shoot--acme--prod",
    "state": "Protected",
    "reason": "LeasesExpired",
    "message": "63 of 100 node leases are older than 30s (limit 60%)",
    "since": "2027-01-15T07:48:00Z",
    "conditions": [
        {
            "type": "APIServerReachable",
            "status": "True",
            "reason": "Answered",
            "message": "the API server answers",
            "lastTransitionTime": "2027-01-15T06:00:00Z",
        }
    ],
    "probe": {
        "lastTime": "2027-01-15T07:59:58Z",
        "nextTime": "2027-01-15T08:00:03Z",
        "durationSeconds": 0.021,
        "verdict": "Hold",
        "wouldBe": "ScaleDown",
        "count": 812,
        "consecutiveFailures": 3,
    },
    "leases": {
        "asOf": "2027-01-15T07:59:58Z",
        "candidates": 100,
        "expired": 63,
        "unknown": 2,
        "candidatesAsOf": "2027-01-15T07:59:58Z",
        "fraction": 0.63,
        "threshold": 0.6,
        "expiryAfter": "30s",
        "excluded": {"NotManaged": 2, "NoMachine": 1},
    },
    "resources": [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "kube-controller-manager",
            "optional": False,
            "scaleUpLevel": 0,
            "scaleDownLevel": 1,
            "replicas": {"spec": 0, "ready": 0, "saved": 1},
            "ignoreScaling": False,
            "protectionActive": True,
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "cluster-autoscaler",
            "optional": True,
            "scaleUpLevel": 2,
            "scaleDownLevel": 0,
            "replicas": {"spec": None, "ready": None, "saved": None},
            "ignoreScaling": None,
            "protectionActive": None,
        },
    ],
    "pause": {
        "name": "api",
        "covers": "all",
        "scope": "scaleDown",
        "reason": "hands off",
        "author": "jane",
        "verified": True,
        "createdAt": "2027-01-15T07:43:00Z",
        "until": "2027-01-15T08:43:00Z",
    },
    "pauses": 1,
    "hold": None,
    "endpointProbes": [],
    "endpointProbesTotal": 0,
    "gates": [],
}
UNREACHABLE: dict[str, Any] = {
    **SHOOT,
    "namespace": "shoot--a--c",
    "state": "Unreachable",
    "reason": "Unreachable",
    "leases": {**SHOOT["leases"], "asOf": "2027-01-15T07:57:00Z", "expired": 0, "unknown": 0},
    "pause": None,
}
HEALTHY: dict[str, Any] = {
    **SHOOT,
    "namespace": "shoot--a--b",
    "state": "Healthy",
    "reason": "LeasesRenewed",
    "since": "2027-01-10T08:00:00Z",
    "leases": {**SHOOT["leases"], "candidates": 3, "expired": 0, "unknown": 0},
    "resources": [],
    "pause": None,
    "hold": {
        "direction": "up",
        "operation": "op-1",
        "force": False,
        "done": False,
        "reason": "back now",
        "author": "joe",
        "createdAt": "2027-01-15T07:55:00Z",
        "until": "2027-01-15T08:25:00Z",
    },
}
NODE = {
    "name": "node-1",
    "pool": "worker",
    "zone": "eu-1a",
    "candidate": False,
    "reason": "NotManaged",
    "lease": "Expired",
    "renewTime": "2027-01-15T07:58:00Z",
    "ageSeconds": 120.5,
    "clockOffsetSeconds": -0.25,
}
ENTRY = {
    "time": "2027-01-15T07:48:00Z",
    "type": "Scale",
    "verdict": None,
    "reason": "ScaledDown",
    "message": "1 to 0",
    "resource": "Deployment/kube-controller-manager",
}
PAUSE = {
    "covers": "shoot",
    "scope": "all",
    "reason": "hands off",
    "author": "jane",
    "createdAt": "2027-01-15T08:00:00Z",
    "until": "2099-01-15T09:00:00Z",
}
RESOURCE = {**SHOOT["resources"][0], "annotations": {}, "etag": '"e1"'}


def operation(phase="Running", *steps, **more):
    """A scaling run."""
    return {
        "id": "op-1",
        "namespace": "shoot--a--b",
        "direction": "up",
        "trigger": "manual",
        "phase": phase,
        "created": "2027-01-15T08:00:00Z",
        "started": "2027-01-15T08:00:00Z",
        "ended": None,
        "author": "jane",
        "reason": "back now",
        "message": "",
        "forced": False,
        "carriedOn": False,
        "holdUntil": "2099-01-15T08:30:00Z",
        "steps": list(steps),
        **more,
    }


def step(phase="Done", resource="Deployment/kube-controller-manager", **more):
    """One resource of a scaling run."""
    return {
        "resource": resource,
        "level": 0,
        "phase": phase,
        "message": "",
        "started": "2027-01-15T08:00:01Z",
        "written": "2027-01-15T08:00:01Z",
        "ended": "2027-01-15T08:00:09Z",
        "before": 0,
        "after": 1,
        **more,
    }


PLAN = {
    "namespace": "shoot--a--b",
    "direction": "up",
    "levels": [
        {
            "level": 0,
            "steps": [
                {
                    "resource": "Deployment/kube-controller-manager",
                    "action": "Write",
                    "reason": "ScaledUp",
                    "before": 0,
                    "after": 1,
                    "initialDelay": "10s",
                    "etag": '"e1"',
                }
            ],
        }
    ],
    "etag": '"all"',
    "replaces": "op-0",
}
RECOVERY = {
    "id": 7,
    "cause": "Asked",
    "phase": "Opening",
    "began": "2027-01-15T08:00:00Z",
    "due": "2027-01-15T08:00:00Z",
    "until": "2099-01-15T08:05:00Z",
    "ended": None,
    "end": None,
    "asked": None,
    "trouble": None,
    "queued": 0,
    "deletions": [],
    "spared": [],
}

DELETED = {
    "pod": "kube-scheduler-5d-x2p",
    "owner": "ReplicaSet/kube-scheduler-5d",
    "time": "2027-01-15T07:59:00Z",
    "result": "deleted",
    "container": "kube-scheduler",
    "sparedBackoff": "2m31s",
}
SPARED = {
    "pod": "vpa-7-abc",
    "time": "2027-01-15T07:59:00Z",
    "reason": "NotWaiting",
    "message": "none of its containers waits",
}
WEEDER = {
    "namespace": "shoot--a--b",
    "service": "kube-apiserver",
    "ready": True,
    "since": "2027-01-15T07:59:00Z",
    "failing": None,
    "recoveries": [
        {
            **RECOVERY,
            "cause": "BecameReady",
            "phase": "Watching",
            "began": "2027-01-15T07:59:00Z",
            "until": "2027-01-15T08:04:00Z",
            "queued": 1,
            "deletions": [DELETED],
            "spared": [SPARED],
        },
        {
            **RECOVERY,
            "id": 6,
            "phase": "Ended",
            "began": "2027-01-15T07:00:00Z",
            "ended": "2027-01-15T07:05:00Z",
            "end": "Completed",
            "asked": {"author": "jane", "reason": "it hangs", "despite": None},
            "trouble": "may not delete pods",
        },
    ],
}
STATUS = {
    "version": "1.2.3",
    "startedAt": "2027-01-15T07:00:00Z",
    "role": "leader",
    "dryRun": False,
    "leaders": {
        "prober": {"identity": "dwd-7f9_1", "address": "10.0.0.7:8080"},
        "weeder": {"identity": None, "address": None},
    },
    "counts": {"Protected": 2, "Failing": 0, "Healthy": 27},
    "pause": PAUSE,
    "featuresOff": [{"feature": "api", "reason": "no TLS"}],
    "missingPermissions": [
        {
            "verb": "patch",
            "group": "apps",
            "resource": "deployments",
            "name": "kube-controller-manager",
            "namespace": None,
            "feature": None,
        },
        {
            "verb": "create",
            "group": "",
            "resource": "configmaps",
            "name": None,
            "namespace": "garden",
            "feature": "overrides",
        },
    ],
    "configWarnings": [{"path": "probeIntervall", "line": 3, "message": "unknown key"}],
    "foundUnconfigured": ["Deployment/x in shoot--a--b"],
    "selectorsWithoutPods": ["kube-apiserver[0]"],
}
ATTEMPT = {
    "time": "2027-01-15T07:59:00Z",
    "firstTime": "2027-01-15T07:58:00Z",
    "times": 3,
    "request": "abc",
    "method": "PUT",
    "path": "/api/v1/shoots/shoot--a--b/pause",
    "peer": "10.0.0.1",
    "caller": "jane",
    "claimed": "jane.doe@example.org",
    "action": "pause",
    "namespace": "shoot--a--b",
    "target": None,
    "reason": "hands off",
    "status": 403,
    "problem": "urn:x",
    "before": None,
    "after": None,
}
