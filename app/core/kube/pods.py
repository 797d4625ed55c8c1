"""The pods of endpoint probes: those that the selectors match, in the followed namespaces, and commands in them.

There is one watch of all namespaces for each selector. It is open from the first followed namespace until a while after
the last was left. It copies the pods of all namespaces, so that one that is followed later is known at once: control
planes that are not probed have few pods, and little is kept of each.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from random import Random
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp
import structlog

from app.core.errors import BadAnswer, LimitExceeded, Unreachable
from app.core.kube import resources
from app.core.kube.client import ApiRequest
from app.core.kube.connections import RequestedRight
from app.core.kube.reflector import ObjectKey, Reflector, troubles
from app.core.kube.resources import PODS
from app.core.kube.seed_api import WITHIN, SeedApi
from app.core.model.endpoints import ProbedPod
from app.core.model.names import LabelSelector
from app.core.ports import PODS_FEATURE, Frame, WatchState
from app.core.tasks import Tasks, cancelled, tell, wait_until_set

log = structlog.get_logger(__name__)

IDLE_TIMEOUT: Final = 60.0
"""Seconds after which an unused watch is closed."""


class ProbedPods:
    """One watch for each selector, while any namespace is followed; no watch if no selector is configured."""

    def __init__(
        self,
        api: SeedApi,
        selectors: Collection[LabelSelector],
        tasks: Tasks,
        random: Random,
    ) -> None:
        """Sends nothing yet.

        Args:
            api: sends the requests, on the normal budget.
            selectors: the selectors of the configured probes; equal ones share a watch.
            tasks: owns the watch tasks; if one dies the process ends.
            random: spreads retries and the durations of watches.
        """
        self._tasks, self._metrics = tasks, api.metrics
        api.metrics.feature(PODS_FEATURE, off=False)
        self._listeners: list[Callable[[str], None]] = []
        self._followed: set[str] = set()
        self._followed_changed = asyncio.Event()
        self._watches = {
            each: Reflector(
                resources.probed_pods(each),
                api,
                random,
                self._pod_changed,
                replaced=self._listed,
                refusal_changed=self._refusal_changed,
            )
            for each in dict.fromkeys(selectors)
        }

    async def start(self) -> None:
        """Starts to keep a watch of each selector while any namespace is followed."""
        for each in self._watches.values():
            _ = self._tasks.shared(partial(self._keep, each), each.label)

    async def _keep(self, watch: Reflector[ProbedPod]) -> None:
        """Watches while any namespace is followed, until cancelled."""
        while True:
            while not self._followed:
                self._followed_changed.clear()
                await self._followed_changed.wait()
            watching = self._tasks.shared(watch.run, f"watch {watch.label}")
            try:
                await self._until_idle()
            finally:
                await cancelled(watching)
                watch.forget()
                self._metrics.watch_contact.remove(watch.label)

    async def _until_idle(self) -> None:
        """Waits until no namespace has been followed for a while."""
        while True:
            self._followed_changed.clear()
            within = None if self._followed else IDLE_TIMEOUT
            if not await wait_until_set(self._followed_changed, within):
                return

    def troubles(self) -> Mapping[str, str]:
        """Returns why watches do not work, by name; empty if all do, or nothing is followed."""
        return troubles(self._watches.values())

    @property
    def forbidden(self) -> str | None:
        """Why watching pods is forbidden; None while it is allowed, or not known to be forbidden."""
        return next((each.forbidden for each in self._watches.values() if each.forbidden), None)

    def follow(self, namespace: str) -> None:
        """Follows the pods of this namespace, because its shoot is probed from now on."""
        self._followed.add(namespace)
        self._followed_changed.set()

    def leave(self, namespace: str) -> None:
        """Stops following the pods of this namespace: from now on there are none to be seen."""
        self._followed.discard(namespace)
        self._followed_changed.set()

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        """Returns the pods that match a configured selector, from the watch; none until all were listed."""
        known = self.watch_state(namespace, selector).synced
        return tuple(self._watches[selector].of(namespace).values()) if known else ()

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        """Returns the state of this selector's watch; `synced` says whether the pods of this namespace were listed."""
        state = self._watches[selector].state
        return WatchState(state.synced and namespace in self._followed, state.last_contact)

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the namespace after each change of its pods, and when they have been listed."""
        self._listeners.append(listener)

    def _pod_changed(self, namespace: str, _name: str) -> None:
        if namespace in self._followed:
            tell(self._listeners, {"watch": "pods"}, namespace)

    def _listed(self, _since: float | None, _news: tuple[ObjectKey, ...]) -> None:
        """Tells of every namespace: even if its pods are the same, they may not have been known to be complete."""
        for namespace in sorted(self._followed):
            tell(self._listeners, {"watch": "pods"}, namespace)

    def _refusal_changed(self) -> None:
        why = self.forbidden
        self._metrics.feature(PODS_FEATURE, off=why is not None)
        if why is not None:
            log.error("watching the pods of probes is forbidden", feature=PODS_FEATURE, error=why)


# Commands in containers: the `exec` subresource of pods, over WebSocket, with the seed's credentials.
#
# The API server opens a stream to the kubelet and forwards its channels; one of them reports how the command ended.
# Nothing is sent: no stdin, no terminal.


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
        path = PODS.path(quote(namespace, safe=""), quote(pod, safe=""), "exec")
        params = [("container", container), *(("command", part) for part in command)]
        query = urlencode([*params, ("stdout", "true"), ("stderr", "true")], quote_via=quote)
        request = ApiRequest(asked, f"{path}?{query}", WITHIN, most=MOST_MESSAGE)
        async with self._api.socket(request, PROTOCOLS) as opened:
            if opened.protocol not in PROTOCOLS:
                raise BadAnswer(f"{asked}: the server agreed to no protocol that we support")
            async with aclosing(_frames(asked, opened)) as frames:
                yield frames


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
            if getattr(message.data, "code", None) == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
                text = f"{asked}: a message of more than {MOST_MESSAGE} bytes"
                raise LimitExceeded("size", text)
            raise Unreachable(f"{asked}: the stream broke")
        case _:
            raise BadAnswer(f"{asked}: a message that is not a frame of a channel")
