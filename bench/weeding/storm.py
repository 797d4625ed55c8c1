"""The weeder in a storm: `python -m bench.weeding.storm [--namespaces 300 --pods 30 --minutes 10 --flap 5 --seed N]`.

Every namespace has a service that comes and goes, and pods that crash without it; the real weeder runs on the
simulated seed, on virtual time. Exit code 1 where it deletes more, other or later than it may.

A namespace is due from the first instant at which one of its pods could be deleted: the service is ready, and a pod
waits longer than `minBackoffRemaining`.
"""

import argparse
import random
import resource
import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import looptime

from app.core.clock import Clock
from app.core.kube.election import SoleOwner
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.weeding import WeederPolicy
from app.core.reporting.metering import Metering
from app.core.tasks import Tasks
from app.service.loops import OverrideFeature
from app.simulation.builders import World
from app.simulation.identities import WEEDER
from app.simulation.memory import MemoryPlace
from app.simulation.process import AMPLE, SimulatedProcess, core_of
from app.simulation.seed_pods import PodDeletion
from app.simulation.server import MemoryServers
from app.simulation.store import StoreEvent
from app.simulation.timers import EXACT_TICK
from app.simulation.workloads import API_SERVER, ROLE, Workload
from app.weeder.controller import WeederRunner
from app.weeder.environment import WeederEnvironment

FIRST_WITHIN = 25.0
"""Seconds from a namespace's due time to its first deletion."""
BUDGET = 20.0
_ROUNDED = 1e-4
_REPLICAS = 3
_RESTARTS = 7
"""Of every pod at the beginning: each waits 300 s."""
_MEBIBYTE = 1024.0  # ru_maxrss is in KiB
_SELECTOR = LabelSelector(
    (
        Requirement(ROLE, Operator.IN, frozenset({"controlplane"})),
        Requirement("role", Operator.NOT_IN, frozenset({"main", "apiserver"})),
    )
)
_POLICY = WeederPolicy({API_SERVER: (_SELECTOR,)})


@dataclass(frozen=True, slots=True)
class Storm:
    """How bad it is."""

    namespaces: int = 300
    pods: int = 30
    minutes: float = 10.0
    flap: float = 5.0
    together: bool = False
    """All services come and go in step; else each at a time of its own."""
    seed: int = 1


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    deletions: int = 0
    most_in_a_second: int = 0
    twice: int = 0
    not_waiting: int = 0
    first_after: list[float] = field(default_factory=list)
    """From the due time of each namespace that has one to its first deletion, sorted."""
    never: int = 0
    """Namespaces that were due for longer than they may be, without a deletion."""
    recoveries: int = 0
    most_watches: int = 0
    watches_left: int = 0
    pods_left: int = 0
    mebibytes_before: float = 0.0
    mebibytes: float = 0.0


class Due:
    """When each namespace was due first, as its slices and pods truly are."""

    def __init__(self, world: World, least: float) -> None:
        self.at: dict[str, float] = {}
        self._lost: set[str] = set()
        self._world, self._least = world, least
        world.store.subscribe(self._heard)

    def _heard(self, event: StoreEvent) -> None:
        namespace = event.key.namespace
        if event.key.kind not in ("EndpointSlice", "Pod") or namespace in self.at:
            return
        if not self._world.served(namespace, API_SERVER):
            self._lost.add(namespace)
        elif namespace in self._lost and self._any(namespace):
            self.at[namespace] = self._world.clock.now()

    def _any(self, namespace: str) -> bool:
        latest = self._world.clock.now() + self._least
        waiting = (
            self._world.starts_again(namespace, name)
            for name in self._world.crash_looping(namespace)
        )
        return any(due is not None and due > latest for due in waiting)


def _populate(world: World, storm: Storm) -> list[str]:
    """Control planes whose dependants crash; returns their namespaces."""
    names = [f"shoot--storm--{number:03}" for number in range(storm.namespaces)]
    for namespace in names:
        labels = {ROLE: "controlplane", "role": "apiserver"}
        world.add_workload(Workload(namespace, API_SERVER, labels=labels, service=API_SERVER))
        for number, pods in enumerate(_shares(storm.pods)):
            app, labels = f"dependant-{number}", {ROLE: "controlplane", "role": "other"}
            world.add_workload(Workload(namespace, app, pods, labels, needs=API_SERVER))
    return names


def _shares(pods: int) -> list[int]:
    whole, rest = divmod(pods, _REPLICAS)
    return [_REPLICAS] * whole + ([rest] if rest else [])


def _crash(world: World, namespace: str, storm: Storm) -> None:
    for number in range(len(_shares(storm.pods))):
        world.crash_looped(namespace, f"dependant-{number}", _RESTARTS)


def _weeder(
    world: World, servers: MemoryServers, tasks: Tasks
) -> tuple[WeederRunner, SimulatedProcess]:
    core = core_of(world.clock, tasks, random.Random(7))
    core.notice_bus.subscribe(Metering(core.metrics).note)
    process = SimulatedProcess(
        servers,
        core,
        name="weeder",
        user=WEEDER,
        weeder=_POLICY,
        **AMPLE,
    )
    adapters: Any = process.adapters
    decisions = OverrideFeature(core, process.adapters, dry_run=False)
    decisions.start()
    environment = WeederEnvironment(
        _POLICY,
        adapters.weeder.seed,
        SoleOwner(),
        pauses=decisions.view,
        clock=world.clock,
        tasks=tasks,
        notice_bus=core.notice_bus,
        metrics=core.metrics,
        deletions_a_second=BUDGET,
    )
    process.start()
    return WeederRunner(environment), process


async def _play(storm: Storm) -> Outcome:
    clock = Clock.of_loop()
    tasks, place = Tasks(clock), MemoryPlace()
    world = World(clock, tasks, seed=storm.seed, place=place)
    weeder, process = _weeder(world, MemoryServers(world, place), tasks)
    try:
        return await _weather(storm, world, weeder)
    finally:
        await process.kill()


async def _weather(storm: Storm, world: World, weeder: WeederRunner) -> Outcome:
    names, clock, rng = _populate(world, storm), world.clock, random.Random(storm.seed)
    outcome = Outcome(mebibytes_before=_resident())
    due = Due(world, least=_POLICY.min_backoff_remaining)
    weeder.start()
    await clock.sleep(5.0)
    phases = sorted((0.0 if storm.together else rng.random() * 2 * storm.flap, n) for n in names)
    begun = clock.now()
    flaps = []
    for phase, namespace in phases:
        await clock.sleep_until(begun + phase)
        flaps.append(world.faults.service_flaps(namespace, API_SERVER, every=storm.flap))
        _crash(world, namespace, storm)
    await clock.sleep_until(begun + 60 * storm.minutes)
    _judge(outcome, world, due)
    outcome.recoveries = sum(
        recovery.id > 0 for each in weeder.controller.statuses() for recovery in each.recoveries
    )
    outcome.pods_left = sum(len(world.crash_looping(namespace)) for namespace in names)
    for flap in flaps:
        flap.lift()
    await clock.sleep(2 * 300.0)
    outcome.watches_left = world.watches.open_now("Pod")
    outcome.mebibytes = _resident()
    return outcome


def _judge(outcome: Outcome, world: World, due: Due) -> None:
    deletions = [each for each in world.seed_pods.deletions if each.by == WEEDER]
    outcome.deletions = len(deletions)
    outcome.most_in_a_second = most_in_a_second(each.at for each in deletions)
    outcome.twice = sum(count > 1 for count in Counter(each.pod.uid for each in deletions).values())
    outcome.not_waiting = sum(not each.waiting for each in deletions)
    outcome.most_watches = world.watches.most["Pod"]
    first = _first(deletions)
    late = world.clock.now() - FIRST_WITHIN
    outcome.never = sum(at < late and name not in first for name, at in due.at.items())
    outcome.first_after = sorted(first[n] - at for n, at in due.at.items() if n in first)


def _first(deletions: Iterable[PodDeletion]) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in deletions:
        _ = found.setdefault(each.pod.namespace, each.at)
    return found


def most_in_a_second(instants: Iterable[float]) -> int:
    """The most that any second has, its end left out; instants are rounded, and their way to the server too."""
    window: deque[float] = deque()
    most = 0
    for at in sorted(instants):
        window.append(at)
        while window[0] <= at - 1.0 + _ROUNDED:
            _ = window.popleft()
        most = max(most, len(window))
    return most


def _resident() -> float:
    """The most memory that the process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MEBIBYTE


def run(storm: Storm) -> Outcome:
    """Plays one storm on virtual time."""
    loop = looptime.new_event_loop(resolution=EXACT_TICK)
    try:
        return loop.run_until_complete(_play(storm))
    finally:
        loop.close()


def violations(outcome: Outcome, storm: Storm) -> list[str]:
    """What may not be."""
    latest = max(outcome.first_after, default=0.0)
    found = {
        f"{outcome.most_in_a_second} deletions in one second": outcome.most_in_a_second > BUDGET,
        f"{outcome.twice} uids deleted twice": outcome.twice > 0,
        f"{outcome.not_waiting} deletions of pods that did not wait": outcome.not_waiting > 0,
        f"the first deletion {latest:.1f} s after it was due": latest > FIRST_WITHIN,
        f"{outcome.never} namespaces without a deletion": outcome.never > 0,
        "nothing was deleted": outcome.deletions == 0,
        f"{outcome.most_watches} watches at once": outcome.most_watches > storm.namespaces,
        f"{outcome.watches_left} watches left open": outcome.watches_left > 0,
    }
    return [text for text, so in found.items() if so]


def table(outcome: Outcome) -> str:
    """For a person."""
    first = outcome.first_after or [0.0]
    rows = (
        ("deletions", f"{outcome.deletions}"),
        ("most in any second", f"{outcome.most_in_a_second} of {BUDGET:g}"),
        ("uids deleted twice", f"{outcome.twice}"),
        ("deleted without waiting", f"{outcome.not_waiting}"),
        ("namespaces due", f"{len(outcome.first_after) + outcome.never}"),
        ("first deletion after due, p50", f"{first[len(first) // 2]:.1f} s"),
        ("first deletion after due, most", f"{first[-1]:.1f} s of {FIRST_WITHIN:g} s"),
        ("due and without a deletion", f"{outcome.never}"),
        ("recoveries kept", f"{outcome.recoveries}"),
        ("most watches of pods at once", f"{outcome.most_watches}"),
        ("watches open 10 min later", f"{outcome.watches_left}"),
        ("pods still waiting at its end", f"{outcome.pods_left}"),
        ("memory, with the whole seed", f"{outcome.mebibytes:.0f} MiB"),
        ("memory before the storm", f"{outcome.mebibytes_before:.0f} MiB"),
    )
    return "\n".join(f"{name:32}{value:>20}" for name, value in rows)


def _arguments(argv: Sequence[str] | None) -> Storm:
    usual = Storm()
    parser = argparse.ArgumentParser(prog="python -m bench.weeding.storm", description=__doc__)
    parser.add_argument("--namespaces", type=int, default=usual.namespaces)
    parser.add_argument("--pods", type=int, default=usual.pods, help="crash-looping, in each")
    parser.add_argument("--minutes", type=float, default=usual.minutes)
    parser.add_argument("--flap", type=float, default=usual.flap, help="seconds up, seconds down")
    parser.add_argument("--together", action="store_true", help="all in step")
    parser.add_argument("--seed", type=int, default=usual.seed)
    return Storm(**vars(parser.parse_args(argv)))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs it; returns the exit code."""
    storm = _arguments(argv)
    outcome = run(storm)
    print(table(outcome))
    found = violations(outcome, storm)
    print("\n".join(f"VIOLATED: {each}" for each in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
