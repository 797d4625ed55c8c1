"""The weeder's doors to the seed: services and pods.

`core/kube` opens them on a real seed, `core/simulation` on a simulated one.
Every method may raise a `ClusterError`; nothing else crosses these doors.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from app.core.model.pods import PodView, SliceView
from app.core.model.selectors import LabelSelector
from app.core.model.weeding import ServiceKey
from app.core.ports import Starting, WatchState

Admission = Callable[[], Awaitable[None]]
"""Waited for before each request: the weeder's budgets are its own, and fair between namespaces."""


@dataclass(frozen=True, slots=True)
class Relisted:
    """The slices were listed anew, after a time in which changes may have been missed."""

    since: float | None
    """Until when nothing was missed: the last that was heard of the server before."""
    changed: tuple[ServiceKey, ...]
    """Services of which a slice is not what it was."""


class ServiceListener(Protocol):
    """Hears of services; called in the event loop, in the order of what happened."""

    def service_changed(self, key: ServiceKey) -> None:
        """A slice of this service has changed; called for each event of the watch, before the next is taken up."""
        ...

    def services_relisted(self, relisted: Relisted) -> None:
        """All slices are now as listed; called once for the list, after the first one too."""
        ...


class PodWatch(Protocol):
    """The pods of one namespace, for as long as `run` runs."""

    @property
    def synced(self) -> bool:
        """Whether they have been listed."""
        ...

    @property
    def trouble(self) -> str | None:
        """What it suffers from; None while all is well."""
        ...

    def pods(self) -> Mapping[str, PodView]:
        """The pods by name, as they were last seen."""
        ...

    async def run(self) -> None:
        """Lists once, then watches, until it is cancelled; survives everything that a watch dies of.

        Raises:
            Forbidden: the right to list or to watch pods is missing, and that was no passing refusal.
        """
        ...


class WeederSeed(Protocol):
    """The services and pods of the seed."""

    def subscribe(self, listener: ServiceListener) -> None:
        """`listener` hears of what happens to services from now on."""
        ...

    def watch_state(self) -> WatchState:
        """How far the watch of the slices can be trusted."""
        ...

    # From the watch: no request.

    def services(self) -> Collection[ServiceKey]:
        """The configured services that have slices."""
        ...

    def slices(self, key: ServiceKey) -> tuple[SliceView, ...]:
        """The slices of a service; empty where it has none."""
        ...

    # Live.

    def watch_pods(
        self,
        namespace: str,
        selector: LabelSelector | None,
        changed: Callable[[str], None],
        admitted: Admission,
    ) -> PodWatch:
        """The pods of a namespace that match `selector` (None: all), which nobody asks for before it is run.

        Args:
            namespace: the control-plane namespace.
            selector: what the server is to select.
            changed: called with the name of each pod that changed, in the event loop; of the first list, with each.
            admitted: waited for before each request.
        """
        ...

    async def read_pod(self, namespace: str, name: str) -> PodView | None:
        """A pod, live; None where there is none."""
        ...

    async def any_pod(self, selector: LabelSelector) -> bool:
        """Whether a pod in any namespace matches, by one request for one pod."""
        ...

    async def delete_pod(
        self, namespace: str, name: str, *, uid: str, resource_version: str, starting: Starting
    ) -> None:
        """Deletes a pod if it is still the one that was judged; `starting` is called right before it is sent.

        Raises:
            NotFound: there is none of this name.
            Conflict: it is another one, or has changed.
            Unreachable: no answer in 5 s; it may have been deleted.
        """
        ...


class Pauses(Protocol):
    """What people paused."""

    @property
    def synced(self) -> bool:
        """Whether it is known what is paused: nothing is deleted before."""
        ...

    def paused(self, namespace: str) -> str | None:
        """Why nothing may be deleted in this namespace now; None where that is allowed."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change."""
        ...


class NoPauses:
    """Nothing is ever paused: for a process without overrides (`Pauses`)."""

    synced = True

    def paused(self, namespace: str) -> str | None:  # noqa: ARG002 - the port's signature
        """Never."""
        return None

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Nothing ever changes, so `listener` is never called."""
