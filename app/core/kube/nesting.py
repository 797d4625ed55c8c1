"""JSON that is nested more deeply than our decoder goes, cut so that it can be read.

kube-apiserver takes thousands of levels in a field that it does not know; msgspec gives up at some 950, for the whole
list or event around such an object, and names nobody.  Nothing that we read lies deeper than a dozen levels, so what
does is left out, and the rest stays as it is.  Depth is counted over brackets alone, without recursion.
"""

import re
from typing import Final

from app.core.clock import Clock

DEEPEST: Final = 64
"""Levels that are kept."""
CUT: Final = b"\tnull"
"""What stands where something was left out.  The tab tells it apart: no string of JSON may hold one, and no API server
writes one in between."""
_OPENING: Final = 1
_STRING: Final = 3
_AT_ONCE: Final = 16_384
"""Bytes, some milliseconds of nothing but brackets, after which others have their turn."""
_RUNS: Final = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+")*+(?:([\[{]++)|([\]}]++)|(")|\Z)')
"""A run of brackets that open, or that close, after what has none and strings without escapes; another string; the end
of what is looked at."""


async def shallow(raw: bytes, clock: Clock) -> bytes:
    """`raw` without what is nested deeper than `DEEPEST` levels; the loop is never held for long.

    What is no JSON is no better afterwards, and it is for the decoder to say so.
    """
    cutter = _Cutter(raw)
    for end in range(_AT_ONCE, len(raw) + _AT_ONCE, _AT_ONCE):
        cutter.go_on(end)
        await clock.sleep(0)
    return cutter.kept()


class _Cutter:
    """Walks over a text once."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = self._depth = 0
        self._parts: list[bytes] = []
        self._begin = 0
        """Where what is kept after them begins."""

    def kept(self) -> bytes:
        """What is kept."""
        return b"".join((*self._parts, self._raw[self._begin :]))

    def go_on(self, end: int) -> None:
        """To this place, or to the end of a string that goes beyond it."""
        while self._at < end:
            self._at = self._pass_brackets(self._at, end)

    def _pass_brackets(self, at: int, end: int) -> int:
        """To `end`, or behind the next string with escapes; gives where that is."""
        raw, depth = self._raw, self._depth
        for run in _RUNS.finditer(raw, at, end):
            kind, before = run.lastindex, depth
            if kind is None:
                break
            if kind == _STRING:
                self._depth = depth
                return self._end_of_string(run.end())
            first, behind = run.span(kind)
            depth += behind - first if kind == _OPENING else first - behind
            if before <= DEEPEST < depth:
                self._parts += raw[self._begin : first + DEEPEST - before], CUT
            elif depth <= DEEPEST < before:
                self._begin = first + before - DEEPEST
        self._depth = depth
        return end

    def _end_of_string(self, at: int) -> int:
        """Behind the next quotation mark that is not escaped."""
        while (end := self._raw.find(b'"', at)) >= 0:
            text = self._raw[at:end]
            if (len(text) - len(text.rstrip(b"\\"))) % 2 == 0:
                return end + 1
            at = end + 1
        return len(self._raw)
