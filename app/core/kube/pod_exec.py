"""Runs commands in containers: the `exec` subresource of pods, over WebSocket, with the seed's credentials.

The API server opens a stream to the kubelet and forwards its channels; one of them reports how the command ended.
Nothing is sent: no stdin, no terminal.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp

from app.core.errors import BadAnswer, ClusterError, LimitExceeded, Unreachable
from app.core.kube.client import ApiRequest
from app.core.kube.failures import RequestedRight
from app.core.kube.seed_api import WITHIN, SeedApi
from app.core.ports import Frame

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""Both report the exit code on channel 3."""
MOST_MESSAGE: Final = 1 << 20
MOST_OUTPUT: Final = 4 << 20
"""Maximum bytes of all messages of one command."""
# Minimum bytes that a message counts for, so that endless empty messages reach the limit, too.
_EMPTY: Final = 64


class ContainerExec:
    """Runs commands in containers of the seed."""

    def __init__(self, api: SeedApi) -> None:
        self._api = api

    @asynccontextmanager
    async def open(
        self, namespace: str, pod: str, container: str, command: tuple[str, ...]
    ) -> AsyncIterator[AsyncIterator[Frame]]:
        """Starts `command` without a shell; yields its output as frames and closes the connection on exit.

        Raises:
            ClusterError: the API server refused to run the command, or the stream broke.
        """
        asked = RequestedRight("create", "pods/exec", f"{namespace}/{pod}")
        request = ApiRequest(
            asked, _path(namespace, pod, container, command), WITHIN, most=MOST_MESSAGE
        )
        async with self._api.socket(request, PROTOCOLS) as opened:
            if opened.protocol not in PROTOCOLS:
                raise BadAnswer(f"{asked}: the server agreed to no protocol that we support")
            async with aclosing(_frames(asked, opened)) as frames:
                yield frames


def _path(namespace: str, pod: str, container: str, command: tuple[str, ...]) -> str:
    place = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/exec"
    asked = [("container", container), *(("command", part) for part in command)]
    query = urlencode([*asked, ("stdout", "true"), ("stderr", "true")], quote_via=quote)
    return f"{place}?{query}"


async def _frames(
    asked: RequestedRight, opened: aiohttp.ClientWebSocketResponse
) -> AsyncGenerator[Frame, None]:
    read = 0
    while True:
        try:
            message = await opened.receive()
        except aiohttp.ClientError as error:
            raise Unreachable(f"{asked}: the stream broke") from error
        frame = _frame(asked, message)
        if frame is None:
            return
        read += max(len(frame.data), _EMPTY)
        if read > MOST_OUTPUT:
            raise LimitExceeded("size", f"{asked}: more than {MOST_OUTPUT} bytes of output")
        yield frame


def _frame(asked: RequestedRight, message: aiohttp.WSMessage) -> Frame | None:
    """Decodes a message to a frame; None at the end of the stream."""
    match message.type:
        case aiohttp.WSMsgType.BINARY if message.data:
            return Frame(message.data[0], bytes(message.data[1:]))
        case aiohttp.WSMsgType.CLOSE | aiohttp.WSMsgType.CLOSING | aiohttp.WSMsgType.CLOSED:
            return None
        case aiohttp.WSMsgType.ERROR:
            raise _broken(asked, message.data)
        case _:
            raise BadAnswer(f"{asked}: a message that is not a frame of a channel")


def _broken(asked: RequestedRight, error: object) -> ClusterError:
    if (
        isinstance(error, aiohttp.WebSocketError)
        and error.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
    ):
        return LimitExceeded("size", f"{asked}: a message of more than {MOST_MESSAGE} bytes")
    return Unreachable(f"{asked}: the stream broke")
