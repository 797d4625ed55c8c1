"""Who tried to change what, when, why, and what came of it: bounded here, each also a line of the log.

The log is the durable audit.  Attempts that were refused are kept apart from those that were not, and those of nobody
apart from those of callers who are known, so that no flood can push out what matters more; the same refusal again is
the same record, counted.  So with the lines: no flood of refusals takes those of other callers.
"""

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from enum import Enum, unique
from typing import Any, Final

import msgspec
import structlog

from app.core.records.shares import Shares
from app.core.runtime import redaction

log = structlog.get_logger(__name__)

_WORD: Final = 100
_NAME: Final = 300
"""Characters of a caller, a namespace, a target: Kubernetes allows 253."""
_REASON: Final = 1_000
_STATE: Final = 4_096
"""Bytes of `before` and of `after`, as JSON."""
_RECORD_BYTES: Final = 900
"""What a record costs beside its texts."""
_REPORT: Final = 10.0
"""Seconds after which refusals without a line are told as a number."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that would change something, and its answer."""

    request: str
    """The id of the request; its answer has it as `X-Request-Id`."""
    method: str
    path: str
    peer: str
    """The address that it came from."""
    status: int | None
    """None: the process ended before it was answered."""
    problem: str | None = None
    """The `type` of the problem it was answered with; None where it was performed."""
    caller: str | None = None
    """None: nobody was known to call."""
    action: str = ""
    """As `pause`, `scale`; empty: the call did not get so far."""
    namespace: str | None = None
    target: str | None = None
    reason: str | None = None
    """What the caller said."""
    before: Any = None
    after: Any = None

    @property
    def performed(self) -> bool:
        """Whether it was done, or begun."""
        return self.status is not None and self.status < 400  # noqa: PLR2004 - where HTTP's errors begin


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An attempt as it is kept: one printable line each, secrets taken out, cut to what may be shown."""

    number: int
    """Counts the attempts of this process; of a counted one, the last."""
    at: float
    attempt: Attempt
    first: float
    """When the first of `times` was."""
    times: int = 1
    """How many attempts this record stands for: the same caller was refused the same again."""
    cost: int = field(default=0, repr=False)
    """Bytes, about."""


@unique
class _Shelf(Enum):
    """What is kept together, with the most records and bytes that it may have."""

    PERFORMED = (1_000, 2_000_000)
    REFUSED = (300, 400_000)
    """Callers that are known."""
    NOBODY = (100, 100_000)
    """Refused before anybody was known to call."""


def _shelf(attempt: Attempt) -> _Shelf:
    if attempt.performed:
        return _Shelf.PERFORMED
    return _Shelf.NOBODY if attempt.caller is None else _Shelf.REFUSED


class AuditLog:
    """The record of write attempts; at most 2.5 MB.  Belongs to one event loop.

    Args:
        now: the instant that it is, as `Clock.now`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._records: dict[_Shelf, OrderedDict[Hashable, AuditRecord]] = {
            shelf: OrderedDict() for shelf in _Shelf
        }
        self._bytes = dict.fromkeys(_Shelf, 0)
        self._number = 0
        self._lines = Shares(now)
        self.since = now()
        """Since when this process keeps records: what was before is in the log alone."""
        self._untold = 0
        self._report: asyncio.TimerHandle | None = None

    def entries(self) -> list[AuditRecord]:
        """All that is known, newest first; no two have the same `number`."""
        found = [each for shelf in self._records.values() for each in shelf.values()]
        return sorted(found, key=lambda each: each.number, reverse=True)

    def note(self, attempt: Attempt) -> AuditRecord:
        """Keeps `attempt`, and writes its line: of a caller's refusals one a second on average, the others counted."""
        self._number += 1
        shelf = _shelf(attempt)
        record = self._kept(shelf, attempt)
        if shelf is _Shelf.PERFORMED or self._lines.take(record.attempt.caller):
            self._tell(record)
        else:
            self._leave_out()
        return record

    def flush(self) -> None:
        """Writes how many refusals got no line since the last one that says so: at the latest when the process ends."""
        if self._report is not None:
            self._report.cancel()
            self._report = None
        if self._untold:
            log.warning("write attempts were refused without a line each", attempts=self._untold)
            self._untold = 0

    def _kept(self, shelf: _Shelf, attempt: Attempt) -> AuditRecord:
        records, now = self._records[shelf], self._now()
        key = self._number if shelf is _Shelf.PERFORMED else _likeness(attempt)
        last = records.pop(key, None)
        safe = _safe(attempt)
        record = AuditRecord(self._number, now, safe, first=now, cost=_cost(safe))
        if last is not None:
            record = replace(record, first=last.first, times=last.times + 1)
            self._bytes[shelf] -= last.cost
        records[key] = record
        self._bytes[shelf] += record.cost
        most, most_bytes = shelf.value
        while len(records) > most or self._bytes[shelf] > most_bytes:
            _, gone = records.popitem(last=False)
            self._bytes[shelf] -= gone.cost
        return record

    def _leave_out(self) -> None:
        self._untold += 1
        if self._report is None:
            self._report = asyncio.get_running_loop().call_later(_REPORT, self.flush)

    def _tell(self, record: AuditRecord) -> None:
        said = record.attempt
        shown = {name: getattr(said, name) for name in said.__slots__}
        found = {name: value for name, value in shown.items() if value not in (None, "")}
        if said.performed:
            log.info("write", **found)
        else:
            log.warning("write refused", **found)


def _likeness(attempt: Attempt) -> Hashable:
    """What is the same in two refusals that one record stands for."""
    return (
        attempt.caller,
        attempt.peer,
        attempt.method,
        attempt.path[:_NAME],
        attempt.status,
        attempt.problem,
    )


def _safe(attempt: Attempt) -> Attempt:
    return Attempt(
        request=redaction.clean(attempt.request, _WORD),
        method=redaction.clean(attempt.method, _WORD),
        path=redaction.clean(attempt.path, _NAME),
        peer=redaction.clean(attempt.peer, _WORD),
        status=attempt.status,
        problem=_text(attempt.problem, _WORD),
        caller=_text(attempt.caller, _NAME),
        action=redaction.clean(attempt.action, _WORD),
        namespace=_text(attempt.namespace, _NAME),
        target=_text(attempt.target, _NAME),
        reason=_text(attempt.reason, _REASON),
        before=_state("before", attempt.before),
        after=_state("after", attempt.after),
    )


def _text(text: str | None, limit: int) -> str | None:
    return None if text is None else redaction.clean(text, limit)


def _state(name: str, state: object) -> object:
    """What can be shown of it: as it is where that is short, else its beginning as text."""
    safe = redaction.clean_value(name, state)
    written = msgspec.json.encode(safe)
    if len(written) <= _STATE:
        return safe
    return redaction.clean(written.decode(errors="replace"), _STATE // 4)


def _cost(attempt: Attempt) -> int:
    texts = (getattr(attempt, name) for name in attempt.__slots__)
    return _RECORD_BYTES + sum(_size(each) for each in texts)


def _size(value: object) -> int:
    """Bytes: of nested values about four times what they take as JSON."""
    if isinstance(value, str) or value is None:
        return sys.getsizeof(value)
    return 4 * len(msgspec.json.encode(value))
