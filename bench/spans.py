"""Stretches of time in which something is so."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` until just before `end`."""

    start: float
    end: float
    hangs: bool = False
    """Requests get no answer, instead of a quick refusal."""

    def overlaps(self, start: float, end: float) -> bool:
        """Whether it has an instant in common with that stretch."""
        return self.start < end and start < self.end


class Spans:
    """Stretches in order; none of them touches another."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._spans = _merged(spans)
        self._starts = [span.start for span in self._spans]

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __bool__(self) -> bool:
        return bool(self._spans)

    def at(self, instant: float) -> Span | None:
        """The stretch that `instant` lies in."""
        place = bisect_right(self._starts, instant) - 1
        if place >= 0 and instant < self._spans[place].end:
            return self._spans[place]
        return None

    def ended_before(self, instant: float) -> Span | None:
        """The last stretch that was over at `instant`."""
        place = bisect_right(self._starts, instant) - 1
        while place >= 0 and self._spans[place].end > instant:
            place -= 1
        return self._spans[place] if place >= 0 else None

    def within(self, start: float, end: float) -> list[Span]:
        """Those that have an instant in common with that stretch."""
        return [span for span in self._spans if span.overlaps(start, end)]


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(spans, key=lambda each: each.start):
        if merged and span.start <= merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.hangs or span.hangs)
        else:
            merged.append(span)
    return merged
