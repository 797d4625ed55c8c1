"""Resolves names for runs, and records in a run what it means if that takes too long."""

import ipaddress
import socket
from contextvars import ContextVar
from functools import partial
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from app.core.handlers.runs import HandlerRun
from app.core.name_lookup import Found, IpAddress, Lookups

THREADS: Final = 16
"""Concurrent lookups: threads of the handlers' own, separate from those for the API servers of shoots."""
RUNNING: Final[ContextVar[HandlerRun]] = ContextVar("run")
"""The run that aiohttp resolves a name for, which it cannot pass on itself."""


GATE_THREADS: Final = 64
"""The same for probes that gate a scale-down, so that no other probe can delay them."""


class NoAddress(OSError):
    """The resolver has no address for the name."""


class Lookup:
    """Asks the system's resolver, without a cache."""

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
        if (literal := literal_of(host)) is not None:
            return (literal,)
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


def literal_of(host: str) -> IpAddress | None:
    """Returns the address that `host` is; None if it is a name."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    return IpAddress(socket.AF_INET6 if version == 6 else socket.AF_INET, host)  # noqa: PLR2004 - IPv6


class HandlerResolver(AbstractResolver):
    """A `Lookup` with aiohttp's interface."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns the addresses of `host` in every family; aiohttp's `family` only says that any will do."""
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
        """Does nothing: there is nothing to close."""
