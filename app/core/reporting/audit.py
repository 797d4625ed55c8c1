"""The audit log: who tried to change what, when, why, and with what result.

The log of the process is the durable audit. What is kept here in memory, and what gets a log line of its own, is
limited so that no flood hides what somebody did or tried, not even a flood from the same caller:

    records   Performed changes, refusals of known callers and refusals of unauthenticated ones are stored separately,
              and there each caller (unauthenticated: each address) has a share. If the space is used up, the largest
              share gives up its oldest record. Refusals with the same aim, status and problem are one record, counted.
              A refusal that gives up its place there is kept without its texts, one for each caller and aim.
    lines     Every performed change has one. The first refusal with an aim has one, and then one a minute: up to 300
              at once and one a second of each caller. All others have 20 at once and one a second. What has no line
              is summed by caller and aim, and named every ten seconds, or as soon as there are 2,000 such sums.

An aim is a call of the API and, if the seed has it, the shoot; a caller cannot invent one.
"""

import asyncio
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import structlog

from app.core import redaction
from app.core.limits import PerCallerBuckets
from app.core.web.peers import peer_of

log = structlog.get_logger(__name__)

# Maximum characters of each text of a record; of a name Kubernetes allows 253.
_TEXTS: Final = {
    **dict.fromkeys(("request", "method", "peer", "problem", "action"), 100),
    **dict.fromkeys(("path", "caller", "claimed", "namespace", "target"), 300),
    "reason": 1_000,
}
# Maximum bytes of `before` and of `after`, as JSON.
_STATE: Final = 4_096
# Estimated size of a record in bytes, without its texts.
_RECORD_BYTES: Final = 900
# Seconds for which one line covers all refusals with the same aim.
_TOLD_FOR: Final = 60.0
# Seconds after which refusals without a line are logged as sums.
_REPORT: Final = 10.0
# Most sums of refusals without a line; with one more they are logged at once, so that none is left out.
_SUMS: Final = 2_000
# Most characters of a log field that names aims; a log value has at most 2 KB, of which escapes take some.
_NAMED: Final = 1_800
# Most addresses that are named with the aims of one caller.
_PEERS: Final = 5


@dataclass(slots=True)
class Attempt:
    """A request that would change something, and its answer; filled while the request is handled."""

    request: str
    """The id of the request, which the answer carries as `X-Request-Id`."""
    method: str
    path: str
    peer: str
    """The address of the client."""
    status: int | None = None
    """None if the process ended before it answered."""
    problem: str | None = None
    """The `type` of the problem in the answer; None if the change was performed."""
    caller: str | None = None
    """None if the caller was not authenticated."""
    claimed: str | None = None
    """The person behind a shared account, as the client claims; nobody has verified it."""
    action: str = ""
    """Such as `pause` or `scale`; empty if the request was refused before that was known."""
    namespace: str | None = None
    target: str | None = None
    """The part of the shoot: `Deployment/kube-controller-manager`, an operation, a service."""
    reason: str | None = None
    """The reason that the caller gave."""
    before: Any = None
    after: Any = None

    @property
    def performed(self) -> bool:
        """Whether the change was made, or begun."""
        return self.status is not None and self.status < 400  # noqa: PLR2004 - where HTTP's errors begin


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An attempt as it is stored: each text is one printable line, without secrets, and limited in length."""

    number: int
    """Sequence number of the attempt; of a counted record, the last one."""
    at: float
    attempt: Attempt
    first: float
    """When the first of the `times` attempts happened."""
    times: int = 1
    """How many equal refusals of the same caller this record stands for."""
    told: float = field(default=float("-inf"), repr=False)
    """When one of them last had a log line."""
    shoot_aim: str = field(default="", repr=False)
    """The call and the shoot that the request was about; empty if the seed has no such shoot."""
    cost: int = field(default=0, repr=False)
    """Approximate size in bytes."""


class _Shelves:
    """Records of one kind, with a share for each caller or address.

    Args:
        most: maximum number of records of one share.
        bytes_each: maximum size of one share.
        bytes_all: maximum size of all shares.
    """

    def __init__(self, most: int, bytes_each: int, bytes_all: int) -> None:
        self._most, self._bytes_each, self._bytes_all = most, bytes_each, bytes_all
        self._records: dict[str, OrderedDict[Hashable, AuditRecord]] = {}
        self._bytes: dict[str, int] = {}

    def __iter__(self) -> Iterator[AuditRecord]:
        for shelf in self._records.values():
            yield from shelf.values()

    def find(self, who: str, key: Hashable) -> AuditRecord | None:
        """Returns the record with this key, if any."""
        shelf = self._records.get(who)
        return None if shelf is None else shelf.get(key)

    def put(self, who: str, key: Hashable, record: AuditRecord) -> list[AuditRecord]:
        """Adds a record, replacing the one with this key; returns those that were dropped to make space."""
        dropped = []
        shelf = self._records.setdefault(who, OrderedDict())
        if (last := shelf.pop(key, None)) is not None:
            self._bytes[who] -= last.cost
        shelf[key] = record
        self._bytes[who] = self._bytes.get(who, 0) + record.cost
        while len(shelf) > self._most or self._bytes.get(who, 0) > self._bytes_each:
            dropped.append(self._drop_oldest(who))
        while sum(self._bytes.values()) > self._bytes_all:
            dropped.append(self._drop_oldest(max(self._bytes, key=self._bytes.__getitem__)))
        return dropped

    def _drop_oldest(self, who: str) -> AuditRecord:
        _, gone = self._records[who].popitem(last=False)
        self._bytes[who] -= gone.cost
        if not self._records[who]:
            del self._records[who], self._bytes[who]
        return gone


class _Untold:
    """Refusals that had no line of their own since the last report, summed by caller and aim."""

    def __init__(self) -> None:
        self.attempts = 0
        self.sums = 0
        self._aims: dict[str | None, Counter[str]] = {}
        self._peers: dict[str | None, set[str]] = {}

    def add(self, attempt: Attempt, aim: str) -> None:
        """Counts one; `aim` is empty where no shoot of the seed was aimed at, which is a number only."""
        self.attempts += 1
        if aim:
            aims = self._aims.setdefault(attempt.caller, Counter())
            self.sums += aim not in aims
            aims[aim] += 1
            peers = self._peers.setdefault(attempt.caller, set())
            if len(peers) < _PEERS:
                peers.add(attempt.peer)

    def log(self) -> None:
        """Logs who aimed at what, in as many lines as that needs, and how many attempts there were in all."""
        for caller, aims in self._aims.items():
            peers = ", ".join(sorted(self._peers[caller]))
            named = [""]
            for aim, times in aims.items():
                word = f"{aim} ({times} times)" if times > 1 else aim
                if len(named[-1]) + len(word) > _NAMED:
                    named.append("")
                named[-1] += f", {word}" if named[-1] else word
            for each in named:
                log.warning(
                    "writes refused without a line each", caller=caller, peers=peers, aims=each
                )
        log.warning("write attempts were refused without a line each", attempts=self.attempts)


class AuditLog:
    """The audit log in memory, at most 5.2 MB; belongs to one event loop.

    Args:
        now: returns the current instant, as `Clock.now`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._performed = _Shelves(1_000, 2_000_000, 2_000_000)
        self._refused = _Shelves(300, 400_000, 1_000_000)
        self._of_nobody = _Shelves(100, 100_000, 200_000)
        self._faded = _Shelves(1_600, 1_600_000, 2_000_000)
        """What had to leave the two shelves above, by caller (all unauthenticated ones together) and aim."""
        self._number = 0
        self._lines = PerCallerBuckets(now, rate=1, at_once=20)
        self._lines_of_aims = PerCallerBuckets(now, rate=1, at_once=300)
        self.since = now()
        """When this process began to keep records; earlier ones are only in the log."""
        self._untold = _Untold()
        self._report: asyncio.TimerHandle | None = None
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each attempt; it must return at once."""
        self._listeners.append(listener)

    def entries(self) -> list[AuditRecord]:
        """Returns all records, newest first; each `number` is unique."""
        found = [*self._performed, *self._refused, *self._of_nobody, *self._faded]
        return sorted(found, key=lambda each: each.number, reverse=True)

    def note(self, attempt: Attempt, aim: str = "") -> AuditRecord:
        """Stores `attempt`, and logs it if it may have a line.

        Args:
            attempt: the request and its answer.
            aim: the call, and after a space the existing shoot that the request was about; without a shoot the
                call alone, and empty if there is no such call.
        """
        self._number += 1
        now, safe = self._now(), _safe(attempt)
        record = AuditRecord(self._number, now, safe, first=now, cost=_cost(safe))
        if safe.performed:
            self._performed.put(record.attempt.caller or "", record.number, record)
            self._tell(record)
        else:
            record = self._note_refusal(record, aim)
        for each in self._listeners:
            each()
        return record

    def _note_refusal(self, record: AuditRecord, aim: str) -> AuditRecord:
        said = record.attempt
        key = (aim, said.status, said.problem)
        shoot_aim = aim if " " in aim else ""
        shelves, who = self._refused, said.caller
        if who is None:
            shelves, who = self._of_nobody, peer_of(said.peer)
        told = float("-inf")
        if (last := shelves.find(who, key)) is not None:
            told, record = last.told, replace(record, first=last.first, times=last.times + 1)
        due = bool(aim) and record.at - told >= _TOLD_FOR
        if (due and self._lines_of_aims.take(said.caller)) or self._lines.take(said.caller):
            told = record.at
            self._tell(record)
        else:
            self._leave_out(said, shoot_aim)
        record = replace(record, told=told, shoot_aim=shoot_aim)
        for gone in shelves.put(who, key, record):
            if gone.shoot_aim:
                self._fade(gone)
        return record

    def _fade(self, record: AuditRecord) -> None:
        """Keeps what one caller aimed at, without the texts, so that as much of that as possible has space."""
        caller = record.attempt.caller or ""
        said = replace(record.attempt, target=None, reason=None, before=None, after=None)
        first, times = record.first, record.times
        if (last := self._faded.find(caller, record.shoot_aim)) is not None:
            first, times = min(first, last.first), times + last.times
            if last.number > record.number:
                record, said = last, last.attempt
        faded = replace(record, attempt=said, first=first, times=times, cost=_cost(said))
        self._faded.put(caller, record.shoot_aim, faded)

    def flush(self) -> None:
        """Logs which refusals had no line since the last time; also to be called when the process ends."""
        if self._report is not None:
            self._report.cancel()
            self._report = None
        if self._untold.attempts:
            self._untold.log()
            self._untold = _Untold()

    def _leave_out(self, attempt: Attempt, aim: str) -> None:
        self._untold.add(attempt, aim)
        if self._untold.sums >= _SUMS:
            self.flush()
        elif self._report is None:
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
    texts: dict[str, Any] = {
        name: redaction.clean(text, most)
        for name, most in _TEXTS.items()
        if (text := getattr(attempt, name)) is not None
    }
    before, after = _state("before", attempt.before), _state("after", attempt.after)
    return replace(attempt, **texts, before=before, after=after)


def _state(name: str, state: object) -> object:
    """Returns what may be shown: the value itself if it is short, otherwise the beginning of its JSON text."""
    safe = redaction.clean_value(name, state)
    written = msgspec.json.encode(safe)
    if len(written) <= _STATE:
        return safe
    return redaction.clean(written.decode(errors="replace"), _STATE // 4)


def _cost(attempt: Attempt) -> int:
    texts = (getattr(attempt, name) for name in attempt.__slots__)
    return _RECORD_BYTES + sum(_size(each) for each in texts)


def _size(value: object) -> int:
    """Size in bytes; nested values take about four times as much as their JSON."""
    if isinstance(value, str) or value is None:
        return sys.getsizeof(value)
    return 4 * len(msgspec.json.encode(value))
