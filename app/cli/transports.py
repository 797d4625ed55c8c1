"""The ways to the API: an address, or `kubectl port-forward`; and from there to the leader or the peer.

A standby names the leader's address and identity, a process with one loop the peer that runs the other. From outside
the cluster neither address is usually reachable; then `--port-forward` goes to the leader's pod or the peer's Service.
A redirection never leads from https to plain http.
"""

import asyncio
import contextlib
import ipaddress
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Final

from app.cli.kubectl import Kubectl, PortForward
from app.cli.problems import (
    LOOP_NOT_HERE,
    NOT_THE_LEADER,
    CommandFailed,
    Exit,
    KnownLeader,
    ProblemBody,
    ServerRefused,
)
from app.core.config.values import NamespacedName, Origin, origin
from app.core.model.names import is_label, is_subdomain

# Addresses that may be followed, and names of pods and Services in them; pure.


# Least labels in the host name of a Service: NAME.NAMESPACE.svc.
_SERVICE_LABELS: Final = 3


def of_leader(asked: Origin, address: str) -> Origin | None:
    """The origin of the leader that a standby names.

    Args:
        asked: The standby's origin; its scheme and port apply where the address has none.
        address: The leader's address: `10.0.0.7`, `10.0.0.7:8080`, `[fd00::1]:8080` or a URL.

    Returns:
        None if it is not an address, or leads from https to plain http.
    """
    if "://" in address:
        return of_peer(asked, address)
    with contextlib.suppress(ValueError):
        address = f"[{ipaddress.IPv6Address(address)}]"
    found = of_peer(asked, f"{asked.scheme}://{address}")
    has_port = ":" in address.rpartition("]")[2]
    return found if found is None or has_port else replace(found, port=asked.port)


def of_peer(asked: Origin, url: str) -> Origin | None:
    """The origin of the peer that a process names; None if it is not a URL, or leads from https to plain http."""
    try:
        found = origin(url)
    except ValueError:
        return None
    return None if asked.scheme == "https" and found.scheme == "http" else found


def exposes(target: Origin) -> bool:
    """Whether a token sent to `target` could be read on the way: plain http to another machine."""
    return target.scheme == "http" and not target.loopback


def pod_of(identity: str | None) -> str | None:
    """The pod in a leader's identity `POD_UUID`; None if the identity has another form."""
    pod, line, _ = (identity or "").rpartition("_")
    return pod if line and is_subdomain(pod) else None


def deployment_of(pod: str) -> str:
    """The Deployment that a pod most likely belongs to, from its name `DEPLOYMENT-REPLICASET-POD`."""
    name = pod.rsplit("-", 2)[0]
    return name if is_label(name) else pod


def service_of(peer: Origin, namespace: str) -> str | None:
    """The Service that a peer's URL names; None if it is not a Service of this namespace."""
    name, *rest = peer.host.split(".")
    inside = len(rest) >= _SERVICE_LABELS - 1 and rest[0] == namespace and rest[1] == "svc"
    return name if inside and is_label(name) else None


FOLLOWED: Final = frozenset({NOT_THE_LEADER, LOOP_NOT_HERE})
"""Types of problems that name another server that can answer."""
_ELSEWHERE: Final = (
    "is a demo running (dwd demo)? --server takes another address; --port-forward NAMESPACE/DEPLOYMENT reaches one "
    "in a cluster"
)
# The namespace in which Gardener deploys the watchdog.
_NAMESPACE: Final = "garden"


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The server that a request is sent to."""

    origin: Origin
    certificate_name: str | None = None
    """The name that the certificate must have; None: the origin's host."""


class Transport(ABC):
    """A way to the API."""

    @abstractmethod
    async def place(self) -> RequestTarget:
        """The target of the next request; raises NoAnswer if it cannot be reached."""

    @abstractmethod
    async def follow(self, refused: ServerRefused) -> None:
        """Direct further requests to the server that a problem names.

        Raises:
            CommandFailed: The problem names none that can be reached from here.
        """

    @abstractmethod
    async def reset(self) -> None:
        """Direct further requests to the first server again, as the one that was followed may be gone; ends kubectl."""

    @abstractmethod
    def remedies(self, problem: ProblemBody) -> list[str]:
        """Notes on how to reach the server that a problem names, where following it does not."""

    def explained(self, refused: ServerRefused, error: CommandFailed) -> CommandFailed:
        """The error to report if the server that `refused` named has failed with `error`."""
        beyond = "" if error is refused else f"; there: {error}"
        notes = dict.fromkeys((*refused.notes, *error.notes, *self.remedies(refused.problem)))
        return CommandFailed(Exit.UNAVAILABLE, f"{refused}{beyond}", notes, passing=True)

    def hints(self) -> tuple[str, ...]:
        """Notes with alternatives if the connection is refused."""
        return ()


class DirectTransport(Transport):
    """Connects to `--server`, and to the addresses that servers name."""

    def __init__(self, asked: Origin) -> None:
        self._asked = self._now = asked

    async def place(self) -> RequestTarget:
        return RequestTarget(self._now)

    async def follow(self, refused: ServerRefused) -> None:
        named = _named(self._now, refused.problem)
        if named is None or named == self._now:
            raise self.explained(refused, refused)
        self._now = named

    def remedies(self, problem: ProblemBody) -> list[str]:
        """The commands that reach the leader's pod from outside the cluster."""
        pod = pod_of((problem.leader or KnownLeader()).identity)
        if problem.type != NOT_THE_LEADER or pod is None:
            return []
        asked, labels = self._asked, self._asked.host.split(".")
        namespace = labels[1] if labels[2:3] == ["svc"] else _NAMESPACE
        leader = _named(asked, problem) or asked
        here = asked.port + 1 if asked.loopback else asked.port
        forward = f"kubectl -n {namespace} port-forward pod/{pod} {here}:{leader.port}"
        return [
            f"from outside the cluster: {forward}, then --server {asked.scheme}://127.0.0.1:{here}",
            f"or let dwd do it: --port-forward {namespace}/{deployment_of(pod)}",
        ]

    def hints(self) -> tuple[str, ...]:
        return (_ELSEWHERE,) if self._now == self._asked else ()

    async def reset(self) -> None:
        self._now = self._asked


def _named(asked: Origin, problem: ProblemBody) -> Origin | None:
    """The origin of the server that a problem names."""
    if problem.type == LOOP_NOT_HERE:
        return of_peer(asked, problem.peer or "")
    address = (problem.leader or KnownLeader()).address
    return None if not address else of_leader(asked, address)


class ForwardedTransport(Transport):
    """Connects to pods and Services through a `kubectl port-forward` that it starts, and restarts when it has ended."""

    def __init__(self, server: Origin, kubectl: Kubectl, deployment: NamespacedName) -> None:
        """`deployment`: the first target; later ones are in the same namespace."""
        self._server, self._kubectl, self._namespace = server, kubectl, deployment.namespace
        self._first = self._target = f"deployment/{deployment.name}"
        self._port = server.port
        self._running: PortForward | None = None
        self._changing = asyncio.Lock()
        """Requests may come side by side (`dwd page`): one of them starts kubectl, the others wait."""

    async def place(self) -> RequestTarget:
        """The local end of the forwarded port; starts kubectl if it does not run."""
        async with self._changing:
            if self._running is None or self._running.ended:
                self._running = await PortForward.start(
                    self._kubectl, self._namespace, self._target, self._port
                )
            here = Origin(self._server.scheme, "127.0.0.1", self._running.port)
        secure = self._server.scheme == "https"
        return RequestTarget(here, self._server.host if secure else None)

    async def follow(self, refused: ServerRefused) -> None:
        """Forward to the leader's pod, or the peer's Service."""
        found = self._meant(refused.problem)
        if found is None or found[0] == self._target:
            raise self.explained(refused, refused)
        await self._lead_to(*found)

    def remedies(self, problem: ProblemBody) -> list[str]:
        there = problem.type == LOOP_NOT_HERE
        return ["give --port-forward with the Deployment of the other loop"] if there else []

    async def reset(self) -> None:
        await self._lead_to(self._first, self._server.port)

    def _meant(self, problem: ProblemBody) -> tuple[str, int] | None:
        """The pod or Service that a problem names, as kubectl's argument, and its port."""
        if problem.type == NOT_THE_LEADER:
            pod = pod_of((problem.leader or KnownLeader()).identity)
            return None if pod is None else (f"pod/{pod}", self._port)
        peer = of_peer(self._server, problem.peer or "")
        service = None if peer is None else service_of(peer, self._namespace)
        return None if service is None or peer is None else (f"service/{service}", peer.port)

    async def _lead_to(self, target: str, port: int) -> None:
        """End kubectl; the next request has it forward to this target."""
        async with self._changing:
            running, self._running = self._running, None
            if running is not None:
                await running.stop()
            self._target, self._port = target, port
