"""Decodes pods and EndpointSlices: for the weeder, and for endpoint probes.

A seed has thousands of each for the life of the process, so no more is kept than its reader needs, and values that many
have in common are stored once.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from app.core.errors import BadAnswer, trimmed
from app.core.kube.decoding.envelope import FEW, Few, Meta, Raw
from app.core.model.endpoints import ProbedContainer, ProbedPod
from app.core.model.instants import parse_duration, parse_rfc3339
from app.core.model.names import is_subdomain
from app.core.model.weeding import (
    CRASH_LOOP,
    ContainerView,
    OwnerView,
    PodView,
    SliceEndpoint,
    SliceView,
)

# Pods as the weeder reads them (owner, waiting containers), and answers to deletions.


_READY: Final = "Ready"
# Maximum characters of a name, as in Kubernetes. Nobody limits the text of an owner reference or a status: without
# this, anyone who can write pods could put a megabyte of it into each Event, API answer and remembered deletion.
_LONGEST: Final = 253
# The whole back-off in the words of the kubelet (`doBackOff` of pkg/kubelet/kuberuntime), the same since 1.5 but for
# the first letter.
_BACK_OFF: Final = re.compile("[Bb]ack-off ([0-9a-zµ.]{2,24}) restarting failed container")


class _Owner(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class _PodMeta(Meta, rename="camel"):
    labels: msgspec.Raw = msgspec.Raw(b"null")
    owner_references: Few[_Owner] | None = None


class _Stay(Struct, rename="camel"):
    """How a container is in one of its states."""

    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class _State(Struct):
    waiting: _Stay | None = None
    running: _Stay | None = None
    terminated: _Stay | None = None


class _ContainerStatus(Struct, rename="camel"):
    name: str | None = None
    id: str | None = msgspec.field(default=None, name="containerID")
    state: _State | None = None
    last_state: _State | None = None
    restart_count: int | None = None


class _PodCondition(Struct, rename="camel"):
    type: str | None = None
    status: str | None = None
    last_transition_time: str | None = None


class _PodStatus(Struct, rename="camel"):
    phase: str | None = None
    ip: str | None = msgspec.field(default=None, name="podIP")
    conditions: Few[_PodCondition] | None = None
    init_container_statuses: Few[_ContainerStatus] | None = None
    container_statuses: Few[_ContainerStatus] | None = None


class _Pod(Struct):
    metadata: _PodMeta
    status: _PodStatus | None = None


class _PodAnswer(Struct):
    kind: str | None = None


# Maximum bytes of the labels of a pod, above all real ones. Nobody else limits them: 1.3 MB take 60 ms to decode.
_MOST_LABELS: Final = 64 * 1024
_labels_decoder: Final = msgspec.json.Decoder(Annotated[dict[str, str | None], FEW] | None)
_pod_decoder: Final = msgspec.json.Decoder(_Pod)
_answer_decoder: Final = msgspec.json.Decoder(_PodAnswer)


def pod(raw: Raw) -> PodView:
    """Decodes a Pod."""
    got = _pod_decoder.decode(raw)
    meta, status = got.metadata, got.status or _PodStatus()
    if len(meta.labels) > _MOST_LABELS:
        raise BadAnswer(f"a pod with {len(meta.labels)} bytes of labels")
    labels = _labels_decoder.decode(meta.labels) or {}
    ready = (c for c in status.conditions or () if c.type == _READY and c.status == "True")
    since = next(ready, None)
    return PodView(
        namespace=meta.namespace or "",
        name=meta.name,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        labels={key: sys.intern(value or "") for key, value in labels.items()},
        owner=_owner(meta.owner_references or ()),
        terminating=bool(meta.deletion_timestamp),
        containers=(
            *[_container(each, init=True) for each in status.init_container_statuses or ()],
            *[_container(each, init=False) for each in status.container_statuses or ()],
        ),
        ready_since=None if since is None else parse_rfc3339(since.last_transition_time),
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


def _container(container: _ContainerStatus, *, init: bool) -> ContainerView:
    waiting = (container.state or _State()).waiting
    ended = container.last_state and container.last_state.terminated
    reason = None if waiting is None else sys.intern((waiting.reason or "")[:_LONGEST])
    return ContainerView(
        name=_line(container.name),
        waiting=reason,
        restarts=container.restart_count,
        last_exit=parse_rfc3339(ended.finished_at) if ended else None,
        init=init,
        backoff=_back_off(waiting.message) if waiting and reason == CRASH_LOOP else None,
    )


def _back_off(message: str | None) -> float | None:
    """Returns the whole back-off that the kubelet tells of, in seconds; None if it tells of none."""
    if (told := _BACK_OFF.match(message or "")) is None:
        return None
    try:
        return parse_duration(told[1])
    except ValueError:
        return None


def accepted(raw: Raw) -> None:
    """Checks the answer to a deletion: the terminating Pod, or a Status.

    Raises:
        BadAnswer: it is neither, so it is unknown who answered.
    """
    if _answer_decoder.decode(raw).kind not in ("Pod", "Status"):
        raise BadAnswer("the answer is neither a Pod nor a Status")


# EndpointSlices: which endpoints of a service are ready, and the pods behind them.


SERVICE_LABEL: Final = "kubernetes.io/service-name"
_POD: Final = "Pod"


class _Labels(Struct):
    service: str | None = msgspec.field(default=None, name=SERVICE_LABEL)


class _SliceMeta(Meta):
    labels: _Labels | None = None


class _Conditions(Struct):
    ready: bool | None = None


class _Target(Struct):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class _Endpoint(Struct, rename="camel"):
    conditions: _Conditions | None = None
    target_ref: _Target | None = None


class _Slice(Struct):
    metadata: _SliceMeta
    endpoints: Few[_Endpoint] | None = None


_slice_decoder: Final = msgspec.json.Decoder(_Slice)


def endpoint_slice(raw: Raw) -> SliceView:
    """Decodes an EndpointSlice; without the label its service is ''."""
    got = _slice_decoder.decode(raw)
    meta = got.metadata
    namespace = sys.intern(meta.namespace or "")
    endpoints = tuple(
        [
            SliceEndpoint(
                (each.conditions or _Conditions()).ready is not False,
                _pod_behind(each.target_ref, namespace),
            )
            for each in got.endpoints or ()
        ]
    )
    return SliceView(
        namespace=namespace,
        name=meta.name,
        service=sys.intern((meta.labels and meta.labels.service) or ""),
        resource_version=meta.resource_version or "",
        endpoints=endpoints,
    )


def _pod_behind(target: _Target | None, namespace: str) -> str | None:
    """Returns the pod behind an endpoint; None if that is something else, or in another namespace.

    No API server validates a `targetRef`: a name such as `../secrets/x` would send our request for the pod to another
    path.
    """
    if target is None or target.kind != _POD or (target.namespace or namespace) != namespace:
        return None
    return sys.intern(target.name) if target.name and is_subdomain(target.name) else None


# Pods as endpoint probes read them: the addresses of their containers, and which incarnation of a container it is.
# Labels are not kept: the API server evaluates the selector.


_PHASES: Final = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_HIGHEST_PORT: Final = 65535


class _ProbedPort(Struct, rename="camel"):
    name: str | None = None
    container_port: int | None = None


class _ProbedContainer(Struct):
    name: str | None = None
    ports: Few[_ProbedPort] | None = None


class _ProbedSpec(Struct):
    containers: Few[_ProbedContainer] | None = None


class _ProbedPod(Struct):
    metadata: Meta
    spec: _ProbedSpec | None = None
    status: _PodStatus | None = None


_probed_decoder: Final = msgspec.json.Decoder(_ProbedPod)


def probed_pod(raw: Raw) -> ProbedPod:
    """Decodes a Pod; its containers are those of `spec.containers`, and one without a status is not created yet."""
    got = _probed_decoder.decode(raw)
    meta, spec, status = got.metadata, got.spec or _ProbedSpec(), got.status or _PodStatus()
    told = {each.name: each for each in status.container_statuses or ()}
    return ProbedPod(
        namespace=sys.intern(meta.namespace or ""),
        name=meta.name,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        ip=_line(status.ip),
        phase=sys.intern(status.phase) if status.phase in _PHASES else "",
        deleting=bool(meta.deletion_timestamp),
        containers=tuple(
            _probed_container(each, told.get(each.name))
            for each in spec.containers or ()
            if each.name
        ),
    )


def _probed_container(
    container: _ProbedContainer, status: _ContainerStatus | None
) -> ProbedContainer:
    told = status or _ContainerStatus()
    running = (told.state or _State()).running
    ports = [
        (_line(each.name), each.container_port or 0)
        for each in container.ports or ()
        if each.name and 0 < (each.container_port or 0) <= _HIGHEST_PORT
    ]
    return ProbedContainer(
        name=sys.intern(_line(container.name)),
        id=_line(told.id),
        running=running is not None,
        started_at=None if running is None else parse_rfc3339(running.started_at),
        ports=_shared_ports(tuple(ports)),
    )


@lru_cache(maxsize=1024)
def _shared_ports(ports: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """Returns one shared mapping for all containers with these ports; of equal names the first counts.

    That is how the kubelet resolves a name.
    """
    return MappingProxyType(dict(reversed(ports)))
