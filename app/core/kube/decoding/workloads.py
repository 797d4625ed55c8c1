"""Decodes Secrets, Machines and dependents of a control-plane namespace, `scale` subresources and the ConfigMap."""

import sys
from collections.abc import Callable
from functools import partial
from types import NoneType
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.core.errors import BadAnswer
from app.core.kube.decoding.envelope import ListMeta, Meta, Raw, RawPage, expect, page
from app.core.model import workloads as ann
from app.core.model.nodes import MachineView
from app.core.model.shoots import Route, SecretView
from app.core.model.workloads import ResourceRef, ScaleView, WorkloadView
from app.core.ports import OverridesDocument


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


class _MachineList(Struct):
    kind: str | None = None
    metadata: ListMeta | None = None
    items: list[_Machine] | None = None


_machines_decoder: Final = msgspec.json.Decoder(_MachineList)
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
    return _machine(_machine_decoder.decode(raw))


def machines(raw: Raw) -> RawPage[MachineView]:
    """Decodes one page of a MachineList."""
    got = _machines_decoder.decode(raw)
    items = tuple([_machine(item) for item in got.items or ()])
    return page("MachineList", got.kind, got.metadata, items)


def _machine(got: _Machine) -> MachineView:
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


class _OtherSpec(Struct):
    """The `spec` of any other kind, where `replicas` may be anything."""

    replicas: Any = None


class _OtherStatus(Struct):
    ready: Any = msgspec.field(default=None, name="readyReplicas")
    replicas: Any = None
    observed: Any = msgspec.field(default=None, name="observedGeneration")


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


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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


# The ConfigMap of the overrides.


class _ConfigMapMeta(Struct):
    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")


class _ConfigMap(Struct):
    metadata: _ConfigMapMeta


_decoder: Final = msgspec.json.Decoder(_ConfigMap)


def overrides(raw: Raw) -> OverridesDocument:
    """Decodes the ConfigMap; its keys are parsed by `app.core.overrides`."""
    meta, whole = _decoder.decode(raw).metadata, msgspec.json.decode(raw)
    return OverridesDocument(meta.uid, meta.resource_version, _texts(whole.get("data")), whole)


def _texts(data: Any) -> dict[str, str]:  # noqa: ANN401  JSON data
    """Returns the text of each key; there may be 200,000, so they are checked together."""
    if data is None:
        return {}
    if not isinstance(data, dict) or not set(map(type, data.values())) <= {str, NoneType}:
        raise BadAnswer("the data of the ConfigMap is not text")
    if None in data.values():
        return {key: text or "" for key, text in data.items()}
    return data
