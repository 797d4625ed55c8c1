"""The OpenAPI document: the framework's draft from the routes, completed with what the framework cannot know.

Added are: which calls need authentication, the problems that each call can answer, examples of requests and answers,
the schemas of events, and public names for enumerations of the loops. Clients are generated from the document, so the
names of calls and schemas are a contract. `docs/openapi.json` is a copy, which a test keeps equal.

The example of an answer is that of its schema, whose values stand at the fields; `ANSWERS` has those that say more.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.alias_generators import to_pascal
from pydantic.json_schema import models_json_schema

from app.api import health, schemas
from app.api.middleware import MAX_BODY, MAX_HEAD
from app.api.problems import MEDIA_TYPE, ProblemType
from app.api.routers.status import Config
from app.api.schemas import ProblemDetails
from app.core.config.yaml_file import purposes_of
from app.core.docstrings import described
from app.core.model.endpoints import EndpointProbeSpec, Exec, Grpc, HttpGet, HttpHeader, TcpSocket
from app.core.model.keys import MatchExpression, PodSelector, Ref
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.weeding import PodSelectors, WeederPolicy

# Problems: one description and one example for each status.


_TOLD: Final = {
    ProblemType.MALFORMED_REQUEST: (
        "The body is not JSON, or the path has an encoded `/` in it.",
        "the body is not JSON, or has the same key twice",
    ),
    ProblemType.UNAUTHENTICATED: ("No token, or one that is not accepted.", "no token was sent"),
    ProblemType.FORBIDDEN: (
        "The caller may not do this, or not from there.",
        "alice may not create scalerequests in shoot--acme--prod",
    ),
    ProblemType.NOT_FOUND: (
        "There is no such resource.",
        "the seed has no Cluster shoot--acme--prod",
    ),
    ProblemType.CONFLICT: ("A rule forbids it in the current state.", "it is hibernated"),
    ProblemType.GONE: (
        "The operation belongs to an earlier leader.",
        "the scaling run began under an earlier leader",
    ),
    ProblemType.PRECONDITION_FAILED: (
        "`If-Match` does not match: the resource has changed.",
        "Deployment/kube-controller-manager has changed",
    ),
    ProblemType.PAYLOAD_TOO_LARGE: ("The body is too large.", f"more than {MAX_BODY} bytes"),
    ProblemType.INVALID_PARAMETER: (
        "A parameter or field is wrong, or unknown; `errors` names each.",
        "limit: Input should be less than or equal to 500",
    ),
    ProblemType.TOO_MANY_REQUESTS: (
        "The caller sends too many requests; `Retry-After` says when to retry.",
        "more requests a second than one caller may send; retry in 1 s",
    ),
    ProblemType.HEADERS_TOO_LARGE: (
        "Target and headers are too large.",
        f"more than {MAX_HEAD} bytes",
    ),
    ProblemType.NOT_THE_LEADER: (
        (
            "Not here or not now; `type` says why: a standby, a loop that runs elsewhere, a dry run, a feature "
            "that is off, a seed that does not answer, or a request budget that is used up."
        ),
        "this instance is on standby; dwd-7f9 leads",
    ),
    ProblemType.INVALID_PAGE_TOKEN: (
        "`continue` does not belong to this list, order and filter.",
        "continue: not readable",
    ),
    ProblemType.BODY_NOT_ALLOWED: ("The call takes no body, but one was sent.", "send no body"),
}
"""What each means, and the detail of its example; other types of the same status look alike."""
_OF_STATUS: Final = {kind.status: kind for kind in reversed(_TOLD)}
SCHEMA: Final = {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}


def _named(kind: ProblemType) -> str:
    """Name of the response among the components of the document."""
    return to_pascal(kind.name.lower())


def _problem(kind: ProblemType) -> dict[str, Any]:
    """The response object of OpenAPI."""
    description, detail = _TOLD[kind]
    example = {"type": kind.urn, "title": kind.title, "status": kind.status, "detail": detail}
    example |= {"instance": "/api/v1/shoots/shoot--acme--prod"}
    content = {MEDIA_TYPE: {"schema": SCHEMA, "example": example}}
    return {"description": description, "content": content}


# Examples by operation: the bodies, and those answers that say more than the example of their schema.

_NAMESPACE: Final = "shoot--acme--prod"
_PAUSE: Final = schemas.Pause.example()
_PAUSE_OF_ALL: Final = _PAUSE | {"covers": "all", "scope": "scaleDown", "reason": "network works"}
_OF_KUBECTL: Final = _PAUSE | {
    "name": "night-shift",
    "scope": "scaleDown",
    "author": "bob",
    "verified": False,
}
_HEEDED: Final = schemas.LiveResource.example() | {
    "replicas": {"spec": 1, "ready": 1, "saved": None},
    "protectionActive": False,
    "annotations": {},
}
_OPERATION: Final = schemas.Operation.example()
_ENDED: Final = {"phase": "Cancelled", "ended": "2026-11-20T14:10:09Z"}


def _changes(*changes: tuple[str, object, object]) -> dict[int, Any]:
    """The answer to `dryRun`: of each change the object, and its state before and after."""
    names = ("object", "before", "after")
    return {200: {"changes": [dict(zip(names, each, strict=True)) for each in changes]}}


_END_OF_PAUSE: Final = _changes((f"Pause {_NAMESPACE}/api", _PAUSE, None))
_END_OF_ANOTHER: Final = _changes((f"Pause {_NAMESPACE}/night-shift", _OF_KUBECTL, None))

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
        200: schemas.ShootList.example()
        | {"metadata": {"total": 112, "continue": "WyJzZXZlcml0eSIsMCwiYSJd"}}
    },
    "scaleShoot": {
        200: schemas.Plan.example(
            levels=[
                schemas.PlannedLevel.example(),
                schemas.PlannedLevel.example(
                    level=1,
                    steps=[
                        schemas.PlannedStep.example(
                            resource="Deployment/machine-controller-manager",
                            action="Skip",
                            reason="IgnoreScaling",
                            before=None,
                            after=None,
                            etag='"0d41c7712c90be55e1f3"',
                        )
                    ],
                ),
            ]
        )
    },
    "resumeShoot": _END_OF_PAUSE,
    "resumeAllShoots": _END_OF_PAUSE,
    "listPausesOfAll": {200: schemas.PauseList.example() | {"items": [_PAUSE_OF_ALL]}},
    "endPause": _END_OF_ANOTHER,
    "endPauseOfAll": _END_OF_ANOTHER,
    "endHold": _changes(),
    "pauseAllShoots": {200: _PAUSE_OF_ALL},
    "ignoreResource": {
        200: _HEEDED
        | {
            "ignoreScaling": True,
            "annotations": {"dependency-watchdog.gardener.cloud/ignore-scaling": "true"},
        }
    },
    "heedResource": {200: _HEEDED},
    "cancelOperation": {
        **_changes(
            (f"operation {_OPERATION['id']}, scaling up", "Running", "Cancelled"),
            ("Deployment/cluster-autoscaler, level 2 of that run", "Waiting", "Cancelled"),
        ),
        202: _OPERATION | _ENDED | {"steps": [schemas.OperationStep.example(**_ENDED)]},
    },
    "weedNow": {
        **_changes(
            (
                f"recovery of {_NAMESPACE}/kube-apiserver",
                None,
                {"cause": "Asked", "until": "2026-11-20T14:26:30Z", "despite": None},
            )
        ),
        202: schemas.Recovery.example(
            cause="Asked", phase="Opening", asked=schemas.Asked.example(), deletions=[], spared=[]
        ),
    },
    "livez": {200: "ok"},
    "readyz": {200: "ok", 503: "[-]clusters-synced failed: not listed yet\nreadyz check failed\n"},
    "healthz": {200: "ok"},
}
"""An answer by operation and status."""


# Descriptions of fields.


# The records of the prober and weeder file, which the API shows as they are.
_OF_FILES: Final = (
    *(ProberPolicy, DependentPolicy, Ref, ScalePolicy),
    *(EndpointProbeSpec, HttpGet, HttpHeader, TcpSocket, Grpc, Exec),
    *(WeederPolicy, PodSelectors, PodSelector, MatchExpression),
)


def build() -> None:
    """Build the validators of all schemas, and read what their fields are for.

    That reads source files: a server does so before its event loop runs.
    """
    _build(schemas.Schema)
    _purposes()


def _build(base: type[schemas.Schema]) -> None:
    for kind in base.__subclasses__():
        described(kind)
        kind.model_rebuild()
        _build(kind)


@cache
def _purposes() -> Mapping[str, Mapping[str, str]]:
    """What the keys of the files are for, by the name of the record."""
    return {record.__name__: purposes_of(record) for record in _OF_FILES}


# The document.


JSON: Final = "application/json"
_BEARER: Final = "bearer"
_SCHEMES: Final = {
    _BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": (
            "A token of `--auth-token-file`, or of a ServiceAccount with audience `dependency-watchdog`, by "
            "`--auth-mode`; with `none` it is ignored."
        ),
    }
}
_TAGS: Final = {
    "status": "This process, and what is wrong with it.",
    "shoots": "What the prober sees of each shoot, and why.",
    "flows": "Scaling: by hand, and every scaling run step by step.",
    "overrides": "What people decided: pauses, holds, ignored resources.",
    "resources": "The dependents of a shoot, live.",
    "weeders": "Services that came back, and the pods deleted then.",
    "events": "What changes, as it changes.",
    "audit": "Who changed what.",
    "config": "What the process runs with.",
    "health": "For the kubelet; open to everybody.",
    "metrics": "For Prometheus.",
}
_REF: Final = "#/components/schemas/{model}"
_RESPONSES: Final = "#/components/responses/"
# Schemas of the framework for its own 422, which is never answered.
_PLACEHOLDERS: Final = ("HTTPValidationError", "ValidationError")
_EVENTS: Final[tuple[type[BaseModel], ...]] = (
    schemas.ShootGone,
    schemas.WeederChange,
    schemas.OverrideChange,
    schemas.AuditChange,
    schemas.Gap,
    schemas.SnapshotEnd,
    schemas.StreamEnd,
)
_SCHEMAS: Final[dict[str, type[schemas.Schema]]] = {
    name: found for name, found in vars(schemas).items() if hasattr(found, "example")
} | {"Config": Config}
# Public names of records and enumerations of the loops, whose own names are too general for the whole document, or
# belong to the program.
_NAMES: Final = {
    "ProberPolicy": "ProberFile",
    "DependentPolicy": "DependentResourceInfo",
    "ScalePolicy": "ScaleInfo",
    "EndpointProbeSpec": "EndpointProbeInfo",
    "HttpGet": "HttpGetAction",
    "TcpSocket": "TcpSocketAction",
    "Grpc": "GrpcAction",
    "Exec": "ExecAction",
    "WeederPolicy": "WeederFile",
    "CachedResult": "ProbeResult",
    "Cause": "RecoveryCause",
    "Effect": "ProbeEffect",
    "End": "RecoveryEnd",
    "KeepReason": "SparedReason",
    "NoticeKind": "HistoryType",
    "Operator": "SelectorOperator",
    "Phase": "RecoveryPhase",
    "ScalingStep": "PlannedAction",
    "Scheme": "HttpScheme",
    "Scope": "PauseScope",
    "Trigger": "OperationTrigger",
    "Waiting": "ProbeWaiting",
}
_WITH_BODY: Final = frozenset({"post", "put"})
# Statuses of the middleware, which every call can have.
_ANYWHERE: Final = frozenset({403, 413, 431})
# Statuses of calls that need authentication.
_IDENTIFIED: Final = frozenset({401, 429, 503})
# Further statuses that only the call itself determines, by operation.
_RULES: Final[Mapping[str, frozenset[int]]] = {
    "probeShoot": frozenset({409}),
    "scaleShoot": frozenset({409, 412}),
    "pauseShoot": frozenset({409}),
    "pauseAllShoots": frozenset({409}),
    "ignoreResource": frozenset({409, 412}),
    "heedResource": frozenset({409, 412}),
    "readOperation": frozenset({410}),
    "cancelOperation": frozenset({409, 410}),
    "weedNow": frozenset({409}),
}


def complete(app: FastAPI) -> None:
    """Have `app.openapi` return the completed document; call it after all routes have been added."""
    draft: Callable[[], dict[str, Any]] = app.openapi

    @cache
    def openapi() -> dict[str, Any]:
        return completed(draft())

    app.openapi = openapi  # type: ignore[method-assign]  # as the framework's manual has it


def completed(draft: Mapping[str, Any]) -> dict[str, Any]:
    """The completed document; `draft`, the framework's, is not changed."""
    found: dict[str, Any] = _renamed(draft)
    shapes = _shapes(draft["components"]["schemas"])
    for each in _PLACEHOLDERS:
        shapes.pop(each, None)
    # No route answers with a problem or with the data of an event, so that the framework does not know their schemas.
    _, others = models_json_schema(
        [(ProblemDetails, "validation"), *((each, "serialization") for each in _EVENTS)],
        by_alias=True,
        ref_template=_REF,
    )
    shapes = _shapes(others["$defs"]) | shapes
    for name, purposes in _purposes().items():
        _describe(shapes[_NAMES.get(name, name)]["properties"], purposes)
    found["components"]["schemas"] = dict(sorted(shapes.items()))
    found["components"]["securitySchemes"] = _SCHEMES
    found["components"]["responses"] = {_named(each): _problem(each) for each in _TOLD}
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            _complete(method, path, operation)
    found["tags"] = [{"name": n, "description": text} for n, text in _TAGS.items()]
    return found


def _shapes(drafted: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas under their public names, also as titles: some generators use one, some the other."""
    found = {_NAMES.get(name, name): _renamed(each) for name, each in drafted.items()}
    return {name: {**each, "title": name} for name, each in found.items()}


def _describe(properties: dict[str, Any], purposes: Mapping[str, str]) -> None:
    """Say of each key what it is for, before what its type says; keys that only a file has are not shown."""
    for key, shown in properties.items():
        said = (purposes[key], shown.get("description"))
        shown["description"] = " ".join(filter(None, said))


def _renamed(part: Any) -> Any:  # noqa: ANN401 - any part of a document
    """A copy of a part of the document with references to schemas renamed."""
    match part:
        case {"$ref": str(ref)}:
            place, _, name = ref.rpartition("/")
            return {**part, "$ref": f"{place}/{_NAMES.get(name, name)}"}
        case Mapping():
            return {key: _renamed(value) for key, value in part.items()}
        case list():
            return [_renamed(each) for each in part]
        case _:
            return part


def _complete(method: str, path: str, operation: dict[str, Any]) -> None:
    name, identified = operation["operationId"], path not in health.PATHS
    # The summary is the first sentence without its full stop; each paragraph of the description is one line.
    paragraphs = [" ".join(each.split()) for each in operation.pop("description").split("\n\n")]
    operation["summary"] = paragraphs[0].partition(". ")[0].removesuffix(".")
    operation["description"] = "\n\n".join(paragraphs)
    parameters = operation.get("parameters", ())
    for each in parameters:
        _complete_parameter(each)
    # Of errors the framework knows only those of health, which are plain text and not problems.
    answers = {
        status: answer
        for status, answer in operation["responses"].items()
        if status < "4" or "text/plain" in answer["content"]
    }
    for status, answer in answers.items():
        _complete_answer(name, status, answer)
    told, found = dict(_OF_STATUS), _ANYWHERE | _RULES.get(name, frozenset())
    if identified:
        found |= _IDENTIFIED
        operation["security"] = [{_BEARER: []}]
    if "{" in path:
        found |= {400, 404}
    if method in _WITH_BODY:
        found |= {400}
    else:
        told[413] = ProblemType.BODY_NOT_ALLOWED
    if path.startswith("/api/"):
        found |= {422}  # an unknown query parameter
    if any(each["name"] == "continue" for each in parameters):
        found |= {400}
        told[400] = ProblemType.INVALID_PAGE_TOKEN
    for status in found - {int(each) for each in answers}:
        answers[str(status)] = {"$ref": _RESPONSES + _named(told[status])}
    operation["responses"] = dict(sorted(answers.items()))
    if name in REQUESTS:
        operation["requestBody"]["content"][JSON]["example"] = REQUESTS[name]


def _complete_parameter(parameter: dict[str, Any]) -> None:
    """Correct the framework's schema: an optional parameter is not nullable, and a header is always a string."""
    schema = parameter["schema"]
    found = [each for each in schema.pop("anyOf", ()) if each.get("type") != "null"]
    if len(found) == 1:
        schema |= found[0]
    elif found:
        schema["anyOf"] = found
    if parameter["in"] == "header":
        parameter["name"] = re.sub("-Id$", "-ID", parameter["name"].title())
        parameter["schema"] = {"type": "string"}


def _complete_answer(name: str, status: str, answer: dict[str, Any]) -> None:
    if answer["description"] == "Successful Response":
        answer["description"] = "Accepted" if status == "202" else "Done"
    for media in answer.get("content", {}).values():
        # Without one of its own it is the example of the schema that the answer refers to; of several the first.
        (first, *_) = media["schema"].get("anyOf", [media["schema"]])
        shape = _SCHEMAS.get(str(first.get("$ref", "")).rpartition("/")[2])
        example = ANSWERS.get(name, {}).get(int(status)) or (shape and shape.example())
        if example is not None:
            media["example"] = example
