"""The connections of the process: aiohttp, set up so that nothing is followed, inflated, remembered or repeated.

All API servers share two pools: one that keeps connections open and one that closes each after its request.  A server
is known by its own `ssl.SSLContext`, so two of them never share a connection, and those of one can be closed together.
"""

import asyncio
import socket
import ssl
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.tracing import Trace
from prometheus_client import Counter, Histogram

from app.core.about import NAME, own_version
from app.core.bounded_http import READ_AHEAD, BoundedConnector, asks_once
from app.core.clock import Clock
from app.core.errors import LIMITS
from app.core.kube.addresses import AddressRule
from app.core.kube.byte_budget import ByteBudget
from app.core.metrics import Metrics
from app.core.name_lookup import Lookups

_AGENT: Final = f"{NAME}/{own_version()}"
NO_ANSWER: Final = "<error>"
_CODES: Final = frozenset({NO_ANSWER, *(str(each.value) for each in HTTPStatus)})
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
_OTHER: Final = "other"
"""The label of every status that is none of HTTP's: a server may make up hundreds, and each would be a series."""
KEEP_ALIVE: Final = 80.0
"""Seconds that an idle connection is kept: longer than two probe intervals of 30 s, shorter than the 90 s after which
kube-apiserver closes it, so that a request rarely meets a connection that is just being closed."""


@dataclass(slots=True)
class RequestAttempt:
    """One request on its way, as its connection tells it."""

    clock: Clock
    reused_within: float
    """Seconds for the first byte on a connection that was open before."""
    timer: asyncio.Timeout
    reused: bool = False
    begun: float = 0.0
    sent: float = 0.0
    _asked_for_name: float | None = None
    """Since when an address of the server's name is waited for."""
    _named_within: float = 0.0

    def begin(self) -> None:
        """The next connection that this task asks for is for this one."""
        self.begun = self.clock.now()
        _ATTEMPT.set(self)

    def naming(self) -> None:
        """The server's name is looked up from now on."""
        self._asked_for_name = self.clock.now()

    def named(self) -> None:
        """Its addresses are known."""
        if self._asked_for_name is not None:
            self._named_within += self.clock.now() - self._asked_for_name
            self._asked_for_name = None

    @property
    def spent_on_name(self) -> bool:
        """Whether it waits for the server's address, or has done so for most of its time.

        If it ends without an answer now, it says nothing about the path to the server.
        """
        if self._asked_for_name is not None:
            return True
        return self._named_within * 2 > self.clock.now() - self.begun

    def connected(self, *, reused: bool) -> None:
        """There is a connection: the request is sent now."""
        self.sent, self.reused = self.clock.now(), reused
        if reused:
            self.timer.reschedule(asyncio.get_running_loop().time() + self.reused_within)


_ATTEMPT: Final[ContextVar[RequestAttempt]] = ContextVar("attempt")


class NotSwitched(Exception):
    """The server answered, and did not change to the protocol that was asked for."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        super().__init__(f"status {response.status}")
        self.response = response
        """Unread."""


class ConnectionCut(aiohttp.ClientError):
    """The connection ended before an answer began; aiohttp would repeat the request by itself, of this it does not."""


class PinnedResolver(AbstractResolver):
    """Gives the addresses that are then connected to, and no other: nobody looks a second time."""

    def __init__(self, lookups: Lookups, addresses: AddressRule | None = None) -> None:
        """`addresses`: which ones servers may have; None: any."""
        self._lookups, self._addresses = lookups, addresses

    def check(self, host: str) -> None:
        """Refuses a host that is an address, and none that servers may have: it needs no lookup.

        Raises:
            AddressForbidden: it is one.
        """
        if self._addresses is not None:
            self._addresses.check(host)

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - the signature: any family is as good
    ) -> list[ResolveResult]:
        """The addresses of a name, as they are now, that its server may have.

        Raises:
            OSError: it has none.
            AddressForbidden: it has others only.
        """
        attempt = _ATTEMPT.get()
        attempt.naming()
        found = await self._lookups.find(host)
        attempt.named()
        known = {address for _, address in found}
        allowed = known if self._addresses is None else self._addresses.allowed(known)
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=kind, proto=0, flags=_NUMERIC
            )
            for kind, address in found
            if address in allowed
        ]

    async def close(self) -> None:
        """Lookups end by themselves."""


class _Connector(BoundedConnector):
    """Remembers which connections belong to which server, so that they can be closed by server."""

    def __init__(
        self,
        resolver: PinnedResolver,
        *,
        per_server: int = 0,
        force_close: bool = False,
    ) -> None:
        super().__init__(
            limit=0,  # one slow shoot must not keep another one waiting
            limit_per_host=per_server,
            force_close=force_close,
            keepalive_timeout=None if force_close else KEEP_ALIVE,
            resolver=resolver,
            use_dns_cache=False,  # so that each attempt looks for itself, and knows whether it still does
        )
        self._addresses = resolver
        self._open_to: dict[ssl.SSLContext, set[asyncio.Transport]] = {}

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        self._addresses.check(req.url.raw_host or "")
        connection = await super().connect(req, traces, timeout)
        reused = self._known(req.ssl, connection.transport)
        _ATTEMPT.get().connected(reused=reused)
        return connection

    def _known(self, context: object, transport: asyncio.Transport | None) -> bool:
        """Whether this connection was used before; it is known from now on."""
        if not isinstance(context, ssl.SSLContext) or transport is None:
            return False
        known = self._open_to.setdefault(context, set())
        if transport in known:
            return True
        known -= {other for other in known if other.is_closing()}
        known.add(transport)
        return False

    def drop(self, context: ssl.SSLContext) -> None:
        """Closes all connections made with `context`, busy or idle."""
        for transport in self._open_to.pop(context, ()):
            transport.abort()  # a server that is gone would never answer a polite end


class ConnectionPool:
    """The pools, with what every request through them shares."""

    def __init__(
        self,
        host: str,
        clock: Clock,
        metrics: Metrics,
        *,
        connections: int = 0,
        budget: ByteBudget | None = None,
        resolver: PinnedResolver | None = None,
    ) -> None:
        """Opens the pools; needs a running event loop.

        Args:
            host: `seed` or `shoot`: the label of the metrics.
            clock: tells when requests are sent.
            metrics: where requests are counted.
            connections: how many are kept open to one server; 0 = as many as needed.
            budget: the bytes that undecoded answers may hold.
            resolver: makes addresses of names; None: any that they have.
        """
        self.host, self.clock, self.metrics = host, clock, metrics
        metrics.throttled.labels(host)  # from 0 on: an increase is seen from the first one on
        for limit in LIMITS:
            metrics.limit_hits.labels(limit)
        self.budget = budget or ByteBudget()
        resolver = resolver or PinnedResolver(Lookups())
        self._kept_pool = _Connector(resolver, per_server=connections)
        self._single_pool = _Connector(resolver, force_close=True)
        self.kept = _session(self._kept_pool)
        self.single = _session(self._single_pool)
        self.switched = _session(self._single_pool, _switched)
        """For connections that change to another protocol."""
        self._instruments: dict[tuple[str, str], tuple[Counter, Histogram]] = {}

    def instruments(self, method: str, code: str) -> tuple[Counter, Histogram]:
        """The number and the duration of requests with this method and code."""
        code = code if code in _CODES else _OTHER
        found = self._instruments.get((method, code))
        if found is None:
            found = (
                self.metrics.requests.labels(self.host, method, code),
                self.metrics.request_duration.labels(self.host, method),
            )
            self._instruments[method, code] = found
        return found

    def drop(self, context: ssl.SSLContext) -> None:
        """Closes all connections that were made with `context`."""
        self._kept_pool.drop(context)
        self._single_pool.drop(context)

    async def close(self) -> None:
        """Closes everything."""
        await self.kept.close()
        await self.single.close()
        await self.switched.close()


def _session(pool: _Connector, *more: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=pool,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # no proxy variables, no .netrc
        auto_decompress=False,
        read_bufsize=READ_AHEAD,
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=None
        ),  # the client has its own limits
        middlewares=(*more, asks_once(ConnectionCut)),
        headers={
            "User-Agent": _AGENT,
            "Accept-Encoding": "identity",
        },
    )


async def _switched(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Hands on nothing but 101: aiohttp would follow a redirect, and throw away what a refusal says."""
    response = await handler(request)
    if response.status != HTTPStatus.SWITCHING_PROTOCOLS:
        raise NotSwitched(response)
    return response
