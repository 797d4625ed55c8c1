"""The ways to the API: an address, or `kubectl port-forward`; and from there to the leader or the peer.

A standby names the leader's address and identity, a process with one loop the peer that runs the other. From outside
the cluster neither address is usually reachable; then `--port-forward` goes to the leader's pod or the peer's Service.
A redirection never leads from https to plain http.

kubectl is a child process that does not outlive this one: if this process is killed, the kernel kills the child (on
Linux). Only a process that a wrapper of kubectl has started is left then; a regular `stop` ends that one, too.
"""

import asyncio
import contextlib
import ctypes
import ipaddress
import os
import re
import signal
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from app.cli.problems import (
    LOOP_NOT_HERE,
    NOT_THE_LEADER,
    CommandFailed,
    Exit,
    KnownLeader,
    NoAnswer,
    ProblemBody,
    ServerRefused,
)
from app.core.config.flags import ENV_PREFIX
from app.core.config.values import NamespacedName, Origin, origin
from app.core.errors import trimmed
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


# kubectl port-forward.


# PR_SET_PDEATHSIG of prctl(2).
_SET_DEATH_SIGNAL: Final = 1


def tied_to(parent: int) -> Callable[[], None] | None:
    """Make a `preexec_fn` that has the kernel kill the child when the process `parent` ends in any way.

    Returns:
        None on systems other than Linux, which have no such signal.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before prctl: the signal would never come
            os._exit(1)

    return tie


# Seconds from SIGTERM to SIGKILL.
_PATIENCE: Final = 1.0
# Seconds within which kubectl must listen.
_LISTENING: Final = 20.0
_LAST_LINES: Final = 3
_MAX_LINE: Final = 4096
_FORWARDING: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:([0-9]{1,5}) -> ")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """How to call kubectl."""

    path: str
    deployment: NamespacedName
    """The first target; later targets are in the same namespace."""
    environ: Mapping[str, str]
    kubeconfig: Path | None = None
    context: str | None = None


class PortForward:
    """A running `kubectl port-forward`; create it with `start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._draining: asyncio.Future[None] | None = None
        self.port = 0
        """The local port."""

    @classmethod
    async def start(cls, kubectl: Kubectl, target: str, port: int) -> Self:
        """Start kubectl and wait until it forwards to the port of the target.

        It gets a session of its own, so that Ctrl-C reaches this process alone, which then ends kubectl in order.

        Raises:
            NoAnswer: kubectl cannot be started, ends before it listens, or takes too long.
        """
        chosen = [] if kubectl.kubeconfig is None else [f"--kubeconfig={kubectl.kubeconfig}"]
        chosen += [] if kubectl.context is None else [f"--context={kubectl.context}"]
        try:
            process = await asyncio.create_subprocess_exec(
                kubectl.path,
                "port-forward",
                "--address=127.0.0.1",
                f"--namespace={kubectl.deployment.namespace}",
                *chosen,
                target,
                f":{port}",
                env={k: v for k, v in kubectl.environ.items() if not k.startswith(ENV_PREFIX)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=_MAX_LINE,
                start_new_session=True,
                preexec_fn=tied_to(os.getpid()),
            )
        except OSError as error:
            trouble = f"{kubectl.path} cannot be started: {error.strerror}"
            raise NoAnswer(trouble, sent=False) from error
        found = cls(process)
        try:
            async with asyncio.timeout(_LISTENING):
                found.port = await found._listens(target)
        except BaseException as error:
            await found.stop()
            if isinstance(error, TimeoutError):
                trouble = f"kubectl port-forward to {target} takes too long"
                raise NoAnswer(trouble, sent=False) from error
            raise
        found._drain()
        return found

    async def _listens(self, target: str) -> int:
        """Read kubectl's output until it says on which port it listens."""
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        said: deque[str] = deque(maxlen=_LAST_LINES)
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:  # longer than any line of kubectl's own
                line = b"(a very long line)\n"
            if not line:
                break
            if (found := _FORWARDING.match(line)) is not None:
                return int(found[1])
            said.append(trimmed(line.decode("utf-8", "replace")))
        trouble = "; ".join(said) or "it has ended"
        raise NoAnswer(f"kubectl port-forward to {target} fails: {trouble}", sent=False)

    def _drain(self) -> None:
        """Read on until all who have kubectl's output have ended: it writes a line for each connection."""

        async def read(output: asyncio.StreamReader) -> None:
            while await output.read(_MAX_LINE):
                pass

        if self._draining is None and self._process.stdout is not None:
            self._draining = asyncio.ensure_future(read(self._process.stdout))

    @property
    def ended(self) -> bool:
        """Whether kubectl has ended."""
        return self._process.returncode is not None

    async def stop(self) -> None:
        """End kubectl and its own children, by SIGTERM, and after `_PATIENCE` by SIGKILL.

        The signals go to the whole process group: the kubectl in PATH may be a wrapper that runs the real one.
        """
        self._drain()
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._gone()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._gone()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def _gone(self) -> None:
        """Wait until kubectl has ended, and no process has its output open any more."""
        await self._process.wait()
        if self._draining is not None:
            await asyncio.wait([self._draining])


class ForwardedTransport(Transport):
    """Connects to pods and Services through a `kubectl port-forward` that it starts, and restarts when it has ended."""

    def __init__(self, server: Origin, kubectl: Kubectl) -> None:
        self._server, self._kubectl = server, kubectl
        self._first = self._target = f"deployment/{kubectl.deployment.name}"
        self._port = server.port
        self._running: PortForward | None = None
        self._changing = asyncio.Lock()
        """Requests may come side by side (`dwd page`): one of them starts kubectl, the others wait."""

    async def place(self) -> RequestTarget:
        """The local end of the forwarded port; starts kubectl if it does not run."""
        async with self._changing:
            if self._running is None or self._running.ended:
                self._running = await PortForward.start(self._kubectl, self._target, self._port)
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
        namespace = self._kubectl.deployment.namespace
        service = None if peer is None else service_of(peer, namespace)
        return None if service is None or peer is None else (f"service/{service}", peer.port)

    async def _lead_to(self, target: str, port: int) -> None:
        """End kubectl; the next request has it forward to this target."""
        async with self._changing:
            running, self._running = self._running, None
            if running is not None:
                await running.stop()
            self._target, self._port = target, port
