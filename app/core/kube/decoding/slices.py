"""Decodes EndpointSlices: which endpoints of a service are ready, and the pods behind them.

A seed has thousands of them, and most services look alike in every control plane, so equal values are stored once.
"""

import sys
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from app.core.config.scalars import is_subdomain
from app.core.kube.decoding.envelope import FEW, Raw
from app.core.model.pods import SliceEndpoint, SliceView

SERVICE_LABEL: Final = "kubernetes.io/service-name"
_POD: Final = "Pod"
# How many different tuples of endpoints are remembered for sharing.
_SHARED: Final = 1024


class _Labels(Struct):
    service: str | None = msgspec.field(default=None, name=SERVICE_LABEL)


class _SliceMeta(Struct):
    name: str
    namespace: str | None = None
    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")
    labels: _Labels | None = None


class _Conditions(Struct):
    ready: bool | None = None


class _Target(Struct):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class _Endpoint(Struct):
    conditions: _Conditions | None = None
    target: _Target | None = msgspec.field(default=None, name="targetRef")


class _Slice(Struct):
    metadata: _SliceMeta
    endpoints: Annotated[list[_Endpoint], FEW] | None = None


_decoder: Final = msgspec.json.Decoder(_Slice)


def endpoint_slice(raw: Raw) -> SliceView:
    """Decodes an EndpointSlice; without the label its service is ''."""
    got = _decoder.decode(raw)
    meta = got.metadata
    namespace = sys.intern(meta.namespace or "")
    endpoints = tuple([_endpoint(each, namespace) for each in got.endpoints or ()])
    return SliceView(
        namespace=namespace,
        name=meta.name,
        service=sys.intern((meta.labels and meta.labels.service) or ""),
        resource_version=meta.resource_version or "",
        endpoints=_shared(endpoints),
    )


def _endpoint(endpoint: _Endpoint, namespace: str) -> SliceEndpoint:
    conditions = endpoint.conditions or _Conditions()
    return SliceEndpoint(conditions.ready is not False, _pod(endpoint.target, namespace))


def _pod(target: _Target | None, namespace: str) -> str | None:
    """Returns the pod behind an endpoint; None if that is something else, or in another namespace.

    No API server validates a `targetRef`: a name such as `../secrets/x` would send our request for the pod to another
    path.
    """
    if target is None or target.kind != _POD or (target.namespace or namespace) != namespace:
        return None
    return sys.intern(target.name) if target.name and is_subdomain(target.name) else None


@lru_cache(_SHARED)
def _shared(endpoints: tuple[SliceEndpoint, ...]) -> tuple[SliceEndpoint, ...]:
    """Returns one shared tuple for all equal ones."""
    return endpoints
