"""The doors of the endpoint probes: who runs them, and which pods there are."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from app.core.model.endpoints import Address, EndpointProbe, Outcome, ProbedPod, Ran
from app.core.model.selectors import LabelSelector
from app.core.ports import WatchState


class Handlers(Protocol):
    """Runs a probe once."""

    async def run(self, probe: EndpointProbe, address: Address) -> Ran:
        """What one run brings, after `timeoutSeconds` at the latest; never raises for what a target may do."""
        ...


class ProbedPods(Protocol):
    """The pods that the configured selectors match, of the namespaces whose shoots are probed."""

    def follow(self, namespace: str) -> None:
        """The shoot of this namespace is probed: its pods are wanted from now on."""
        ...

    def leave(self, namespace: str) -> None:
        """It is not any more: its pods are dropped."""
        ...

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        """The pods of a namespace that match this selector, which is one of the configured ones, as last seen."""
        ...

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        """How far the watch of this selector can be trusted; synced: the pods of this namespace were listed."""
        ...

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """`listener` is called with the namespace, in the event loop, after each change of its pods."""
        ...


class Frame(NamedTuple):
    """One message of an exec stream."""

    channel: int
    """1 stdout, 2 stderr, 3 the status: a `Status` object as JSON."""
    data: bytes


class ContainerExec(Protocol):
    """Runs commands in containers, through the seed's API server."""

    def open(
        self, namespace: str, pod: str, container: str, command: tuple[str, ...]
    ) -> AbstractAsyncContextManager[AsyncIterator[Frame]]:
        """Starts `command`, without a shell; its output comes as frames; leaving ends the connection.

        Raises:
            ClusterError: the API server does not run it, or the stream broke.
        """
        ...


class EndpointMeter(Protocol):
    """Counts the runs of endpoint probes: called after each, hundreds of times a second, so it has to be cheap."""

    def ran(self, namespace: str, name: str, outcome: Outcome, seconds: float) -> None:
        """One run of the probe `name` ended like this, after so long; an error is three of them where it stays one."""
        ...


class Unmetered:
    """Counts nothing; an `EndpointMeter`."""

    def ran(self, namespace: str, name: str, outcome: Outcome, seconds: float) -> None:
        """Nobody wants to know."""
