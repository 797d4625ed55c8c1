"""A copy of what the seed has of one kind: listed once, then watched, for as long as the process lives.

It survives what watches die of: a server that closes, cuts, stalls, sends garbage, refuses or asks for a pause, a
resourceVersion that is too old (as a status and as an event).  Nothing vanishes from the copy unless the server said
so.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from app.core.errors import (
    BadAnswer,
    ClusterError,
    Expired,
    Forbidden,
    NotFound,
    Throttled,
    Unauthorized,
    Unreachable,
)
from app.core.kube import translate
from app.core.kube.client import Request
from app.core.kube.failures import Asked
from app.core.kube.seedapi import WITHIN, SeedApi
from app.core.kube.streak import Streak
from app.core.ports import WatchState
from app.core.runtime.backoff import Backoff
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics

log = structlog.get_logger(__name__)

T = TypeVar("T")

_SHORTEST, _LONGEST = 45, 60
"""`timeoutSeconds`, at random in between, so that not all watches end together.  Short, because a quiet watch says
nothing (bookmarks are promised to nobody, and kube-apiserver sends none where nothing ever happens): its end is the
proof that the server is still there, and to open it again where it ended is one small request a minute."""
SILENCE: Final = 70.0
"""Seconds without a byte after which a watch is given up: longer than any that the server ends by itself, and short
enough that a half-open connection is noticed, and a new one tried, before the copy counts as stale (90 s)."""
_REFUSED_PAUSE: Final = 15.0
"""The least wait, in seconds, after a 401 or 403 that goes on: only a person can mend it."""
_REFUSED_IN_PASSING: Final = 2
"""So many refusals are tried again as soon as any failure: an API server that has just started refuses for a moment
what it is about to allow."""
_LONGEST_PAUSE: Final = 60.0
_LIST_ANEW_AFTER: Final = 5
"""Failures in a row after which the position in the stream is given up for a new list."""
_BACKOFF: Final = Backoff(first=1.0, most=30.0)


@dataclass(frozen=True, slots=True)
class Source(Generic[T]):
    """What to reflect."""

    label: str
    """Its name in metrics and log."""
    kind: str
    resource: str
    path: Callable[[], Awaitable[str]]
    """Where it is; may have to ask."""
    decode: Callable[[translate.Raw], T]
    complaint: Callable[[T], str | None] = lambda _: None
    """What of a decoded object could not be understood."""
    name: str = ""
    """Only objects of this name, in all namespaces."""
    page: int = 500
    may_be_unserved: bool = False
    """A kind that the seed does not serve counts as listed, and empty (docs/decisions/0012)."""


class Reflector(Generic[T]):
    """Keeps the copy of one source."""

    def __init__(
        self,
        source: Source[T],
        api: SeedApi,
        clock: Clock,
        metrics: Metrics,
        random: Random,
        changed: Callable[[str, str], None],
    ) -> None:
        """`changed` is called with namespace and name after each change of the copy."""
        self._source, self._api, self._clock = source, api, clock
        self._metrics, self._random, self._changed = metrics, random, changed
        self._objects: dict[str, dict[str, T]] = {}
        self._version: str | None = None
        self._synced = False
        self._last_contact: float | None = None
        self._complained: dict[tuple[str, str], str] = {}
        self.trouble: str | None = None
        """What it suffers from, for readiness; None while all is well."""

    @property
    def state(self) -> WatchState:
        """How far the copy can be trusted."""
        return WatchState(self._synced, self._last_contact)

    def of(self, namespace: str) -> Mapping[str, T]:
        """The objects of a namespace by name; of cluster-scoped kinds, those of the namespace ''."""
        return self._objects.get(namespace, {})

    async def run(self) -> None:
        """Lists and watches for ever."""
        streak = Streak()
        while True:
            begun = self._clock.now()
            error = await self._once()
            failures = streak.after(error, self._clock.now() - begun)
            if error is not None or failures:
                self._suffer(error or Unreachable("the server closed the watch at once"), failures)
            await self._clock.sleep(self._pause(error, failures))

    async def _once(self) -> ClusterError | None:
        """One watch, after a list where there is no position; the error that ended it, or None where it ended well."""
        try:
            if self._version is None:
                await self._list()
            await self._watch()
        except NotFound as error:
            if self._source.may_be_unserved and not self._objects:
                self._synced = True
                self._in_contact()
            return error
        except ClusterError as error:
            return error
        return None

    def _suffer(self, error: ClusterError, failures: int) -> None:
        """Reports, and forgets the position in the stream where it may be what is wrong."""
        reason = type(error).__name__
        self.trouble = str(error)
        self._metrics.watch_restarts.labels(self._source.label, reason).inc()
        refused = isinstance(error, Unauthorized | Forbidden)
        (log.error if refused else log.warning)(
            "watch interrupted",
            watch=self._source.label,
            reason=reason,
            problem=str(error),
            failures=failures,
        )
        passing = isinstance(error, Unreachable | Throttled | Unauthorized | Forbidden)
        if isinstance(error, Expired) or (failures >= _LIST_ANEW_AFTER and not passing):
            self._version = None

    def _pause(self, error: ClusterError | None, failures: int) -> float:
        if failures == 0:
            return 0.0
        seconds = _BACKOFF.jittered(failures, self._random.random())
        if isinstance(error, Unauthorized | Forbidden) and failures > _REFUSED_IN_PASSING:
            seconds = max(seconds, _REFUSED_PAUSE)
        if error is not None and error.retry_after is not None:
            seconds = max(seconds, min(error.retry_after, _LONGEST_PAUSE))
        return seconds

    async def _list(self) -> None:
        """Replaces the copy by what the server has now, page by page, and tells what changed."""
        found: dict[tuple[str, str], T] = {}
        read = translate.raw_page(self._source.kind)
        path, continues, version = await self._source.path(), "", ""
        while True:
            params = self._selector() | {"limit": str(self._source.page)}
            if continues:
                params["continue"] = continues
            request = Request(self._asked("list"), path, WITHIN, params)
            page = await self._api.call(request, self._page_decoder(read, found))
            self._in_contact()
            continues, version = page
            if not continues:
                break
        self._replace(found)
        self._version, self._synced, self.trouble = version, True, None

    def _page_decoder(
        self,
        read: Callable[[translate.Raw], translate.Page[msgspec.Raw]],
        found: dict[tuple[str, str], T],
    ) -> Callable[[translate.Raw], tuple[str, str]]:
        """Decodes a page while its bytes are still counted, and keeps only the records."""

        def decode(raw: translate.Raw) -> tuple[str, str]:
            page = read(raw)
            for item in page.items:
                meta, record = self._decode(item)
                if record is not None:
                    found[meta.namespace or "", meta.name] = record
            return page.continues, page.resource_version

        return decode

    def _decode(self, raw: translate.Raw) -> tuple[translate.Meta, T | None]:
        """The record of an object; the last good one, or None, where it cannot be decoded."""
        meta = translate.identity(raw)
        try:
            record = self._source.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadAnswer) as error:
            self._complain(meta, str(error))
            return meta, self.of(meta.namespace or "").get(meta.name)
        complaint = self._source.complaint(record)
        if complaint is not None:
            self._complain(meta, complaint)
        return meta, record

    def _complain(self, meta: translate.Meta, problem: str) -> None:
        key, version = (meta.namespace or "", meta.name), meta.resource_version or ""
        if self._complained.get(key) != version:
            self._complained[key] = version
            log.warning(
                "an object cannot be decoded, what was known of it goes on",
                watch=self._source.label,
                namespace=key[0],
                name=key[1],
                problem=problem,
            )

    def _replace(self, found: dict[tuple[str, str], T]) -> None:
        before = [(ns, name) for ns, objects in self._objects.items() for name in objects]
        for namespace, name in before:
            if (namespace, name) not in found:
                self._remove(namespace, name)
        for (namespace, name), record in found.items():
            self._put(namespace, name, record)

    def _put(self, namespace: str, name: str, record: T) -> None:
        objects = self._objects.setdefault(namespace, {})
        if objects.get(name) != record:
            objects[name] = record
            self._changed(namespace, name)

    def _remove(self, namespace: str, name: str) -> None:
        self._complained.pop((namespace, name), None)
        objects = self._objects.get(namespace, {})
        if objects.pop(name, None) is not None:
            if not objects:
                del self._objects[namespace]
            self._changed(namespace, name)

    async def _watch(self) -> None:
        """Follows the stream until the server ends it."""
        seconds = self._random.randint(_SHORTEST, _LONGEST)
        params = self._selector() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(seconds),
        }
        request = Request(self._asked("watch"), await self._source.path(), WITHIN, params)
        async with self._api.watch(request, silence=SILENCE) as lines:
            self._in_contact()
            self.trouble = None
            async for line in lines:
                self._apply(line)
                self._in_contact()

    def _apply(self, line: bytes) -> None:
        try:
            event = translate.watch_event(line)
            if event.type == "ERROR":
                raise translate.status_error(self._asked("watch"), event.object)
            if event.type not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
                raise BadAnswer(f"{self._asked('watch')}: an event of an unknown type")
            meta = self._take(event)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(
                f"{self._asked('watch')}: an event cannot be decoded: {error}"
            ) from error
        if meta.resource_version:
            self._version = meta.resource_version

    def _take(self, event: translate.WatchEvent) -> translate.Meta:
        if event.type == "BOOKMARK":
            return translate.bookmark(event.object)
        if event.type == "DELETED":
            meta = translate.identity(event.object)
            self._remove(meta.namespace or "", meta.name)
            return meta
        meta, record = self._decode(event.object)
        if record is not None:
            self._put(meta.namespace or "", meta.name, record)
        return meta

    def _selector(self) -> dict[str, str]:
        name = self._source.name
        return {"fieldSelector": f"metadata.name={name}"} if name else {}

    def _asked(self, verb: str) -> Asked:
        named = f" named {self._source.name}" if self._source.name else ""
        return Asked(verb, self._source.resource + named)

    def _in_contact(self) -> None:
        self._last_contact = self._clock.now()
        self._metrics.watch_contact.labels(self._source.label).set(self._last_contact)
