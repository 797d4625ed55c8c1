"""Names become addresses for a run, which learns what it means if that takes too long."""

import ipaddress
import socket
from contextvars import ContextVar
from functools import partial
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from app.core.handlers.runs import HandlerRun
from app.core.name_lookup import Found, IpAddress, Lookups

THREADS: Final = 16
"""Names that are looked up at once: threads of the handlers' own, as the API servers of shoots have theirs."""
RUNNING: Final[ContextVar[HandlerRun]] = ContextVar("run")
"""The run for which aiohttp asks: it has no way to hand it on."""


GATE_THREADS: Final = 64
"""The same for probes that gate a scale-down: no other can keep theirs waiting."""


class NoAddress(OSError):
    """The resolver has no address for the name."""


class Lookup:
    """Asks the system's resolver; keeps nothing."""

    def __init__(self, threads: int = THREADS, of_gates: int = GATE_THREADS) -> None:
        """Starts nothing; needs a running event loop.

        Args:
            threads: how many names are looked up at once; all of them may be slow, as a name that is has failed.
            of_gates: as many for probes that gate, of their own: where every name is silent, those are what counts.
        """
        self._lookups = Lookups(at_once=threads, slow_at_once=threads)
        self._of_gates = Lookups(at_once=of_gates, slow_at_once=of_gates)

    async def addresses(self, host: str, run: HandlerRun) -> Found:
        """The addresses of `host`, which may be one itself.

        Raises:
            NoAddress: there is none.
        """
        if (literal := literal_of(host)) is not None:
            return (literal,)
        run.errs_if_late("too many names are looked up; this one was not begun")
        begun = partial(run.fails_if_late, "the name was not resolved")
        try:
            lookups = self._of_gates if run.probe.gates else self._lookups
            found = await lookups.find(host, begun)
        except OSError as error:
            raise NoAddress from error
        if not found:
            raise NoAddress
        return found


def literal_of(host: str) -> IpAddress | None:
    """The address that `host` is; None where it is a name."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    return IpAddress(socket.AF_INET6 if version == 6 else socket.AF_INET, host)  # noqa: PLR2004 - IPv6


class HandlerResolver(AbstractResolver):
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
                host=each.text,
                port=port,
                family=each.family,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for each in found
        ]

    async def close(self) -> None:
        """There is nothing to close."""
