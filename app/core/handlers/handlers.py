"""The adapter of the handlers: finds a slot for each run, limits its time, and returns its result."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, assert_never

from app.core.clock import Clock
from app.core.fair_queue import RoundRobin
from app.core.handlers.exec import ExecCommands
from app.core.handlers.grpc import check_health
from app.core.handlers.http_get import HttpGets
from app.core.handlers.runs import (
    CannotRun,
    HandlerRun,
    Lookup,
    connect,
    error,
    failure,
    success,
    why,
)
from app.core.model.endpoints import (
    EndpointProbeSpec,
    Exec,
    Grpc,
    HttpGet,
    Ran,
    TargetAddress,
    TcpSocket,
)

if TYPE_CHECKING:
    from app.core.kube.pods import ContainerExec


GATES: Final = 4096
"""Runs of probes that gate a scale-down, at once.

Each worker has one at most, and those of all shoots begin at the same time. None may wait for a slot: a run that waited
and was late counts as an error, and the gate would never close.
"""


class RunSlots(RoundRobin):
    """Limits how many runs go on at once, so that slow runs of one namespace cannot take the slots of the others.

    Some are reserved for namespaces that have none. A free slot goes to the waiting namespace that has the fewest.
    """

    def __init__(self, total: int, spare: int) -> None:
        """Creates free slots.

        Args:
            total: the number of slots.
            spare: how many of them are reserved for a namespace that has none.
        """
        super().__init__()
        self._total, self._spare = total, spare
        self._taken: Counter[str] = Counter()
        self.used = 0
        """How many slots are taken."""

    @asynccontextmanager
    async def place(self, namespace: str) -> AsyncIterator[None]:
        """Waits for a slot, and frees it on exit."""
        if self._free(namespace):
            self.given(namespace)
        else:
            await self.wait(namespace)
        try:
            yield
        finally:
            self.returned(namespace)

    def _free(self, namespace: str) -> bool:
        free = self._total - self.used
        return free > (self._spare if self._taken[namespace] else 0)

    def missing(self) -> float | None:
        # Every run that has to wait asks this: where all slots are taken, the queues need not be looked through.
        full = self.used >= self._total
        return None if full or not any(map(self._free, self._waiting)) else 0.0

    def following(self) -> str:
        return min(filter(self._free, self._waiting), key=lambda each: self._taken[each])

    def given(self, key: str, /) -> None:
        self.used += 1
        self._taken[key] += 1

    def returned(self, key: str, /) -> None:
        self.used -= 1
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]
        self.give()


async def connects(handler: TcpSocket, run: HandlerRun, lookup: Lookup) -> Ran:
    """Runs a tcpSocket probe: it passes if a connection can be made, which is closed at once without a word.

    Raises:
        CannotRun: the port does not exist.
    """
    port = run.port(handler.port)
    try:
        found = await lookup.addresses(run.address.host, run)
        run.fails_if_late("no connection")
        transport, _ = await connect(asyncio.Protocol, found, port, run.probe.timeout)
    except OSError as problem:
        return failure(why(problem))
    transport.close()
    return success("connected")


class NetworkHandlers:
    """Runs endpoint probes over the network (`ports.Handlers`)."""

    def __init__(
        self,
        clock: Clock,
        execs: "ContainerExec | None" = None,
        *,
        runs: int = 160,
        gates: int = GATES,
        commands: int = 20,
    ) -> None:
        """Opens no connection yet; needs a running event loop.

        A quarter of the places of each kind is reserved for namespaces that have none.

        Args:
            clock: times the rate of commands.
            execs: runs commands in containers; None if that is not allowed.
            runs: how many runs go on at once, apart from the following.
            gates: how many of probes that gate a scale-down.
            commands: how many commands in containers.
        """
        self._lookup = Lookup()
        self._http = HttpGets(self._lookup)
        self._commands = None if execs is None else ExecCommands(execs, clock)
        self._runs, self._gates, self._executions = (
            RunSlots(total, total // 4) for total in (runs, gates, commands)
        )

    async def run(self, probe: EndpointProbeSpec, address: TargetAddress) -> Ran:
        """Runs the probe once and returns its result after `timeoutSeconds` at the latest.

        Never raises because of anything that the target does. The wait for a slot is part of the time, so a run that
        had little time left and was late is an error and not a failure.
        """
        run = HandlerRun(probe, address)
        slots = self._gates if probe.gates else self._runs
        if isinstance(probe.handler, Exec):
            slots = self._executions
        try:
            async with asyncio.timeout(probe.timeout), slots.place(address.namespace):
                run.begins()
                return await self._handle(run)
        except CannotRun as problem:
            return error(str(problem))
        except TimeoutError:
            return run.late

    async def close(self) -> None:
        """Closes all connections; no probe may run any more."""
        await self._http.close()

    async def _handle(self, run: HandlerRun) -> Ran:
        match run.probe.handler:
            case HttpGet() as handler:
                return await self._http.run(handler, run)
            case TcpSocket() as handler:
                return await connects(handler, run, self._lookup)
            case Grpc() as handler:
                return await check_health(handler, run, self._lookup)
            case Exec() as handler:
                if self._commands is None:
                    raise CannotRun("commands are not allowed here (--allow-exec)")
                return await self._commands.run(handler, run)
            case _ as never:
                assert_never(never)
