"""Decodes what is in the seed: Clusters, Secrets, Machines, dependents and their `scale` subresources.

A Cluster has the Shoot embedded: about 70 kB, of which a few hundred bytes are read.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.core.errors import trimmed
from app.core.kube.decoding.envelope import Few, Meta, Raw, expect, identity
from app.core.model import workloads as ann
from app.core.model.instants import parse_duration, parse_rfc3339
from app.core.model.shoots import (
    DEFAULT_NODE_CONDITIONS,
    ClusterView,
    LastOperation,
    MachineView,
    Route,
    SecretView,
    ShootView,
    Undecodable,
    WorkerPool,
)
from app.core.model.workloads import ResourceRef, ScaleView, WorkloadView


class _SecretData(Struct):
    kubeconfig: bytes | None = None


class _Secret(Struct):
    metadata: Meta
    data: _SecretData | None = None


class _MachineLabels(Struct):
    node: str | None = None


class _MachineMeta(Meta):
    labels: _MachineLabels | None = None


class _CurrentStatus(Struct):
    phase: str | None = None


class _MachineStatus(Struct, rename="camel"):
    current_status: _CurrentStatus | None = None


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
    phase = (status and status.current_status and status.current_status.phase) or ""
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


class _WorkloadMeta(Meta):
    generation: int | None = None
    annotations: _OurAnnotations | None = None


_NULL: Final = msgspec.Raw(b"null")
_LONGEST_COUNT: Final = 20
"""Maximum bytes of a number that may be a count."""


class _WorkloadSpec(Struct):
    """In other kinds than those of `apps/v1` a count may be anything: it is decoded only if it is short."""

    replicas: msgspec.Raw = _NULL


class _WorkloadStatus(Struct, rename="camel"):
    ready_replicas: msgspec.Raw = _NULL
    replicas: msgspec.Raw = _NULL
    observed_generation: msgspec.Raw = _NULL


class _Workload(Struct):
    metadata: _WorkloadMeta
    kind: str | None = None
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


class _ScaleCount(Struct):
    replicas: int | None = None


class _Scale(Struct):
    metadata: Meta
    kind: str | None = None
    spec: _ScaleCount | None = None
    status: _ScaleCount | None = None


_workload_decoder: Final = msgspec.json.Decoder(_Workload)
_count_decoder: Final = msgspec.json.Decoder(int | None)
_scale_decoder: Final = msgspec.json.Decoder(_Scale)


def workload(ref: ResourceRef) -> Callable[[Raw], WorkloadView]:
    """Returns the decoder of a dependent of the kind of `ref`."""
    # What Kubernetes defaults and what Go leaves out; another kind need not have these counts at all.
    one, zero = (1, 0) if ref.has_replicas else (None, None)

    def read(raw: Raw) -> WorkloadView:
        got = _workload_decoder.decode(raw)
        expect(ref.kind, got.kind or ref.kind)  # the items of a list have no kind
        meta, spec = got.metadata, got.spec or _WorkloadSpec()
        status = got.status or _WorkloadStatus()
        return WorkloadView(
            ref=ref,
            namespace=meta.namespace or "",
            uid=meta.uid or "",
            resource_version=meta.resource_version or "",
            replicas=_count("spec.replicas", spec.replicas, one),
            annotations=meta.annotations.mapping() if meta.annotations else {},
            ready=_count("status.readyReplicas", status.ready_replicas, zero),
            current=_count("status.replicas", status.replicas, zero),
            generation=meta.generation or 0,
            observed_generation=_count(
                "status.observedGeneration", status.observed_generation, zero
            ),
        )

    return read


def _count(path: str, raw: msgspec.Raw, absent: int | None) -> int | None:
    """Returns the count, or `absent` if there is none; with None for that, None if it is something else, too."""
    if absent is None and len(raw) > _LONGEST_COUNT:
        return None
    try:
        found = _count_decoder.decode(raw)
    except msgspec.MsgspecError as error:
        if absent is None:
            return None
        raise msgspec.ValidationError(f"{error} - at `$.{path}`") from error
    return absent if found is None else found


def scale(raw: Raw) -> ScaleView:
    """Decodes a `scale` subresource; Go omits `spec.replicas: 0`."""
    got = _scale_decoder.decode(raw)
    expect("Scale", got.kind)
    return ScaleView(
        resource_version=got.metadata.resource_version or "",
        replicas=(got.spec and got.spec.replicas) or 0,
        current=(got.status.replicas or 0) if got.status else None,
    )


# Node conditions of each worker pool, of which there may be a thousand; Gardener's default is five.
_CONDITIONS: Final = msgspec.Meta(max_length=32)


class _Hibernation(Struct):
    enabled: bool | None = None


class _MachineControllerManager(Struct, rename="camel"):
    node_conditions: Annotated[list[str], _CONDITIONS] | None = None


class _Worker(Struct, rename="camel"):
    name: str
    machine_controller_manager: _MachineControllerManager | None = None
    control_plane: msgspec.Raw = _NULL


class _Provider(Struct):
    workers: Few[_Worker] | None = None


class _KubeControllerManager(Struct, rename="camel"):
    node_monitor_grace_period: str | None = None


class _Kubernetes(Struct, rename="camel"):
    kube_controller_manager: _KubeControllerManager | None = None


class _ShootSpec(Struct):
    hibernation: _Hibernation | None = None
    provider: _Provider | None = None
    kubernetes: _Kubernetes | None = None


class _LastOperation(Struct, rename="camel"):
    type: str
    state: str
    last_update_time: str | None = None


class _ShootStatus(Struct, rename="camel"):
    hibernated: bool | None = None
    # Its name in Gardener's Go code, and in what was written about it: taken as well, as it only keeps us back.
    is_hibernated: bool | None = None
    last_operation: _LastOperation | None = None


class _Deletable(Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Shoot(Struct):
    spec: _ShootSpec
    kind: str | None = None
    metadata: _Deletable | None = None
    status: _ShootStatus | None = None


class _ClusterSpec(Struct):
    shoot: msgspec.Raw = _NULL


class _Cluster(Struct):
    metadata: Meta
    spec: _ClusterSpec | None = None


_cluster_decoder: Final = msgspec.json.Decoder(_Cluster)
_shoot_decoder: Final = msgspec.json.Decoder(_Shoot)


def cluster(raw: Raw) -> ClusterView:
    """Decodes a Cluster; if the Shoot in it cannot be decoded it becomes `Undecodable`, with the reason."""
    try:
        got = _cluster_decoder.decode(raw)
    except msgspec.ValidationError as error:
        meta = identity(raw)
        problem = Undecodable(trimmed(f"the Cluster: {error}"))
        deleting = bool(meta.deletion_timestamp)
        version, uid = meta.resource_version or "", meta.uid or ""
        return ClusterView(meta.name, version, problem, deleting, uid)
    return ClusterView(
        name=got.metadata.name,
        resource_version=got.metadata.resource_version or "",
        shoot=_shoot(got.spec.shoot if got.spec else _NULL),
        deleting=bool(got.metadata.deletion_timestamp),
        uid=got.metadata.uid or "",
    )


def _shoot(raw: msgspec.Raw) -> ShootView | Undecodable:
    if raw == _NULL:
        return Undecodable("spec.shoot is missing")
    try:
        got = _shoot_decoder.decode(raw)
        if got.kind not in (None, "", "Shoot"):
            return Undecodable("spec.shoot is not a Shoot")
        return _shoot_view(got)
    except (msgspec.MsgspecError, ValueError) as error:
        return Undecodable(trimmed(f"spec.shoot: {error}"))


def _shoot_view(shoot: _Shoot) -> ShootView:
    spec, status = shoot.spec, shoot.status or _ShootStatus()
    last = status.last_operation
    workers = (spec.provider and spec.provider.workers) or ()
    return ShootView(
        deleting=bool(shoot.metadata and shoot.metadata.deletion_timestamp),
        hibernation_enabled=bool(spec.hibernation and spec.hibernation.enabled),
        is_hibernated=bool(status.hibernated or status.is_hibernated),
        last_operation=None
        if last is None
        else LastOperation(last.type, last.state, parse_rfc3339(last.last_update_time)),
        workers=tuple(map(_worker_pool, workers)),
        self_hosted=any(each.control_plane != _NULL for each in workers),
        node_monitor_grace=_grace(spec.kubernetes),
    )


def _worker_pool(worker: _Worker) -> WorkerPool:
    """Decodes a pool; one without conditions of its own has those of machine-controller-manager."""
    settings = worker.machine_controller_manager
    conditions = None if settings is None else settings.node_conditions
    return WorkerPool(worker.name, frozenset(conditions or ()) or DEFAULT_NODE_CONDITIONS)


def _grace(kubernetes: _Kubernetes | None) -> float | None:
    manager = kubernetes and kubernetes.kube_controller_manager
    text = manager and manager.node_monitor_grace_period
    if not text:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ValueError(f"nodeMonitorGracePeriod: {error}") from error
    if seconds <= 0:
        raise ValueError("nodeMonitorGracePeriod is not positive")
    return seconds
