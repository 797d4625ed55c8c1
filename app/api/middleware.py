"""The body of a request, whole, small and JSON, or no request at all (threats T9, T15): raw ASGI, after authentication.

The application is called when all of the body is there, so that nothing waits half done for the rest of it.
"""

import asyncio
import json
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import Problem, ProblemType
from app.core.errors import trimmed

MAX_BODY: Final = 16_384
"""Bytes."""
_TIME: Final = 10.0
"""Seconds from the head to the end of the body."""
_CLOSE: Final = {"Connection": "close"}
"""Nobody reads what is still to come."""


class _HungUp(Exception):
    """The caller has gone before his body was whole."""


class Bodies:
    """Reads the body of each request, and refuses what is too long, too slow, or no JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or not has_body(scope):
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_TIME):
                body = await _whole(receive)
            _check(body)
        except _HungUp:
            return
        except TimeoutError:
            detail = f"the body did not arrive within {_TIME:.0f} s"
            problem = Problem(ProblemType.MALFORMED_REQUEST, detail, headers=_CLOSE)
        except Problem as refusal:
            problem = refusal
        else:
            await self._app(scope, _replay(body, receive), send)
            return
        await problem.response(trimmed(str(scope["path"]), 200))(scope, receive, send)


def has_body(scope: Scope) -> bool:
    """Whether the head announces one."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )


def too_large() -> Problem:
    """The refusal of a body that is longer than what is read."""
    return Problem(ProblemType.PAYLOAD_TOO_LARGE, f"more than {MAX_BODY} bytes", headers=_CLOSE)


async def _whole(receive: Receive) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise _HungUp
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise too_large()
        more = message.get("more_body", False)
    return bytes(body)


def _check(body: bytes) -> None:
    """Returns where `body` is JSON that every reader understands alike, or empty.

    Raises:
        Problem: it is not.
    """
    if not body:
        return
    try:
        msgspec.json.decode(body)  # stricter than the standard library: UTF-8, numbers, surrogates
        json.loads(body, object_pairs_hook=_without_duplicates)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        detail = "the body is not JSON, or has the same key twice"
        raise Problem(ProblemType.MALFORMED_REQUEST, detail) from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the same key twice")
    return found


def _replay(body: bytes, receive: Receive) -> Receive:
    """`receive` of a request whose body has been read; after it, what the server says of the connection."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
