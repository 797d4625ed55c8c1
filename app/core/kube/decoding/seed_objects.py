"""Decodes Secrets, Machines and dependents of a control-plane namespace, `scale` subresources and the ConfigMap."""

import re
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from types import NoneType
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.core.errors import BadAnswer
from app.core.kube.decoding.envelope import Meta, Raw, expect
from app.core.model import workloads as ann
from app.core.model.nodes import MachineView
from app.core.model.overrides import ALL_SHOOTS
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


# The ConfigMap of the overrides.


class _ConfigMapMeta(Struct):
    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")


class _ConfigMap(Struct):
    metadata: _ConfigMapMeta


_decoder: Final = msgspec.json.Decoder(_ConfigMap)


_MOST_DECODED: Final = 5_000
"""Maximum number of keys that are decoded; more than are ever read (`app.core.overrides`)."""
_LARGE: Final = 64 * 1024
"""Bytes of a field from which it is kept as it is: labels of 1.3 MB take 50 ms."""
_FEWEST_QUOTES: Final = 3
"""Quotes that an entry has at least, if those behind a backslash do not count; the last of a text may be one."""
_ENTRY: Final = re.compile(
    rb'\s*"[^"\\]*(?:\\.[^"\\]*)*"\s*:\s*(?:"[^"\\]*(?:\\.[^"\\]*)*"|null)\s*([,}])', re.DOTALL
)
_OF_ALL: Final = re.compile(
    rb'[{,]\s*("%s"\s*:\s*"[^"\\]*(?:\\.[^"\\]*)*")' % ALL_SHOOTS.encode(), re.DOTALL
)
_parts_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def overrides(raw: Raw) -> OverridesDocument:
    """Decodes the ConfigMap; its keys are parsed by `app.core.overrides`.

    Of more than 5,000 keys only the first ones and that of all shoots are decoded: 110,000 would take 100 ms.
    """
    meta = _decoder.decode(raw).metadata
    parts = _parts_decoder.decode(bytes(raw))
    metadata = _parts_decoder.decode(parts.pop("metadata"))
    annotations = msgspec.json.decode(metadata.pop("annotations", b"null"))
    data, left_out = bytes(parts.pop("data", b"null")), 0
    if data.count(b'"') - data.count(b'\\"') > _FEWEST_QUOTES * _MOST_DECODED:
        data, left_out = _first(data)
    whole: dict[str, Any] = {key: _kept(part) for key, part in parts.items()}
    whole["metadata"] = {key: _kept(part) for key, part in metadata.items()}
    if annotations is not None:
        whole["metadata"]["annotations"] = annotations
    texts = _texts(msgspec.json.decode(data))
    return OverridesDocument(meta.uid, meta.resource_version, texts, whole, left_out)


def _kept(part: msgspec.Raw) -> Any:  # noqa: ANN401  JSON data
    """Returns what an update only has to preserve; nobody reads it, so what is large is not decoded."""
    return msgspec.json.decode(part) if len(part) <= _LARGE else msgspec.Raw(bytes(part))


def _first(data: bytes) -> tuple[bytes, int]:
    """Returns the data with the first keys only, and roughly how many were left out; 0 only if none was."""
    entries = list(islice(_ENTRY.finditer(data, 1), _MOST_DECODED))
    if len(entries) < _MOST_DECODED or entries[-1][1] == b"}":
        return data, 0
    last = entries[-1]
    kept, rest = data[: last.start(1)], data[last.start(1) :]
    if of_all := _OF_ALL.search(rest):
        kept += b"," + of_all[1]
    quotes = rest.count(b'"') - rest.count(b'\\"')
    return kept + b"}", max(quotes // 4, 1)


def _texts(data: Any) -> dict[str, str]:  # noqa: ANN401  JSON data
    """Returns the text of each key; there may be thousands, so they are checked together."""
    if data is None:
        return {}
    if not isinstance(data, dict) or not set(map(type, data.values())) <= {str, NoneType}:
        raise BadAnswer("the data of the ConfigMap is not text")
    if None in data.values():
        return {key: text or "" for key, text in data.items()}
    return data
