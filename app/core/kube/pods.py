"""The pods of endpoint probes: those that the selectors match, in the followed namespaces, and commands in them.

There is one watch of all namespaces for each selector. It is open from the first followed namespace until a while after
the last was left.

`NamespacedReplica` copies the objects of some namespaces, from one watch of all namespaces; the set may change while it
runs. A namespace that is followed when a list begins is *covered* by it. One that is followed later *joins*: from then
on the changes that the watch delivers are recorded, and then its objects are listed separately. If the watch has
reported an object since the join began, the separate list is ignored for that object: the watch delivers every change
in order, so its last report is the state at the watch's current position, and the list may be older. For all other
objects the list is at least as new as the watch, and any change that it is ahead will be delivered again. So no
resourceVersions are compared, no object is missed, and none remains that is gone.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import structlog

from app.core.errors import BadAnswer, ClusterError, LimitExceeded, Unreachable
from app.core.kube import resources
from app.core.kube.client import ApiRequest
from app.core.kube.decoding import envelope
from app.core.kube.failures import RequestedRight
from app.core.kube.reflector import ObjectKey, Reflector, Replica
from app.core.kube.resources import PODS
from app.core.kube.reviews import PODS_FEATURE
from app.core.kube.seed_api import WITHIN, SeedApi
from app.core.limits import Backoff
from app.core.model.endpoints import ProbedPod
from app.core.model.names import LabelSelector
from app.core.ports import Frame, WatchState
from app.core.tasks import Tasks, cancelled, happens, tell

log = structlog.get_logger(__name__)

T = TypeVar("T")


class NamespacedReplica(Replica[T]):
    """The copy of the objects of one kind in the namespaces that are followed."""

    def __init__(
        self,
        label: str,
        decode: Callable[[envelope.Raw], T],
        problem: Callable[[T], str | None],
    ) -> None:
        """Follows no namespace yet; the arguments are those of `Replica`."""
        super().__init__(label, decode, problem)
        self._followed: set[str] = set()
        self._kept: set[str] = set()
        """Namespaces whose changes are recorded."""
        self._covered: set[str] = set()
        """Namespaces that are completely known."""
        self._told: dict[str, set[str]] = {}
        """The objects that the watch has reported, by joining namespace."""
        self._listing = True
        """Whether a list is due or in progress, which will cover what was followed when it began."""

    @property
    def followed(self) -> Collection[str]:
        """The namespaces that are followed."""
        return self._followed

    def follow(self, namespace: str) -> None:
        """Follows a namespace from now on."""
        self._followed.add(namespace)

    def leave(self, namespace: str) -> None:
        """Stops following a namespace and drops its objects, without a notification."""
        for those in (self._followed, self._kept, self._covered):
            those.discard(namespace)
        self._told.pop(namespace, None)
        self.drop(namespace)

    def covers(self, namespace: str) -> bool:
        """Returns whether all objects of a namespace are known."""
        return namespace in self._covered

    def waiting(self) -> tuple[str, ...]:
        """Returns the namespaces that have to join; none while a list is due."""
        return () if self._listing else tuple(sorted(self._followed - self._covered))

    # Called by the reflector.

    def keeps(self, namespace: str) -> bool:
        """Returns whether changes of this namespace are recorded."""
        return namespace in self._kept

    def list_begins(self) -> None:
        """Covers what is followed now; joins in progress are superseded."""
        self._listing = True
        self._kept = set(self._followed)
        self._told.clear()

    def replace(self, found: Mapping[ObjectKey, T]) -> tuple[ObjectKey, ...]:
        """Replaces all objects of the namespaces that were followed since the list began."""
        self._listing = False
        self._covered = set(self._kept)
        return super().replace({key: each for key, each in found.items() if key[0] in self._kept})

    def put(self, key: ObjectKey, record: T) -> bool:
        """Stores a record; returns whether it differs from the one before."""
        self._note(key)
        return super().put(key, record)

    def remove(self, key: ObjectKey) -> bool:
        """Removes an object; returns whether it was there."""
        self._note(key)
        return super().remove(key)

    def _note(self, key: ObjectKey) -> None:
        told = self._told.get(key[0])
        if told is not None:
            told.add(key[1])

    # Joining.

    def join(self, namespace: str) -> None:
        """Records changes of this namespace from now on; only a list that is requested after this may be merged."""
        self._kept.add(namespace)
        self._told.setdefault(namespace, set())

    def merge(self, namespace: str, found: Mapping[ObjectKey, T]) -> bool:
        """Merges a list, apart from objects that the watch has reported; returns whether that covers the namespace.

        It does not if the namespace was left meanwhile, or a list of everything has begun.
        """
        told = self._told.pop(namespace, None)
        if told is None:
            return False
        for key, record in found.items():
            if key[0] == namespace and key[1] not in told:
                self.put(key, record)
        self._covered.add(namespace)
        return True


START_DELAY: Final = 1.0
"""Seconds from the first followed namespace to the list: at a start hundreds more follow at once."""
IDLE_TIMEOUT: Final = 60.0
"""Seconds after which an unused watch is closed."""
MOST_JOINS: Final = 10
"""Namespaces that are listed one by one; for more than that, everything is listed anew."""
LISTS_APART: Final = 5.0
"""Minimum seconds between two such lists."""
_BACKOFF: Final = Backoff(first=1.0, most=30.0)


class SelectedPods:
    """A copy of the pods of one selector, kept up to date by `run`."""

    def __init__(
        self,
        selector: LabelSelector,
        api: SeedApi,
        tasks: Tasks,
        random: Random,
        *,
        changed: Callable[[str], None],
        refusal_changed: Callable[[], None],
    ) -> None:
        """Sends nothing yet.

        Args:
            selector: selects the pods.
            api: sends the requests.
            tasks: owns the watch task; if it dies the process ends.
            random: spreads retries and the durations of watches.
            changed: called with a namespace after each change of its pods.
            refusal_changed: called after each change of `forbidden`.
        """
        self._clock, self._metrics = api.clock, api.metrics
        self._tasks, self._random, self._changed = tasks, random, changed
        source = resources.probed_pods(selector)
        self.label = source.label
        """Name of the watch in metrics, log and status."""
        self._replica = NamespacedReplica(source.label, source.decode, source.complaint)
        self._reflector = Reflector(
            source,
            api,
            random,
            self._pod_changed,
            replaced=self._listed,
            refusal_changed=refusal_changed,
            replica=self._replica,
        )
        self._watching: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()
        """Set when something changes that concerns `run`."""
        self._join_trouble: str | None = None
        self._failures = 0
        self._listed_all_at = float("-inf")

    @property
    def trouble(self) -> str | None:
        """Why the watch does not work; None while it does, or nothing is followed."""
        if self._watching is None:
            return None
        return self._reflector.trouble or self._join_trouble

    @property
    def forbidden(self) -> str | None:
        """Why watching pods is forbidden; None while it is allowed, or not known to be forbidden."""
        return self._reflector.forbidden

    def follow(self, namespace: str) -> None:
        """Follows a namespace."""
        self._replica.follow(namespace)
        self._wakeup.set()

    def leave(self, namespace: str) -> None:
        """Stops following a namespace."""
        self._replica.leave(namespace)
        self._wakeup.set()

    def pods(self, namespace: str) -> Collection[ProbedPod]:
        """Returns the pods of a namespace, from the watch; none until all of them are known."""
        if not self._replica.covers(namespace):
            return ()
        return tuple(self._replica.of(namespace).values())

    def state(self, namespace: str) -> WatchState:
        """Returns the state of the watch for this namespace."""
        return WatchState(self._replica.covers(namespace), self._reflector.state.last_contact)

    def _pod_changed(self, namespace: str, _name: str) -> None:
        if self._replica.covers(namespace):
            self._changed(namespace)

    def _listed(self, _since: float | None, _news: tuple[ObjectKey, ...]) -> None:
        """Notifies for every namespace: even if its pods are the same, they may not have been known to be complete."""
        self._wakeup.set()
        for namespace in sorted(self._replica.followed):
            if self._replica.covers(namespace):
                self._changed(namespace)

    # The watch and its users.

    async def run(self) -> None:
        """Watches while any namespace is followed, until cancelled."""
        try:
            while True:
                while not self._replica.followed:
                    self._wakeup.clear()
                    await self._wakeup.wait()
                await self._clock.sleep(START_DELAY)
                await self._list_all()
                await self._until_idle()
                await self._close()
        finally:
            await self._close()

    async def _until_idle(self) -> None:
        """Lets namespaces join, until none has been followed for a while."""
        while True:
            self._wakeup.clear()
            if not self._replica.followed:
                if not await happens(self._wakeup, IDLE_TIMEOUT):
                    return
            elif not (waiting := self._replica.waiting()):
                await self._wakeup.wait()
            elif len(waiting) <= MOST_JOINS:
                # in rotation: one that fails must not delay the others
                await self._join(waiting[self._failures % len(waiting)])
            else:
                await self._clock.sleep(self._listed_all_at + LISTS_APART - self._clock.now())
                await self._list_all()

    async def _list_all(self) -> None:
        """Lists everything and watches from there."""
        if self._watching is not None:
            await cancelled(self._watching)
        self._listed_all_at = self._clock.now()
        self._replica.list_begins()  # until the list is complete no namespace joins
        self._reflector.list_anew()
        self._watching = self._tasks.shared(self._reflector.run, f"watch {self.label}")

    async def _join(self, namespace: str) -> None:
        self._replica.join(namespace)
        try:
            found = await self._reflector.read(PODS.path(namespace), namespace)
        except ClusterError as error:
            self._failures += 1
            self._join_trouble = str(error)
            log.warning("pods could not be listed", error=str(error), failures=self._failures)
            pause = _BACKOFF.jittered(self._failures, self._random.random())
            await self._clock.sleep(max(pause, error.retry_after or 0.0))
            return
        self._failures, self._join_trouble = 0, None
        if self._replica.merge(namespace, found):
            self._changed(namespace)

    async def _close(self) -> None:
        """Closes the watch."""
        watching, self._watching = self._watching, None
        if watching is None:
            return
        await cancelled(watching)
        self._metrics.watch_contact.remove(self.label)


class ProbedPods:
    """One watch for each selector; no watch if no selector is configured."""

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
        self._tasks = tasks
        self._off = api.metrics.feature_off.labels(PODS_FEATURE)
        self._listeners: list[Callable[[str], None]] = []
        self._running: list[asyncio.Task[None]] = []
        self._selected = {
            each: SelectedPods(
                each,
                api,
                tasks,
                random,
                changed=self._changed,
                refusal_changed=self._refusal_changed,
            )
            for each in dict.fromkeys(selectors)
        }

    async def start(self) -> None:
        """Starts to keep a watch of each selector while any namespace is followed."""
        for each in self._selected.values():
            self._running.append(self._tasks.shared(each.run, each.label))

    async def close(self) -> None:
        """Stops the watches."""
        await cancelled(*self._running)

    def troubles(self) -> Mapping[str, str]:
        """Returns why watches do not work, by name; empty if all do."""
        found = {each.label: each.trouble for each in self._selected.values()}
        return {name: trouble for name, trouble in found.items() if trouble is not None}

    @property
    def forbidden(self) -> str | None:
        """Why watching pods is forbidden; None while it is allowed, or not known to be forbidden."""
        return next((each.forbidden for each in self._selected.values() if each.forbidden), None)

    def follow(self, namespace: str) -> None:
        """Follows the pods of this namespace, because its shoot is probed from now on."""
        for each in self._selected.values():
            each.follow(namespace)

    def leave(self, namespace: str) -> None:
        """Stops following the pods of this namespace and drops them."""
        for each in self._selected.values():
            each.leave(namespace)

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        """Returns the pods that match a configured selector, from the watch; none until all were listed."""
        return self._selected[selector].pods(namespace)

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        """Returns the state of this selector's watch; `synced` says whether the pods of this namespace were listed."""
        return self._selected[selector].state(namespace)

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the namespace after each change of its pods, and when they have been listed."""
        self._listeners.append(listener)

    def _changed(self, namespace: str) -> None:
        tell(self._listeners, {"watch": "pods"}, namespace)

    def _refusal_changed(self) -> None:
        why = self.forbidden
        self._off.set(0 if why is None else 1)
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
