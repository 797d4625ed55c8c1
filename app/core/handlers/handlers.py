"""The adapter of the handlers: finds a slot for each run, limits its time, and returns its result."""

import asyncio
from dataclasses import dataclass
from typing import assert_never

from app.core.clock import Clock
from app.core.handlers.exec import ExecCommands
from app.core.handlers.grpc import GrpcChecks
from app.core.handlers.http_get import HttpGets
from app.core.handlers.lookup import THREADS, Lookup
from app.core.handlers.runs import CannotRun, HandlerRun, error
from app.core.handlers.slots import RunSlots
from app.core.handlers.tcp_socket import TcpConnects
from app.core.model.endpoints import (
    EndpointProbeSpec,
    Exec,
    Grpc,
    HttpGet,
    Ran,
    TargetAddress,
    TcpSocket,
)
from app.core.ports import ContainerExec


@dataclass(frozen=True, slots=True)
class HandlerLimits:
    """How many runs go on at once; a quarter of each limit is reserved for namespaces that have none."""

    runs: int = 160
    """All other runs."""
    gates: int = 4096
    """Runs of probes that gate a scale-down.

    Each worker has one at most, and those of all shoots begin at the same time. None may wait for a slot: a run that
    waited and was late counts as an error, and the gate would never close.
    """
    commands: int = 20
    """Commands in containers."""
    lookups: int = THREADS
    """Name lookups."""


class NetworkHandlers:
    """Runs endpoint probes over the network (`ports.Handlers`)."""

    def __init__(
        self, clock: Clock, execs: ContainerExec | None = None, limits: HandlerLimits | None = None
    ) -> None:
        """Opens no connection yet; needs a running event loop.

        Args:
            clock: times the rate of commands.
            execs: runs commands in containers; None if that is not allowed.
            limits: how many runs go on at once.
        """
        limits = limits or HandlerLimits()
        lookup = Lookup(limits.lookups)
        self._http = HttpGets(lookup)
        self._tcp = TcpConnects(lookup)
        self._grpc = GrpcChecks(lookup)
        self._commands = None if execs is None else ExecCommands(execs, clock)
        self._runs = _places(limits.runs)
        self._gates = _places(limits.gates)
        self._executions = _places(limits.commands)

    async def run(self, probe: EndpointProbeSpec, address: TargetAddress) -> Ran:
        """Runs the probe once and returns its result after `timeoutSeconds` at the latest.

        Never raises because of anything that the target does. The wait for a slot is part of the time, so a run that
        had little time left and was late is an error and not a failure.
        """
        run = HandlerRun(probe, address)
        try:
            async with (
                asyncio.timeout(probe.timeout),
                self._places_of(probe).place(address.namespace),
            ):
                run.begins()
                return await self._handle(run)
        except CannotRun as problem:
            return error(str(problem))
        except TimeoutError:
            return run.late

    async def close(self) -> None:
        """Closes all connections; no probe may run any more."""
        await self._http.close()

    def _places_of(self, probe: EndpointProbeSpec) -> RunSlots:
        if isinstance(probe.handler, Exec):
            return self._executions
        return self._gates if probe.gates else self._runs

    async def _handle(self, run: HandlerRun) -> Ran:
        match run.probe.handler:
            case HttpGet() as handler:
                return await self._http.run(handler, run)
            case TcpSocket() as handler:
                return await self._tcp.run(handler, run)
            case Grpc() as handler:
                return await self._grpc.run(handler, run)
            case Exec() as handler:
                if self._commands is None:
                    raise CannotRun("commands are not allowed here (--allow-exec)")
                return await self._commands.run(handler, run)
            case _ as never:
                assert_never(never)


def _places(total: int) -> RunSlots:
    return RunSlots(total, total // 4)
