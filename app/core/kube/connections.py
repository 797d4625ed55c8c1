"""The connection pools of the process, on aiohttp, and what their failures mean.

The seed has two pools, and so have all shoots together for each route: one keeps connections open, the other closes
each after its request. A server is identified by its own `ssl.SSLContext`, so two servers never share a connection, and
those of one server can be closed together, for instance when its CA changes.

aiohttp's conveniences are off: redirects, decompression, cookies, proxies from the environment, automatic retries. With
them a server or the environment could decide where a token is sent, how much memory an answer takes, or how often a
write is made.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, Protocol

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace

from app.core.bounded_http import (
    AGENT,
    READ_AHEAD,
    BoundedConnector,
    ExcessiveFraming,
    bare_session,
    resolved,
)
from app.core.clock import Clock
from app.core.errors import (
    LIMITS,
    BadAnswer,
    CertificateUntrusted,
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    LimitExceeded,
    NameUnresolved,
    NotFound,
    ServerFault,
    Throttled,
    Unauthorized,
    Unreachable,
)
from app.core.fair_queue import Consumer
from app.core.kube.kubeconfig import ClientCertificate, ExternalServerPolicy
from app.core.metrics import Metrics
from app.core.name_lookup import Found, Lookups

MIB: Final = 1 << 20
MAX_BODY: Final = 64 * MIB
MAX_TOTAL: Final = 256 * MIB


class ByteBudget:
    """A total that all answers share; an answer that does not fit waits.

    Answers grow while they are read, so two that wait for each other's bytes could deadlock. The banker's algorithm
    prevents that: bytes are lent only if what remains still lets the largest answer be read to its end.
    """

    def __init__(self, total: int = MAX_TOTAL, largest: int = MAX_BODY) -> None:
        if total < largest:
            raise ValueError("the largest body must fit")
        self._total, self._largest = total, largest
        self._held: dict[object, int] = {}
        self._used = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def used(self) -> int:
        """Bytes that are lent now."""
        return self._used

    @contextmanager
    def claim(self) -> Iterator[Callable[[int], Awaitable[None]]]:
        """The claim of one answer: yields what waits until it may hold so many more bytes; gives them back on exit."""
        claim = object()
        self._held[claim] = 0

        async def grow(amount: int) -> None:
            while not self._fits(claim, amount):
                freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(freed)
                await freed
            self._held[claim] += amount
            self._used += amount

        try:
            yield grow
        finally:
            self._used -= self._held.pop(claim)
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    def _fits(self, claim: object, amount: int) -> bool:
        left = self._total - self._used - amount
        if left >= self._largest:
            return True
        most = max(*self._held.values(), self._held[claim] + amount)
        return left >= self._largest - most


class Network(Protocol):
    """Resolves names, says whom to trust, and connects."""

    async def find(self, host: str) -> Found:
        """Returns the addresses of a name.

        Raises:
            OSError: the name has no address.
        """
        ...

    async def trusting(
        self, ca: str, client: ClientCertificate | None, consumer: Consumer | None
    ) -> ssl.SSLContext:
        """Returns a context that trusts the CA bundle `ca` and nothing else; it identifies the server in the pools.

        Raises:
            CredentialRefused: the bundle, or the client certificate, cannot be used.
        """
        ...

    async def connect(
        self, address: str, port: int, context: ssl.SSLContext | None, reader: asyncio.Protocol
    ) -> asyncio.Transport:
        """Connects `reader` to an address; returns the transport, which `reader` knows already.

        Raises:
            ssl.SSLCertVerificationError: the server shows a certificate that `context` does not trust.
            OSError: no connection could be made.
        """
        ...


NO_ANSWER: Final = "<error>"
_CODES: Final = frozenset({NO_ANSWER, *(str(each.value) for each in HTTPStatus)})
# Metric label of every status code that HTTP does not define: a server could make up hundreds, each a new series.
_OTHER: Final = "other"
KEEP_ALIVE: Final = 80.0
"""Seconds that an idle connection is kept: longer than two probe intervals of 30 s, and shorter than the 90 s after
which kube-apiserver closes it, so that a request rarely meets a connection that is just being closed."""


@dataclass(slots=True)
class RequestAttempt:
    """One attempt at a request, then perhaps the next; the connector and the resolver record in it how far it has come.

    aiohttp passes no context of ours to them, so they find it in a context variable.
    """

    clock: Clock
    answered: bool = False
    """Whether the head of an answer has come."""
    reused: bool = False
    sent: float = 0.0
    _begun: float | None = None
    _timer: asyncio.Timeout | None = None
    _reused_within: float = 0.0
    _asked_for_name: float | None = None
    """When the pending name lookup began; None if none is pending."""
    _named_within: float = 0.0

    def begin(self, timer: asyncio.Timeout, reused_within: float) -> None:
        """Registers this attempt for the next connection that the current task requests.

        On a reused connection the first byte of the answer may take `reused_within` seconds.
        """
        self._begun, self._timer, self._reused_within = self.clock.now(), timer, reused_within
        self.reused, self._asked_for_name, self._named_within = False, None, 0.0
        _ATTEMPT.set(self)

    def naming(self) -> None:
        """Records that the lookup of the server's name begins."""
        self._asked_for_name = self.clock.now()

    def named(self) -> None:
        """Records that the lookup has ended."""
        if self._asked_for_name is not None:
            self._named_within += self.clock.now() - self._asked_for_name
            self._asked_for_name = None

    @property
    def spent_on_name(self) -> bool:
        """Whether it is waiting for the server's address, or spent most of its time on that.

        If so, an attempt without an answer says nothing about the path to the server.
        """
        if self._asked_for_name is not None:
            return True
        return self._begun is not None and self._named_within * 2 > self.clock.now() - self._begun

    def connected(self, *, reused: bool) -> None:
        """Records that the request is sent now; a reused connection gets less time for the first byte."""
        self.sent, self.reused = self.clock.now(), reused
        if reused and self._timer is not None:
            self._timer.reschedule(asyncio.get_running_loop().time() + self._reused_within)


_ATTEMPT: Final[ContextVar[RequestAttempt]] = ContextVar("attempt")


class NotSwitched(Exception):
    """The server answered a WebSocket handshake without switching protocols."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        super().__init__(f"status {response.status}")
        self.response = response
        """The response, unread."""


class PinnedResolver(AbstractResolver):
    """Resolves a name to the addresses that are then connected to.

    Nothing resolves the name a second time, so a name cannot pass the check with one address and be connected to at
    another (DNS rebinding).
    """

    def __init__(self, network: Network | None, policy: ExternalServerPolicy | None = None) -> None:
        """Asks `network`, or the system; `policy` restricts the addresses that servers may have, None allows any."""
        self._lookups, self._policy = network or Lookups(), policy

    def check(self, host: str) -> None:
        """Checks a host that is an address literal and so needs no lookup.

        Raises:
            AddressForbidden: servers may not have this address.
        """
        if self._policy is not None:
            self._policy.check(host)

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - the signature: any family is as good
    ) -> list[ResolveResult]:
        """Returns the current addresses of a name that its server may have.

        Raises:
            OSError: the name has no address.
            AddressForbidden: it has only addresses that are not allowed.
        """
        attempt = _ATTEMPT.get()
        attempt.naming()
        found = await self._lookups.find(host)
        attempt.named()
        known = {address for _, address in found}
        allowed = known if self._policy is None else self._policy.allowed(known)
        return resolved(host, port, tuple(each for each in found if each.text in allowed))

    async def close(self) -> None:
        """Does nothing: lookups end by themselves."""


class _Connector(BoundedConnector):
    """A connector that records which connections belong to which server, so that they can be closed by server."""

    def __init__(
        self,
        resolver: PinnedResolver,
        *,
        network: Network | None = None,
        per_server: int = 0,
        force_close: bool = False,
    ) -> None:
        super().__init__(
            limit_per_host=per_server,
            force_close=force_close,
            keepalive_timeout=None if force_close else KEEP_ALIVE,
            resolver=resolver,
        )
        self._addresses, self._network = resolver, network
        self._open_to: dict[ssl.SSLContext, set[asyncio.Transport]] = {}

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        self._addresses.check(req.url.raw_host or "")
        connection = await super().connect(req, traces, timeout)
        reused = self._known(req.ssl, connection.transport)
        _ATTEMPT.get().connected(reused=reused)
        return connection

    async def _wrap_create_connection(  # type: ignore[override]  # of what aiohttp calls it with
        self,
        factory: Callable[[], ResponseHandler],
        *,
        req: aiohttp.ClientRequest,
        addr_infos: Sequence[tuple[Any, ...]],
        **more: Any,  # noqa: ANN401 - aiohttp's own
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        if self._network is None:
            return await super()._wrap_create_connection(
                factory, req=req, addr_infos=addr_infos, **more
            )
        address, port = addr_infos[0][-1][:2]  # after a failure aiohttp comes again without it
        reader = factory()
        try:
            return await self._network.connect(address, port, more.get("ssl"), reader), reader
        except ssl.CertificateError as error:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
        except OSError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error

    def _known(self, context: object, transport: asyncio.Transport | None) -> bool:
        """Returns whether this connection was used before, and records it."""
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
            transport.abort()  # a dead server would never complete a graceful close


class ConnectionPool:
    """The two pools, and what all requests through them share: clock, metrics and byte budget."""

    def __init__(
        self,
        host: str,
        clock: Clock,
        metrics: Metrics,
        *,
        connections: int = 0,
        budget: ByteBudget | None = None,
        resolver: PinnedResolver | None = None,
        network: Network | None = None,
    ) -> None:
        """Creates the pools; needs a running event loop.

        Args:
            host: `seed` or `shoot`, the label of the metrics.
            clock: tells when requests are sent.
            metrics: counts requests.
            connections: how many connections to one server may be open; 0 is unlimited.
            budget: bytes that all undecoded answers may hold together.
            resolver: resolves names; None allows any address.
            network: makes the connections; None: that of the machine.
        """
        self.host, self.clock, self.metrics = host, clock, metrics
        # starts the series at 0: `increase()` does not see the first count of a new series
        metrics.throttled.labels(host)
        for limit in LIMITS:
            metrics.limit_hits.labels(limit)
        self.budget = budget or ByteBudget()
        resolver = resolver or PinnedResolver(network)
        self._kept_pool = _Connector(resolver, network=network, per_server=connections)
        self._single_pool = _Connector(resolver, network=network, force_close=True)
        self.kept = _session(self._kept_pool)
        self.single = _session(self._single_pool)
        self.switched = _session(self._single_pool, _switched)
        """For WebSockets."""

    def observe(self, method: str, code: str, seconds: float) -> None:
        """Counts a request with this method and code, which took so many seconds."""
        code = code if code in _CODES else _OTHER
        self.metrics.requests.labels(self.host, method, code).inc()
        self.metrics.request_duration.labels(self.host, method).observe(seconds)

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
    return bare_session(
        pool,
        *more,
        read_bufsize=READ_AHEAD,
        headers={"User-Agent": AGENT, "Accept-Encoding": "identity"},
    )


async def _switched(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Passes on only 101: aiohttp would follow a redirect, and would discard the body of a refusal."""
    response = await handler(request)
    if response.status != HTTPStatus.SWITCHING_PROTOCOLS:
        raise NotSwitched(response)
    return response


# Statuses and exceptions of libraries become our own errors.
#
# A message never contains text of a shoot's answer, because the owner of the shoot could plant anything there. Only the
# seed's own explanations are quoted, trimmed.


_BY_STATUS: Final[dict[int, type[ClusterError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    429: Throttled,
}
_BY_CLASS: Final[dict[int, type[ClusterError]]] = {4: Invalid, 5: ServerFault}
_LONGEST_PAUSE_DIGITS: Final = 9
# Seconds of the longest pause that a server may ask for: one answer of a proxy in between is not to silence us.
_LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True)
class RequestedRight:
    """What a request was for, in the words of RBAC, so that a refusal names the missing right."""

    verb: str
    resource: str
    where: str = ""
    """A namespace, or an object in one; empty for the whole cluster."""

    def __str__(self) -> str:
        place = f" in {self.where}" if self.where else ""
        return f"{self.verb} {self.resource}{place}"


def error_of_status(
    asked: RequestedRight, status: int, *, retry_after: float | None = None, detail: str = ""
) -> ClusterError:
    """Returns the error for an answer with this status.

    Args:
        asked: what the request was for.
        status: the HTTP status, or the code of a Status object.
        retry_after: the pause that the server asked for, in seconds.
        detail: the explanation of a trusted server; empty for a shoot.
    """
    if 300 <= status < 400:  # noqa: PLR2004 - the classes of HTTP statuses are plain numbers to any reader
        return BadAnswer(f"{asked}: a redirect ({status}), which is never followed", status=status)
    error = _BY_STATUS.get(status) or _BY_CLASS.get(status // 100, BadAnswer)
    meaning = f" ({error.__name__})" if error is not BadAnswer else ""
    message = f"{asked}: {status}{meaning}" + (f": {detail}" if detail else "")
    return error(message, status=status, retry_after=retry_after)


def error_of_exception(asked: RequestedRight, error: Exception) -> ClusterError:
    """Returns the error for an exception of aiohttp, ssl, the operating system or the decoder."""
    match error:
        case ClusterError():
            return error
        case RecursionError():
            return LimitExceeded("depth", f"{asked}: the answer is nested too deeply")
        case msgspec.MsgspecError() | UnicodeDecodeError():
            return BadAnswer(f"{asked}: the answer cannot be decoded: {error}")
        case _:
            return _of_transport(asked, error)


def _of_transport(asked: RequestedRight, error: Exception) -> ClusterError:
    if (certificate := _certificate_error(error)) is not None:
        said = getattr(certificate, "verify_message", "") or "the certificate does not match"
        return CertificateUntrusted(f"{asked}: the server's certificate is not trusted: {said}")
    kind: type[ClusterError] = Unreachable
    match error:
        case ExcessiveFraming():
            return LimitExceeded("crumbs", f"{asked}: {error}")
        case aiohttp.ClientPayloadError():
            kind, why = BadAnswer, "the answer was cut off"
        case aiohttp.ClientResponseError() | aiohttp.InvalidURL():
            kind, why = BadAnswer, "the answer is not valid HTTP"
        case aiohttp.ClientConnectorDNSError():
            kind, why = NameUnresolved, "the server's name cannot be resolved"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            why = "no TLS connection could be made"
        case TimeoutError():
            why = "no answer in time"
        case aiohttp.ServerDisconnectedError():
            why = "the connection was closed before an answer came"
        case OSError(strerror=str() as said) if said:
            why = f"no connection: {said}"
        case _:
            why = f"no answer ({type(error).__name__})"
    return kind(f"{asked}: {why}")


def _certificate_error(error: BaseException | None) -> BaseException | None:
    while error is not None:
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return error.certificate_error
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        error = error.__cause__
    return None


def retry_after_of(header: str | None, date: str | None) -> float | None:
    """Returns the seconds that a `Retry-After` header asks for, 60 at most; None if it is absent or invalid.

    A header that names an instant is compared with the `Date` of the same answer, because our clocks may differ.
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_PAUSE) if len(text) <= _LONGEST_PAUSE_DIGITS else None
    until, now = http_date(text), http_date(date)
    return None if until is None or now is None else min(max(until - now, 0.0), _LONGEST_PAUSE)


def http_date(header: str | None) -> float | None:
    """Returns the instant of an HTTP date; None if it is absent or invalid."""
    if not header:
        return None
    try:
        moment = parsedate_to_datetime(header)
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
