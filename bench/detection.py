"""How soon the real loop sees an outage, on the simulated seed and virtual time: `python -m bench.detection`.

An outage can be known from the first instant at which the true ages of `nodeLeaseFailureFraction` of the candidates
reach the expiry time. The delay is from there to the first scale-down request being sent, at 20 ms a request.
"""

import argparse
import logging
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import looptime
import structlog

from app.core.clock import Clock
from app.core.kube.election import SoleOwner
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.workloads import ResourceRef
from app.core.tasks import Tasks
from app.prober.controller import Prober
from app.prober.environment import ProberEnvironment
from app.service.loops import OverrideFeature
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.process import AMPLE, SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from app.simulation.timers import EXACT_TICK

if TYPE_CHECKING:
    from app.service.parts import ProberAdapters

LATENCY = 0.02
_SHOOT = "shoot--bench--detection"
_WAIT = 120.0
"""So long an outage lasts; one that is not seen by then was missed."""
_WARM_UP = 330.0
"""Clocks that are off are learnt from ten renewals that looks saw: so long it takes with probes 30 s apart."""
_MOST_OFF = 300.0


def _deployment(name: str, up: ScalePolicy, down: ScalePolicy) -> DependentPolicy:
    return DependentPolicy(ResourceRef("apps/v1", "Deployment", name), up, down)


DEFAULTS = ProberPolicy(
    kubeconfig_secret=manifests.SECRET_NAME,
    dependents=(
        _deployment("kube-controller-manager", ScalePolicy(0), ScalePolicy(1)),
        _deployment("machine-controller-manager", ScalePolicy(1, 30.0), ScalePolicy(0)),
        _deployment("cluster-autoscaler", ScalePolicy(2), ScalePolicy(0)),
    ),
)
GARDENER = replace(DEFAULTS, probe_interval=30.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table."""

    name: str
    policy: ProberPolicy
    clocks_off: bool
    median: float | None
    """What the p50 may be, in seconds; None where nothing is demanded."""
    tail: float
    """What the p99 may be."""


SETTINGS = (
    Setting("defaults, right clocks", DEFAULTS, clocks_off=False, median=0.5, tail=1.5),
    Setting("probeInterval 30s, right clocks", GARDENER, clocks_off=False, median=0.5, tail=1.5),
    Setting("defaults, clocks off", DEFAULTS, clocks_off=True, median=None, tail=8.0),
    Setting("probeInterval 30s, clocks off", GARDENER, clocks_off=True, median=None, tail=8.0),
)


@dataclass(slots=True)
class Delays:
    """What came of a number of outages."""

    seconds: list[float] = field(default_factory=list)
    missed: int = 0
    early: int = 0
    """Acted on before the outage could be known."""

    def quantile(self, share: float) -> float:
        """The delay that this share of the outages does not exceed; infinite where too many were missed."""
        ordered = sorted(self.seconds) + [float("inf")] * self.missed
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def within(self, setting: Setting) -> bool:
        """Whether it is what is demanded."""
        median = setting.median is None or self.quantile(0.5) <= setting.median
        return median and self.quantile(0.99) <= setting.tail and not self.missed


def measure(setting: Setting, outages: int, seed: int = 1) -> Delays:
    """Makes so many outages, each in a world of its own."""
    delays = Delays()
    for number in range(outages):
        found = run_virtually(setting, f"{seed}/{setting.name}/{number}")
        if found is None:
            delays.missed += 1
        else:
            delays.seconds.append(found)
            delays.early += found < 0
    return delays


def run_virtually(setting: Setting, seed: str) -> float | None:
    """One outage on an event loop of its own, whose time is virtual."""
    loop = looptime.new_event_loop(resolution=EXACT_TICK)
    try:
        return loop.run_until_complete(outage(setting, random.Random(seed)))
    finally:
        loop.close()


async def outage(setting: Setting, chance: random.Random) -> float | None:
    """The delay of one outage of a shoot with 2 to 100 nodes, in seconds; None: it was not seen."""
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    try:
        place = MemoryPlace()
        world = _world(clock, tasks, chance, setting, place)
        process = SimulatedProcess(
            MemoryServers(world, place),
            core_of(clock, tasks, chance),
            name="prober",
            user=WATCHDOG,
            prober=setting.policy,
            **AMPLE,
        )
        process.start()
        Prober(_environment(process, setting.policy)).start()
        await clock.sleep(_WARM_UP + chance.random() * 60)
        delay = await _delay(world, clock, chance)
        await process.kill()
        return delay
    finally:
        await tasks.stop()


def _world(
    clock: Clock, tasks: Tasks, chance: random.Random, setting: Setting, place: MemoryPlace
) -> World:
    world = World(clock, tasks, seed=chance.randrange(1 << 30), latency=LATENCY, place=place)
    nodes = chance.choice((2, 3, 5, 10, 30, 100))
    world.add_shoot(_SHOOT, nodes=nodes)
    for number in range(nodes if setting.clocks_off else 0):
        off = chance.uniform(-_MOST_OFF, _MOST_OFF)
        world.faults.clock_off(_SHOOT, f"node-{number}", off)
    return world


def _environment(process: SimulatedProcess, policy: ProberPolicy) -> ProberEnvironment:
    core, adapters = process.core, cast("ProberAdapters", process.adapters.prober)
    decisions = OverrideFeature(core, process.adapters, dry_run=False)
    decisions.start()
    return ProberEnvironment(
        policy=policy,
        seed=adapters.seed,
        connector=adapters.connector,
        leadership=SoleOwner(),
        clock=core.clock,
        tasks=core.tasks,
        notice_bus=core.notice_bus,
        chance=core.chance,
        overrides=decisions.view,
        override_service=decisions.override_service,
    )


async def _delay(world: World, clock: Clock, chance: random.Random) -> float | None:
    begun = clock.now()
    world.faults.path_cut(_SHOOT, fraction=chance.choice((1.0, 1.0, 0.8)))
    while not (written := world.journal.of(WATCHDOG, _SHOOT)):
        if clock.now() - begun > _WAIT:
            return None if world.known_at(_SHOOT, since=begun) else 0.0
        await clock.sleep(0.5)
    await clock.sleep(_WAIT / 4)  # it may have been seen before it could be known
    known = world.known_at(_SHOOT, since=begun)
    return written[0].at - (known if known is not None else clock.now())


def table(found: Iterable[tuple[Setting, Delays]]) -> str:
    """The figures for a terminal."""
    lines = [
        f"{'':34}{'outages':>8}{'p50':>8}{'p90':>8}{'p99':>8}{'most':>8}{'early':>7}{'missed':>8}"
    ]
    for setting, delays in found:
        quantiles = "".join(f"{delays.quantile(share):8.2f}" for share in (0.5, 0.9, 0.99, 1.0))
        total = len(delays.seconds) + delays.missed
        verdict = "" if delays.within(setting) else "  NOT as demanded"
        lines.append(
            f"{setting.name:34}{total:8}{quantiles}{delays.early:7}{delays.missed:8}{verdict}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.detection", description=__doc__)
    parser.add_argument("--outages", type=int, default=100, help="of each setting")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    found = [(each, measure(each, given.outages, given.seed)) for each in SETTINGS]
    print(table(found))
    return 0 if all(delays.within(setting) for setting, delays in found) else 1


if __name__ == "__main__":
    sys.exit(main())
