"""Examples of bodies and answers in the OpenAPI document, by operation; tests validate them against the schemas.

The values are those that stand at the fields of the schemas; here is what differs from one operation to another.
"""

from typing import Any, Final

from app.api import schemas
from app.api.config_view import Config
from app.api.schemas import ListMetadata, Schema

_NAMESPACE: Final = "shoot--acme--prod"
_PAUSE: Final = schemas.Pause.example()
_OF_KUBECTL: Final = schemas.Pause.example(
    name="night-shift", scope="scaleDown", author="bob", verified=False
)
_LIVE: Final = schemas.LiveResource.example()
_HEEDED: Final = _LIVE | {
    "replicas": {"spec": 1, "ready": 1, "saved": None},
    "protectionActive": False,
    "annotations": {},
}
_IGNORED: Final = _HEEDED | {
    "ignoreScaling": True,
    "annotations": {"dependency-watchdog.gardener.cloud/ignore-scaling": "true"},
}
_OPERATION: Final = schemas.Operation.example()
_ENDED: Final = {"phase": "Cancelled", "ended": "2026-11-20T14:10:09Z"}
_SKIPPED: Final = schemas.PlannedStep.example(
    resource="Deployment/machine-controller-manager",
    action="Skip",
    reason="IgnoreScaling",
    before=None,
    after=None,
    etag='"0d41c7712c90be55e1f3"',
)
_ASKED: Final = schemas.Recovery.example(
    cause="Asked", phase="Opening", asked=schemas.Asked.example(), deletions=[], spared=[]
)


def _change(what: str, before: object, after: object) -> dict[str, Any]:
    return {"object": what, "before": before, "after": after}


def _changes(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"changes": list(changes)}


def _list(item: dict[str, Any], metadata: type[ListMetadata] = ListMetadata) -> dict[str, Any]:
    return {"items": [item], "metadata": metadata.example()}


def _of(schema: type[Schema], status: int = 200) -> dict[int, Any]:
    return {status: schema.example()}


_END_OF_PAUSE: Final = _changes(_change(f"Pause {_NAMESPACE}/api", _PAUSE, None))
_END_OF_ANOTHER: Final = _changes(_change(f"Pause {_NAMESPACE}/night-shift", _OF_KUBECTL, None))
_PAUSE_OF_ALL: Final = _PAUSE | {"covers": "all", "scope": "scaleDown", "reason": "network works"}

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
    "listShoots": {
        200: {
            "items": [schemas.Shoot.example()],
            "metadata": {"total": 112, "continue": "WyJzZXZlcml0eSIsMCwiYSJd"},
        }
    },
    "readShoot": _of(schemas.Shoot),
    "listNodes": {200: _list(schemas.Node.example(), schemas.NodeMetadata)},
    "listHistory": {200: _list(schemas.HistoryEntry.example())},
    "probeShoot": _of(schemas.Look, 202),
    "scaleShoot": {
        200: schemas.Plan.example(
            levels=[
                schemas.PlannedLevel.example(),
                schemas.PlannedLevel.example(level=1, steps=[_SKIPPED]),
            ]
        ),
        202: _OPERATION,
    },
    "pauseShoot": {200: _PAUSE},
    "resumeShoot": {200: _END_OF_PAUSE},
    "resumeAllShoots": {200: _END_OF_PAUSE},
    "listPauses": {200: _list(_PAUSE)},
    "listPausesOfAll": {200: _list(_PAUSE_OF_ALL)},
    "endPause": {200: _END_OF_ANOTHER},
    "endPauseOfAll": {200: _END_OF_ANOTHER},
    "endHold": {200: _changes()},
    "pauseAllShoots": {200: _PAUSE_OF_ALL},
    "listResources": {200: _list(_LIVE)},
    "ignoreResource": {200: _IGNORED},
    "heedResource": {200: _HEEDED},
    "listOperations": {200: _list(_OPERATION)},
    "readOperation": {200: _OPERATION},
    "cancelOperation": {
        200: _changes(
            _change(f"operation {_OPERATION['id']}, scaling up", "Running", "Cancelled"),
            _change("Deployment/cluster-autoscaler, level 2 of that run", "Waiting", "Cancelled"),
        ),
        202: _OPERATION | _ENDED | {"steps": [schemas.OperationStep.example(**_ENDED)]},
    },
    "listWeeders": {200: _list(schemas.Weeder.example())},
    "readWeeder": _of(schemas.Weeder),
    "weedNow": {
        200: _changes(
            _change(
                f"recovery of {_NAMESPACE}/kube-apiserver",
                None,
                {"cause": "Asked", "until": "2026-11-20T14:26:30Z", "despite": None},
            )
        ),
        202: _ASKED,
    },
    "readStatus": _of(schemas.Status),
    "listAudit": {200: _list(schemas.AuditEntry.example(), schemas.AuditMetadata)},
    "readConfig": _of(Config),
    "setLogLevel": _of(schemas.LogLevelNow),
    "livez": {200: "ok"},
    "readyz": {200: "ok", 503: "[-]clusters-synced failed: not listed yet\nreadyz check failed\n"},
    "healthz": {200: "ok"},
}
"""An answer by operation and status."""
