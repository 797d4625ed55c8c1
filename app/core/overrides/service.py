"""Writes Pauses and ScaleRequests for the API and for scaling runs.

A write whose answer was lost is read back, and repeated if it did not happen; it is never repeated over somebody else's
change (rules 7).
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from app.core.clock import Clock
from app.core.errors import (
    UNSURE,
    Conflict,
    EntryChanged,
    FeatureUnavailable,
    Forbidden,
    NotFound,
    Refused,
    trimmed,
)
from app.core.model.overrides import API_PAUSE, NOWHERE, ObjectId, Pause, ScaleRequest
from app.core.model.scaling_runs import ScaleSpec
from app.core.overrides.cache import PAUSES, REQUESTS, OverrideCache
from app.core.ports import PauseWrite, Starting

if TYPE_CHECKING:
    from app.core.kube.custom_objects import CustomObjects

T = TypeVar("T")

# How often a write with an unknown outcome is made, if reading shows that it did not happen.
_TRIES: Final = 3
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
# How many deletions by this process are remembered, so that notices can name who made them.
_REMEMBERED: Final = 1_000


class OverrideService:
    """Writes Pauses and ScaleRequests.

    Args:
        pauses: all Pauses.
        requests: all ScaleRequests; None in a process without the prober.
        cache: what is known, and which feature is off.
        home: the watchdog's own namespace.
        clock: for the creation of what is not written yet.
        random: makes names.
        dry_run: refuse all writes.
    """

    def __init__(
        self,
        pauses: "CustomObjects[Pause]",
        requests: "CustomObjects[ScaleRequest] | None",
        cache: OverrideCache,
        home: str,
        clock: Clock,
        random: Random,
        *,
        dry_run: bool = False,
    ) -> None:
        self._pauses, self._requests, self._cache = pauses, requests, cache
        self._home, self._clock, self._random, self._dry_run = home, clock, random, dry_run
        self._ended_by: dict[str, str] = {}

    def ended_by(self, uid: str) -> str | None:
        """Who had this process delete the object with this uid; None if nobody did."""
        return self._ended_by.get(uid)

    def check(self, feature: str) -> None:
        """Raises FeatureUnavailable if nothing can be written."""
        if self._dry_run:
            raise FeatureUnavailable("dry-run", "this process writes nothing, as it is a dry run")
        if (off := self._cache.off(feature)) is not None:
            raise FeatureUnavailable(feature, f"there are no {feature} in this process: {off}")

    # Pauses.

    async def replaceable(self, namespace: str | None) -> Pause | None:
        """Returns the API's Pause that another one would replace; None if there is none.

        Raises:
            Refused: it is being deleted, and a finalizer still keeps it: nothing that it says would be in force.
        """
        where = self._home if namespace is None else namespace
        found = self._pauses.of(where).get(API_PAUSE)
        if found is not None and found.deleting:
            found = await self._pauses.read(where, API_PAUSE)  # it may be gone by now
        if found is not None and found.deleting:
            text = f"Pause {API_PAUSE} in {where} is being deleted, and a finalizer still keeps it"
            raise Refused(f"{text}: remove that, or make a Pause of another name with kubectl")
        return found

    async def set_pause(self, namespace: str | None, wanted: Pause) -> PauseWrite:
        """Makes or replaces the API's Pause of a shoot, or of all shoots.

        Raises:
            EntryChanged: somebody else made, changed or deleted it at the same time.
            Refused: as `replaceable`.
        """
        self.check(PAUSES)
        where = self._home if namespace is None else namespace
        wanted = replace(wanted, id=ObjectId(where, API_PAUSE))
        before = await self.replaceable(namespace)

        async def write() -> Pause:
            if before is None:
                return await self._pauses.create(wanted)
            return await self._pauses.change(before, wanted)

        async def settled() -> Pause | None:
            """Reads what is there now: what was wanted, or (None) what was there before."""
            nonlocal before
            found = await self._pauses.read(where, API_PAUSE)
            if found is not None and _same(found, wanted):
                return found
            if not _untouched(found, before):
                raise self._changed(where, API_PAUSE, found)
            before = found
            return None

        for _ in range(_TRIES):
            try:
                return PauseWrite(before, await self._write(PAUSES, write, settled))
            except Conflict:
                # The leader may have written the status, which is no change of what people decided.
                if (done := await settled()) is not None:
                    return PauseWrite(before, done)
        raise self._changed(where, API_PAUSE, before)

    def _changed(self, where: str, name: str, now: Pause | None) -> EntryChanged:
        what = "removed" if now is None else "changed"
        shown = None if now is None else {"author": now.author, "reason": trimmed(now.reason)}
        message = f"somebody else {what} Pause {name} in {where} at the same time"
        return EntryChanged(message, shown)

    async def end_pause(self, namespace: str | None, name: str, *, by: str) -> Pause | None:
        """Deletes a Pause and returns it; None if there is none.

        Raises:
            EntryChanged: there is another one of this name than the one that was known.
        """
        self.check(PAUSES)
        where = self._home if namespace is None else namespace
        known = self._pauses.of(where).get(name) or await self._pauses.read(where, name)
        if known is None or await self._delete(PAUSES, self._pauses, known, by):
            return known
        # The one that was known is gone. Somebody may have made another one, which a watch that lags does not show.
        if (newer := await self._pauses.read(where, name)) is not None:
            raise self._changed(where, name, newer)
        return None

    async def delete_over(self, found: Pause | ScaleRequest) -> None:
        """Deletes what is long over, if it is still as `found` says; somebody may have renewed it."""
        with suppress(NotFound, Conflict):
            if isinstance(found, Pause):
                self.check(PAUSES)
                await self._pauses.delete(found, unchanged=True)
            else:
                await self._all().delete(found, unchanged=True)

    # ScaleRequests.

    async def request_scaling(
        self,
        namespace: str,
        spec: ScaleSpec,
        *,
        prefix: str = "api",
        starting: Starting | None = None,
    ) -> ScaleRequest:
        """Creates a ScaleRequest under a name that nobody has used."""
        name = f"{prefix}-{''.join(self._random.choices(_LETTERS, k=10))}"
        wanted = ScaleRequest(ObjectId(namespace, name), spec, self._clock.now())
        requests = self._all()

        async def settled() -> ScaleRequest | None:
            return await requests.read(namespace, name)

        try:
            return await self._write(
                REQUESTS, lambda: requests.create(wanted, starting=starting), settled
            )
        except Conflict:  # an attempt without an answer has come late: nobody else has this name
            if (found := await settled()) is not None:
                return found
            raise

    def _all(self) -> "CustomObjects[ScaleRequest]":
        self.check(REQUESTS)
        assert self._requests is not None  # noqa: S101 - the feature is off without
        return self._requests

    async def set_status(
        self, known: ScaleRequest, wanted: ScaleRequest, *, starting: Starting, spare: bool = False
    ) -> ScaleRequest:
        """Writes the status of a ScaleRequest; after a conflict the newer object is known, too.

        A write without a clear answer is read back, unless there are others to come (`spare`).
        """
        requests = self._all()
        try:
            return await requests.set_status(known, wanted, starting=starting, spare=spare)
        except Conflict:
            _ = await requests.read(known.id.namespace, known.id.name)
            raise
        except UNSURE:
            if spare:
                raise
            found = await requests.read(known.id.namespace, known.id.name)
            if found is None or found.id.version == known.id.version or not _says(found, wanted):
                raise
            return found

    async def delete_request(self, request: ScaleRequest, *, by: str) -> bool:
        """Deletes a ScaleRequest; returns whether it was there."""
        return await self._delete(REQUESTS, self._all(), request, by)

    # How both are written.

    async def _write(
        self,
        feature: str,
        write: Callable[[], Awaitable[T]],
        settled: Callable[[], Awaitable[T | None]],
    ) -> T:
        """Writes, and finds out by `settled` whether a write without a clear answer happened (None: it did not)."""
        self.check(feature)
        for left in reversed(range(_TRIES)):
            try:
                return await write()
            except Forbidden as error:
                raise FeatureUnavailable(feature, f"they may not be written: {error}") from error
            except UNSURE as error:
                try:
                    found = await settled()
                except UNSURE:
                    raise error from None
                if found is not None:
                    return found
                if not left:
                    raise
        raise AssertionError  # the last of several writes returns or raises

    async def _delete(
        self,
        feature: str,
        objects: "CustomObjects[Pause] | CustomObjects[ScaleRequest]",
        known: Pause | ScaleRequest,
        by: str,
    ) -> bool:
        """Deletes; returns whether the object was there. An earlier attempt whose answer was lost may have done it."""
        uid, tried, done = known.id.uid, False, False
        ended_before_by = self._ended_by.get(uid)
        # Before the request, as the watch may show its end before the answer comes.
        self._ended_by[uid] = by
        while len(self._ended_by) > _REMEMBERED:
            del self._ended_by[next(iter(self._ended_by))]

        async def delete() -> bool:
            nonlocal tried
            tried, before = True, tried
            try:
                await objects.delete(known)  # type: ignore[arg-type]  # of the kind of `objects`
            except (NotFound, Conflict):
                return before
            return True

        async def settled() -> bool | None:
            found = await objects.read(known.id.namespace, known.id.name)
            return True if found is None or found.id.uid != uid else None

        try:
            done = await self._write(feature, delete, settled)
        except UNSURE:
            done = True  # as far as anybody knows
            raise
        finally:
            if not done and ended_before_by is not None:
                self._ended_by[uid] = ended_before_by
            elif not done:
                self._ended_by.pop(uid, None)
        return done


def _untouched(found: Pause | None, before: Pause | None) -> bool:
    """Whether nobody has made, changed or deleted it; a status does not count."""
    if found is None or before is None:
        return found is before
    return (
        replace(found, id=NOWHERE) == replace(before, id=NOWHERE) and found.id.uid == before.id.uid
    )


def _says(found: ScaleRequest, wanted: ScaleRequest) -> bool:
    """Whether the status is the one that was wanted; no other process writes our identity."""
    return (found.phase, found.observed_by) == (wanted.phase, wanted.observed_by)


def _same(found: Pause, wanted: Pause) -> bool:
    return (found.scope, found.reason, found.author, found.verified, found.deleting) == (
        wanted.scope,
        wanted.reason,
        wanted.author,
        True,
        False,
    ) and 0.0 <= found.until - wanted.until < 1.0
