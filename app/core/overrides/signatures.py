"""Who ended what: said in an annotation of the ConfigMap by the very write that ended it; pure.

Any replica may end a pause or a hold, and the prober's leader tells of it, which sees the ConfigMap and no more.  The
annotation has the last few ends, oldest first: so its size is bounded, and it needs no tidying.  Nothing but what is
told depends on it: one that is missing, mangled or forged leaves an end without its author, or with another one.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from app.core.model.annotations import PREFIX
from app.core.model.instants import rfc3339
from app.core.overrides_ports import OverridesDocument
from app.core.overrides.document import LONGEST_AUTHOR, EntryKind, Place
from app.core.redaction import one_line

ENDED_BY: Final = f"{PREFIX}ended-by"
MOST: Final = 20
"""Ends that are kept: what may come between two looks of the leader.  At most 34 kB, which is room beside the data."""
_MOST_READ: Final = 65_536
"""Characters of an annotation; one that is longer is not ours."""


class Signature(NamedTuple):
    """One end, and who asked for it."""

    place: Place
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
    return tuple(Signature(Place(each.key, each.entry), by, each.at) for each, by in records if by)


def signed(
    document: OverridesDocument, places: Collection[Place], by: str, now: float
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
