"""Who tried to change what, when, why, and what came of it: bounded here, each also a line of the log.

The log is the durable audit.  What is kept here, and what gets a line of its own, is shared out so that no flood hides
what somebody did or tried, not even a flood of the same caller:

    records   What was done, what known callers were refused, and what nobody was refused have places of their own, and
              there each caller (of nobody: each address).  Where all places are taken, whoever has most gives up its
              oldest.  Refusals are one record where they had the same aim, status and problem, and are counted.
    lines     What was done always has one.  Of refusals the first with an aim has one, and then one a minute: up to 300
              at once and one a second of each caller.  Of all others 20 at once and one a second.  The rest is told as
              a number.

An aim is a call of the API and, where the seed has it, the shoot: nobody can invent one.
"""

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import structlog

from app.core import redaction
from app.core.limits import FairShares
from app.core.web.peers import peer_of

log = structlog.get_logger(__name__)

_WORD: Final = 100
_NAME: Final = 300
"""Characters of a caller, a namespace, a target: Kubernetes allows 253."""
_REASON: Final = 1_000
_STATE: Final = 4_096
"""Bytes of `before` and of `after`, as JSON."""
_RECORD_BYTES: Final = 900
"""What a record costs beside its texts."""
_TOLD_FOR: Final = 60.0
"""Seconds for which one line stands for all refusals with the same aim."""
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
    told: float = field(default=float("-inf"), repr=False)
    """When one of them last had a line of the log."""
    cost: int = field(default=0, repr=False)
    """Bytes, about."""


class _Shelves:
    """Records of one kind, each on the shelf of whoever it is about.

    Args:
        most: records of one shelf.
        bytes_each: of one shelf.
        bytes_all: of all of them.
    """

    def __init__(self, most: int, bytes_each: int, bytes_all: int) -> None:
        self._most, self._bytes_each, self._bytes_all = most, bytes_each, bytes_all
        self._records: dict[str, OrderedDict[Hashable, AuditRecord]] = {}
        self._bytes: dict[str, int] = {}

    def __iter__(self) -> Iterator[AuditRecord]:
        for shelf in self._records.values():
            yield from shelf.values()

    def find(self, who: str, key: Hashable) -> AuditRecord | None:
        """The record with this key."""
        shelf = self._records.get(who)
        return None if shelf is None else shelf.get(key)

    def put(self, who: str, key: Hashable, record: AuditRecord) -> None:
        """Puts it in front, instead of the one that had this key; the oldest go where there is no place."""
        shelf = self._records.setdefault(who, OrderedDict())
        if (last := shelf.pop(key, None)) is not None:
            self._bytes[who] -= last.cost
        shelf[key] = record
        self._bytes[who] = self._bytes.get(who, 0) + record.cost
        while len(shelf) > self._most or self._bytes.get(who, 0) > self._bytes_each:
            self._drop_oldest(who)
        while sum(self._bytes.values()) > self._bytes_all:
            self._drop_oldest(max(self._bytes, key=self._bytes.__getitem__))

    def _drop_oldest(self, who: str) -> None:
        _, gone = self._records[who].popitem(last=False)
        self._bytes[who] -= gone.cost
        if not self._records[who]:
            del self._records[who], self._bytes[who]


class AuditLog:
    """The record of write attempts; at most 3.2 MB.  Belongs to one event loop.

    Args:
        now: the instant that it is, as `Clock.now`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._performed = _Shelves(1_000, 2_000_000, 2_000_000)
        self._refused = _Shelves(300, 400_000, 1_000_000)
        self._of_nobody = _Shelves(100, 100_000, 200_000)
        self._number = 0
        self._lines = FairShares(now, rate=1, at_once=20)
        self._lines_of_aims = FairShares(now, rate=1, at_once=300)
        self.since = now()
        """Since when this process keeps records: what was before is in the log alone."""
        self._untold = 0
        self._report: asyncio.TimerHandle | None = None

    def entries(self) -> list[AuditRecord]:
        """All that is known, newest first; no two have the same `number`."""
        found = [*self._performed, *self._refused, *self._of_nobody]
        return sorted(found, key=lambda each: each.number, reverse=True)

    def note(self, attempt: Attempt, aim: str = "") -> AuditRecord:
        """Keeps `attempt`, and writes its line, if it has one.

        Args:
            attempt: what was tried.
            aim: at what of all that there is; empty: at nothing.
        """
        self._number += 1
        record = self._record(attempt)
        if record.attempt.performed:
            self._performed.put(record.attempt.caller or "", record.number, record)
            self._tell(record)
            return record
        return self._note_refusal(record, aim)

    def _record(self, attempt: Attempt) -> AuditRecord:
        now, safe = self._now(), _safe(attempt)
        return AuditRecord(self._number, now, safe, first=now, cost=_cost(safe))

    def _note_refusal(self, record: AuditRecord, aim: str) -> AuditRecord:
        said = record.attempt
        key = (aim, said.status, said.problem)
        shelves, who = self._refused, said.caller
        if who is None:
            shelves, who = self._of_nobody, peer_of(said.peer)
        told = float("-inf")
        if (last := shelves.find(who, key)) is not None:
            told, record = last.told, replace(record, first=last.first, times=last.times + 1)
        if self._has_line(said.caller, due=bool(aim) and record.at - told >= _TOLD_FOR):
            told = record.at
            self._tell(record)
        else:
            self._leave_out()
        record = replace(record, told=told)
        shelves.put(who, key, record)
        return record

    def _has_line(self, caller: str | None, *, due: bool) -> bool:
        return (due and self._lines_of_aims.take(caller)) or self._lines.take(caller)

    def flush(self) -> None:
        """Writes how many refusals got no line since the last one that says so: at the latest when the process ends."""
        if self._report is not None:
            self._report.cancel()
            self._report = None
        if self._untold:
            log.warning("write attempts were refused without a line each", attempts=self._untold)
            self._untold = 0

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
