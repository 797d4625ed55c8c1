"""Cuts JSON that is nested too deeply for our decoder, so that the rest can be read.

kube-apiserver accepts thousands of levels in a field that it does not know. msgspec gives up at about 950, with Python
3.13 at 10,000, since 3.14 where the stack ends, for the whole list or event around such an object, without saying which
object it is. Nothing that we read is nested more than a dozen levels, so deeper parts are cut out and the rest is kept
as it is. Depth is found by counting brackets, without recursion.
"""

import re
from typing import Final

from app.core.clock import Clock

DEEPEST: Final = 64
"""Number of levels that are kept."""
CUT: Final = b"\tnull"
"""Placeholder for what was cut out. Its tab identifies it: JSON strings cannot contain one, and no API server writes
one between tokens."""
_OPENING: Final = 1
_STRING: Final = 3
# Bytes, a few milliseconds if they are all brackets, after which the event loop gets a turn.
_AT_ONCE: Final = 16_384
# Skips text without brackets and strings without escapes, then matches a run of opening brackets, a run of closing
# ones, another string, or the end.
_RUNS: Final = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+")*+(?:([\[{]++)|([\]}]++)|(")|\Z)')


async def shallow(raw: bytes, clock: Clock) -> bytes:
    """Returns `raw` without anything nested deeper than `DEEPEST` levels; yields to the event loop in between.

    Input that is not JSON stays invalid: reporting that is left to the decoder.
    """
    cutter = _Cutter(raw)
    for end in range(_AT_ONCE, len(raw) + _AT_ONCE, _AT_ONCE):
        cutter.go_on(end)
        await clock.sleep(0)
    return cutter.kept()


def was_cut(raw: bytes) -> bool:
    """Returns whether something was cut out of an object."""
    # Asked of every object: to see that a Cluster has no tab takes 2 µs, that it has no placeholder 70 µs.
    return CUT[:1] in raw and CUT in raw


class _Cutter:
    """Scans a text once."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = self._depth = 0
        self._parts: list[bytes] = []
        self._begin = 0
        """Where the next kept part begins."""

    def kept(self) -> bytes:
        """Returns the text without what was cut out."""
        return b"".join((*self._parts, self._raw[self._begin :]))

    def go_on(self, end: int) -> None:
        """Scans up to `end`, or to the end of a string that extends beyond it."""
        while self._at < end:
            self._at = self._pass_brackets(self._at, end)

    def _pass_brackets(self, at: int, end: int) -> int:
        """Scans to `end` or past the next string with escapes; returns the position."""
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
        """Returns the position after the next unescaped quotation mark."""
        while (end := self._raw.find(b'"', at)) >= 0:
            text = self._raw[at:end]
            if (len(text) - len(text.rstrip(b"\\"))) % 2 == 0:
                return end + 1
            at = end + 1
        return len(self._raw)
