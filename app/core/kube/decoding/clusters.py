"""Decodes Clusters with the embedded Shoot: about 70 kB, of which a few hundred bytes are read."""

from typing import Annotated, Final

import msgspec
from msgspec import Struct

from app.core.errors import trimmed
from app.core.kube.decoding.envelope import FEW, Meta, Raw, identity
from app.core.model.durations import parse_duration
from app.core.model.instants import parse_rfc3339
from app.core.model.shoots import (
    DEFAULT_NODE_CONDITIONS,
    ClusterView,
    LastOperation,
    ShootView,
    Undecodable,
    WorkerPool,
)

# Node conditions of each worker pool, of which there may be a thousand; Gardener's default is five.
_CONDITIONS: Final = msgspec.Meta(max_length=32)


class _Hibernation(Struct):
    enabled: bool | None = None


class _MachineControllerManager(Struct):
    node_conditions: Annotated[list[str], _CONDITIONS] | None = msgspec.field(
        default=None, name="nodeConditions"
    )


class _Worker(Struct):
    name: str
    settings: _MachineControllerManager | None = msgspec.field(
        default=None, name="machineControllerManager"
    )


class _Provider(Struct):
    workers: Annotated[list[_Worker], FEW] | None = None


class _KubeControllerManager(Struct):
    grace: str | None = msgspec.field(default=None, name="nodeMonitorGracePeriod")


class _Kubernetes(Struct):
    kcm: _KubeControllerManager | None = msgspec.field(default=None, name="kubeControllerManager")


class _ShootSpec(Struct):
    hibernation: _Hibernation | None = None
    provider: _Provider | None = None
    kubernetes: _Kubernetes | None = None


class _LastOperation(Struct):
    type: str
    state: str
    last_update: str | None = msgspec.field(default=None, name="lastUpdateTime")


class _ShootStatus(Struct):
    hibernated: bool | None = msgspec.field(default=None, name="isHibernated")
    last_operation: _LastOperation | None = msgspec.field(default=None, name="lastOperation")


class _Deletable(Struct):
    deletion_timestamp: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Shoot(Struct):
    spec: _ShootSpec
    kind: str | None = None
    metadata: _Deletable | None = None
    status: _ShootStatus | None = None


_NULL: Final = msgspec.Raw(b"null")


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
        return ClusterView(meta.name, meta.resource_version or "", problem, deleting)
    return ClusterView(
        name=got.metadata.name,
        resource_version=got.metadata.resource_version or "",
        shoot=_shoot(got.spec.shoot if got.spec else _NULL),
        deleting=bool(got.metadata.deletion_timestamp),
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
    workers = (spec.provider and spec.provider.workers) or ()
    return ShootView(
        deleting=bool(shoot.metadata and shoot.metadata.deletion_timestamp),
        hibernation_enabled=bool(spec.hibernation and spec.hibernation.enabled),
        is_hibernated=bool(status.hibernated),
        last_operation=_last_operation(status.last_operation),
        workers=tuple([_worker(worker) for worker in workers]),
        node_monitor_grace=_grace(spec.kubernetes),
    )


def _last_operation(operation: _LastOperation | None) -> LastOperation | None:
    if operation is None:
        return None
    return LastOperation(operation.type, operation.state, parse_rfc3339(operation.last_update))


def _worker(worker: _Worker) -> WorkerPool:
    conditions = worker.settings and worker.settings.node_conditions
    return WorkerPool(worker.name, frozenset(conditions) if conditions else DEFAULT_NODE_CONDITIONS)


def _grace(kubernetes: _Kubernetes | None) -> float | None:
    text = kubernetes and kubernetes.kcm and kubernetes.kcm.grace
    if not text:
        return None
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError("nodeMonitorGracePeriod is not positive")
    return seconds
