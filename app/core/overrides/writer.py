"""Changes the ConfigMap beside others who do the same: read, plan, write over exactly what was read, or again."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from app.core.errors import (
    BadAnswer,
    ClusterError,
    Conflict,
    FeatureOff,
    Forbidden,
    LimitExceeded,
    NotFound,
    ServerFault,
    StoreFull,
    Unreachable,
)
from app.core.model.instants import rfc3339
from app.core.model.workloads import PREFIX
from app.core.overrides.cache import FEATURE, OverrideCache
from app.core.overrides.document import LONGEST_AUTHOR, EntryKind, EntryPlace
from app.core.ports import OverridesDocument, OverridesStore, Starting
from app.core.redaction import one_line

MOST_BYTES: Final = 900 * 1024
"""Of all keys and values; the API server takes 1 MiB, metadata included."""
TRIES: Final = 10
"""Writes that may meet somebody else's, one after the other."""
TRIES_UNSURE: Final = 3
"""Writes of which nobody knows whether they were done: those that were not are sent again, over the same version."""
_UNSURE: Final = (Unreachable, ServerFault, BadAnswer, LimitExceeded)
"""After one of these nobody knows whether the write was done."""

Data = Mapping[str, str]
Plan = Callable[[Data], Data]
"""What the data is to be, from what it is.  It is asked again with what is there after each conflict, and after an
answer that was lost; it returns what it was given where there is nothing (more) to do."""
Sign = Callable[[OverridesDocument], OverridesDocument]
"""What to write over, from what was read: the same with a word on who does it."""


def unsigned(document: OverridesDocument) -> OverridesDocument:
    """Nobody says who does it."""
    return document


class OverrideWriter:
    """Writes for one process, one change at a time; what was written is in force here when `change` returns."""

    def __init__(
        self, store: OverridesStore, cache: OverrideCache, *, dry_run: bool = False
    ) -> None:
        self._store, self._cache, self._dry_run = store, cache, dry_run
        self._turn = asyncio.Lock()

    async def change(
        self, plan: Plan, *, starting: Starting | None = None, sign: Sign = unsigned
    ) -> None:
        """Brings the data to where `plan` wants it; what it raises ends the call.

        Args:
            plan: what is wanted.
            starting: called just before each write; what it raises ends the call.
            sign: asked after `plan`, before each write over what is there.

        Raises:
            FeatureOff: there are no overrides here, or nothing is written in this process.
            StoreFull: there is no room.
            Conflict: others wrote each time just before.
            ClusterError: the seed did not take it; where it may have, and cannot be asked, that is what it says.
        """
        self._check()
        try:
            async with self._turn:
                await self._change(plan, starting, sign)
        except Forbidden as error:
            raise FeatureOff(FEATURE, f"the overrides may not be written: {error}") from error

    def _check(self) -> None:
        if self._dry_run:
            raise FeatureOff("dry-run", "this process writes nothing, as it is a dry run")
        if (off := self._cache.off) is not None:
            raise FeatureOff(FEATURE, f"there are no overrides in this process: {off}")

    async def _change(self, plan: Plan, starting: Starting | None, sign: Sign) -> None:
        document = self._cache.document if self._cache.current else await self._live()
        tries, unsure, failure = TRIES, TRIES_UNSURE, None
        while (wanted := plan(data := _data(document))) != data:
            _check_room(data, wanted)
            if failure is not None and (not tries or not unsure):
                raise failure
            tries -= 1
            try:
                over = None if document is None else sign(document)
                self._cache.learn(await self._put(over, wanted, starting))
            except (Conflict, NotFound, *_UNSURE) as error:
                unsure -= isinstance(error, _UNSURE)
                failure, document = error, await self._live_after(error)
            else:
                return

    async def _put(
        self, document: OverridesDocument | None, data: Data, starting: Starting | None
    ) -> OverridesDocument:
        if document is None:
            return await self._store.create(data, starting=starting)
        return await self._store.replace(document, data, starting=starting)

    async def _live(self) -> OverridesDocument | None:
        found = await self._store.read()
        if found is not None:
            self._cache.learn(found)
        return found

    async def _live_after(self, error: ClusterError) -> OverridesDocument | None:
        """What is there after a write that failed, or may have; where that cannot be read, the first failure counts."""
        try:
            return await self._live()
        except ClusterError as again:
            raise error from again


def _data(document: OverridesDocument | None) -> Data:
    return {} if document is None else document.data


def _check_room(data: Data, wanted: Data) -> None:
    """Refuses what would be too large; not what makes it smaller."""
    size = _size(wanted)
    if size > MOST_BYTES and size > _size(data):
        most = f"{MOST_BYTES // 1024} KiB"
        raise StoreFull(f"the overrides would have {size} bytes, more than {most}")


def _size(data: Data) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())


# Who ended what: said in an annotation of the ConfigMap by the very write that ended it; pure.
#
# Any replica may end a pause or a hold, and the prober's leader tells of it, which sees the ConfigMap and no more.  The
# annotation has the last few ends, oldest first: so its size is bounded, and it needs no tidying.  Nothing but what is
# told depends on it: one that is missing, mangled or forged leaves an end without its author, or with another one.


ENDED_BY: Final = f"{PREFIX}ended-by"
MOST: Final = 20
"""Ends that are kept: what may come between two probes of the leader.  At most 34 kB, which is room beside the data."""
_MOST_READ: Final = 65_536
"""Characters of an annotation; one that is longer is not ours."""


class Signature(NamedTuple):
    """One end, and who asked for it."""

    place: EntryPlace
    by: str
    at: str
    """When, so that the same end again is another one."""


class _Record(msgspec.Struct):
    key: str
    entry: EntryKind
    by: str
    at: str


_decoder: Final = msgspec.json.Decoder(list[_Record])


def signatures(document: OverridesDocument | None) -> tuple[Signature, ...]:
    """The ends that this version of the ConfigMap knows of, oldest first; none where they cannot be read."""
    text = None if document is None else _annotations(document).get(ENDED_BY)
    if not isinstance(text, str) or len(text) > _MOST_READ:
        return ()
    try:
        found = _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ()
    records = ((each, one_line(each.by, LONGEST_AUTHOR)) for each in found[-MOST:])
    return tuple(
        Signature(EntryPlace(each.key, each.entry), by, each.at) for each, by in records if by
    )


def signed(
    document: OverridesDocument, places: Collection[EntryPlace], by: str, now: float
) -> OverridesDocument:
    """The document to write over, which says that `by` ends what is at `places`."""
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
