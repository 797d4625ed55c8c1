"""Decodes Secrets, Machines and dependents of a control-plane namespace and `scale` subresources."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.core.kube.decoding.envelope import Meta, Raw, expect
from app.core.model import workloads as ann
from app.core.model.nodes import MachineView
from app.core.model.shoots import Route, SecretView
from app.core.model.workloads import ResourceRef, ScaleView, WorkloadView


class _SecretData(Struct):
    kubeconfig: bytes | None = None


class _Secret(Struct):
    metadata: Meta
    data: _SecretData | None = None


class _MachineLabels(Struct):
    node: str | None = None


class _MachineMeta(Struct):
    name: str
    labels: _MachineLabels | None = None


class _CurrentStatus(Struct):
    phase: str | None = None


class _MachineStatus(Struct):
    current: _CurrentStatus | None = msgspec.field(default=None, name="currentStatus")


class _Machine(Struct):
    metadata: _MachineMeta
    status: _MachineStatus | None = None


_secret_decoder: Final = msgspec.json.Decoder(_Secret)
_machine_decoder: Final = msgspec.json.Decoder(_Machine)


def secret(raw: Raw, route: Route = Route.INTERNAL) -> SecretView:
    """Decodes the kubeconfig Secret of this route."""
    got = _secret_decoder.decode(raw)
    meta = got.metadata
    return SecretView(
        namespace=meta.namespace or "",
        resource_version=meta.resource_version or "",
        kubeconfig=got.data.kubeconfig if got.data else None,
        route=route,
    )


def secret_of(route: Route) -> Callable[[Raw], SecretView]:
    """Returns the decoder of kubeconfig Secrets of this route."""
    return partial(secret, route=route)


def machine(raw: Raw) -> MachineView:
    """Decodes a Machine."""
    got = _machine_decoder.decode(raw)
    labels, status = got.metadata.labels, got.status
    phase = (status and status.current and status.current.phase) or ""
    return MachineView(got.metadata.name, (labels and labels.node) or None, sys.intern(phase))


class _OurAnnotations(Struct):
    replicas: str | UnsetType | None = msgspec.field(default=UNSET, name=ann.REPLICAS)
    meltdown: str | UnsetType | None = msgspec.field(default=UNSET, name=ann.MELTDOWN)
    since: str | UnsetType | None = msgspec.field(default=UNSET, name=ann.SINCE)
    ignore: str | UnsetType | None = msgspec.field(default=UNSET, name=ann.IGNORE_SCALING)

    def mapping(self) -> dict[str, str]:
        found = {
            ann.REPLICAS: self.replicas,
            ann.MELTDOWN: self.meltdown,
            ann.SINCE: self.since,
            ann.IGNORE_SCALING: self.ignore,
        }
        return {key: value or "" for key, value in found.items() if value is not UNSET}


class _WorkloadMeta(Struct):
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")
    generation: int | None = None
    annotations: _OurAnnotations | None = None


class _WorkloadSpec(Struct):
    replicas: int | None = None


class _WorkloadStatus(Struct):
    ready: int | None = msgspec.field(default=None, name="readyReplicas")
    replicas: int | None = None
    observed: int | None = msgspec.field(default=None, name="observedGeneration")


class _Workload(Struct):
    metadata: _WorkloadMeta
    kind: str | None = None
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


_NOTHING: Final = msgspec.Raw(b"null")
_LONGEST_COUNT: Final = 20
"""Maximum bytes of a number that may be a count."""


class _OtherSpec(Struct):
    """The `spec` of any other kind, where `replicas` may be anything: it is decoded only if it is short."""

    replicas: msgspec.Raw = _NOTHING


class _OtherStatus(Struct):
    ready: msgspec.Raw = msgspec.field(default=_NOTHING, name="readyReplicas")
    replicas: msgspec.Raw = _NOTHING
    observed: msgspec.Raw = msgspec.field(default=_NOTHING, name="observedGeneration")


class _Other(Struct):
    metadata: _WorkloadMeta
    kind: str | None = None
    spec: _OtherSpec | None = None
    status: _OtherStatus | None = None


class _Scale(Struct):
    metadata: Meta
    kind: str | None = None
    spec: _WorkloadSpec | None = None
    status: _WorkloadSpec | None = None


_workload_decoder: Final = msgspec.json.Decoder(_Workload)
_other_decoder: Final = msgspec.json.Decoder(_Other)
_count_decoder: Final = msgspec.json.Decoder(int)
_scale_decoder: Final = msgspec.json.Decoder(_Scale)


def workload(ref: ResourceRef) -> Callable[[Raw], WorkloadView]:
    """Returns the decoder of a dependent of the kind of `ref`."""
    return lambda raw: _known(ref, raw) if ref.has_replicas else _other(ref, raw)


def _known(ref: ResourceRef, raw: Raw) -> WorkloadView:
    got = _workload_decoder.decode(raw)
    expect(ref.kind, got.kind or ref.kind)  # the items of a list have no kind
    spec, status = got.spec or _WorkloadSpec(), got.status or _WorkloadStatus()
    return _view(
        ref,
        got.metadata,
        replicas=1 if spec.replicas is None else spec.replicas,  # as Kubernetes defaults it
        ready=status.ready or 0,  # Go leaves a zero out
        current=status.replicas or 0,
        observed=status.observed or 0,
    )


def _other(ref: ResourceRef, raw: Raw) -> WorkloadView:
    got = _other_decoder.decode(raw)
    expect(ref.kind, got.kind or ref.kind)
    spec, status = got.spec or _OtherSpec(), got.status or _OtherStatus()
    return _view(
        ref,
        got.metadata,
        replicas=_count(spec.replicas),
        ready=_count(status.ready),
        current=_count(status.replicas),
        observed=_count(status.observed),
    )


def _count(raw: msgspec.Raw) -> int | None:
    """Returns the count; None if it is something else."""
    if len(raw) > _LONGEST_COUNT:
        return None
    try:
        return _count_decoder.decode(raw)
    except msgspec.MsgspecError:
        return None


def _view(
    ref: ResourceRef,
    meta: _WorkloadMeta,
    *,
    replicas: int | None,
    ready: int | None,
    current: int | None,
    observed: int | None,
) -> WorkloadView:
    return WorkloadView(
        ref=ref,
        namespace=meta.namespace or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        replicas=replicas,
        annotations=meta.annotations.mapping() if meta.annotations else {},
        ready=ready,
        current=current,
        generation=meta.generation or 0,
        observed_generation=observed,
    )


def scale(raw: Raw) -> ScaleView:
    """Decodes a `scale` subresource; Go omits `spec.replicas: 0`."""
    got = _scale_decoder.decode(raw)
    expect("Scale", got.kind)
    return ScaleView(
        resource_version=got.metadata.resource_version or "",
        replicas=(got.spec and got.spec.replicas) or 0,
        current=(got.status.replicas or 0) if got.status else None,
    )
