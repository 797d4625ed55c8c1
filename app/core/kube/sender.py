"""One attempt at a request: on which connection it goes out, and how long the first byte of an answer may take."""

import asyncio
import io
import ssl
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from app.core.kube.requests import Limits, Request
from app.core.kube.connections import Attempt, Cut, Wire

_SHARE_OF_FIRST: Final = 0.6
"""Of the time that there is, what a reused connection may take at most: a second attempt needs the rest."""
_LARGE: Final = 1 << 20


class DeadConnection(Exception):
    """A connection that was open before gave no answer."""


@dataclass(slots=True)
class Progress:
    """How far a request has come."""

    answered: bool = False
    attempt: Attempt | None = None

    @property
    def spent_on_name(self) -> bool:
        """Whether its time went into looking for the server's address."""
        return self.attempt is not None and self.attempt.spent_on_name


class Sender:
    """Sends requests to one API server."""

    def __init__(self, wire: Wire, origin: str, context: ssl.SSLContext, limits: Limits) -> None:
        """Connects to nothing yet; the arguments are those of `client.Channel`."""
        self._wire, self._origin, self._context = wire, origin, context
        self._limits = limits
        self._urls: dict[str, URL] = {}

    async def send(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        token: str | None,
        progress: Progress,
    ) -> tuple[aiohttp.ClientResponse, Attempt]:
        """Sends it, and waits for the head of the answer.

        Raises:
            DeadConnection: the connection was open before, and is so no more.
            aiohttp.ClientError: none could be made, or it broke.
            OSError: as before, or (TimeoutError) no answer began in time.
        """
        limits, attempt = self._limits, None
        try:
            async with asyncio.timeout(limits.first_byte_new) as timer:
                reused = min(limits.first_byte_reused, request.within * _SHARE_OF_FIRST)
                progress.attempt = attempt = Attempt(self._wire.clock, reused, timer)
                return await self._open(session, request, token, attempt), attempt
        except (TimeoutError, Cut) as error:
            if attempt is not None and attempt.reused:
                raise DeadConnection from error
            raise

    async def _open(
        self, session: aiohttp.ClientSession, request: Request, token: str | None, attempt: Attempt
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": request.accept}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        attempt.begin()
        return await session.request(
            request.method,
            self._url(request),
            params=request.params or None,
            data=None if request.body is None else _payload(request.body),
            headers=headers,
            ssl=self._context,
            allow_redirects=False,
        )

    async def switch(
        self, request: Request, token: str | None, protocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse:
        """Sends it as one for a WebSocket, and waits until the other side has agreed.

        Raises:
            NotSwitched: it has not.
            aiohttp.ClientError: no connection could be made, or it broke.
            OSError: as before, or (TimeoutError) no answer began in time.
        """
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with asyncio.timeout(request.within) as timer:
            Attempt(self._wire.clock, request.within, timer).begin()
            return await self._wire.switched.ws_connect(
                self._url(request),
                protocols=protocols,
                headers=headers,
                ssl=self._context,
                compress=0,
                max_msg_size=request.most,
            )

    def _url(self, request: Request) -> URL:
        """Its parts are found once, and kept in it, where it will be asked for again."""
        known = self._urls.get(request.path)
        if known is not None:
            return known
        url = URL(self._origin + request.path)
        if request.again:
            self._urls[request.path] = url
        return url


def _payload(body: object) -> bytes | io.BytesIO:
    """JSON; a large one as a stream, which aiohttp sends in pieces instead of blocking the loop, and so warns of."""
    encoded = msgspec.json.encode(body)
    return encoded if len(encoded) <= _LARGE else io.BytesIO(encoded)
