"""Results of the probes of each shoot over six hours, and the plots of them as SVG paths.

A series is a ring of 1,440 buckets of 15 s; a bucket is two bytes, the share of expired leases and marks, so that a
shoot takes 3 kB. The series of a shoot is dropped with the shoot, and as many series are kept as histories.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from enum import IntFlag
from itertools import groupby
from typing import Final, NamedTuple

from app.core.model.probing import ProbeResult, VerdictReason
from app.core.model.workloads import Direction
from app.core.reporting.notices import (
    Notice,
    Probed,
    ScalingRunBegan,
    ScalingRunEnded,
    ShootForgotten,
)

STEP: Final = 15.0
"""Seconds in a bucket."""
BUCKETS: Final = 1_440
"""Buckets in a series: six hours."""
# The byte for a share of 1.0; shares are stored in half percents, with `_NOT_READ` for none.
_FULL: Final = 200
_NOT_READ: Final = 255
_SHOOTS: Final = 2_000


class Mark(IntFlag):
    """Events in a bucket, besides the share of expired leases."""

    PROBED = 1
    FAILED = 2
    """A probe did not end in a reading; or, in endpoint mode, one of the two paths failed."""
    DOWN = 4
    """A scaling run was taking the dependents down."""
    UP = 8
    PAUSED = 16
    """A pause kept a verdict from being acted on."""
    GATED = 32
    HELD = 64
    """A hold kept a verdict from being acted on."""


_KEPT_BACK: Final[dict[str, Mark]] = {
    VerdictReason.PAUSED: Mark.PAUSED,
    VerdictReason.HELD: Mark.HELD,
    VerdictReason.GATED: Mark.GATED,
}
_RUN: Final = {Direction.DOWN: Mark.DOWN, Direction.UP: Mark.UP}


class Column(NamedTuple):
    """One column of a plot: the worst share and all marks of its buckets."""

    share: float | None
    """Share of expired leases; None if none were read."""
    marks: int
    """Bits of `Mark`; a plain number, as a plot has hundreds, and an `IntFlag` takes microseconds for each."""


class Series:
    """The series of one shoot; a ring indexed by absolute bucket number (instant divided by `STEP`)."""

    __slots__ = ("_marks", "_newest", "_running", "_shares")

    def __init__(self) -> None:
        self._shares, self._marks = bytearray([_NOT_READ]) * BUCKETS, bytearray(BUCKETS)
        self._newest = 0
        self._running = Mark(0)

    def probed(self, at: float, share: float | None, marks: Mark) -> None:
        """Record a probe that ended at `at`; `share` is None if it read no leases."""
        place = self._place(at, marks | Mark.PROBED)
        if share is not None:
            known = self._shares[place]
            found = round(share * _FULL)
            self._shares[place] = found if known == _NOT_READ else max(known, found)

    def run_began(self, at: float, direction: Direction) -> None:
        """Mark buckets from `at` on, until `run_ended`."""
        self._running = _RUN[direction]
        self._place(at, self._running)

    def run_ended(self, at: float, direction: Direction) -> None:
        self._place(at, _RUN[direction])
        self._running = Mark(0)

    def _place(self, at: float, marks: Mark) -> int:
        """Add marks to the bucket of `at` and return its index; clears the buckets that the ring has moved over."""
        bucket = int(at // STEP)
        for new in range(max(self._newest + 1, bucket - BUCKETS + 1), bucket + 1):
            self._shares[new % BUCKETS] = _NOT_READ
            self._marks[new % BUCKETS] = self._running
        self._newest = max(self._newest, bucket)
        place = bucket % BUCKETS
        self._marks[place] |= marks
        return place

    def columns(self, now: float, count: int, each: int = 1) -> list[Column]:
        """The last `count` columns up to `now`, of `each` buckets."""
        last = int(now // STEP)
        if each > 1:
            last -= (
                last % each - each + 1
            )  # aligned: otherwise columns change their values while the plot moves on
        first = last - count * each + 1
        return [self._column(first + n * each, each) for n in range(count)]

    def probed_before(self, at: float) -> bool:
        """Whether a probe ended in the two minutes before `at`; also if `at` is older than the series."""
        last = int(at // STEP)
        if last <= self._newest - BUCKETS:
            return True
        before = range(last - int(120 // STEP), last)
        return any(
            self._marks[each % BUCKETS] & Mark.PROBED
            for each in before
            if self._newest - BUCKETS < each <= self._newest
        )

    def _column(self, first: int, each: int) -> Column:
        share, marks = _NOT_READ, 0
        for bucket in range(first, first + each):
            if self._newest - BUCKETS < bucket <= self._newest:
                place = bucket % BUCKETS
                marks |= self._marks[place]
                if (known := self._shares[place]) != _NOT_READ:
                    share = known if share == _NOT_READ else max(share, known)
        return Column(None if share == _NOT_READ else share / _FULL, marks)


class Plots:
    """The series of all shoots; `note` is to be subscribed to the notice bus."""

    def __init__(self) -> None:
        self._series: OrderedDict[str, Series] = OrderedDict()

    def of(self, namespace: str) -> Series:
        """The series of one shoot; an empty one if nothing was recorded."""
        return self._series.get(namespace) or Series()

    def note(self, notice: Notice) -> None:
        """Record a probe, or the begin or end of a scaling run; drop the series of a shoot that is gone."""
        match notice:
            case ShootForgotten():
                self._series.pop(notice.namespace, None)
            case Probed():
                share, leases = None, notice.leases
                if leases and (total := leases["fresh"] + leases["expired"] + leases["unknown"]):
                    share = leases["expired"] / total
                results = notice.probes.values()
                way_lost = not leases and any(each != ProbeResult.SUCCESS for each in results)
                failed = Mark.FAILED if notice.failed or way_lost else Mark(0)
                marks = failed | _KEPT_BACK.get(notice.reason, Mark(0))
                self._kept(notice.namespace).probed(notice.at, share, marks)
            case ScalingRunBegan():
                self._kept(notice.namespace).run_began(notice.at, notice.direction)
            case ScalingRunEnded():
                self._kept(notice.namespace).run_ended(notice.at, notice.direction)
            case _:
                return

    def _kept(self, namespace: str) -> Series:
        series = self._series.setdefault(namespace, Series())
        self._series.move_to_end(namespace)
        if len(self._series) > _SHOOTS:
            self._series.popitem(last=False)
        return series


class Band(NamedTuple):
    """Consecutive columns that have a mark."""

    start: int
    width: int


class Plot(NamedTuple):
    """A plot of `width` by 29 units, as paths and bands of SVG, and the same in words for screen readers.

    From the top: a strip of 4 for the scaling runs, 20 for the share of expired leases, and 4 for failed probes. What
    no reading covers is left out of `known`, so that it does not look like a share of zero.
    """

    width: int
    area: str | None
    """The share of expired leases, as the attribute `d` of a path; None in endpoint mode, which reads none."""
    limit: float
    """Distance of the limit from the top of the share."""
    known: list[Band]
    """Columns that a probe covers, with a reading."""
    failed: list[Band]
    down: list[Band]
    up: list[Band]
    paused: list[Band]
    held: list[Band]
    gated: list[Band]
    words: str


_HEIGHT: Final = 20


def drawn(columns: Sequence[Column], limit: float, *, carry: int = 0, leases: bool = True) -> Plot:
    """The plot of columns.

    Args:
        columns: Oldest first.
        limit: The share of expired leases that asks for a scale-down.
        carry: Columns for which a reading stands where no other follows: the time between two probes.
        leases: Whether the probes read leases; in endpoint mode they do not.
    """
    shares = list(_carried(columns, carry, leases=leases))
    failed = _bands(columns, Mark.FAILED)
    down, up = _bands(columns, Mark.DOWN), _bands(columns, Mark.UP)
    known = [each for each in shares if each is not None]
    if not known:
        words = ["nothing read"]
    elif leases:
        words = [f"expired leases at most {max(known):.0%}"]
    else:
        words = ["probed"]
    if failed:
        width = sum(each.width for each in failed)
        words.append(f"probes failed in {width} of {len(columns)} columns")
    for way, runs in (("down", down), ("up", up)):
        if runs:
            words.append(f"scaled {way} {'once' if len(runs) == 1 else f'{len(runs)} times'}")
    return Plot(
        len(columns),
        _area(shares) if leases else None,
        round(_HEIGHT * (1 - limit), 1),
        list(_runs([each is not None for each in shares])),
        failed,
        down,
        up,
        _bands(columns, Mark.PAUSED),
        _bands(columns, Mark.HELD),
        _bands(columns, Mark.GATED),
        ", ".join(words),
    )


def _carried(columns: Sequence[Column], carry: int, *, leases: bool) -> Iterator[float | None]:
    """The share of each column; a reading stands for the `carry` columns after it, but not past a failed probe."""
    probed, failed = int(Mark.PROBED), int(Mark.FAILED)
    last, left = None, 0
    for each in columns:
        share = each.share if leases else (0.0 if each.marks & probed else None)
        if share is not None:
            last, left = share, carry
        elif each.marks & failed or left == 0:
            last, left = None, 0
        else:
            left -= 1
        yield last


def _area(shares: Sequence[float | None]) -> str:
    """The path: a closed shape for each stretch of readings that is not zero throughout, in steps of equal columns."""
    path, x = "", 0
    for has_reading, stretch in groupby(shares, key=lambda each: each is not None):
        steps = [(share or 0.0, sum(1 for _ in run)) for share, run in groupby(stretch)]
        begin, width = x, sum(count for _, count in steps)
        x += width
        if not has_reading or not any(share for share, _ in steps):
            continue
        at = begin
        path += f"M{begin} {_HEIGHT}"
        for share, count in steps:
            at += count
            path += f"V{_HEIGHT * (1 - share):g}H{at}"
        path += f"V{_HEIGHT}Z"
    return path


def _bands(columns: Sequence[Column], mark: Mark) -> list[Band]:
    bit = int(mark)
    return list(_runs([bool(each.marks & bit) for each in columns]))


def _runs(marked: Sequence[bool]) -> Iterator[Band]:
    x = 0
    for has_mark, run in groupby(marked):
        width = sum(1 for _ in run)
        if has_mark:
            yield Band(x, width)
        x += width
