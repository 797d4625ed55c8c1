"""The way of a process's requests to an API server and back, with every boundary at which a process can die.

The process waits on its own machine, so a process that is paused waits on and one that is destroyed waits no more; the
request itself is the world's business as soon as it is sent.  A server works on a request that its client has given
up, or does not: that is drawn.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from app.core.errors import ClusterError, Unreachable
from app.core.model import workloads as ann
from app.core.model.workloads import Patch, ResourceRef
from app.simulation.shoot import ShootServer
from app.simulation.traffic import ApiServer, SimulatedRequest
from bench.exploration.timeline import Machine

T = TypeVar("T")

_SERVER_LIMIT: Final = 60.0
"""An API server gives up a request after this (`--request-timeout`), in seconds."""
_WORKED_ON: Final = 0.5
"""How often a server works on a request that its client has given up."""


class Boundary(StrEnum):
    """The points on a request's way at which the process that made it can die."""

    ABOUT_TO_SEND = "about to send"
    SENT = "sent"
    CARRIED_OUT = "carried out"
    ANSWERED = "answered"


class Passage(NamedTuple):
    """A request passes a boundary."""

    process: str
    number: int
    """Of the request, among those of its process."""
    boundary: Boundary
    request: SimulatedRequest
    consistent: bool
    outcome: str = ""
    """What it came to, at the last boundary."""


class Sending(NamedTuple):
    """A write that a process is sending now."""

    process: str
    namespace: str
    ref: ResourceRef
    patch: Patch

    @property
    def down(self) -> bool:
        """Whether it scales to 0, or notes that something is going to be."""
        return self.patch.replicas == 0 or ann.MELTDOWN in {
            key for key, value in self.patch.annotations.items() if value is not None
        }

    @property
    def up(self) -> bool:
        """Whether it scales up."""
        return bool(self.patch.replicas)

    @property
    def marks(self) -> bool:
        """Whether it only says whether the dependent is to be ignored: somebody asks for that, of any process."""
        return self.patch.replicas is None and self.patch.annotations.keys() == {ann.IGNORE_SCALING}


class Watcher(Protocol):
    """Hears of every passage, at its instant."""

    def passed(self, passage: Passage) -> None:
        """A request of a process passes a boundary."""
        ...

    def serving(self, process: str | None) -> None:
        """A server begins to work for this process; None: it has ended."""
        ...


class WriteWatcher(Watcher, Protocol):
    """Hears of writes of dependents as well."""

    def sending(self, sending: Sending) -> None:
        """A process sends a write of a dependent."""
        ...


@dataclass(slots=True, eq=False)
class Lines:
    """All requests of one process."""

    process: str
    machine: Machine
    world: Machine
    chance: random.Random
    watcher: Watcher
    _made: int = 0

    async def ask(
        self,
        api: ApiServer,
        request: SimulatedRequest,
        serve: Callable[[], T],
        *,
        consistent: bool,
        limit: float | None,
    ) -> T:
        """The answer of `api`, as `ApiServer.ask` has it."""
        self._made += 1
        parcel = _Parcel(self, self._made, api, request, serve, consistent)
        await self._cross(parcel, Boundary.ABOUT_TO_SEND)
        answer = parcel.send()
        try:
            async with asyncio.timeout(limit):
                found: T = await answer
                return found
        except TimeoutError as error:
            raise Unreachable(f"no answer within {limit:g} s") from error
        finally:
            parcel.give_up()

    async def _cross(self, parcel: "_Parcel", boundary: Boundary) -> None:
        parcel.note(boundary)
        if not self.machine.alive:
            await (
                self.machine.create_future()
            )  # the process has just died: nothing comes after this


@dataclass(slots=True, eq=False)
class _Parcel:
    """One request, from when it is made."""

    lines: Lines
    number: int
    api: ApiServer
    request: SimulatedRequest
    serve: Callable[[], Any]
    consistent: bool
    _answer: asyncio.Future[Any] | None = None
    _task: asyncio.Task[None] | None = None

    def send(self) -> asyncio.Future[Any]:
        self._answer = self.lines.machine.create_future()
        self._task = self.lines.world.create_task(self._travel())
        return self._answer

    def give_up(self) -> None:
        """The client waits no longer; one that has died has sent it all the same."""
        if self._task is None or self._task.done() or not self.lines.machine.alive:
            return
        if self.lines.chance.random() >= _WORKED_ON:
            self._task.cancel()

    def note(self, boundary: Boundary, outcome: str = "") -> None:
        passage = Passage(
            self.lines.process, self.number, boundary, self.request, self.consistent, outcome
        )
        self.lines.watcher.passed(passage)

    async def _travel(self) -> None:
        self.note(Boundary.SENT)
        try:
            answer = await self.api.ask(
                self.request, self._carry_out, consistent=self.consistent, limit=_SERVER_LIMIT
            )
        except ClusterError as error:
            self.note(Boundary.ANSWERED, type(error).__name__)
            self._deliver(partial(_fail, error))
        else:
            self.note(Boundary.ANSWERED, "ok")
            self._deliver(lambda future: future.set_result(answer))

    def _carry_out(self) -> Any:  # noqa: ANN401  whatever it serves
        self.lines.watcher.serving(self.lines.process)
        try:
            answer = self.serve()
        finally:
            self.lines.watcher.serving(None)
        self.note(Boundary.CARRIED_OUT)
        return answer

    def _deliver(self, how: Callable[[asyncio.Future[Any]], None]) -> None:
        def arrive() -> None:
            if self._answer is not None and not self._answer.done():
                how(self._answer)

        self.lines.machine.call_soon(arrive)


def _fail(error: ClusterError, answer: asyncio.Future[Any]) -> None:
    answer.set_exception(error)


class LinedApi:
    """An API server at the end of a process's line; an `ApiServer` for its clients."""

    def __init__(self, lines: Lines, api: ApiServer) -> None:
        self._lines = lines
        self._api = api
        self.requests = api.requests

    async def ask(
        self,
        request: SimulatedRequest,
        serve: Callable[[], T],
        *,
        consistent: bool = True,
        limit: float | None = 10.0,
    ) -> T:
        """Brings `request` to the server, as `ApiServer.ask` does."""
        return await self._lines.ask(self._api, request, serve, consistent=consistent, limit=limit)


class LinedShoot:
    """A shoot at the end of a process's line; a `ShootServer` for its clients."""

    def __init__(self, lines: Lines, server: ShootServer) -> None:
        self._server = server
        self.api = LinedApi(lines, server.api)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the server has
        return getattr(self._server, name)
