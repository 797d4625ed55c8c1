"""Explores failures that nobody thought of: `python -m bench.explore --worlds 200 --seed 1 --jobs 2`.

Each world is made from its kind, its seed and its number. The prober's have 1 to 5 shoots on virtual time, 30
simulated minutes of everything that can go wrong, drawn by chance, then quiet. The weeder's have 3 to 12 control
planes, and 10 such minutes. Every third has two or three instances of the watchdog. Beside them a process is killed,
or stopped for a while, at every boundary of every request of a scaling run and of a recovery, in turn. A violation is
printed with the command that replays just that; docs/exploration.md has the rest.
"""

import argparse
import contextlib
import gc
import hashlib
import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bench.exploration import kinds
from bench.exploration.kinds import PLANTS, Kind, kind_of, planted, play
from bench.exploration.story import Story
from bench.exploration.strikes import Case

T = TypeVar("T")
_TOLD_EVERY: Final = 50
_WRITES: Final = {Kind.PROBER: "times scaled", Kind.WEEDER: "pods deleted"}


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one world or of one boundary, small enough to be sent between processes."""

    name: str
    violations: tuple[str, ...]
    digest: str
    """Of its event log: the same seed gives the same."""
    requests: int
    writes: int
    """Of the prober: how often something was scaled to 0 and back; of the weeder: deletions."""
    simulated: float
    counts: dict[str, int]
    replay: str
    commit: str = ""
    """Of the code that played it."""


def explore(
    seed: int, number: int, plant: str | None = None, kind: Kind = Kind.PROBER
) -> tuple[Story, Found]:
    """Plays one world."""
    with planted(plant):
        story = play(kind, seed, number)
    options = "" if plant is None else f" --plant {plant}"
    replay = f"python -m bench.explore --kind {kind} --seed {seed} --world {number} --log{options}"
    return story, _found(_name(kind, seed, plant, number), story, replay)


def _name(kind: Kind, seed: int, plant: str | None, number: int) -> str:
    return f"{kind} world {number} of seed {seed}" + ("" if plant is None else f" with {plant}")


def strike(number: int, plant: str | None = None, kind: Kind = Kind.PROBER) -> tuple[Story, Found]:
    """Strikes at one boundary."""
    with planted(plant):
        case, story = kinds.strike(kind, number)
    return story, _struck(kind, number, plant, case, story)


def strikes(kind: Kind, plant: str | None = None, jobs: int = 1) -> Iterator[Found]:
    """Strikes at each boundary, in their order; so many plays at once."""
    with planted(plant):
        numbers = {case: number for number, case in enumerate(kinds.cases(kind))}
        yield from kinds.strikes(
            kind, jobs, lambda case, story: _struck(kind, numbers[case], plant, case, story)
        )


def _struck(kind: Kind, number: int, plant: str | None, case: Case, story: Story) -> Found:
    options = "" if plant is None else f" --plant {plant}"
    replay = f"python -m bench.explore --kind {kind} --boundary {number} --log{options}"
    return _found(f"{kind} boundary {number}: {case}", story, replay)


def _found(name: str, story: Story, replay: str) -> Found:
    digest = hashlib.sha256("\n".join(story.log).encode()).hexdigest()[:16]
    violations = tuple(str(each) for each in story.violations[:3])
    writes = story.downs + story.ups + story.deletions
    return Found(
        name, violations, digest, story.requests, writes, story.seconds, story.counts, replay
    )


def _world(kind: Kind, seed: int, plant: str | None, number: int) -> Found:
    return explore(seed, number, plant, kind)[1]


def _collect_between_worlds() -> None:
    """Leaves it to `_collected`: what a world makes lives as long as it does, and looks cost a sixth of the time."""
    gc.freeze()
    gc.disable()


def _collected(what: Callable[[int], T], number: int) -> T:
    """`what` of one number, after which its garbage is collected."""
    try:
        return what(number)
    finally:
        gc.collect()


def spread(what: Callable[[int], T], numbers: Sequence[int], jobs: int) -> Iterator[T]:
    """`what` of each number, in their order, on so many cores."""
    if jobs <= 1:
        yield from map(partial(_collected, what), numbers)
        return
    with ProcessPoolExecutor(jobs, initializer=_collect_between_worlds) as pool:
        yield from pool.map(partial(_collected, what), numbers)


def _report(found: Iterable[Found], what: str = "times scaled") -> tuple[int, str]:
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
        f"{requests} requests, {writes} {what}, in {took:.0f} s"
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
    parser.add_argument("--kind", type=Kind, choices=list(Kind), help="of worlds; else both")
    parser.add_argument("--worlds", type=int, default=20, help="how many worlds of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of all of them")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument(
        "--kept", type=Path, help="keep what was found in this file, and go on from there next time"
    )
    parser.add_argument(
        "--world", type=int, help="just this one, of the prober unless --kind or --plant says else"
    )
    parser.add_argument("--boundaries", action="store_true", help="strike at every boundary, too")
    parser.add_argument("--boundary", type=int, help="strike at just this one")
    parser.add_argument("--log", action="store_true", help="print the event log of just one")
    parser.add_argument(
        "--plant",
        choices=sorted(name for each in PLANTS.values() for name in each),
        help="with this defect made on purpose",
    )
    return parser.parse_args(argv)


def _kinds(given: argparse.Namespace) -> tuple[Kind, ...]:
    if given.kind is not None:
        return (given.kind,)
    return tuple(Kind) if given.plant is None else (kind_of(given.plant),)


def _worlds(kind: Kind, given: argparse.Namespace) -> int:
    """How many of them are not as they should be."""
    play = partial(_world, kind, given.seed, given.plant)
    names = {_name(kind, given.seed, given.plant, number): number for number in range(given.worlds)}
    if given.kept is None:
        found: Iterable[Found] = spread(play, list(names.values()), given.jobs)
    else:
        commit = _commit()
        kept = (each for each in _kept(given.kept) if each.commit == commit)
        before = {each.name: each for each in kept if each.name in names}
        left = [number for name, number in names.items() if name not in before]
        found = (replace(each, commit=commit) for each in spread(play, left, given.jobs))
        played = _keeping(given.kept, found, len(left))
        found = itertools.chain(before.values(), played)
    bad, text = _report(found, _WRITES[kind])
    print(f"{kind} worlds of seed {given.seed}: {text}")
    return bad


def _commit() -> str:
    """The code as it is; what other code has found is found anew."""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    told = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  ours
    return told.stdout.strip()


def _kept(file: Path) -> Iterator[Found]:
    """What was found before; a line that was not written to its end is played again."""
    if not file.exists():
        return
    for line in file.read_text().splitlines():
        with contextlib.suppress(ValueError):
            members = json.loads(line)
            yield Found(**{**members, "violations": tuple(members["violations"])})


def _keeping(file: Path, found: Iterable[Found], number: int) -> Iterator[Found]:
    """Writes down each as it comes, and says from time to time how far it has come."""
    began, bad = time.perf_counter(), 0
    with file.open("a") as kept:
        for done, each in enumerate(found, 1):
            kept.write(json.dumps(asdict(each)) + "\n")
            kept.flush()
            bad += bool(each.violations)
            if done % _TOLD_EVERY == 0 or done == number:
                left = (time.perf_counter() - began) / done * (number - done)
                print(f"{done} of {number}, {bad} with violations, {left:.0f} s left", flush=True)
            yield each


def _boundaries(kind: Kind, given: argparse.Namespace) -> int:
    bad, text = _report(strikes(kind, given.plant, given.jobs), _WRITES[kind])
    print(f"{kind} boundaries: {text}")
    return bad


def main(argv: Sequence[str] | None = None) -> int:
    """Runs it; returns the exit code."""
    given = _arguments(argv)
    _collect_between_worlds()
    chosen = _kinds(given)
    if given.world is not None:
        found = explore(given.seed, given.world, given.plant, chosen[0])
        return _one(*found, log=given.log)
    if given.boundary is not None:
        return _one(*strike(given.boundary, given.plant, chosen[0]), log=given.log)
    bad = sum(_worlds(kind, given) for kind in chosen)
    if given.boundaries:
        bad += sum(_boundaries(kind, given) for kind in chosen)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
