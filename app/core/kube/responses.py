"""The answers of an API server: checked, read under caps, and decoded while their bytes are counted."""

import contextlib
from collections.abc import Generator
from typing import Final, TypeVar

import aiohttp

from app.core.errors import BadAnswer, ClusterError, LimitExceeded
from app.core.kube import failures
from app.core.kube import decoding
from app.core.kube.byte_budget import Claim
from app.core.kube.requests import Decoding, Reply, Request
from app.core.kube.connections import Attempt, Wire
from app.core.clock import stopwatch
from app.core.fair_queue import Consumer

T = TypeVar("T")

_MAX_ERROR_BODY: Final = 64 * 1024
_OK: Final = frozenset({200, 201})
_ACCEPTED: Final = 202
"""What a deletion may be answered with, too: it is on its way."""


class Answers:
    """Reads the answers of one API server."""

    def __init__(self, wire: Wire, most: int, consumer: Consumer, *, trusted: bool) -> None:
        """Keeps its arguments.

        Args:
            wire: has what the answers of all servers share.
            most: bytes that an answer may have.
            consumer: who is charged for the time that decoding takes.
            trusted: whether the server's own words may appear in messages.
        """
        self._clock, self._budget = wire.clock, wire.budget
        self._most, self._consumer, self._trusted = most, consumer, trusted

    async def read(
        self,
        request: Request,
        response: aiohttp.ClientResponse,
        attempt: Attempt,
        decode: Decoding[T],
    ) -> Reply[T]:
        """Decodes what was asked for.

        Raises:
            ClusterError: the answer brings something else, or too much.
            msgspec.MsgspecError: it is not what it should be; UnicodeDecodeError and RecursionError say the same.
            aiohttp.ClientError: the connection broke.
            OSError: as before.
        """
        await self.check(request, response)
        with self._budget.claim() as claim:
            body = await self._body(request, response, claim)
            received = self._clock.now()
            try:
                value = await self._decoded(decode, body)
            finally:
                _let_go(body)
        return Reply(value, attempt.sent, received, response.headers.get("Date"))

    async def _decoded(self, decode: Decoding[T], body: bytearray) -> T:
        """Whatever it is, it is done in stretches that keep nobody waiting for long."""
        begun = stopwatch()
        try:
            value = decode(body)
        finally:
            self._consumer.charge(stopwatch() - begun)
        if isinstance(value, Generator):
            return await self._consumer.finish(value)
        return value

    async def check(self, request: Request, response: aiohttp.ClientResponse) -> None:
        """Looks at the head of the answer.

        Raises:
            ClusterError: what the answer is, if it does not bring what was asked for.
        """
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise BadAnswer(f"{request.asked}: the answer is compressed, which was not asked for")
        deleting = request.method == "DELETE" and response.status == _ACCEPTED
        if response.status not in _OK and not deleting:
            raise await self.refusal(request, response)

    async def refusal(self, request: Request, response: aiohttp.ClientResponse) -> ClusterError:
        """What an answer means that is a refusal."""
        body = await response.content.read(_MAX_ERROR_BODY)
        rest = bytes(body)
        while rest and len(body) < _MAX_ERROR_BODY:
            rest = await response.content.read(_MAX_ERROR_BODY)
            body += rest
        headers = response.headers
        return failures.of_status(
            request.asked,
            response.status,
            retry_after=failures.pause(headers.get("Retry-After"), headers.get("Date")),
            detail=decoding.status_message(body) if self._trusted and not request.secret else "",
        )

    async def _body(
        self, request: Request, response: aiohttp.ClientResponse, claim: Claim
    ) -> bytearray:
        most, content = min(self._most, request.most), response.content
        if (response.content_length or 0) > most:
            raise _too_long(request, most)
        body = bytearray()
        while not content.at_eof():
            chunk = await content.readany()
            if len(body) + len(chunk) > most:
                _let_go(body)
                raise _too_long(request, most)
            await claim.grow(len(chunk))
            body += chunk
        return body


def _let_go(body: bytearray) -> None:
    """Frees the bytes now: an error that refers to its frame would keep them until the next garbage collection."""
    with contextlib.suppress(BufferError):  # something still looks into them
        body.clear()


def _too_long(request: Request, most: int) -> LimitExceeded:
    return LimitExceeded("size", f"{request.asked}: more than {most} bytes")
