"""Keeps a local copy of one kind of the seed's objects by list and watch, as client-go's Reflector does.

The reflector lists once, page by page, then follows a watch from the resourceVersion of the list, for as long as the
process lives. When a watch ends it opens the next one where the last one stopped. It lists anew when the server no
longer has that position (410, as a status or as an event), when a watch was silent for `SILENCE` seconds, when an event
was too long to read, and after several failures in a row whose cause may be the position itself.

It survives a server that closes, cuts, stalls, sends garbage, refuses, or asks for a pause. An object vanishes from the
copy only if the server says so: a failed list leaves the copy as it was, and an object that cannot be decoded keeps its
last good record (`Replica`).

`state` tells readers how far to trust the copy: whether there was a list, and when the server was last heard of. A
watch without contact for 90 s counts as stale (rules 4.1).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import structlog

from app.core.clock import Clock
from app.core.errors import (
    BadAnswer,
    ClusterError,
    Expired,
    Forbidden,
    LimitExceeded,
    NotFound,
    Throttled,
    Unauthorized,
    Unreachable,
)
from app.core.kube.client import ApiRequest, Decode, WatchSilent
from app.core.kube.connections import RequestedRight, error_of_exception, error_of_status
from app.core.kube.decoding import envelope
from app.core.kube.nesting import DEEPEST, shallow, was_cut
from app.core.kube.resources import Page, SendPage, WatchSource, pages
from app.core.kube.seed_api import WITHIN, Budget, SeedApi
from app.core.limits import Backoff
from app.core.ports import Admission, WatchState

T = TypeVar("T")
R = TypeVar("R")

ObjectKey = tuple[str, str]
"""Namespace and name; cluster-scoped objects have the namespace ''."""


class Replica(Generic[T]):
    """The copy of a reflector: records of the objects of one kind."""

    def __init__(
        self,
        label: str,
        decode: Callable[[envelope.Raw], T],
        problem: Callable[[T], str | None],
    ) -> None:
        """Creates an empty copy.

        Args:
            label: the name of the watch in the log.
            decode: turns an object into a record.
            problem: returns which part of a record could not be understood, if any.
        """
        self._label, self._record_of, self._problem_of = label, decode, problem
        self._objects: dict[str, dict[str, T]] = {}
        self._warned: dict[ObjectKey, str] = {}

    @property
    def empty(self) -> bool:
        """Whether there are no objects."""
        return not self._objects

    def of(self, namespace: str) -> Mapping[str, T]:
        """Returns the objects of a namespace by name."""
        return self._objects.get(namespace, {})

    def everything(self) -> Iterator[T]:
        """Yields the objects of all namespaces."""
        return (each for objects in self._objects.values() for each in objects.values())

    def decode(
        self, raw: envelope.Raw, problem: str | None = None
    ) -> tuple[ObjectKey, str | None, T | None]:
        """Decodes an object to its key, resourceVersion and record.

        The record is the last good one (or None) if the object cannot be decoded.

        Args:
            raw: the object; its metadata suffices if there is a problem.
            problem: why it is not to be decoded.

        Raises:
            msgspec.MsgspecError: not even its name can be decoded.
            RecursionError: it is nested too deeply.
        """
        meta = envelope.identity(raw)
        key = (meta.namespace or "", meta.name)
        record = self.of(key[0]).get(key[1])
        if problem is None:
            try:
                record = self._record_of(raw)
                problem = self._problem_of(record)
            except (msgspec.MsgspecError, UnicodeDecodeError, BadAnswer) as error:
                problem = str(error)
        if problem is not None:
            text = "an object cannot be decoded; its last known state stays in use"
            self.warn(key, meta.resource_version, text, error=problem)
        return key, meta.resource_version, record

    def warn(self, key: ObjectKey, version: str | None, text: str, **more: object) -> None:
        """Logs a warning about an object, once for each of its versions."""
        if self._warned.get(key) != (version or ""):
            self._warned[key] = version or ""
            log.warning(text, watch=self._label, namespace=key[0], name=key[1], **more)

    def put(self, key: ObjectKey, record: T) -> bool:
        """Stores a record; returns whether it differs from the one before."""
        objects = self._objects.setdefault(key[0], {})
        if objects.get(key[1]) == record:
            return False
        objects[key[1]] = record
        return True

    def remove(self, key: ObjectKey) -> bool:
        """Removes an object; returns whether it was there."""
        self._warned.pop(key, None)
        objects = self._objects.get(key[0], {})
        if objects.pop(key[1], None) is None:
            return False
        if not objects:
            del self._objects[key[0]]
        return True

    def replace(self, found: Mapping[ObjectKey, T]) -> tuple[ObjectKey, ...]:
        """Replaces all objects; returns the keys of those that changed, appeared or vanished."""
        before = [(ns, name) for ns, objects in self._objects.items() for name in objects]
        gone = [key for key in before if key not in found and self.remove(key)]
        news = [key for key, record in found.items() if self.put(key, record)]
        return (*gone, *news)


# Consecutive failures, which decide how long to wait and when to list anew.


STEADY: Final = 5.0
"""A watch that lived for so many seconds does not count as a failure when it ends."""


class ConsecutiveFailures:
    """Counts consecutive failures of a watch, for the back-off.

    A failure of another kind starts a new count. An API server that restarts first does not answer, then refuses (403,
    429), then has forgotten the resourceVersion (410), and is well a second later; a count over all kinds would have
    grown to a long wait by then. Each kind starts a new count only once until the watch is well again.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._kinds: set[type[ClusterError] | None] = set()

    def after(self, error: ClusterError | None, lived: float) -> int:
        """Returns the number of consecutive failures after a watch that lived for `lived` seconds.

        Args:
            error: what ended the watch; None if the server ended it properly.
            lived: seconds since the attempt began.
        """
        kind = None if error is None else type(error)
        if lived >= STEADY:
            self._failures, self._kinds = 0, set()
        else:
            self._failures = self._failures + 1 if kind in self._kinds else 1
        self._kinds.add(kind)
        if error is not None and not isinstance(error, WatchSilent):
            # after silence the next attempt is made at once
            self._failures = max(self._failures, 1)
        return self._failures


log = structlog.get_logger(__name__)

_SHORTEST, _LONGEST = 45, 60
"""Range of `timeoutSeconds`, random so that not all watches end together. Short, because a quiet watch proves nothing
(bookmarks are not guaranteed, and kube-apiserver sends none while nothing changes): only its end proves that the server
is still there. Resuming it costs one small request a minute."""
SILENCE: Final = 70.0
"""Seconds without a byte after which a watch is abandoned: longer than the server lets any watch live, and short enough
to notice a half-open connection, and to list anew, before the copy counts as stale (90 s)."""
# Seconds of watches without a line or a bookmark after which the reflector lists anew: a proxy may end watches in time
# and pass on none of their events. It is one list in ten minutes of a kind that never changes.
_UNHEARD: Final = 600.0
# Minimum wait in seconds after a persistent 401 or 403, which only a person can resolve.
_REFUSED_PAUSE: Final = 15.0
# So many consecutive refusals count as transient, with the normal back-off: an API server that has just started refuses
# for a moment what it is about to allow.
_REFUSED_IN_PASSING: Final = 2
# Consecutive failures after which the reflector lists anew instead of resuming the watch.
_LIST_ANEW_AFTER: Final = 5
_BACKOFF: Final = Backoff(first=1.0, most=30.0)
DECODED_AT_ONCE: Final = 256 * 1024
"""Bytes of objects that are decoded before the event loop gets a turn."""
_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()


@asynccontextmanager
async def _turn_for(size: int, clock: Clock) -> AsyncIterator[None]:
    """Gives an object of so many bytes a turn of the event loop of its own, if it is large.

    Each watch of the seed may bring one in the same turn, and the whole of a turn is what all others wait for.
    """
    if size <= DECODED_AT_ONCE:
        yield
        return
    async with _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await clock.sleep(0)
        yield
        await clock.sleep(0)


Replaced = Callable[[float | None, tuple[ObjectKey, ...]], None]
"""Called after a list with the instant up to which no change was missed before it (None for the first list), and with
the keys of all objects that differ from before."""


class Reflector(Generic[T]):
    """Lists and watches one source, and keeps the copy."""

    def __init__(
        self,
        source: WatchSource[T],
        api: SeedApi,
        random: Random,
        changed: Callable[[str, str], None],
        *,
        replaced: Replaced | None = None,
        refusal_changed: Callable[[], None] = lambda: None,
        admitted: Admission | None = None,
    ) -> None:
        """Sends nothing until `run`.

        Args:
            source: what is listed and watched.
            api: sends the requests, and tells the time.
            random: spreads retries and the durations of watches.
            changed: called with namespace and name after each change of the copy.
            replaced: called after each list, instead of `changed` for each object that differs.
            refusal_changed: called after each change of `forbidden`.
            admitted: the caller's own budget, on which each request waits; None stands for the normal one.
        """
        self._source, self._api, self._random = source, api, random
        self.label = source.label or source.resource.plural
        """Name of the watch in metrics, log and status."""
        self._clock, self._metrics = api.clock, api.metrics
        self._changed, self._replaced = changed, replaced
        self._refusal_changed, self._admitted = refusal_changed, admitted
        self._replica = Replica(self.label, source.decode, source.complaint)
        self.version: str | None = None
        """The resourceVersion up to which the copy is complete; None before a list."""
        self._synced = False
        self._last_contact: float | None = None
        self.nothing_missed: float | None = None
        """The instant up to which no change was missed: right after a list, that at which it was asked for."""
        self._listed_at = float("-inf")
        """When the list that the copy began with was asked for."""
        self._empty_for = 0.0
        """Seconds of watches that the server ended in time, without a line since the last list, line or bookmark. The
        time in which the server is away is not among them: its return is no reason for all of its clients to list."""
        self._denials = 0
        """Consecutive 404 and 403."""
        self._unserved = 0
        """Consecutive 404."""
        self._refusals = 0
        """403 since a watch was open."""
        self.forbidden: str | None = None
        """Why listing and watching are forbidden, if that was said repeatedly; only an open watch proves that all
        rights are there."""
        self.trouble: str | None = None
        """Why the watch does not work, for readiness; None while it does."""
        self.unavailable: str | None = None
        """Why the objects could never be listed: the kind is not served, or listing is forbidden, repeatedly. The
        reflector keeps trying."""

    @property
    def state(self) -> WatchState:
        """Whether the copy was listed, and when the server was last heard of."""
        return WatchState(self._synced, self._last_contact)

    def of(self, namespace: str) -> Mapping[str, T]:
        """Returns the objects of a namespace by name; cluster-scoped objects are in the namespace ''."""
        return self._replica.of(namespace)

    def everything(self) -> Iterator[T]:
        """Yields the objects of all namespaces."""
        return self._replica.everything()

    def forget(self) -> tuple[ObjectKey, ...]:
        """Drops the copy, so that the next `run` begins with a list; returns the keys of what was in it."""
        self._synced, self.version, self.trouble = False, None, None
        return self._replica.replace({})

    async def run(self) -> None:
        """Lists and watches until it is cancelled.

        Raises:
            Forbidden: a source that is `short_lived` was refused repeatedly, or our credentials were not accepted.
        """
        in_a_row = ConsecutiveFailures()
        while True:
            begun = self._clock.now()
            error = await self._once()
            failures = in_a_row.after(error, self._clock.now() - begun)
            self._note_denial(error)
            if error is not None or failures:
                self._record_failure(error, failures)
            if error is not None and self._source.short_lived and _refused(error, failures):
                raise Forbidden(str(error), status=error.status) from error
            await self._clock.sleep(self._pause(error, failures))

    async def _once(self) -> ClusterError | None:
        """Runs one watch, after a list if there is no position to resume from; returns what ended it, if an error."""
        try:
            if self._empty_for >= _UNHEARD:
                self._empty_for = _UNHEARD - SILENCE / 2  # if it fails, after the next watch
                await self._list()
            elif (
                self.version is None
                or self._listed_at <= self._api.restored_at
                or (self._source.lists_when_stale and self.state.stale(self._clock.now()))
            ):
                await self._list()
            await self._watch()
        except NotFound as error:
            if self._source.may_be_unserved and self._replica.empty:
                self._synced = True
                self._in_contact()
            return error
        except ClusterError as error:
            self._note_refusal(error)
            return error
        return None

    def _note_refusal(self, error: ClusterError | None) -> None:
        """Notes a 403, or with None that a watch is open."""
        if error is None:
            self._refusals = 0
        elif isinstance(error, Forbidden):
            self._refusals += 1
        before = self.forbidden
        if self._refusals > _REFUSED_IN_PASSING:
            self.forbidden = before or str(error)
        elif error is None:
            self.forbidden = None
        if self.forbidden != before:
            self._refusal_changed()

    async def _call(self, request: ApiRequest, decode: Decode[R]) -> R:
        if self._admitted is None:
            return await self._api.call(request, decode)
        await self._admitted()
        return await self._api.call(request, decode, Budget.PACED)

    def _note_denial(self, error: ClusterError | None) -> None:
        self._denials = self._denials + 1 if isinstance(error, NotFound | Forbidden) else 0
        self._unserved = self._unserved + 1 if isinstance(error, NotFound) else 0
        if self._denials <= _REFUSED_IN_PASSING:
            return
        if not self._synced:
            self.unavailable = str(error)
        if self._source.goes_with_kind and self._unserved > _REFUSED_IN_PASSING:
            self.unavailable = str(error)
            self._tell_list(self.nothing_missed, self.forget())

    def _record_failure(self, why: ClusterError | None, failures: int) -> None:
        """Logs and counts a failure, and drops the resourceVersion if that may be the cause.

        `why` is None if the server closed the watch as soon as it was open.
        """
        error = why or Unreachable("the server closed the watch at once")
        reason = type(error).__name__
        self.trouble = str(error)
        self._metrics.watch_restarts.labels(self.label, reason).inc()
        refused = isinstance(error, Unauthorized | Forbidden) or self.unavailable is not None
        known = self._source.dispensable and (
            _refused(error, failures) or self.unavailable is not None
        )
        (log.debug if known else log.error if refused else log.warning)(
            "watch interrupted",
            watch=self.label,
            reason=reason,
            error=str(error),
            failures=failures,
        )
        passing = isinstance(why, Unreachable | Throttled | Unauthorized | Forbidden)
        # Silence does not prove that nothing happened: a proxy may accept watches and pass on none of their events. An
        # event that is too long will be no shorter the next time.
        lost = isinstance(why, Expired | WatchSilent | LimitExceeded)
        if lost or (failures >= _LIST_ANEW_AFTER and not passing):
            self.version = None

    def _pause(self, error: ClusterError | None, failures: int) -> float:
        if failures == 0:
            return 0.0
        seconds = _BACKOFF.jittered(failures, self._random.random())
        if _refused(error, failures):
            seconds = max(seconds, _REFUSED_PAUSE)
        if error is not None and error.retry_after is not None:
            seconds = max(seconds, error.retry_after)
        return seconds

    async def _list(self) -> None:
        """Replaces the copy by a new list, and reports what changed."""
        path = await self._source.path()
        asked_at = self._clock.now()  # all pages show the snapshot of the first
        asked = self._asked("list")
        found: dict[ObjectKey, T] = {}
        version = ""
        async for page, problem in pages(self._source, path, asked, self._call, within=WITHIN):
            await self._take_in(asked, page, problem, found)
            version = page.resource_version
        self._in_contact()  # not before: until the last page is there, what is shown is the old copy
        news = self._replica.replace(found)
        since, self.nothing_missed, self._listed_at = self.nothing_missed, asked_at, asked_at
        self._empty_for = 0.0
        self.version, self._synced, self.trouble, self.unavailable = version, True, None, None
        self._tell_list(since, news)  # last, so that a listener finds the complete new copy

    async def read(
        self,
        namespace: str,
        *,
        send: SendPage,
        within: float,
        most: int | None = None,
    ) -> Mapping[ObjectKey, T]:
        """Lists the source in one namespace; the copy stays as it is.

        Args:
            namespace: which one.
            send: sends the requests, on the budget that they are charged to.
            within: time limit of each request in seconds.
            most: maximum number of objects; None for any number.

        Raises:
            LimitExceeded: there are more than `most`.
            ClusterError: the list failed.
        """
        path, asked = await self._source.path(namespace), self._asked("list", namespace)
        found: dict[ObjectKey, T] = {}
        async for page, problem in pages(self._source, path, asked, send, within=within):
            await self._take_in(asked, page, problem, found)
            if most is not None and len(found) > most:
                self._metrics.limit_hits.labels("count").inc()
                raise LimitExceeded("count", f"{asked}: more than {most}")
        return found

    async def _take_in(
        self,
        asked: RequestedRight,
        page: Page,
        problem: str | None,
        found: dict[ObjectKey, T],
    ) -> None:
        """Decodes the objects of a page into `found`, yielding to the event loop in between."""
        size, turn = 0, DECODED_AT_ONCE
        try:
            for item in page.items:
                async with _turn_for(len(item), self._clock):
                    key, _, record = await self._decode(item, problem)
                if record is not None:
                    found[key] = record
                size += len(item)
                if size >= turn:
                    turn = size + DECODED_AT_ONCE
                    await self._clock.sleep(0)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise error_of_exception(asked, error) from error

    async def _decode(
        self, raw: envelope.Raw, problem: str | None = None
    ) -> tuple[ObjectKey, str | None, T | None]:
        """Decodes an object; cuts out what is nested too deeply, unless that was done with the answer around it."""
        try:
            key, version, record = self._replica.decode(raw, problem)
        except RecursionError:
            raw = await shallow(bytes(raw), self._clock)
            key, version, record = self._replica.decode(raw, problem)
        if was_cut(bytes(raw)):
            text = "an object is nested too deeply; its deeper parts are not read"
            self._replica.warn(key, version, text, levels=DEEPEST)
        return key, version, record

    def _tell_list(self, since: float | None, news: tuple[ObjectKey, ...]) -> None:
        if self._replaced is not None:
            self._replaced(since, news)
            return
        for namespace, name in news:
            self._changed(namespace, name)

    async def _watch(self) -> None:
        """Follows the stream until the server ends it.

        Opening the stream is not a contact, because a proxy in front of the server may accept watches and never pass on
        a change. A line is a contact, and so is an end that the server sends in time.
        """
        seconds = self._random.randint(_SHORTEST, _LONGEST)
        params = self._source.selection | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version or "",
            "timeoutSeconds": str(seconds),
        }
        request = ApiRequest(self._asked("watch"), await self._source.path(), WITHIN, params)
        if self._admitted is not None:
            await self._admitted()
        budget = Budget.NORMAL if self._admitted is None else Budget.PACED
        async with self._api.watch(request, silence=SILENCE, budget=budget) as lines:
            self._note_refusal(None)
            opened, empty = self._clock.now(), True
            self.trouble = None
            async for line in lines:
                await self._apply(line)
                self._in_contact()
                self.nothing_missed, self._empty_for, empty = self._last_contact, 0.0, False
            lasted = self._clock.now() - opened
            if lasted >= STEADY:
                self._in_contact()
            if empty:
                self._empty_for += lasted

    async def _apply(self, line: bytes) -> None:
        try:
            async with _turn_for(len(line), self._clock):
                try:
                    event = envelope.watch_event(line)
                except RecursionError:
                    event = envelope.watch_event(await shallow(line, self._clock))
            if event.type == "ERROR":
                status = envelope.status(event.object)
                raise error_of_status(
                    self._asked("watch"), status.code or 500, detail=status.message or ""
                )
            if event.type not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
                raise BadAnswer(f"{self._asked('watch')}: an event of an unknown type")
            async with _turn_for(len(line), self._clock):
                version = await self._take(event)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadAnswer(
                f"{self._asked('watch')}: an event cannot be decoded: {error}"
            ) from error
        if version:
            self.version = version

    async def _take(self, event: envelope.WatchEvent) -> str | None:
        """Applies the event to the copy; returns its resourceVersion."""
        if event.type == "BOOKMARK":
            return envelope.bookmark(event.object)
        if event.type == "DELETED":
            meta = envelope.identity(event.object)
            key, version = (meta.namespace or "", meta.name), meta.resource_version
            news = self._replica.remove(key)
        else:
            key, version, record = await self._decode(event.object)
            news = record is not None and self._replica.put(key, record)
        if news:
            self._changed(*key)
        return version

    def _asked(self, verb: str, where: str = "") -> RequestedRight:
        resource = self._source.resource.plural
        named = f" named {self._source.name}" if self._source.name else ""
        return RequestedRight(verb, resource + named, where or self._source.where)

    def _in_contact(self) -> None:
        self._last_contact = self._clock.now()
        if not self._source.short_lived:
            self._metrics.watch_contact.labels(self.label).set(self._last_contact)


def troubles(watches: Iterable[Reflector[Any]]) -> Mapping[str, str]:
    """Returns why watches do not work, by name; empty if all do."""
    return {each.label: each.trouble for each in watches if each.trouble is not None}


def _refused(error: ClusterError | None, failures: int) -> bool:
    """Whether this is a refusal that is no longer considered transient."""
    return isinstance(error, Unauthorized | Forbidden) and failures > _REFUSED_IN_PASSING
