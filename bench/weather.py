"""Makes up an hour: which nodes there are, what their clocks show, and what goes wrong when."""

import random
from dataclasses import dataclass

from app.core.model.shoots import MachineView, NodeView
from bench.looker import Settings, Without
from bench.spans import Span, Spans
from bench.world import Kind, NodeClock, Throttling, Weather, World

EPOCH = 1_800_000_000.0
"""Instants as large as real ones: their floats are as coarse."""
HOUR = 3600.0
_QUIET_END = 500.0
"""At the end nothing goes wrong any more, so that every protection can end."""
_SIZES = ((2, 10, 0.74), (11, 30, 0.20), (31, 100, 0.06))


@dataclass(frozen=True, slots=True)
class Hour:
    """One simulated hour of one shoot."""

    world: World
    settings: Settings


def make_hour(seed: str, without: frozenset[Without] = frozenset()) -> Hour:
    """The hour of this seed; the same each time."""
    rng = random.Random(seed)
    settings = Settings(rng.choice((10.0, 30.0)), without=without)
    weather = _weather(rng)
    kinds = _kinds(rng, weather)
    return Hour(World(kinds, weather, rng), settings)


def _spread(rng: random.Random, number: int, shortest: float, longest: float) -> list[Span]:
    """So many stretches anywhere in the hour before its quiet end."""
    last = EPOCH + HOUR - _QUIET_END
    spans = []
    for _ in range(number):
        start = rng.uniform(EPOCH, last - longest)
        spans.append(Span(start, start + rng.uniform(shortest, longest), rng.random() < 0.5))
    return spans


def _weather(rng: random.Random) -> Weather:
    calm = rng.random() < 0.3
    some = 0 if calm else 1
    absences = _spread(rng, some * rng.choice((0, 2, 4, 8)), 10.0, 120.0)
    absences += _spread(rng, some * rng.choice((0, 0, 4)), 1.0, 20.0)
    away = [rng.random() < 0.3 for _ in absences]  # the whole server; else its storage only
    return Weather(
        EPOCH,
        EPOCH + HOUR,
        server=Spans(s for s, whole in zip(absences, away, strict=True) if whole),
        storage=Spans(s for s, whole in zip(absences, away, strict=True) if not whole),
        slow=Spans(_spread(rng, some * rng.choice((0, 0, 2)), 10.0, 90.0)),
        failing=Spans(_failing(rng) if some else ()),
        throttling=tuple(
            Throttling(span, rng.choice((0.1, 0.5, 1.0)), rng.choice((0.0, 0.0, 1.0, 7.0, 90.0)))
            for span in _spread(rng, some * rng.choice((0, 0, 3)), 2.0, 40.0)
        ),
        down=Spans(_spread(rng, some * rng.choice((0, 0, 2)), 1.0, 40.0)),
    )


def _failing(rng: random.Random) -> list[Span]:
    """In a quarter of the troubled hours, a fifth of all probes fails all the time, or for some minutes."""
    if rng.random() < 0.15:
        return [Span(EPOCH, EPOCH + HOUR - _QUIET_END)]
    return _spread(rng, rng.choice((0, 0, 0, 1)), 120.0, 900.0)


# Nodes.


def _kinds(rng: random.Random, weather: Weather) -> list[Kind]:
    low, high, _ = rng.choices(_SIZES, [share for *_, share in _SIZES])[0]
    candidates = [f"node-{number}" for number in range(rng.randint(low, high))]
    clocks = _clocks(rng, len(candidates))
    cuts = _cuts(rng, candidates, weather)
    kinds = [
        Kind(name, clock, Spans(cuts[name]), NodeView(name), _machine(name), candidate=True)
        for name, clock in zip(candidates, clocks, strict=True)
    ]
    return kinds + (_others(rng, len(candidates)) if rng.random() < 0.25 else [])


def _machine(node: str, phase: str = "Running") -> MachineView:
    return MachineView(f"machine-{node}", node, phase)


def _others(rng: random.Random, number: int) -> list[Kind]:
    """Nodes that do not count: some with fresh leases, some cut for ever, and leases of nodes long gone."""
    kinds = []
    for index in range(rng.randint(1, 1 + number)):
        name = f"other-{index}"
        cut = Spans([Span(EPOCH - 100, EPOCH + 2 * HOUR)] if rng.random() < 0.5 else ())
        match rng.choice(("ghost", "unmanaged", "failed", "sick")):
            case "ghost":
                node, machine = None, None
            case "unmanaged":
                node, machine = NodeView(name, not_managed=True), None
            case "failed":
                node, machine = NodeView(name), _machine(name, "Failed")
            case _:
                node = NodeView(name, conditions=frozenset({"DiskPressure"}))
                machine = _machine(name)
        kinds.append(Kind(name, NodeClock(), cut, node, machine, candidate=False))
    return kinds


def _clocks(rng: random.Random, number: int) -> list[NodeClock]:
    how = rng.choices(("right", "off", "same", "drift", "step"), (40, 25, 10, 10, 15))[0]
    reach = rng.choice((3.0, 12.0, 60.0, 300.0))
    together = rng.uniform(-reach, reach)
    share = rng.choice((0.2, 0.6, 1.0))
    stepped_together = rng.uniform(EPOCH, EPOCH + HOUR)
    clocks = []
    for _ in range(number):
        clock = NodeClock(rng.uniform(-0.02, 0.02))
        if how != "right" and rng.random() < share:
            own = together if how == "same" else rng.uniform(-reach, reach)
            clock = NodeClock(own)
            if how == "drift":
                clock = NodeClock(own, rng.uniform(-2e-4, 2e-4))
            elif how == "step":
                clock = NodeClock(steps=_steps(rng, reach, stepped_together))
        clocks.append(clock)
    return clocks


def _steps(rng: random.Random, reach: float, together: float) -> tuple[tuple[float, float], ...]:
    alone = [rng.uniform(EPOCH, EPOCH + HOUR) for _ in range(rng.choice((0, 2)))]
    return tuple((when, rng.uniform(-reach, reach)) for when in [together, *alone])


def _cuts(rng: random.Random, names: list[str], weather: Weather) -> dict[str, list[Span]]:
    """Outages of the path for all or most, single nodes that are cut for long, and all phases of both."""
    cuts: dict[str, list[Span]] = {name: [] for name in names}
    at = EPOCH + rng.uniform(20.0, 600.0)
    while at < EPOCH + HOUR - _QUIET_END - 400.0:
        share = rng.choice((1.0, 1.0, 1.0, rng.uniform(0.6, 1.0), rng.uniform(0.1, 0.6)))
        span = Span(at, at + rng.choice((15.0, 45.0, 90.0, 300.0)) * rng.uniform(0.7, 1.3))
        chosen = rng.sample(names, max(1, round(share * len(names))))
        hangs = rng.random() < 0.5
        for name in chosen:
            cuts[name].append(Span(span.start, span.end, hangs))
        at = span.end + rng.choice((30.0, 120.0, 600.0)) * rng.uniform(0.7, 1.3)
    if rng.random() < 0.2 and len(names) > 4:
        start = weather.start + rng.uniform(0.0, 1800.0)
        cuts[rng.choice(names)].append(Span(start, start + rng.uniform(300.0, 1200.0)))
    return cuts
