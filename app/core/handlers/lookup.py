"""Names become addresses, as the system's resolver has it, in threads of their own.

A name whose servers are silent holds its thread for many seconds.  Those threads are not the event loop's few, which
find the API servers of shoots; and one name holds one thread, however many probes ask for it.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections import deque
from contextvars import ContextVar
from typing import Final, NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult

from app.core.handlers.running import Run

THREADS: Final = 16
"""Names that are looked up at once."""
RUNNING: Final[ContextVar[Run]] = ContextVar("run")
"""The run for which aiohttp asks: it has no way to hand it on."""


class NoAddress(OSError):
    """The resolver has no address for the name."""


class Found(NamedTuple):
    """One address."""

    ip: str
    v6: bool


class _Asking:
    """A name that somebody waits for."""

    def __init__(self, done: asyncio.Future[tuple[Found, ...]]) -> None:
        self.done = done
        self.waiting = 0
        self.begun = False


class Lookup:
    """Asks the system's resolver; keeps nothing."""

    def __init__(self, threads: int = THREADS) -> None:
        """Starts nothing.

        Args:
            threads: how many names are looked up at once.
        """
        self._free = threads
        self._asking: dict[str, _Asking] = {}
        self._queue: deque[str] = deque()

    async def addresses(self, host: str, run: Run) -> tuple[Found, ...]:
        """The addresses of `host`, which may be one itself.

        Raises:
            NoAddress: there is none.
        """
        if (literal := literal_of(host)) is not None:
            return (literal,)
        asking = self._join(host)
        asking.waiting += 1
        try:
            found = await asyncio.shield(asking.done)
        except asyncio.CancelledError:
            if asking.begun:
                run.fails_if_late("the name was not resolved")
            else:
                run.errs_if_late("too many names are looked up; this one was not begun")
            raise
        finally:
            asking.waiting -= 1
            self._drop_if_unwanted(host, asking)
        if not found:
            raise NoAddress
        return found

    def _join(self, host: str) -> _Asking:
        if host not in self._asking:
            self._asking[host] = _Asking(asyncio.get_running_loop().create_future())
            self._queue.append(host)
            self._begin()
        return self._asking[host]

    def _drop_if_unwanted(self, host: str, asking: _Asking) -> None:
        if not asking.waiting and not asking.begun:
            del self._asking[host]
            self._queue.remove(host)

    def _begin(self) -> None:
        while self._free and self._queue:
            host = self._queue.popleft()
            self._free -= 1
            self._asking[host].begun = True
            self._start(host)

    def _start(self, host: str) -> None:
        loop = asyncio.get_running_loop()
        # A daemon: the end of the process does not wait for a resolver that is silent.
        asker = threading.Thread(
            target=self._ask, args=(host, loop), name="endpoint lookup", daemon=True
        )
        try:
            asker.start()
        except RuntimeError:  # the system has no thread for us: nobody has asked for the name
            loop.call_soon(self._answered, host, ())

    def _ask(self, host: str, loop: asyncio.AbstractEventLoop) -> None:
        found = _resolved(host)
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(self._answered, host, found)

    def _answered(self, host: str, found: tuple[Found, ...]) -> None:
        self._free += 1
        self._asking.pop(host).done.set_result(found)
        self._begin()


def literal_of(host: str) -> Found | None:
    """The address that `host` is; None where it is a name."""
    try:
        return Found(host, ipaddress.ip_address(host).version == 6)  # noqa: PLR2004 - IPv6
    except ValueError:
        return None


def _resolved(host: str) -> tuple[Found, ...]:
    try:
        answers = socket.getaddrinfo(
            host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
    except (OSError, UnicodeError):  # a label that is too long is the latter
        return ()
    found = (
        Found(str(place[0]), family == socket.AF_INET6)
        for family, _type, _protocol, _name, place in answers
    )
    return tuple(dict.fromkeys(found))


class Resolver(AbstractResolver):
    """A lookup as aiohttp asks for it."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of `host`, of every family: `family` says no more than that it may be any."""
        del family
        found = await self._lookup.addresses(host, RUNNING.get())
        RUNNING.get().fails_if_late("no connection")
        return [
            ResolveResult(
                hostname=host,
                host=each.ip,
                port=port,
                family=socket.AF_INET6 if each.v6 else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for each in found
        ]

    async def close(self) -> None:
        """There is nothing to close."""
