"""Examples of bodies and answers in the OpenAPI document, by operation; tests validate them against the schemas."""

from typing import Any, Final

_NAMESPACE: Final = "shoot--acme--prod"
_KCM: Final = "Deployment/kube-controller-manager"

_PAUSE: Final[dict[str, Any]] = {
    "name": "api",
    "covers": "shoot",
    "scope": "all",
    "reason": "the load balancer is being replaced",
    "author": "alice",
    "verified": True,
    "createdAt": "2026-11-20T14:10:00Z",
    "until": "2026-11-20T15:10:00Z",
}
_END_OF_PAUSE: Final = {
    "changes": [
        {
            "object": f"Pause {_NAMESPACE}/api",
            "before": _PAUSE,
            "after": None,
        }
    ]
}
_OF_KUBECTL: Final = _PAUSE | {
    "name": "night-shift",
    "scope": "scaleDown",
    "author": "bob",
    "verified": False,
}
_END_OF_ANOTHER: Final = {
    "changes": [{"object": f"Pause {_NAMESPACE}/night-shift", "before": _OF_KUBECTL, "after": None}]
}
_PAUSE_OF_ALL: Final = _PAUSE | {"covers": "all", "scope": "scaleDown", "reason": "network works"}
_RESOURCE: Final[dict[str, Any]] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "name": "kube-controller-manager",
    "optional": False,
    "scaleUpLevel": 0,
    "scaleDownLevel": 1,
    "replicas": {"spec": 0, "ready": 0, "saved": 1},
    "ignoreScaling": False,
    "protectionActive": True,
}
_LIVE_RESOURCE: Final = _RESOURCE | {
    "annotations": {
        "dependency-watchdog.gardener.cloud/replicas": "1",
        "dependency-watchdog.gardener.cloud/meltdown-protection-active": "",
    },
    "etag": '"5f0a3c9be2d14a7788aa"',
}
_IGNORED: Final = _LIVE_RESOURCE | {
    "replicas": {"spec": 1, "ready": 1, "saved": None},
    "ignoreScaling": True,
    "protectionActive": False,
    "annotations": {"dependency-watchdog.gardener.cloud/ignore-scaling": "true"},
}
_HEEDED: Final = _IGNORED | {"ignoreScaling": False, "annotations": {}}
_SHOOT: Final[dict[str, Any]] = {
    "namespace": _NAMESPACE,
    "state": "Protected",
    "reason": "LeasesExpired",
    "message": "63 of 100 node leases are older than 30 s (limit 60%); kube-controller-manager is at 0",
    "since": "2026-11-20T14:02:11Z",
    "conditions": [
        {
            "type": "APIServerReachable",
            "status": "True",
            "reason": "Answered",
            "message": "the API server answered",
            "lastTransitionTime": "2026-11-20T09:12:40Z",
        }
    ],
    "probe": {
        "lastTime": "2026-11-20T14:10:01Z",
        "nextTime": "2026-11-20T14:10:06Z",
        "durationSeconds": 0.021,
        "verdict": "ScaleDown",
        "wouldBe": "ScaleDown",
        "count": 812,
        "consecutiveFailures": 0,
    },
    "leases": {
        "asOf": "2026-11-20T14:10:01Z",
        "candidates": 100,
        "expired": 63,
        "unknown": 0,
        "candidatesAsOf": "2026-11-20T14:09:56Z",
        "fraction": 0.63,
        "threshold": 0.6,
        "expiryAfter": "30s",
        "excluded": {"NotManaged": 2},
    },
    "resources": [_RESOURCE],
    "pause": None,
    "pauses": 0,
    "hold": None,
    "endpointProbes": [
        {
            "name": "canary",
            "type": "Readiness",
            "effect": "GateScaleDown",
            "target": {"host": "canary.example.org", "pod": None, "container": None},
            "result": "Success",
            "counted": True,
            "since": "2026-11-20T09:12:41Z",
            "lastTime": "2026-11-20T14:10:03Z",
            "lastResult": "Success",
            "message": "HTTP 200",
            "waiting": None,
            "gate": "Open",
        }
    ],
    "endpointProbesTotal": 1,
    "gates": [
        {
            "name": "canary",
            "state": "Open",
            "reason": "Passing",
            "message": "the gate canary is open: well: canary.example.org",
            "since": "2026-11-20T09:12:41Z",
        }
    ],
}
_OPERATION: Final[dict[str, Any]] = {
    "id": "0b6c1f0e-6a0d-4a58-9b1c-2f0d9b1e7c55",
    "namespace": _NAMESPACE,
    "direction": "up",
    "trigger": "manual",
    "phase": "Running",
    "created": "2026-11-20T14:10:02Z",
    "started": "2026-11-20T14:10:02Z",
    "ended": None,
    "author": "alice",
    "verified": True,
    "reason": "the load balancer is back",
    "message": "",
    "forced": False,
    "carriedOn": False,
    "holdUntil": "2026-11-20T14:40:02Z",
    "steps": [
        {
            "resource": _KCM,
            "level": 0,
            "phase": "Running",
            "message": "",
            "started": "2026-11-20T14:10:02Z",
            "written": "2026-11-20T14:10:02Z",
            "ended": None,
            "before": 0,
            "after": 1,
        }
    ],
}
_CANCELLED: Final = _OPERATION | {
    "phase": "Cancelled",
    "ended": "2026-11-20T14:10:09Z",
    "steps": [_OPERATION["steps"][0] | {"phase": "Cancelled", "ended": "2026-11-20T14:10:09Z"}],
}
_END_OF_RUN: Final = {
    "changes": [
        {
            "object": "operation 0b6c1f0e-6a0d-4a58-9b1c-2f0d9b1e7c55, scaling up",
            "before": "Running",
            "after": "Cancelled",
        },
        {
            "object": "Deployment/cluster-autoscaler, level 2 of that run",
            "before": "Waiting",
            "after": "Cancelled",
        },
    ]
}
_PLAN: Final[dict[str, Any]] = {
    "namespace": _NAMESPACE,
    "direction": "up",
    "levels": [
        {
            "level": 0,
            "steps": [
                {
                    "resource": _KCM,
                    "action": "Write",
                    "reason": "ScaledUp",
                    "before": 0,
                    "after": 1,
                    "initialDelay": "0s",
                    "etag": '"5f0a3c9be2d14a7788aa"',
                }
            ],
        },
        {
            "level": 1,
            "steps": [
                {
                    "resource": "Deployment/machine-controller-manager",
                    "action": "Skip",
                    "reason": "IgnoreScaling",
                    "before": None,
                    "after": None,
                    "initialDelay": "0s",
                    "etag": '"0d41c7712c90be55e1f3"',
                }
            ],
        },
    ],
    "etag": '"c2b86f0e9d7715a4f0e1"',
    "replaces": None,
}
_WEEDING: Final = {
    "changes": [
        {
            "object": f"recovery of {_NAMESPACE}/kube-apiserver",
            "before": None,
            "after": {"cause": "Asked", "until": "2026-11-20T14:26:30Z", "despite": None},
        }
    ]
}
_RECOVERY: Final[dict[str, Any]] = {
    "id": 12,
    "cause": "BecameReady",
    "phase": "Watching",
    "began": "2026-11-20T14:21:30Z",
    "due": "2026-11-20T14:21:30Z",
    "until": "2026-11-20T14:26:30Z",
    "ended": None,
    "end": None,
    "asked": None,
    "trouble": None,
    "queued": 0,
    "deletions": [
        {
            "pod": "kube-scheduler-5d9f-x2p7v",
            "owner": "ReplicaSet/kube-scheduler-5d9f",
            "time": "2026-11-20T14:21:31Z",
            "result": "deleted",
            "container": "kube-scheduler",
            "sparedBackoff": "4m43s",
        }
    ],
    "spared": [
        {
            "pod": "etcd-main-0",
            "time": "2026-11-20T14:21:31Z",
            "reason": "NotWaiting",
            "message": "none of its 2 containers waits in CrashLoopBackOff",
        }
    ],
}
_ASKED: Final = _RECOVERY | {
    "cause": "Asked",
    "phase": "Opening",
    "asked": {"author": "alice", "reason": "kube-scheduler hangs", "despite": None},
    "deletions": [],
    "spared": [],
}
_WEEDER: Final[dict[str, Any]] = {
    "namespace": _NAMESPACE,
    "service": "kube-apiserver",
    "ready": True,
    "since": "2026-11-20T14:21:30Z",
    "failing": None,
    "recoveries": [_RECOVERY],
}
_NODE: Final[dict[str, Any]] = {
    "name": "ip-10-250-3-17",
    "pool": "worker-a",
    "zone": "eu-central-1a",
    "candidate": True,
    "reason": None,
    "lease": "Expired",
    "renewTime": "2026-11-20T14:01:40Z",
    "ageSeconds": 31.2,
    "clockOffsetSeconds": 0.0,
}

_SCALE: Final = {"level": 0, "initialDelay": "0s", "timeout": "30s"}
_PROBER_FILE: Final[dict[str, Any]] = {
    "kubeConfigSecretName": "gardener-internal-watchdog",
    "internalKubeConfigSecretName": None,
    "externalKubeConfigSecretName": None,
    "internalProbeFailureBackoffDuration": None,
    "probeInterval": "30s",
    "initialDelay": "30s",
    "probeTimeout": "30s",
    "backoffJitterFactor": 0.2,
    "kcmNodeMonitorGraceDuration": "40s",
    "nodeLeaseFailureFraction": 0.6,
    "failureThreshold": 1,
    "successThreshold": 3,
    "suspectProbeInterval": "5s",
    "maxProtectionDuration": None,
    "onScaleDownFailure": "Continue",
    "onScaleUpFailure": "Stop",
    "endpointProbes": [
        {
            "name": "canary",
            "type": "Readiness",
            "effect": "GateScaleDown",
            "httpGet": {
                "scheme": "HTTPS",
                "port": 443,
                "path": "/healthz",
                "httpHeaders": [{"name": "Authorization", "value": "[redacted]"}],
            },
            "tcpSocket": None,
            "grpc": None,
            "exec": None,
            "host": "canary.example.org",
            "podSelector": None,
            "container": None,
            "initialDelaySeconds": 0,
            "periodSeconds": 5,
            "timeoutSeconds": 1,
            "successThreshold": 1,
            "failureThreshold": 2,
        }
    ],
    "dependentResourceInfos": [
        {
            "ref": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "kube-controller-manager",
            },
            "optional": False,
            "scaleUp": _SCALE,
            "scaleDown": _SCALE | {"level": 1},
        }
    ],
}


def _list(item: dict[str, Any], **metadata: object) -> dict[str, Any]:
    return {"items": [item], "metadata": {"total": 1, "continue": None} | metadata}


REQUESTS: Final[dict[str, Any]] = {
    "scaleShoot": {"direction": "up", "reason": "the load balancer is back", "hold": "30m"},
    "setLogLevel": {"level": "debug"},
    "pauseShoot": {"reason": _PAUSE["reason"], "duration": "1h", "scope": "all"},
    "pauseAllShoots": {"reason": "network works", "duration": "2h", "scope": "scaleDown"},
    "ignoreResource": {"reason": "it is being moved by hand"},
    "weedNow": {"reason": "kube-scheduler hangs"},
}
"""A valid body by operation."""

ANSWERS: Final[dict[str, dict[int, Any]]] = {
    "listShoots": {200: _list(_SHOOT, total=112, **{"continue": "WyJzZXZlcml0eSIsMCwiYSJd"})},
    "readShoot": {200: _SHOOT},
    "listNodes": {
        200: _list(_NODE, candidatesAsOf="2026-11-20T14:09:56Z", leasesAsOf="2026-11-20T14:10:01Z")
    },
    "listHistory": {
        200: _list(
            {
                "time": "2026-11-20T14:02:11Z",
                "type": "Scale",
                "verdict": "ScaleDown",
                "reason": "ScaledDown",
                "message": "kube-controller-manager scaled from 1 to 0",
                "resource": _KCM,
            }
        )
    },
    "probeShoot": {202: {"at": "2026-11-20T14:10:02Z"}},
    "scaleShoot": {200: _PLAN, 202: _OPERATION},
    "pauseShoot": {200: _PAUSE},
    "resumeShoot": {200: _END_OF_PAUSE},
    "resumeAllShoots": {200: _END_OF_PAUSE},
    "listPauses": {200: _list(_PAUSE)},
    "listPausesOfAll": {200: _list(_PAUSE_OF_ALL)},
    "endPause": {200: _END_OF_ANOTHER},
    "endPauseOfAll": {200: _END_OF_ANOTHER},
    "endHold": {200: {"changes": []}},
    "pauseAllShoots": {200: _PAUSE_OF_ALL},
    "listResources": {200: _list(_LIVE_RESOURCE)},
    "ignoreResource": {200: _IGNORED},
    "heedResource": {200: _HEEDED},
    "listOperations": {200: _list(_OPERATION)},
    "readOperation": {200: _OPERATION},
    "cancelOperation": {200: _END_OF_RUN, 202: _CANCELLED},
    "listWeeders": {200: _list(_WEEDER)},
    "readWeeder": {200: _WEEDER},
    "weedNow": {200: _WEEDING, 202: _ASKED},
    "readStatus": {
        200: {
            "version": "1.2.3",
            "identity": "dwd-7f9",
            "startedAt": "2026-11-20T09:12:33Z",
            "role": "leader",
            "dryRun": False,
            "leaders": {"prober": {"identity": "dwd-7f9", "address": None}},
            "counts": {"Protected": 1, "Healthy": 111},
            "pause": None,
            "featuresOff": [],
            "missingPermissions": [],
            "configWarnings": [],
            "foundUnconfigured": [],
            "selectorsWithoutPods": [],
        }
    },
    "listAudit": {
        200: _list(
            {
                "time": "2026-11-20T14:10:00Z",
                "firstTime": "2026-11-20T14:10:00Z",
                "times": 1,
                "request": "6a1f0c",
                "method": "PUT",
                "path": f"/api/v1/shoots/{_NAMESPACE}/pause",
                "peer": "10.4.7.21",
                "caller": "system:serviceaccount:garden:dependency-watchdog-operator",
                "claimed": "alice@example.org",
                "action": "pause",
                "namespace": _NAMESPACE,
                "target": None,
                "reason": _PAUSE["reason"],
                "status": 200,
                "problem": None,
                "before": None,
                "after": _PAUSE,
            },
            since="2026-11-20T09:12:33Z",
        )
    },
    "readConfig": {
        200: {
            "logLevel": "info",
            "flags": {"kube-api-qps": 5, "dry-run": False, "config-file": "/etc/dwd/prober.yaml"},
            "prober": _PROBER_FILE,
            "weeder": None,
            "warnings": [{"path": "name", "line": 3, "message": "obsolete; it is not used"}],
        }
    },
    "setLogLevel": {200: {"level": "debug"}},
    "livez": {200: "ok"},
    "readyz": {200: "ok", 503: "[-]clusters-synced failed: not listed yet\nreadyz check failed\n"},
    "healthz": {200: "ok"},
}
"""An answer by operation and status."""
