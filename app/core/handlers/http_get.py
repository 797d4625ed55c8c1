"""The httpGet handler: passes on an answer of 2xx or 3xx; uses a new connection each time, without credentials of ours.

As in the kubelet (pkg/probe/http): a body that is cut off or late is an error, because the status was good; only the
beginning of a longer body is read; certificates are not verified, and TLS is 1.2 or newer. Unlike the kubelet: no
HTTP/2, at most 64 header fields of 8 KiB, user and password in a redirect are dropped, and secrets in `httpHeaders` do
not follow a redirect from https to http.
"""

import functools
import socket
import ssl
from contextvars import ContextVar
from typing import Final
from urllib.parse import quote

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict
from yarl import URL

from app.core.bounded_http import AGENT, BoundedConnector, bare_session, resolved
from app.core.bounded_tls import BoundedContext
from app.core.handlers import runs
from app.core.model.endpoints import HttpGet, Ran

_MOST_FIELDS: Final = 64
_MOST_REDIRECTS: Final = 10
_FOLLOWED: Final = frozenset({301, 302, 303, 307, 308})
_PASSING: Final = range(200, 400)
_REDIRECTS: Final = range(300, 400)
_SCHEMES: Final = frozenset({"http", "https"})
# Header fields about how a message is encoded, which only its sender can know.
_OF_THE_MESSAGE: Final = frozenset({"content-length", "transfer-encoding", "trailer"})
_SAFE: Final = "%!$&'()*+,;=:@/?[]"
_SECRET: Final = ("Authorization", "Cookie")
_AUTOMATIC: Final = ("User-Agent", "Accept", "Accept-Encoding")


class HttpGets:
    """Runs httpGet probes."""

    def __init__(self, lookup: runs.Lookup) -> None:
        """Opens no connection yet; needs a running event loop."""
        self._session = bare_session(
            BoundedConnector(force_close=True, resolver=_Resolver(lookup)),
            read_bufsize=runs.MOST_READ,
            max_headers=_MOST_FIELDS,
            skip_auto_headers=_AUTOMATIC,
        )
        # like the kubelet's, it verifies no certificates, and presents none
        self._context = BoundedContext()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def run(self, handler: HttpGet, run: runs.HandlerRun) -> Ran:
        """Runs one probe; follows redirects to the same host.

        Raises:
            CannotRun: the port does not exist, or no such request can be sent.
        """
        port, headers = run.port(handler.port), _headers(handler)
        try:
            url = _url(handler.scheme.value.lower(), run.address.host, port, handler.path)
        except ValueError as problem:
            raise runs.CannotRun("its host and path do not form a valid request") from problem
        _RUNNING.set(run)
        run.fails_if_late("no answer")
        try:
            return await self._follow(url, headers, run)
        except runs.FOREIGN as problem:
            return runs.failure(runs.why(problem))

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()

    async def _follow(self, url: URL, headers: CIMultiDict[str], run: runs.HandlerRun) -> Ran:
        for _ in range(_MOST_REDIRECTS):
            answer = await self._ask(url, headers, run)
            if isinstance(answer, Ran):
                return answer
            following = _following(url, answer)
            if following is None:
                return runs.failure("it redirects to an invalid URL")
            headers = _headers_for(following, url, answer, headers)
            url = following
        return runs.failure(f"stopped after {_MOST_REDIRECTS} redirects")

    async def _ask(self, url: URL, headers: CIMultiDict[str], run: runs.HandlerRun) -> Ran | str:
        """Sends one request; returns its result, or the Location of a redirect to follow."""
        run.fails_if_late("no answer")
        async with await self._request(url, headers) as response:
            location = response.headers.get("Location", "")
            if response.status in _FOLLOWED and location:
                following = _following(url, location)
                # one that cannot be parsed counts as staying on its host, and fails
                if following is None or following.raw_host == url.raw_host:
                    return location
            run.errs_if_late(f"HTTP {response.status}, but its body did not come")
            left, status = runs.MOST_READ, response.status
            try:  # leaving the rest of the body unread closes the connection
                while left > 0 and (part := await response.content.read(left)):
                    left -= len(part)
            except runs.FOREIGN:
                return runs.error(f"HTTP {status}, but its body was cut off")
            if status in _REDIRECTS:
                return runs.success(f"HTTP {status}, which is not followed")
            return (runs.success if status in _PASSING else runs.failure)(f"HTTP {status}")

    async def _request(self, url: URL, headers: CIMultiDict[str]) -> aiohttp.ClientResponse:
        try:
            return await self._session.get(
                url, headers=headers, ssl=self._context, allow_redirects=False
            )
        except ValueError as problem:  # an invalid header field, or aiohttp.InvalidURL
            raise runs.CannotRun("its path and headers do not form a valid request") from problem


@functools.lru_cache(maxsize=1024)
def _url(scheme: str, host: str, port: int, path: str) -> URL:
    """Builds the URL; of the path only characters that no URL may contain are escaped, and a query remains one."""
    beginning = URL.build(scheme=scheme, host=host, port=port)
    shown = f"[{host}]" if ":" in host else beginning.raw_host
    rest = quote(path.partition("#")[0].removeprefix("/"), safe=_SAFE)
    return URL(f"{scheme}://{shown}:{port}/{rest}", encoded=True)


def _headers(handler: HttpGet) -> CIMultiDict[str]:
    given = CIMultiDict(handler.headers)
    headers = CIMultiDict(
        (name, value) for name, value in given.items() if name.lower() not in _OF_THE_MESSAGE
    )
    for name, value in (("User-Agent", AGENT), ("Accept", "*/*"), ("Connection", "close")):
        if name not in headers:
            headers[name] = value
    for name in ("User-Agent", "Accept", "Host"):
        if not headers.get(name, "-"):
            del headers[name]  # set to an empty value: not sent, or the default
    return headers


def _following(url: URL, location: str) -> URL | None:
    try:
        following = url.join(URL(location))
        # some of what is wrong shows only when its parts are asked for
        if following.scheme not in _SCHEMES or not following.raw_host:
            return None
        return following.with_fragment(None).with_user(None)
    except (ValueError, IndexError):  # IndexError: brackets before an @, and no host behind it
        return None


def _headers_for(
    following: URL, before: URL, location: str, headers: CIMultiDict[str]
) -> CIMultiDict[str]:
    """Returns the headers for a redirect: a custom Host only with a relative one, as in Go's client."""
    headers = headers.copy()
    if URL(location).absolute:
        headers.popall("Host", None)
    if (before.scheme, following.scheme) == ("https", "http"):
        for name in _SECRET:
            headers.popall(name, None)
    return headers


_RUNNING: Final[ContextVar[runs.HandlerRun]] = ContextVar("run")
"""The run that aiohttp resolves a name for, which it cannot pass on itself."""


class _Resolver(AbstractResolver):
    """A `Lookup` with aiohttp's interface."""

    def __init__(self, lookup: runs.Lookup) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns the addresses of `host` in every family; aiohttp's `family` only says that any will do."""
        del family
        found = await self._lookup.addresses(host, _RUNNING.get())
        _RUNNING.get().fails_if_late("no connection")
        return resolved(host, port, found)

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""
