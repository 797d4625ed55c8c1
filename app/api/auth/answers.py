"""What the seed said a while ago: bounded, and asked once where several want to know the same at once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

V = TypeVar("V")

FRESH: Final = 60.0
"""Seconds for which a yes may be taken for true."""
FRESH_NO: Final = 10.0
"""The same for a no."""
REPEATED_NO: Final = 1.0
"""The same for a no to a write: who repeats what was just denied is not worth a review each time."""
STALE: Final = 300.0
"""Seconds for which a yes may be taken for true while nobody can be asked."""
REMEMBERED: Final = 600.0
"""Seconds for which a yes says that somebody is no stranger."""
MOST: Final = 4_096
"""Answers of each kind that are kept: those that were of use last."""


class _Answer(NamedTuple, Generic[V]):
    value: V
    at: float


class Answers(Generic[V]):
    """Remembers answers; one that is false (None, too) is a no.

    A no is kept apart from a yes: whoever sends a thousand wrong tokens must not make us forget those that are right.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._yes: OrderedDict[Hashable, _Answer[V]] = OrderedDict()
        self._no: OrderedDict[Hashable, _Answer[V]] = OrderedDict()
        self._asked: dict[Hashable, asyncio.Future[V]] = {}

    def fresh(self, key: Hashable, now: float) -> V | None:
        """What may be taken for true; None where it must be asked for."""
        if (answer := self._within(self._yes, key, now, FRESH)) is not None:
            return answer.value
        return None

    def denied(self, key: Hashable, now: float, seconds: float = FRESH_NO) -> bool:
        """Whether the answer was no a moment ago."""
        return self._within(self._no, key, now, seconds) is not None

    def stale(self, key: Hashable, now: float) -> V | None:
        """What may be taken for true while nobody can be asked; None where there is nothing."""
        answer = self._within(self._yes, key, now, STALE)
        return None if answer is None else answer.value

    def remembered(self, key: Hashable, now: float) -> V | None:
        """What was said last, if that was a yes: no answer, but a reason to ask for this one before others."""
        answer = self._within(self._yes, key, now, REMEMBERED)
        return None if answer is None else answer.value

    def _within(
        self, kept: OrderedDict[Hashable, _Answer[V]], key: Hashable, now: float, seconds: float
    ) -> _Answer[V] | None:
        answer = kept.get(key)
        if answer is None or now - answer.at >= seconds:
            return None
        kept.move_to_end(key)
        return answer

    def note(self, key: Hashable, value: V, now: float) -> None:
        """Remembers what was said now, instead of what was said before."""
        for each in (self._yes, self._no):
            each.pop(key, None)
        kept = self._yes if value else self._no
        kept[key] = _Answer(value, now)
        while len(kept) > self._most:
            kept.popitem(last=False)

    def clear(self) -> None:
        """Forgets all."""
        self._yes.clear()
        self._no.clear()

    async def together(self, key: Hashable, ask: Callable[[], Awaitable[V]]) -> V:
        """What `ask` returns or raises, for all who want to know the same meanwhile."""
        while (asked := self._asked.get(key)) is not None:
            await asyncio.wait([asked])
            if not asked.cancelled():
                return asked.result()
        asked = self._asked[key] = asyncio.get_running_loop().create_future()
        try:
            value = await ask()
        except Exception as error:
            asked.set_exception(error)
            asked.exception()  # seen: perhaps nobody else waits for it
            raise
        else:
            asked.set_result(value)
            return value
        finally:
            asked.cancel()  # where whoever asked went away: the next one asks anew
            del self._asked[key]
