"""What a drawer hands to the feed."""

from typing import NamedTuple

from app.core.reporting.changes import ChangeKind


class Told(NamedTuple):
    """One event, drawn once for all streams; without an id yet."""

    kind: ChangeKind
    namespace: str | None
    body: bytes
