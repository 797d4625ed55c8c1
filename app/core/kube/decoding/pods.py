"""Decodes pods for the weeder (owner, waiting containers), and answers to deletions."""

import sys
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from app.core.errors import BadAnswer, trimmed
from app.core.kube.decoding.envelope import FEW, Raw
from app.core.model.instants import parse_rfc3339
from app.core.model.pods import ContainerView, OwnerView, PodView

_READY: Final = "Ready"
# Maximum characters of a name, as in Kubernetes. Nobody limits the text of an owner reference or a status: without
# this, anyone who can write pods could put a megabyte of it into each Event, API answer and remembered deletion.
_LONGEST: Final = 253


class _Owner(Struct):
    api_version: str | None = msgspec.field(default=None, name="apiVersion")
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class _Meta(Struct):
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")
    labels: Annotated[dict[str, str | None], FEW] | None = None
    owners: Annotated[list[_Owner], FEW] | None = msgspec.field(
        default=None, name="ownerReferences"
    )
    deletion_timestamp: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Waiting(Struct):
    reason: str | None = None


class _State(Struct):
    waiting: _Waiting | None = None


class _Terminated(Struct):
    finished_at: str | None = msgspec.field(default=None, name="finishedAt")


class _LastState(Struct):
    terminated: _Terminated | None = None


class _Container(Struct):
    name: str | None = None
    state: _State | None = None
    last_state: _LastState | None = msgspec.field(default=None, name="lastState")
    restarts: int | None = msgspec.field(default=None, name="restartCount")


class _PodCondition(Struct):
    type: str | None = None
    status: str | None = None
    since: str | None = msgspec.field(default=None, name="lastTransitionTime")


class _Status(Struct):
    conditions: Annotated[list[_PodCondition], FEW] | None = None
    inits: Annotated[list[_Container], FEW] | None = msgspec.field(
        default=None, name="initContainerStatuses"
    )
    containers: Annotated[list[_Container], FEW] | None = msgspec.field(
        default=None, name="containerStatuses"
    )


class _Pod(Struct):
    metadata: _Meta
    status: _Status | None = None


class _PodAnswer(Struct):
    kind: str | None = None


_pod_decoder: Final = msgspec.json.Decoder(_Pod)
_answer_decoder: Final = msgspec.json.Decoder(_PodAnswer)


def pod(raw: Raw) -> PodView:
    """Decodes a Pod."""
    got = _pod_decoder.decode(raw)
    meta, status = got.metadata, got.status or _Status()
    return PodView(
        namespace=meta.namespace or "",
        name=meta.name,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        labels={key: sys.intern(value or "") for key, value in (meta.labels or {}).items()},
        owner=_owner(meta.owners or ()),
        terminating=bool(meta.deletion_timestamp),
        containers=(
            *[_container(each, init=True) for each in status.inits or ()],
            *[_container(each, init=False) for each in status.containers or ()],
        ),
        ready_since=_ready_since(status.conditions or ()),
    )


def _owner(owners: Iterable[_Owner]) -> OwnerView | None:
    """Returns the controlling owner; other owners would not recreate the pod."""
    for each in owners:
        if each.controller:
            return OwnerView(
                _line(each.api_version), _line(each.kind), _line(each.name), _line(each.uid)
            )
    return None


def _line(text: str | None) -> str:
    """Cuts the text to the length of a name and removes control characters."""
    return trimmed(text or "", _LONGEST)


def _container(container: _Container, *, init: bool) -> ContainerView:
    waiting = (container.state or _State()).waiting
    ended = container.last_state and container.last_state.terminated
    return ContainerView(
        name=_line(container.name),
        waiting=None if waiting is None else sys.intern((waiting.reason or "")[:_LONGEST]),
        restarts=container.restarts,
        last_exit=parse_rfc3339(ended.finished_at) if ended else None,
        init=init,
    )


def _ready_since(conditions: Iterable[_PodCondition]) -> float | None:
    for each in conditions:
        if each.type == _READY and each.status == "True":
            return parse_rfc3339(each.since)
    return None


def accepted(raw: Raw) -> None:
    """Checks the answer to a deletion: the terminating Pod, or a Status.

    Raises:
        BadAnswer: it is neither, so it is unknown who answered.
    """
    if _answer_decoder.decode(raw).kind not in ("Pod", "Status"):
        raise BadAnswer("the answer is neither a Pod nor a Status")
