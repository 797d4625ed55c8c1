"""httpGet: an answer of 2xx or 3xx passes; a new connection each time, and none of our credentials on it.

As the kubelet has it (pkg/probe/http): a body that is cut or does not come in time is an error, as the status was well;
of a longer one the beginning is read; certificates are not verified, and TLS is 1.2 or newer.  Not as there: HTTP/2 is
not offered, a head has at most 64 fields of 8 KiB, user and password in a redirect are left out, and what is secret in
`httpHeaders` does not follow one from https to http.
"""

import functools
import ssl
from typing import Final
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from app.core.about import NAME, own_version
from app.core.bounded_http import BoundedConnector, asks_once
from app.core.bounded_tls import BoundedContext
from app.core.handlers.lookup import RUNNING, HandlerResolver, Lookup
from app.core.handlers.runs import MOST_READ, CannotRun, HandlerRun, error, failure, success
from app.core.handlers.tcp_socket import FOREIGN, Closed, why
from app.core.model.endpoints import HttpGet, Ran

AGENT: Final = f"{NAME}/{own_version()}"
_MOST_FIELDS: Final = 64
_MOST_REDIRECTS: Final = 10
_FOLLOWED: Final = frozenset({301, 302, 303, 307, 308})
_PASSING: Final = range(200, 400)
_REDIRECTS: Final = range(300, 400)
_SCHEMES: Final = frozenset({"http", "https"})
_OF_THE_MESSAGE: Final = frozenset({"content-length", "transfer-encoding", "trailer"})
"""Fields that say how a request is written, which only who writes it can know."""
_SAFE: Final = "%!$&'()*+,;=:@/?[]"
_SECRET: Final = ("Authorization", "Cookie")
_AUTOMATIC: Final = ("User-Agent", "Accept", "Accept-Encoding")


class HttpGets:
    """Makes GET requests."""

    def __init__(self, lookup: Lookup) -> None:
        """Connects to nothing yet; needs a running event loop."""
        self._session = _session(lookup)
        self._context = _unverified()

    async def run(self, handler: HttpGet, run: HandlerRun) -> Ran:
        """What a request brings, redirects to the same host included.

        Raises:
            CannotRun: there is no such port, or no such request can be made.
        """
        url, headers = _url(handler, run), _headers(handler)
        RUNNING.set(run)
        run.fails_if_late("no answer")
        try:
            return await self._follow(url, headers, run)
        except FOREIGN as problem:
            return failure(why(problem))

    async def close(self) -> None:
        """Closes what is open."""
        await self._session.close()

    async def _follow(self, url: URL, headers: CIMultiDict[str], run: HandlerRun) -> Ran:
        for _ in range(_MOST_REDIRECTS):
            answer = await self._ask(url, headers, run)
            if isinstance(answer, Ran):
                return answer
            following = _following(url, answer)
            if following is None:
                return failure("it redirects to what is no address of HTTP")
            headers = _headers_for(following, url, answer, headers)
            url = following
        return failure(f"stopped after {_MOST_REDIRECTS} redirects")

    async def _ask(self, url: URL, headers: CIMultiDict[str], run: HandlerRun) -> Ran | str:
        """What the answer means; where it leads on, its Location."""
        run.fails_if_late("no answer")
        async with await self._request(url, headers) as response:
            location = response.headers.get("Location", "")
            if response.status in _FOLLOWED and location and _same_host(url, location):
                return location
            run.errs_if_late(f"HTTP {response.status}, but its body did not come")
            try:
                await _read(response)
            except FOREIGN:
                return error(f"HTTP {response.status}, but its body was cut off")
            return _meaning(response.status)

    async def _request(self, url: URL, headers: CIMultiDict[str]) -> aiohttp.ClientResponse:
        try:
            return await self._session.get(
                url,
                headers=headers,
                ssl=self._context,
                allow_redirects=False,
            )
        except ValueError as problem:  # a field that cannot be sent; aiohttp.InvalidURL is one, too
            raise CannotRun("no request can be made of its path and headers") from problem


async def _read(response: aiohttp.ClientResponse) -> None:
    """Reads the beginning of the body; what is left closes the connection."""
    left = MOST_READ
    while left > 0 and (part := await response.content.read(left)):
        left -= len(part)


def _meaning(status: int) -> Ran:
    if status in _REDIRECTS:
        return success(f"HTTP {status}, which is not followed")
    return success(f"HTTP {status}") if status in _PASSING else failure(f"HTTP {status}")


def _url(handler: HttpGet, run: HandlerRun) -> URL:
    port = run.port(handler.port)
    try:
        return _built(handler.scheme.value.lower(), run.address.host, port, handler.path)
    except ValueError as problem:
        raise CannotRun("no request can be made of its host and path") from problem


@functools.lru_cache(maxsize=1024)
def _built(scheme: str, host: str, port: int, path: str) -> URL:
    """Of the path only what no URL may have is written in another way; what it has of a query stays one."""
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
            del headers[name]  # set to nothing: it is not sent, or as ever
    return headers


def _same_host(url: URL, location: str) -> bool:
    """Whether a redirect stays with its host; one that cannot be read does, and fails."""
    following = _following(url, location)
    return following is None or following.raw_host == url.raw_host


def _following(url: URL, location: str) -> URL | None:
    try:
        following = url.join(URL(location))
    except ValueError:
        return None
    if following.scheme not in _SCHEMES or not following.raw_host:
        return None
    return following.with_fragment(None).with_user(None)


def _headers_for(
    following: URL, before: URL, location: str, headers: CIMultiDict[str]
) -> CIMultiDict[str]:
    """What goes with a redirect: a Host of one's own with a relative one only, as Go's client has it."""
    headers = headers.copy()
    if URL(location).absolute:
        headers.popall("Host", None)
    if (before.scheme, following.scheme) == ("https", "http"):
        for name in _SECRET:
            headers.popall(name, None)
    return headers


def _session(lookup: Lookup) -> aiohttp.ClientSession:
    connector = BoundedConnector(
        limit=0,  # places are found before
        force_close=True,
        resolver=HandlerResolver(lookup),
        use_dns_cache=False,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # no proxy variables, no .netrc
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # the run has an end
        middlewares=(asks_once(Closed),),
        read_bufsize=MOST_READ,
        max_headers=_MOST_FIELDS,
        skip_auto_headers=_AUTOMATIC,
    )


def _unverified() -> ssl.SSLContext:
    """Certificates are looked at no more than the kubelet looks at them; nothing of ours is shown."""
    context = BoundedContext()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
