"""Pods and the endpoints of services, as far as the weeder reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

CRASH_LOOP: Final = "CrashLoopBackOff"
"""Why a container waits that the kubelet will start again when its back-off is over."""


class OwnerView(NamedTuple):
    """The controller that an object belongs to: its owner reference with `controller: true`."""

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
    """`state.waiting.reason`; None where it does not wait, empty where it waits for no reason that is told."""
    restarts: int | None = None
    """`restartCount`; None where it is not told."""
    last_exit: float | None = None
    """`lastState.terminated.finishedAt`, an instant; None where it is not told."""
    init: bool = False

    @property
    def crash_loops(self) -> bool:
        """Whether it waits for its back-off to end."""
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
    """None of a bare pod."""
    terminating: bool = False
    """Whether it has a deletionTimestamp."""
    containers: tuple[ContainerView, ...] = ()
    """Init containers too."""
    ready_since: float | None = None
    """`lastTransitionTime` of the condition Ready where its status is True: an instant, in whole seconds."""


class SliceEndpoint(NamedTuple):
    """One endpoint of a slice."""

    ready: bool
    """`conditions.ready`; one that is not told counts as true."""
    pod: str | None = None
    """The name of the pod behind it (`targetRef`)."""


@dataclass(frozen=True, slots=True)
class SliceView:
    """An EndpointSlice."""

    namespace: str
    name: str
    service: str
    """Label `kubernetes.io/service-name`; empty where there is none: it belongs to no service then."""
    resource_version: str
    endpoints: tuple[SliceEndpoint, ...] = ()
