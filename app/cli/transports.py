"""How the API is reached: at an address, or through `kubectl port-forward`; and on from there to whom it names."""

import ipaddress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from app.cli.portforward import Kubectl, PortForward
from app.cli.problems import (
    LOOP_NOT_HERE,
    NOT_THE_LEADER,
    CommandFailed,
    Exit,
    KnownLeader,
    ProblemBody,
    ServerRefused,
)
from app.core.config.clientvalues import Origin, origin
from app.core.config.scalars import is_label, is_subdomain
from app.core.tasks import Tasks

# Which address may be followed, where a token may be sent, and which pod a leader is; pure.


_SERVICE_LABELS: Final = 3
"""NAME.NAMESPACE.svc, at least."""


def of_leader(asked: Origin, address: str) -> Origin | None:
    """Where the leader is that a standby names: the scheme that was asked, and its port unless another one is named.

    Args:
        asked: the server that named it.
        address: what it named: `10.0.0.7`, `10.0.0.7:8080`, `[fd00::1]:8080` or an URL.

    Returns:
        None where that is no address, or one that is plain http while the server was asked through TLS.
    """
    text = address if "://" in address else f"{asked.scheme}://{_bracketed(address)}"
    try:
        found = origin(text)
    except ValueError:
        return None
    if found.scheme != asked.scheme and found.scheme == "http":
        return None
    named = "://" in address or ":" in text.partition("://")[2].rpartition("]")[2]
    return found if named else Origin(found.scheme, found.host, asked.port)


def _bracketed(address: str) -> str:
    try:
        return f"[{ipaddress.IPv6Address(address)}]"
    except ValueError:
        return address


def of_peer(asked: Origin, url: str) -> Origin | None:
    """Where the process of the other loop is; None where that cannot be said, or would be a step down from TLS."""
    try:
        found = origin(url)
    except ValueError:
        return None
    return None if asked.scheme == "https" and found.scheme == "http" else found


def exposes(target: Origin) -> bool:
    """Whether a token that is sent there can be read on the way."""
    return target.scheme == "http" and not target.loopback


def pod_of(identity: str | None) -> str | None:
    """The pod of a leader, whose identity is `POD_UUID`; None where it is not of that form."""
    pod, line, _ = (identity or "").rpartition("_")
    return pod if line and is_subdomain(pod) else None


def deployment_of(pod: str) -> str:
    """The name of the Deployment that a pod most likely belongs to: `NAME-REPLICASET-POD` without the last two."""
    name = pod.rsplit("-", 2)[0]
    return name if is_label(name) else pod


def service_of(peer: Origin, namespace: str) -> str | None:
    """The Service that a peer's URL names, where it is one of this namespace."""
    name, *rest = peer.host.split(".")
    inside = len(rest) >= _SERVICE_LABELS - 1 and rest[0] == namespace and rest[1] == "svc"
    return name if inside and is_label(name) else None


FOLLOWED: Final = frozenset({NOT_THE_LEADER, LOOP_NOT_HERE})
"""Problems that name somebody else who can answer."""
_ELSEWHERE: Final = (
    "is a demo running (dwd demo)? --server has another address; --port-forward NAMESPACE/DEPLOYMENT reaches one in a "
    "cluster"
)
_NAMESPACE: Final = "garden"
"""Where Gardener deploys the watchdog."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Where a request is sent."""

    origin: Origin
    certificate_name: str | None = None
    """Whose certificate it must be, where that is not the origin's host."""


class Transport(Protocol):
    """The way to the API."""

    async def place(self) -> RequestTarget:
        """Where the next request goes; raises NoAnswer where there is no way."""
        ...

    async def follow(self, refused: ServerRefused) -> None:
        """Goes on to whom this problem names.

        Raises:
            CommandFailed: it names nobody that can be reached from here.
        """
        ...

    def explained(self, refused: ServerRefused, error: CommandFailed) -> CommandFailed:
        """What to say where the one that was named does not answer."""
        ...

    def hints(self) -> tuple[str, ...]:
        """What to try where nobody takes a connection."""
        ...

    async def reset(self) -> None:
        """Begins anew with the next request: whom we were sent to may be gone."""
        ...

    async def close(self) -> None:
        """Ends what was begun."""
        ...


class DirectTransport:
    """Addresses, as they are named."""

    def __init__(self, asked: Origin) -> None:
        self._asked = self._now = asked

    async def place(self) -> RequestTarget:
        """The last one that was named."""
        return RequestTarget(self._now)

    async def follow(self, refused: ServerRefused) -> None:
        """Goes on to the address of the leader, or the URL of the peer."""
        named = _named(self._now, refused.problem)
        if named is None or named == self._now:
            raise self.explained(refused, refused)
        self._now = named

    def explained(self, refused: ServerRefused, error: CommandFailed) -> CommandFailed:
        """Names the kubectl command that leads there."""
        beyond = "" if error is refused else f"; there: {error}"
        notes = (*refused.notes, *error.notes) if error is not refused else refused.notes
        return CommandFailed(
            Exit.UNAVAILABLE,
            f"{refused}{beyond}",
            [*dict.fromkeys(notes), *_by_hand(self._asked, refused.problem)],
            passing=True,
        )

    def hints(self) -> tuple[str, ...]:
        """Other ways, where it is the operator who named this one."""
        return (_ELSEWHERE,) if self._now == self._asked else ()

    async def reset(self) -> None:
        """Back to `--server`."""
        self._now = self._asked

    async def close(self) -> None:
        """Nothing was begun."""


class ForwardedTransport:
    """Pods, through `kubectl port-forward`."""

    def __init__(self, server: Origin, kubectl: Kubectl, tasks: Tasks) -> None:
        self._server, self._kubectl, self._tasks = server, kubectl, tasks
        self._first = self._target = f"deployment/{kubectl.deployment.name}"
        self._port = kubectl.port
        self._running: PortForward | None = None

    async def place(self) -> RequestTarget:
        """This machine's end of the forwarded port; begins to forward where that has not begun, or has ended."""
        if self._running is None or self._running.ended:
            kubectl = replace(self._kubectl, port=self._port)
            self._running = await PortForward.start(kubectl, self._target, self._tasks)
        here = Origin(self._server.scheme, "127.0.0.1", self._running.port)
        secure = self._server.scheme == "https"
        return RequestTarget(here, self._server.host if secure else None)

    async def follow(self, refused: ServerRefused) -> None:
        """Goes on to the pod of the leader, or the Service of the peer."""
        found = self._meant(refused.problem)
        if found is None or found[0] == self._target:
            raise self.explained(refused, refused)
        await self._stop()
        self._target, self._port = found

    def explained(self, refused: ServerRefused, error: CommandFailed) -> CommandFailed:
        """Says what is not reached."""
        beyond = "" if error is refused else f"; there: {error}"
        notes = list(dict.fromkeys((*refused.notes, *error.notes)))
        if refused.problem.type == LOOP_NOT_HERE:
            notes.append("give --port-forward with the Deployment of the other loop")
        return CommandFailed(Exit.UNAVAILABLE, f"{refused}{beyond}", notes, passing=True)

    def hints(self) -> tuple[str, ...]:
        """None: kubectl says what is wrong."""
        return ()

    async def reset(self) -> None:
        """Back to the Deployment."""
        await self._stop()
        self._target, self._port = self._first, self._kubectl.port

    async def close(self) -> None:
        """Ends kubectl."""
        await self._stop()

    def _meant(self, problem: ProblemBody) -> tuple[str, int] | None:
        """The pod or Service that is named, and its port."""
        if problem.type == NOT_THE_LEADER:
            pod = pod_of((problem.leader or KnownLeader()).identity)
            return None if pod is None else (f"pod/{pod}", self._port)
        peer = of_peer(self._server, problem.peer or "")
        namespace = self._kubectl.deployment.namespace
        service = None if peer is None else service_of(peer, namespace)
        return None if service is None or peer is None else (f"service/{service}", peer.port)

    async def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.stop()


def _named(asked: Origin, problem: ProblemBody) -> Origin | None:
    """Where the one is that this problem names."""
    if problem.type == LOOP_NOT_HERE:
        return of_peer(asked, problem.peer or "")
    address = (problem.leader or KnownLeader()).address
    return None if not address else of_leader(asked, address)


def _by_hand(asked: Origin, problem: ProblemBody) -> list[str]:
    """The command that leads to the leader's pod from outside the cluster."""
    pod = pod_of((problem.leader or KnownLeader()).identity)
    if problem.type != NOT_THE_LEADER or pod is None:
        return []
    labels = asked.host.split(".")
    namespace = labels[1] if labels[2:3] == ["svc"] else _NAMESPACE
    leader = _named(asked, problem) or asked
    here = asked.port + 1 if asked.loopback else asked.port
    forward = f"kubectl -n {namespace} port-forward pod/{pod} {here}:{leader.port}"
    return [
        f"from outside the cluster: {forward}, then --server {asked.scheme}://127.0.0.1:{here}",
        f"or have it done: --port-forward {namespace}/{deployment_of(pod)}",
    ]
