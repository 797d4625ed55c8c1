"""Lets things go wrong, one after the other and at once, as chance has it; at the end everything is lifted."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from app.core.kube.reflector import SILENCE
from app.core.tasks import Tasks
from app.prober.rules.schedule import MAX_RETRY_AFTER
from app.simulation.builders import World
from app.simulation.faults import Fault
from bench.exploration.draws import AS_THEY_ARE, Arguments, Draw
from bench.exploration.people import Act, Undo

_UNHEARD: Final = "connections_forgotten"
"""Of a watch that is forgotten nobody hears before it was silent for too long."""


class Drawing(Protocol):
    """What draws may choose from."""

    @property
    def rng(self) -> random.Random:
        """Where all chance comes from."""
        ...


class Books(Protocol):
    """Who keeps the facts, as far as faults and deeds matter to them."""

    world: World

    def observe(self) -> None:
        """Something is about to change, or has just changed."""
        ...

    def unsettle(self, namespace: str) -> None:
        """Somebody has changed what belongs to this namespace."""
        ...

    def begins(self, name: str, arguments: Arguments) -> None:
        """A fault begins."""
        ...


D = TypeVar("D", bound=Drawing)


@dataclass(slots=True, eq=False)
class Director(Generic[D]):
    """Draws faults and deeds, and ends them."""

    hand: D
    ledger: Books
    tasks: Tasks
    log: Callable[[str, str], None]
    counts: dict[str, int]
    """How often each fault and deed came about."""
    known_faults: Mapping[str, Draw[D]]
    known_acts: Mapping[str, Act[D]]
    felt_until: float = 0.0
    """Until then what is over may still be felt: a server asked to be left alone, a watch does not know it is dead."""
    _claimed: dict[str, None] = field(default_factory=dict)
    _running: dict[int, Callable[[], None]] = field(default_factory=dict)
    _number: int = 0

    @property
    def _rng(self) -> random.Random:
        return self.hand.rng

    async def faults(self, every: float) -> None:
        """Lets something go wrong from time to time, for ever."""
        names = list(self.known_faults)
        weights = [draw.weight for draw in self.known_faults.values()]
        while True:
            await self.ledger.world.clock.sleep(self._rng.expovariate(1 / every))
            name = self._rng.choices(names, weights)[0]
            self.begin(name, self.known_faults[name])

    async def people(self, every: float) -> None:
        """Lets somebody do something from time to time, for ever."""
        names = list(self.known_acts)
        weights = [act.weight for act in self.known_acts.values()]
        while True:
            await self.ledger.world.clock.sleep(self._rng.expovariate(1 / every))
            name = self._rng.choices(names, weights)[0]
            self.act(name, self.known_acts[name])

    def begin(self, name: str, draw: Draw[D]) -> None:
        """A fault begins, unless what it claims is taken."""
        arguments = draw.arguments(self.hand)
        if arguments is None:
            return
        claim = draw.claims(arguments)
        if not self._free(claim):
            return
        self.ledger.begins(name, arguments)
        if name == _UNHEARD:
            self._felt_for(SILENCE)
        self._observed(lambda: None)
        named = {each: value for each, value in arguments.items() if each != AS_THEY_ARE}
        fault = getattr(self.ledger.world.faults, name)(*arguments.get(AS_THEY_ARE, ()), **named)
        self._observed(lambda: None)
        seconds = self._rng.uniform(*draw.lasts)
        self._note(name, f"{name} {_shown(arguments)} for {seconds:.3f} s")
        lift = fault.lift if isinstance(fault, Fault) else None
        self._until(seconds, name, claim, self._asking(lift, arguments))

    def _asking(self, lift: Undo | None, arguments: Arguments) -> Undo | None:
        """A server that asked to be left alone (429) is so for that long after its trouble is over."""
        trouble = arguments.get("trouble")
        asked = getattr(trouble, "retry_after", None) or arguments.get("retry_after")
        if lift is None or asked is None:
            return lift

        def end() -> None:
            lift()
            self._felt_for(min(asked, MAX_RETRY_AFTER))

        return end

    def _felt_for(self, seconds: float) -> None:
        self.felt_until = max(self.felt_until, self.ledger.world.clock.now() + seconds)

    def act(self, name: str, act: Act[D]) -> None:
        """Somebody does something."""
        deed = act.do(self.hand, self._free)
        if deed is None:
            return
        if deed.namespace:
            self.ledger.unsettle(deed.namespace)
        seconds = self._rng.uniform(*act.lasts)
        self._note(name, f"{deed.what} for {seconds:.3f} s")

        def undo() -> None:
            if deed.undo is not None:
                deed.undo()
            if deed.namespace:
                self.ledger.unsettle(deed.namespace)

        self._until(seconds, name, deed.claims, undo)

    def lift_all(self) -> None:
        """Everything is right again."""
        for number in list(self._running):
            self._running.pop(number)()

    def _free(self, claim: str) -> bool:
        return not claim or claim not in self._claimed

    def _until(self, seconds: float, name: str, claim: str, undo: Undo | None) -> None:
        self._number += 1
        number = self._number
        if claim:
            self._claimed[claim] = None

        def end() -> None:
            self._claimed.pop(claim, None)
            if undo is not None:
                self._observed(undo)
                self.log("world", f"{name} is over")

        self._running[number] = end
        _ = self.tasks.once(lambda: self._end_later(number, seconds), "end of a fault")

    async def _end_later(self, number: int, seconds: float) -> None:
        await self.ledger.world.clock.sleep(seconds)
        if (end := self._running.pop(number, None)) is not None:
            end()

    def _observed(self, change: Callable[[], None]) -> None:
        self.ledger.observe()
        change()
        self.ledger.observe()

    def _note(self, name: str, text: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        self.log("world", text)


def _shown(arguments: dict[str, object]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in arguments.items())


def _value(value: object) -> str:
    """A set has no order: what is logged has one."""
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is None or not hasattr(value, "hits"):
        return str(value)
    each = {name: getattr(value, name) for name in fields}
    shown = {n: sorted(v) if isinstance(v, frozenset) else v for n, v in each.items() if v}
    return "(" + " ".join(f"{name}={v}" for name, v in shown.items()) + ")"
