"""A copy of what the seed has of one kind: listed once, then watched, for as long as the process lives.

It survives what watches die of: a server that closes, cuts, stalls, sends garbage, refuses or asks for a pause, a
resourceVersion that is too old (as a status and as an event).  Nothing vanishes from the copy unless the server said
so.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, Protocol, TypeVar

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
from app.core.kube import decoding
from app.core.kube.byte_budget import MIB
from app.core.kube.client import ApiRequest, Decode
from app.core.kube.decoding.envelope import METADATA_LIST, RawPage
from app.core.kube.failures import RequestedRight
from app.core.kube.nesting import CUT, DEEPEST, shallow
from app.core.kube.replica import ObjectKey, Replica
from app.core.kube.responses import JSON, Silent
from app.core.kube.seed_api import WITHIN
from app.core.limits import Backoff
from app.core.metrics import Metrics
from app.core.ports import WatchState

# How often in a row a watch has failed.


STEADY: Final = 5.0
"""Seconds that a watch must have lived for its end to be no failure."""


class ConsecutiveFailures:
    """Failures in a row, as they count for the next pause.

    A failure of another kind than before begins a new count: an API server that starts is first not there, then refuses
    (403, 429), then has forgotten (410), and is well a second later.  Each kind does so once, until the watch is well.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._kinds: set[type[ClusterError] | None] = set()

    def after(self, error: ClusterError | None, lived: float) -> int:
        """How many they are, after a watch that lived for so many seconds and ended well or with `error`."""
        kind = None if error is None else type(error)
        if lived >= STEADY:
            self._failures, self._kinds = 0, set()
        else:
            self._failures = self._failures + 1 if kind in self._kinds else 1
        self._kinds.add(kind)
        if error is not None and not isinstance(error, Silent):
            self._failures = max(self._failures, 1)  # after silence the next try is made at once
        return self._failures


log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")

_SHORTEST, _LONGEST = 45, 60
"""`timeoutSeconds`, at random in between, so that not all watches end together.  Short, because a quiet watch says
nothing (bookmarks are promised to nobody, and kube-apiserver sends none where nothing ever happens): its end is the
proof that the server is still there, and to open it again where it ended is one small request a minute."""
SILENCE: Final = 70.0
"""Seconds without a byte after which a watch is given up: longer than any that the server ends by itself, and short
enough that a half-open connection is noticed, and the list asked for anew, before the copy counts as stale (90 s)."""
_REFUSED_PAUSE: Final = 15.0
"""The least wait, in seconds, after a 401 or 403 that goes on: only a person can mend it."""
_REFUSED_IN_PASSING: Final = 2
"""So many refusals are tried again as soon as any failure: an API server that has just started refuses for a moment
what it is about to allow."""
_LONGEST_PAUSE: Final = 60.0
_LIST_ANEW_AFTER: Final = 5
"""Failures in a row after which the position in the stream is given up for a new list."""
_BACKOFF: Final = Backoff(first=1.0, most=30.0)
MOST_PAGE: Final = 4 * MIB
"""Bytes of one page, split in 35 ms at worst, in which nobody else has a turn; etcd takes objects of 1.5 MiB."""
_AT_ONCE: Final = 1 << 18
"""Bytes of objects that are decoded before others have their turn."""


@dataclass(frozen=True, slots=True)
class WatchSource(Generic[T]):
    """What to reflect."""

    label: str
    """Its name in metrics and log."""
    kind: str
    resource: str
    path: Callable[[], Awaitable[str]]
    """Where it is; may have to ask."""
    decode: Callable[[decoding.Raw], T]
    complaint: Callable[[T], str | None] = lambda _: None
    """What of a decoded object could not be understood."""
    name: str = ""
    """Only objects of this name, in all namespaces."""
    selector: str = ""
    """Only objects with such labels: a `labelSelector`."""
    where: str = ""
    """The namespace that `path` is limited to; empty for all."""
    page: int = 500
    most: int = MOST_PAGE
    """Bytes that a page may have."""
    may_be_unserved: bool = False
    """A kind that the seed does not serve counts as listed, and empty (docs/decisions/0012)."""
    short_lived: bool = False
    """One of many, for minutes: a refusal that goes on ends it, and its last contact is no metric."""
    dispensable: bool = False
    """A refusal that goes on turns one feature off, which is told elsewhere, and is not logged again and again."""


class WatchRequests(Protocol):
    """What makes the requests, within whatever budget they belong to (`seedapi.SeedApi` does)."""

    async def call(self, request: ApiRequest, decode: Decode[R]) -> R:
        """Asks, and decodes the answer."""
        ...

    def watch(
        self, request: ApiRequest, *, silence: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Opens a watch; gives its lines as they come."""
        ...


Replaced = Callable[[float | None, tuple[ObjectKey, ...]], None]
"""Told of a list: until when nothing was missed before it (None: it is the first), and what is not as it was."""


class Reflector(Generic[T]):
    """Keeps the copy of one source."""

    def __init__(
        self,
        source: WatchSource[T],
        api: WatchRequests,
        clock: Clock,
        metrics: Metrics,
        random: Random,
        changed: Callable[[str, str], None],
    ) -> None:
        """`changed` is called with namespace and name after each change of the copy."""
        self._source, self._api, self._clock = source, api, clock
        self._metrics, self._random, self._changed = metrics, random, changed
        self._replaced: Replaced | None = None
        self._replica = Replica(source.label, source.decode, source.complaint)
        self._version: str | None = None
        self._synced = False
        self._last_contact: float | None = None
        self._nothing_missed: float | None = None
        self._denials = 0
        """In a row."""
        self.trouble: str | None = None
        """What it suffers from, for readiness; None while all is well."""
        self.unavailable: str | None = None
        """Why nothing was ever listed and will not be soon: the kind is not served, or may not be listed, and not in
        passing.  It is asked for again all the same."""

    @property
    def state(self) -> WatchState:
        """How far the copy can be trusted."""
        return WatchState(self._synced, self._last_contact)

    def of(self, namespace: str) -> Mapping[str, T]:
        """The objects of a namespace by name; of cluster-scoped kinds, those of the namespace ''."""
        return self._replica.of(namespace)

    def tell_lists(self, replaced: Replaced) -> None:
        """A list is told to `replaced` from now on, once and as a whole, and not as one change for each object."""
        self._replaced = replaced

    def keep_in(self, replica: Replica[T]) -> None:
        """The copy is kept in this one; said before it runs."""
        self._replica = replica

    def list_anew(self) -> None:
        """It begins with a list when it is run again; what is known stays until then."""
        self._version = None

    async def run(self) -> None:
        """Lists and watches for ever.

        Raises:
            Unauthorized: of a source that is short-lived: it is refused, and not in passing.
            Forbidden: the same.
        """
        in_a_row = ConsecutiveFailures()
        while True:
            begun = self._clock.now()
            error = await self._once()
            failures = in_a_row.after(error, self._clock.now() - begun)
            self._note_denial(error)
            if error is not None or failures:
                self._suffer(error, failures)
            if error is not None and self._source.short_lived and _refused(error, failures):
                raise error
            await self._clock.sleep(self._pause(error, failures))

    async def _once(self) -> ClusterError | None:
        """One watch, after a list where there is no position; the error that ended it, or None where it ended well."""
        try:
            if self._version is None:
                await self._list()
            await self._watch()
        except NotFound as error:
            if self._source.may_be_unserved and self._replica.empty:
                self._synced = True
                self._in_contact()
            return error
        except ClusterError as error:
            return error
        return None

    def _note_denial(self, error: ClusterError | None) -> None:
        self._denials = self._denials + 1 if isinstance(error, NotFound | Forbidden) else 0
        if self._denials > _REFUSED_IN_PASSING and not self._synced:
            self.unavailable = str(error)

    def _suffer(self, why: ClusterError | None, failures: int) -> None:
        """Reports, and forgets the position in the stream where it may be what is wrong.

        `why` is None where the server ended the watch as soon as it was open.
        """
        error = why or Unreachable("the server closed the watch at once")
        reason = type(error).__name__
        self.trouble = str(error)
        self._metrics.watch_restarts.labels(self._source.label, reason).inc()
        refused = isinstance(error, Unauthorized | Forbidden) or self.unavailable is not None
        known = self._source.dispensable and _refused(error, failures)
        (log.debug if known else log.error if refused else log.warning)(
            "watch interrupted",
            watch=self._source.label,
            reason=reason,
            error=str(error),
            failures=failures,
        )
        passing = isinstance(why, Unreachable | Throttled | Unauthorized | Forbidden)
        # Silence is no proof that nothing happened: a path may take watches and pass nothing of them.  An event that is
        # too long will be no shorter the next time.
        lost = isinstance(why, Expired | Silent | LimitExceeded)
        if lost or (failures >= _LIST_ANEW_AFTER and not passing):
            self._version = None

    def _pause(self, error: ClusterError | None, failures: int) -> float:
        if failures == 0:
            return 0.0
        seconds = _BACKOFF.jittered(failures, self._random.random())
        if _refused(error, failures):
            seconds = max(seconds, _REFUSED_PAUSE)
        if error is not None and error.retry_after is not None:
            seconds = max(seconds, min(error.retry_after, _LONGEST_PAUSE))
        return seconds

    async def _list(self) -> None:
        """Replaces the copy by what the server has now, page by page, and tells what changed."""
        found: dict[ObjectKey, T] = {}
        path = await self._source.path()
        asked_at = self._clock.now()  # all pages are of the moment of the first
        self._replica.list_begins()
        version = await self._pages(path, self._asked("list"), found, self._in_contact)
        self._replace(found, version, asked_at)

    async def read(self, path: str, where: str) -> Mapping[ObjectKey, T]:
        """What the server has of the source in one namespace, at `path`; the copy stays as it is.

        Raises:
            ClusterError: the server did not tell.
        """
        found: dict[ObjectKey, T] = {}
        _ = await self._pages(path, self._asked("list", where), found, lambda: None)
        return found

    async def _pages(
        self,
        path: str,
        asked: RequestedRight,
        found: dict[ObjectKey, T],
        answered: Callable[[], None],
    ) -> str:
        """Puts all pages of a list into `found`; gives its resourceVersion.

        A page that is too long is asked for again with fewer objects, down to one; of one that is too long even alone
        the metadata is read.
        """
        params, limit, alone = self._selector(), self._source.page, False
        while True:
            here = params | {"limit": str(limit)}
            problem = f"it has more than {self._source.most} bytes" if alone else None
            try:
                page, cut = await self._page(path, asked, here, metadata=alone)
                answered()
                size = await self._take_in(page.items, found, problem, cut=cut)
            except LimitExceeded as error:
                if error.limit != "size" or alone:
                    raise
                limit, alone = max(limit // 4, 1), limit == 1
                continue
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise BadAnswer(f"{asked}: the answer cannot be decoded: {error}") from error
            if not page.continues:
                return page.resource_version
            params = params | {"continue": page.continues}
            # no more than twice as many, as the next ones may weigh more, and no more than would fit if they do not
            fit = self._source.most * 3 // 4 * len(page.items) // size if size else limit
            limit, alone = max(min(2 * limit, self._source.page, fit), 1), False

    async def _page(
        self, path: str, asked: RequestedRight, params: Mapping[str, str], *, metadata: bool
    ) -> tuple[RawPage[msgspec.Raw], bool]:
        """One page, its objects undecoded, and whether some of it was cut; or what of them is metadata alone."""
        read = decoding.raw_page("PartialObjectMetadata" if metadata else self._source.kind)
        accept = METADATA_LIST if metadata else JSON
        request = ApiRequest(asked, path, WITHIN, params, most=self._source.most, accept=accept)

        def split(raw: bytes | bytearray) -> RawPage[msgspec.Raw] | bytes:
            try:
                return read(raw)
            except RecursionError:
                return bytes(raw)

        found = await self._api.call(request, split)
        if isinstance(found, bytes):
            return read(await shallow(found, self._clock)), True
        return found, False

    async def _take_in(
        self,
        items: Iterable[msgspec.Raw],
        found: dict[ObjectKey, T],
        problem: str | None,
        *,
        cut: bool,
    ) -> int:
        """Puts the records of objects into `found`, in turns with others; gives how many bytes they were."""
        size, turn = 0, _AT_ONCE
        for item in items:
            key, _, record = await self._decode(item, problem, cut=cut)
            if record is not None:
                found[key] = record
            size += len(item)
            if size >= turn:
                turn = size + _AT_ONCE
                await self._clock.sleep(0)
        return size

    async def _decode(
        self, raw: decoding.Raw, problem: str | None = None, *, cut: bool
    ) -> tuple[ObjectKey, str | None, T | None]:
        """As the copy decodes it, without what is nested too deeply; `cut`: that may be left out already."""
        try:
            key, version, record = self._replica.decode(raw, problem)
        except RecursionError:
            raw, cut = await shallow(bytes(raw), self._clock), True
            key, version, record = self._replica.decode(raw, problem)
        if cut and CUT in bytes(raw):
            text = "an object is nested too deeply, what lies deeper is not read"
            self._replica.complain(key, version, text, levels=DEEPEST)
        return key, version, record

    def _replace(self, found: Mapping[ObjectKey, T], version: str, asked_at: float) -> None:
        """Tells of it last: whoever hears of it finds all of it."""
        news = self._replica.replace(found)
        since, self._nothing_missed = self._nothing_missed, asked_at
        self._version, self._synced, self.trouble, self.unavailable = version, True, None, None
        if self._replaced is not None:
            self._replaced(since, news)
            return
        for namespace, name in news:
            self._changed(namespace, name)

    async def _watch(self) -> None:
        """Follows the stream until the server ends it.

        That it opens is no contact: whatever stands before the server may say so, and never pass a change on.  A line
        is one, and so is the end that the server sends in its time.
        """
        seconds = self._random.randint(_SHORTEST, _LONGEST)
        params = self._selector() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(seconds),
        }
        request = ApiRequest(self._asked("watch"), await self._source.path(), WITHIN, params)
        async with self._api.watch(request, silence=SILENCE) as lines:
            opened = self._clock.now()
            self.trouble = None
            async for line in lines:
                await self._apply(line)
                self._in_contact()
                self._nothing_missed = self._last_contact
            if self._clock.now() - opened >= STEADY:
                self._in_contact()

    async def _apply(self, line: bytes) -> None:
        try:
            event, cut = await self._event(line)
            if event.type == "ERROR":
                raise decoding.status_error(self._asked("watch"), event.object)
            if event.type not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
                raise BadAnswer(f"{self._asked('watch')}: an event of an unknown type")
            version = await self._take(event, cut=cut)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadAnswer(
                f"{self._asked('watch')}: an event cannot be decoded: {error}"
            ) from error
        if version:
            self._version = version

    async def _event(self, line: bytes) -> tuple[decoding.WatchEvent, bool]:
        """What a line says, and whether some of it was cut as it is nested too deeply."""
        try:
            return decoding.watch_event(line), False
        except RecursionError:
            return decoding.watch_event(await shallow(line, self._clock)), True

    async def _take(self, event: decoding.WatchEvent, *, cut: bool) -> str | None:
        """Brings the copy up to this event; returns the position behind it."""
        if event.type == "BOOKMARK":
            return decoding.bookmark(event.object).resource_version
        if event.type == "DELETED":
            meta = decoding.identity(event.object)
            key, version = (meta.namespace or "", meta.name), meta.resource_version
            news = self._replica.remove(key)
        else:
            key, version, record = await self._decode(event.object, cut=cut)
            news = record is not None and self._replica.put(key, record)
        if news:
            self._changed(*key)
        return version

    def _selector(self) -> dict[str, str]:
        name, labels = self._source.name, self._source.selector
        fields = {"fieldSelector": f"metadata.name={name}"} if name else {}
        return fields | ({"labelSelector": labels} if labels else {})

    def _asked(self, verb: str, where: str = "") -> RequestedRight:
        named = f" named {self._source.name}" if self._source.name else ""
        return RequestedRight(verb, self._source.resource + named, where or self._source.where)

    def _in_contact(self) -> None:
        self._last_contact = self._clock.now()
        if not self._source.short_lived:
            self._metrics.watch_contact.labels(self._source.label).set(self._last_contact)


def _refused(error: ClusterError | None, failures: int) -> bool:
    """Whether this is a refusal, and none in passing."""
    return isinstance(error, Unauthorized | Forbidden) and failures > _REFUSED_IN_PASSING


# Whether a watch may be had at all: a right that is missing turns a feature off, and is no fault of the server.


"""So many refusals in a row are not believed: an API server that has just started refuses for a moment what it is
about to allow."""


class RefusalWatch:
    """The requests of the watch (`reflector.WatchRequests`); says whether they are refused, and not in passing."""

    def __init__(self, api: WatchRequests, changed: Callable[[], None]) -> None:
        self.forbidden: str | None = None
        self._api, self._changed = api, changed
        self._in_a_row = 0

    async def call(self, request: ApiRequest, decode: Decode[R]) -> R:
        """Asks, and decodes the answer."""
        try:
            found = await self._api.call(request, decode)
        except Forbidden as refusal:
            self._refused(refusal)
            raise
        return found

    @asynccontextmanager
    async def watch(
        self, request: ApiRequest, *, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a watch; gives its lines as they come.  Only this proves that all rights are there."""
        try:
            async with self._api.watch(request, silence=silence) as lines:
                self._allowed()
                yield lines
        except Forbidden as refusal:
            self._refused(refusal)
            raise

    def _refused(self, refusal: Forbidden) -> None:
        self._in_a_row += 1
        if self._in_a_row > _REFUSED_IN_PASSING and self.forbidden is None:
            self.forbidden = str(refusal)
            self._changed()

    def _allowed(self) -> None:
        self._in_a_row = 0
        if self.forbidden is not None:
            self.forbidden = None
            self._changed()
