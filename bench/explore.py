"""Explores failures that nobody thought of: `python -m bench.explore --worlds 200 --seed 1 --jobs 2`.

Each world is made from its seed and its number: 1 to 5 shoots on virtual time, 30 simulated minutes of everything that
can go wrong, drawn by chance, then quiet; every fifth has two instances of the watchdog.  Beside them the watchdog is
killed, or stopped for a while, at every boundary of every request of its flows, in turn.  A violation is printed with
the command that replays just that; docs/exploration.md has the rest.
"""

import argparse
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bench.exploration import boundaries, recipe
from bench.exploration.plants import PLANTS, planted
from bench.exploration.story import Story
from bench.exploration.world import Exploration

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one world or of one boundary, small enough to be sent between processes."""

    name: str
    violations: tuple[str, ...]
    digest: str
    """Of its event log: the same seed gives the same."""
    requests: int
    writes: int
    simulated: float
    counts: dict[str, int]
    replay: str


def explore(seed: int, number: int, plant: str | None = None) -> tuple[Story, Found]:
    """Plays one world."""
    with planted(plant):
        story = Exploration(recipe.draw(seed, number)).run()
    options = "" if plant is None else f" --plant {plant}"
    replay = f"python -m bench.explore --seed {seed} --world {number} --log{options}"
    return story, _found(f"world {number} of seed {seed}", story, replay)


def strike(number: int, plant: str | None = None) -> tuple[Story, Found]:
    """Strikes at one boundary."""
    case = boundaries.cases()[number]
    with planted(plant):
        story = boundaries.play(case)
    options = "" if plant is None else f" --plant {plant}"
    replay = f"python -m bench.explore --boundary {number} --log{options}"
    return story, _found(f"boundary {number}: {case}", story, replay)


def _found(name: str, story: Story, replay: str) -> Found:
    digest = hashlib.sha256("\n".join(story.log).encode()).hexdigest()[:16]
    violations = tuple(str(each) for each in story.violations[:3])
    writes = story.downs + story.ups
    return Found(
        name, violations, digest, story.requests, writes, story.seconds, story.counts, replay
    )


def _world(seed: int, plant: str | None, number: int) -> Found:
    return explore(seed, number, plant)[1]


def _boundary(plant: str | None, number: int) -> Found:
    return strike(number, plant)[1]


def spread(what: Callable[[int], T], numbers: Sequence[int], jobs: int) -> Iterator[T]:
    """`what` of each number, in their order, on so many cores."""
    if jobs <= 1:
        yield from map(what, numbers)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(what, numbers, chunksize=4)


def _report(found: Iterable[Found]) -> tuple[int, str]:
    began, worlds, bad = time.perf_counter(), 0, 0
    totals: Counter[str] = Counter()
    requests = writes = 0
    simulated = 0.0
    for each in found:
        worlds += 1
        requests, writes = requests + each.requests, writes + each.writes
        simulated += each.simulated
        totals.update(each.counts)
        if each.violations:
            bad += 1
            print(f"{each.name}:", *each.violations, f"replay: {each.replay}", sep="\n  ")
    took = time.perf_counter() - began
    drawn = ", ".join(f"{name} {number}" for name, number in sorted(totals.items()))
    text = (
        f"{worlds} explored, {bad} with violations: {simulated / 3600:.1f} simulated hours, "
        f"{requests} requests, {writes} times scaled, in {took:.0f} s"
    )
    return bad, text + (f"\n  {drawn}" if drawn else "")


def _one(story: Story, found: Found, *, log: bool) -> int:
    if log:
        print("\n".join(story.log))
    print(
        f"{found.name}: log {found.digest}, {len(story.log)} lines", *found.violations, sep="\n  "
    )
    return 1 if found.violations else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.explore", description=__doc__)
    parser.add_argument("--worlds", type=int, default=20, help="how many worlds")
    parser.add_argument("--seed", type=int, default=1, help="of all of them")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument("--world", type=int, help="just this one")
    parser.add_argument("--boundaries", action="store_true", help="strike at every boundary, too")
    parser.add_argument("--boundary", type=int, help="strike at just this one")
    parser.add_argument("--log", action="store_true", help="print the event log of just one")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="with this defect made on purpose")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs it; returns the exit code."""
    given = _arguments(argv)
    if given.world is not None:
        return _one(*explore(given.seed, given.world, given.plant), log=given.log)
    if given.boundary is not None:
        return _one(*strike(given.boundary, given.plant), log=given.log)
    worlds = partial(_world, given.seed, given.plant)
    bad, text = _report(spread(worlds, range(given.worlds), given.jobs))
    print(f"worlds of seed {given.seed}: {text}")
    if given.boundaries:
        each = partial(_boundary, given.plant)
        more, text = _report(spread(each, range(len(boundaries.cases())), given.jobs))
        print(f"boundaries: {text}")
        bad += more
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
