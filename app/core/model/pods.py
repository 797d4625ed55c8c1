"""Pods and EndpointSlices, reduced to the fields that the weeder reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

CRASH_LOOP: Final = "CrashLoopBackOff"
"""The waiting reason of a container that the kubelet restarts when its back-off is over."""


class OwnerView(NamedTuple):
    """The controller of an object: its owner reference with `controller: true`."""

    api_version: str
    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class ContainerView(NamedTuple):
    """The status of a container or init container."""

    name: str
    waiting: str | None = None
    """`state.waiting.reason`; None if the container is not waiting, empty if it waits without a reason."""
    restarts: int | None = None
    """`restartCount`; None if missing."""
    last_exit: float | None = None
    """`lastState.terminated.finishedAt`, as an instant; None if missing."""
    init: bool = False

    @property
    def crash_loops(self) -> bool:
        """Whether the container waits in CrashLoopBackOff."""
        return self.waiting == CRASH_LOOP


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: OwnerView | None = None
    """None for a bare pod."""
    terminating: bool = False
    """Whether it has a deletionTimestamp."""
    containers: tuple[ContainerView, ...] = ()
    """Regular and init containers."""
    ready_since: float | None = None
    """`lastTransitionTime` of the condition Ready, an instant in whole seconds; None unless its status is True."""


class SliceEndpoint(NamedTuple):
    """One endpoint of an EndpointSlice."""

    ready: bool
    """`conditions.ready`; a missing value counts as true, as the API defines it."""
    pod: str | None = None
    """The name of the pod behind the endpoint (`targetRef`)."""


@dataclass(frozen=True, slots=True)
class SliceView:
    """An EndpointSlice."""

    namespace: str
    name: str
    service: str
    """Label `kubernetes.io/service-name`; empty if missing, in which case the slice belongs to no service."""
    resource_version: str
    endpoints: tuple[SliceEndpoint, ...] = ()
