"""One run of a probe in progress: its result if its time ends now, the addresses of its target, a connection to it."""

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import aiohttp

from app.core.bounded_http import ConnectionCut
from app.core.errors import trimmed
from app.core.model.endpoints import EndpointProbeSpec, Port, ProbeOutcome, Ran, TargetAddress
from app.core.name_lookup import Found, IpAddress, Lookups

MOST_READ: Final = 10 * 1024
"""Bytes of a body or of a command's output that are read or kept, as in the kubelet."""
_MOST_SAID: Final = 160
# Share of a run's time that it may have waited for its slot, and still count as a failure of the target if it is late.
_MOST_WAITED: Final = 0.1
_PORTS: Final = range(1, 65536)


def success(message: str) -> Ran:
    """Returns the result that the target is healthy."""
    return Ran(ProbeOutcome.SUCCESS, trimmed(message, _MOST_SAID))


def failure(message: str) -> Ran:
    """Returns the result that the target is not healthy."""
    return Ran(ProbeOutcome.FAILURE, trimmed(message, _MOST_SAID))


def error(message: str) -> Ran:
    """Returns the result that the probe could not be run."""
    return Ran(ProbeOutcome.ERROR, trimmed(message))


class CannotRun(Exception):
    """The probe cannot be run against this target; the message says why."""


class HandlerRun:
    """One run: its probe, its target, and the result that it has if its time ends now (`late`)."""

    __slots__ = ("_begun", "_created", "address", "late", "probe")

    def __init__(self, probe: EndpointProbeSpec, address: TargetAddress) -> None:
        self.probe, self.address = probe, address
        self.late = error("not run: too many probes run at once")
        self._created = self._begun = asyncio.get_running_loop().time()

    def begins(self) -> None:
        """Records that the run has got its slot."""
        self._begun = asyncio.get_running_loop().time()

    def port(self, port: Port) -> int:
        """Returns the number of `port`, which may be the name of a port of the container.

        Raises:
            CannotRun: the container has no port of this name, or the number is not a port.
        """
        number, named = port, self.address.ports
        if isinstance(number, str):
            if number in named:
                number = named[number]
            elif number.isascii() and number.isdigit():  # the kubelet accepts a quoted number, too
                number = int(number[:6])
            else:
                raise CannotRun(f"the container has no port {number!r}")
        if number not in _PORTS:
            raise CannotRun(f"{number} is not a port")
        return number

    def fails_if_late(self, what: str) -> None:
        """Makes the run a failure if its time ends from now on; `what` says what took too long."""
        waited, timeout = self._begun - self._created, self.probe.timeout
        if waited > timeout * _MOST_WAITED:
            self.late = error(
                f"{what} in what remained of {timeout} s: too many probes run at once"
            )
        else:
            self.late = failure(f"{what} within {timeout} s")

    def errs_if_late(self, what: str) -> None:
        """Makes the run an error if its time ends from now on, which says nothing about the target."""
        self.late = error(f"{what} within {self.probe.timeout} s")


# Names become addresses.


THREADS: Final = 16
"""Concurrent lookups."""
GATE_THREADS: Final = 64
"""The same for probes that gate a scale-down, so that no other probe can delay them."""


class NoAddress(OSError):
    """The resolver has no address for the name."""


class Lookup:
    """Asks the system's resolver, without a cache, in threads that are not those for API servers of shoots."""

    def __init__(self, threads: int = THREADS, of_gates: int = GATE_THREADS) -> None:
        """Starts nothing yet; needs a running event loop.

        Args:
            threads: how many lookups run at once; all of them may be slow, because a slow lookup is a failed probe.
            of_gates: as many for probes that gate a scale-down: if no name resolves, those are the ones that matter.
        """
        self._lookups = Lookups(at_once=threads, slow_at_once=threads)
        self._of_gates = Lookups(at_once=of_gates, slow_at_once=of_gates)

    async def addresses(self, host: str, run: HandlerRun) -> Found:
        """Returns the addresses of `host`, which may be an address itself.

        Raises:
            NoAddress: there is none.
        """
        try:
            version = ipaddress.ip_address(host).version
        except ValueError:
            pass
        else:
            return (IpAddress(socket.AF_INET6 if version == 6 else socket.AF_INET, host),)  # noqa: PLR2004 - IPv6
        run.errs_if_late("too many lookups at once; this one was not started")
        begun = partial(run.fails_if_late, "the name was not resolved")
        try:
            lookups = self._of_gates if run.probe.gates else self._lookups
            found = await lookups.find(host, begun)
        except OSError as error:
            raise NoAddress from error
        if not found:
            raise NoAddress
        return found


# Reasons for failed connections, in a few words; never a byte of what the other side sent.


FOREIGN: Final = (aiohttp.ClientError, OSError)
"""Errors that a connection may raise; TimeoutError and ssl.SSLError are OSErrors."""


def why(error: Exception) -> str:
    """Returns the reason, for operators."""
    match error:
        case NoAddress() | aiohttp.ClientConnectorDNSError():
            return "the name cannot be resolved"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return "no TLS connection could be made"
        case ConnectionCut():
            return "the connection was closed before an answer came"
        case OSError(errno=int() as number):
            return f"no connection: {os.strerror(number)}"
        case aiohttp.ClientResponseError():
            return "the answer is not HTTP"
        case _:
            return f"no answer ({type(error).__name__})"


# Connecting to one of several addresses within a time limit.


P = TypeVar("P", bound=asyncio.BaseProtocol)


async def connect(
    protocol: Callable[[], P], addresses: Found, port: int, within: float
) -> tuple[asyncio.Transport, P]:
    """Connects to the first address that accepts; the attempts share `within` seconds equally.

    Raises:
        OSError: no address accepts.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    for left in range(len(addresses), 1, -1):
        try:
            async with asyncio.timeout((end - loop.time()) / left):
                return await loop.create_connection(protocol, addresses[-left].text, port)
        except OSError:
            continue
    return await loop.create_connection(protocol, addresses[-1].text, port)
