"""Changes the ConfigMap of the overrides by compare-and-swap.

A write carries the resourceVersion that was read, so it never overwrites a concurrent change: after a conflict, and
after a write whose answer was lost, the ConfigMap is read live and the change is planned again on what is there.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from app.core.errors import (
    UNSURE,
    ClusterError,
    Conflict,
    FeatureUnavailable,
    Forbidden,
    NotFound,
    StoreFull,
)
from app.core.model.instants import rfc3339
from app.core.model.workloads import PREFIX
from app.core.overrides.cache import FEATURE, OverrideCache
from app.core.overrides.document import LONGEST_AUTHOR, EntryKey, EntryKind
from app.core.ports import OverridesDocument, OverridesStore, Starting
from app.core.redaction import one_line

MOST_BYTES: Final = 900 * 1024
"""Maximum size of all keys and values; the API server accepts 1 MiB, metadata included."""
TRIES: Final = 10
"""Maximum number of writes in one change, each after a conflict."""
TRIES_UNSURE: Final = 3
"""Maximum number of writes with unknown outcome in one change; one that did not happen is repeated on the same
version."""

Data = Mapping[str, str]
Plan = Callable[[Data], Data]
"""Returns the wanted data, given the current data. It is called again after each conflict and each lost answer, and
returns its argument if nothing is left to do."""
Sign = Callable[[OverridesDocument], OverridesDocument]
"""Returns the document to overwrite, given the one that was read: the same, annotated with who makes the change."""


def unsigned(document: OverridesDocument) -> OverridesDocument:
    """Annotates nothing."""
    return document


class OverrideWriter:
    """Writes for one process, one change at a time; a change is in force in this process when `change` returns."""

    def __init__(
        self, store: OverridesStore, cache: OverrideCache, *, dry_run: bool = False
    ) -> None:
        self._store, self._cache, self._dry_run = store, cache, dry_run
        self._turn = asyncio.Lock()

    async def change(
        self, plan: Plan, *, starting: Starting | None = None, sign: Sign = unsigned
    ) -> None:
        """Applies `plan`; an exception that `plan` raises propagates.

        Args:
            plan: returns the wanted data.
            starting: called immediately before each write; its exceptions propagate.
            sign: called after `plan`, before each write over an existing ConfigMap.

        Raises:
            FeatureUnavailable: this process has no overrides, or writes nothing because it is a dry run.
            StoreFull: the ConfigMap would be too large.
            Conflict: every attempt met a concurrent write.
            ClusterError: the write failed; or its outcome is unknown and could not be read.
        """
        self._check()
        try:
            async with self._turn:
                await self._change(plan, starting, sign)
        except Forbidden as error:
            raise FeatureUnavailable(
                FEATURE, f"the overrides may not be written: {error}"
            ) from error

    def _check(self) -> None:
        if self._dry_run:
            raise FeatureUnavailable("dry-run", "this process writes nothing, as it is a dry run")
        if (off := self._cache.off) is not None:
            raise FeatureUnavailable(FEATURE, f"there are no overrides in this process: {off}")

    async def _change(self, plan: Plan, starting: Starting | None, sign: Sign) -> None:
        document = self._cache.document if self._cache.current else await self.read()
        tries, unsure, failure = TRIES, TRIES_UNSURE, None
        while (wanted := plan(data := _data(document))) != data:
            _check_complete(document)
            _check_room(data, wanted)
            if failure is not None and (not tries or not unsure):
                raise failure
            tries -= 1
            try:
                over = None if document is None else sign(document)
                self._cache.learn(await self._put(over, wanted, starting))
            except (Conflict, NotFound, *UNSURE) as error:
                unsure -= isinstance(error, UNSURE)
                failure, document = error, await self._live_after(error)
            else:
                return

    async def _put(
        self, document: OverridesDocument | None, data: Data, starting: Starting | None
    ) -> OverridesDocument:
        if document is None:
            return await self._store.create(data, starting=starting)
        return await self._store.replace(document, data, starting=starting)

    async def read(self) -> OverridesDocument | None:
        """Reads the ConfigMap live; returns None if it does not exist."""
        found = await self._store.read()
        if found is not None:
            self._cache.learn(found)
        return found

    async def _live_after(self, error: ClusterError) -> OverridesDocument | None:
        """Reads what is there after a failed or uncertain write; if that fails too, raises the error of the write."""
        try:
            return await self.read()
        except ClusterError as again:
            raise error from again


def _data(document: OverridesDocument | None) -> Data:
    return {} if document is None else document.data


def _check_complete(document: OverridesDocument | None) -> None:
    """Refuses to write over keys that were not decoded: they would be lost."""
    if document is not None and document.left_out:
        known = len(document.data)
        raise StoreFull(f"the overrides have more than {known} keys: remove some with kubectl")


def _check_room(data: Data, wanted: Data) -> None:
    """Refuses data that is too large, unless it is smaller than before."""
    size = _size(wanted)
    if size > MOST_BYTES and size > _size(data):
        most = f"{MOST_BYTES // 1024} KiB"
        raise StoreFull(f"the overrides would have {size} bytes, more than {most}")


def _size(data: Data) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())


# Who ended which override: recorded in an annotation of the ConfigMap, by the same write; pure.
#
# Any replica may end a pause or hold, but the prober's leader reports it, and it sees only the ConfigMap. The
# annotation lists the last few ends, oldest first, so its size is bounded and it needs no cleanup. Only reports depend
# on it: if it is missing, mangled or forged, an end is reported without its author or with a wrong one.


ENDED_BY: Final = f"{PREFIX}ended-by"
MOST: Final = 20
"""Number of ends that are kept: as many as may happen between two checks of the leader. At most 34 kB, which fits
beside the data."""
# Maximum length of an annotation in characters; a longer one is not ours.
_MOST_READ: Final = 65_536


class Signature(NamedTuple):
    """One ended override, and who ended it."""

    place: EntryKey
    by: str
    at: str
    """When; it distinguishes two ends of the same place."""


class _Record(msgspec.Struct):
    key: str
    entry: EntryKind
    by: str
    at: str


_decoder: Final = msgspec.json.Decoder(list[_Record])


def signatures(document: OverridesDocument | None) -> tuple[Signature, ...]:
    """Returns the ends recorded in this version of the ConfigMap, oldest first; empty if they cannot be read."""
    text = None if document is None else _annotations(document).get(ENDED_BY)
    if not isinstance(text, str) or len(text) > _MOST_READ:
        return ()
    try:
        found = _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ()
    records = ((each, one_line(each.by, LONGEST_AUTHOR)) for each in found[-MOST:])
    return tuple(
        Signature(EntryKey(each.key, each.entry), by, each.at) for each, by in records if by
    )


def signed(
    document: OverridesDocument, places: Collection[EntryKey], by: str, now: float
) -> OverridesDocument:
    """Returns the document annotated with `by` as the one who ends the entries at `places`."""
    name, at = one_line(by, LONGEST_AUTHOR), rfc3339(now, micro=True)
    known = [*signatures(document), *(Signature(place, name, at) for place in places)]
    records = [_Record(*each.place, each.by, each.at) for each in known[-MOST:]]
    metadata = document.whole.get("metadata") or {}
    annotations = {**_annotations(document), ENDED_BY: msgspec.json.encode(records).decode()}
    return replace(
        document,
        whole={**document.whole, "metadata": {**metadata, "annotations": annotations}},
    )


def _annotations(document: OverridesDocument) -> dict[str, Any]:
    metadata = document.whole.get("metadata") or {}
    found = metadata.get("annotations")
    return found if isinstance(found, dict) else {}
