"""Looks at what may have changed, and tells the feed what has: once for all streams, while somebody listens."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, assert_never

from app.api.streaming.changes import OperationNews, ShootNews, StreamEvent, WeederNews
from app.api.streaming.overrides import OverrideAction, OverrideNews, action_of
from app.api.views import Context
from app.core.clock import Clock
from app.core.model.overrides import ALL_SHOOTS
from app.core.model.policy import Loop
from app.core.model.weeding import ServiceKey
from app.core.reporting.changes import Feed, Wanted
from app.core.reporting.notices import Notice, NoticeKind

_GATHER: Final = 0.05
"""Seconds from the first sign of a change to the probe: what belongs together is told together, and by whom."""
_PAUSE: Final = 0.15
"""Seconds from one probe to the next sign that is heeded."""
_AGAIN: Final = 1.0
"""Seconds after which what runs is looked at, sign or none."""
_LINGER: Final = 60.0
"""Seconds for which rendering goes on when the last stream has ended: whoever comes back by then can resume."""
_SLICE: Final = 20
"""Subjects that are rendered before all else has its turn: a few milliseconds."""
_BREATH: Final = 0.002


@dataclass(slots=True)
class _Signs:
    """What may have changed since the last probe."""

    shoots: set[str] = field(default_factory=set)
    services: set[ServiceKey] = field(default_factory=set)
    decisions: dict[str | None, dict[OverrideAction, str]] = field(default_factory=dict)
    """Control planes, None for all of them, with those whom notices named."""
    any_decision: bool = False
    """Somebody decided something, nobody said about which shoot."""
    scaling_runs: bool = False


class _Subjects:
    """What is rendered: of the loops that this instance leads."""

    def __init__(self, context: Context, led: frozenset[Loop]) -> None:
        prober = context.prober if Loop.PROBER in led else None
        weeders = context.weeders if Loop.WEEDER in led else None
        self.shoots = None if prober is None else ShootNews(prober)
        self.operations = None if prober is None else OperationNews(prober.scaling_runs)
        self.weeders = None if weeders is None else WeederNews(weeders)
        self.overrides = OverrideNews(context.overrides, None if prober is None else prober.shoots)

    def signs_of_all(self) -> _Signs:
        """As if everything may have changed."""
        shoots = set[str]() if self.shoots is None else self.shoots.namespaces()
        services = set[ServiceKey]() if self.weeders is None else self.weeders.keys()
        decided = self._decided(shoots, services)
        return _Signs(shoots, services, {each: {} for each in decided}, scaling_runs=True)

    def _decided(self, shoots: set[str], services: set[ServiceKey]) -> Iterable[str | None]:
        """What a decision may be about; paused control planes without either are not known here."""
        weeded = {each.namespace for each in services}
        return (None, *(shoots | weeded | self.overrides.namespaces()))

    def add_running(self, signs: _Signs) -> None:
        """Adds what runs now."""
        if self.operations is not None:
            signs.scaling_runs |= self.operations.running
        if self.weeders is not None:
            signs.services |= self.weeders.running

    def spread(self, signs: _Signs) -> None:
        """A decision may be about any shoot: adds those for which another one stands now."""
        shoots = set[str]() if self.shoots is None else self.shoots.rendered
        services = set[ServiceKey]() if self.weeders is None else self.weeders.rendered
        for namespace in filter(self.overrides.moved, self._decided(shoots, services)):
            signs.decisions.setdefault(namespace, {})
            if namespace is not None:
                signs.shoots.add(namespace)

    def draw(self, signs: _Signs) -> Iterable[Iterable[StreamEvent]]:
        """The news of each subject, one after the other."""
        for namespace, authors in signs.decisions.items():
            yield self.overrides.draw(namespace, authors)
        if self.shoots is not None:
            yield from map(self.shoots.draw, signs.shoots)
        if self.operations is not None and signs.scaling_runs:
            yield self.operations.draw()
        if self.weeders is not None:
            yield from map(self.weeders.draw, signs.services)

    def snapshot(self) -> Iterable[StreamEvent]:
        """All that is there, as it was rendered last."""
        for each in (self.shoots, self.operations, self.weeders, self.overrides):
            if each is not None:
                yield from each.snapshot()


class Publisher:
    """Follows notices, watches and overrides while somebody listens.

    Args:
        context: what is rendered.
        feed: who is told.
        clock: says when.
        broken: called with a reason where what streams were told no longer goes on: they must begin anew.
    """

    def __init__(
        self, context: Context, feed: Feed, clock: Clock, broken: Callable[[str], None]
    ) -> None:
        self._context, self._feed, self._clock, self._broken = context, feed, clock, broken
        self._signs, self._seen = _Signs(), asyncio.Event()
        self._subjects: _Subjects | None = None
        """None while nothing is rendered."""
        self._led: frozenset[Loop] = frozenset()
        self._ready = asyncio.Event()
        self._listeners = 0
        self._listened = asyncio.Event()
        self._idle_since = 0.0

    # Who listens.

    def join(self) -> None:
        """Somebody listens; `leave` must follow."""
        self._listeners += 1
        self._listened.set()

    def leave(self) -> None:
        """Somebody listens no more."""
        self._listeners -= 1
        if not self._listeners:
            self._listened.clear()
            self._idle_since = self._clock.now()

    @property
    def rendering(self) -> bool:
        """Whether changes are told now: who knows the newest event misses none from here on."""
        return self._ready.is_set()

    async def ready(self) -> None:
        """Returns when everything has been rendered once: from then on changes are told."""
        await self._ready.wait()

    def snapshot(self, wanted: Wanted) -> list[bytes]:
        """All that is wanted, as it was told last; what the feed says after its present position follows it."""
        told = () if self._subjects is None else self._subjects.snapshot()
        return [each.body for each in told if wanted.covers(each.kind, each.namespace)]

    # Signs that something may have changed; while nothing is rendered they are nobody's.

    def note(self, notice: Notice) -> None:
        """Something happened to this control plane."""
        if self._subjects is None:
            return
        namespace = notice.namespace
        match notice.kind:
            case NoticeKind.LOOK | NoticeKind.VERDICT | NoticeKind.LIFECYCLE:
                self._signs.shoots.add(namespace)
            case NoticeKind.SCALE:
                self._signs.shoots.add(namespace)
                self._signs.scaling_runs = True
            case NoticeKind.OVERRIDE:
                self._decided(notice)
            case NoticeKind.WEED:
                service = str(notice.numbers.get("service", ""))
                self._signs.services.add(ServiceKey(namespace, service))
            case _:
                assert_never(notice.kind)
        self._seen.set()

    def _decided(self, notice: Notice) -> None:
        namespace = None if notice.namespace == ALL_SHOOTS else notice.namespace
        authors = self._signs.decisions.setdefault(namespace, {})
        if (author := notice.numbers.get("author")) is not None:
            authors[action_of(notice.numbers)] = str(author)
        self._signs.shoots.add(notice.namespace)

    def shoot_changed(self, namespace: str) -> None:
        """A watch showed something of this control plane."""
        if self._subjects is not None:
            self._signs.shoots.add(namespace)
            self._signs.decisions.setdefault(namespace, {})
            self._seen.set()

    def overrides_changed(self) -> None:
        """Something else is in force."""
        if self._subjects is not None:
            self._signs.any_decision = True
            self._seen.set()

    def leadership_changed(self) -> None:
        """This instance leads other loops than before, or may."""
        self._seen.set()

    # The loop.

    async def run(self) -> None:
        """Draws for ever, whenever somebody listens."""
        while True:
            await self._listened.wait()
            try:
                subjects = await self._begin()
                while self._going_on():
                    await self._turn(subjects)
            finally:
                self._rest()

    async def _begin(self) -> _Subjects:
        """Draws everything, and tells nobody: that is how it was when the first stream began."""
        self._led = self._leading()
        self._signs = _Signs()
        self._subjects = subjects = _Subjects(self._context, self._led)
        await self._draw(subjects, subjects.signs_of_all(), tell=False)
        self._ready.set()
        return subjects

    def _rest(self) -> None:
        """Draws no more: what changes from here on is told to nobody."""
        self._subjects = None
        self._ready.clear()
        self._feed.interrupt()

    def _leading(self) -> frozenset[Loop]:
        leaders = self._context.process.leaders
        return frozenset(loop for loop, each in leaders.items() if each.leading)

    def _going_on(self) -> bool:
        if self._leading() != self._led:
            self._broken("another instance leads now, or this one does")
            return False
        return bool(self._listeners) or self._clock.now() - self._idle_since < _LINGER

    async def _turn(self, subjects: _Subjects) -> None:
        if await self._sign():
            await self._clock.sleep(_GATHER)
        signs, self._signs = self._signs, _Signs()
        self._seen.clear()
        if signs.any_decision:
            subjects.spread(signs)
        subjects.add_running(signs)
        await self._draw(subjects, signs)
        await self._clock.sleep(_PAUSE)

    async def _sign(self) -> bool:
        """Whether there is one; False where none came for a while."""
        try:
            async with asyncio.timeout(_AGAIN):
                await self._seen.wait()
        except TimeoutError:
            return False
        return True

    async def _draw(self, subjects: _Subjects, signs: _Signs, *, tell: bool = True) -> None:
        for number, news in enumerate(subjects.draw(signs), start=1):
            for told in news:
                if tell:
                    self._feed.publish(*told)
            if number % _SLICE == 0:
                await self._clock.sleep(_BREATH)
