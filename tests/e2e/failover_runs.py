"""`make failover`: two instances, and what may happen to them while an outage begins, as a table.

One run after the other. What was played is kept in a file, and the next call goes on from there. Exit code 0: in no run
anything happened that must not, and it was not interrupted; what is slower than its goal is for the page to explain.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.e2e.actors import WorkloadController
from tests.e2e.controlplane import Planes, assets_in, control_planes
from tests.e2e.failover_kinds import Kind, cast_in, kinds
from tests.e2e.failover_play import LIMIT, Result, play
from tests.e2e.landscape import furnish_shoot
from tests.e2e.processes import say
from tests.e2e.stage import Stage
from tests.e2e.worlds import own_seed

# Seconds for which runs are begun in a world: its tokens are valid for an hour.
_WORLD_LASTS = 1800.0

PAGE = Path(__file__).parents[2] / "docs/failover.md"
BEGIN, END = "<!-- the table: make failover -->", "<!-- its end -->"
_HEAD = ("what happens", "runs", "counted from", "first write", "goal", "leads", "by both", "wrong")


@dataclass(frozen=True, slots=True)
class Run:
    """One run that was played."""

    kind: str
    number: int
    result: Result

    def line(self) -> str:
        """As it is kept."""
        return json.dumps({"kind": self.kind, "number": self.number, **asdict(self.result)})


def kept_in(file: Path) -> list[Run]:
    """What was played before."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [_run(json.loads(each)) for each in lines]


def _run(kept: dict[str, object]) -> Run:
    kind, number = kept.pop("kind"), kept.pop("number")
    return Run(str(kind), int(str(number)), Result(**kept))  # type: ignore[arg-type]


class Runs:
    """What is to be played, and what was."""

    def __init__(
        self, all_kinds: Mapping[str, Kind], wanted: int, only: Sequence[str], kept: Path
    ) -> None:
        self.all_kinds, self._kept = all_kinds, kept
        self.runs = kept_in(kept)
        have = {(each.kind, each.number) for each in self.runs}
        self.left = [
            (name, number)
            for name in all_kinds
            for number in range(1, wanted + 1)
            if (not only or name in only) and (name, number) not in have
        ]
        """Kinds and numbers that are still to be played."""
        self._worlds = 0

    async def play_all(self, assets: Path, folder: Path) -> None:
        """Plays what is left, those of one kind in one world."""
        if not self.left:
            return
        async with control_planes(assets, folder, shared=1, own_storage=0) as planes:
            await furnish_shoot(planes.shoots[0].api)
            while self.left:
                await self._in_a_world(planes, folder)

    async def _in_a_world(self, planes: Planes, folder: Path) -> None:
        name, _ = self.left[0]
        kind, began = self.all_kinds[name], time.time()
        self._worlds += 1
        unused = WorkloadController(planes.seed.api)
        playing: tuple[str, int] | None = None
        outer = Stage(self._worlds, folder, planes.seed, planes.shoots[0], unused, [])
        try:
            async with own_seed(outer) as world, cast_in(world, apart=kind.apart) as cast:
                while self.left and self.left[0][0] == name:
                    if time.time() - began > _WORLD_LASTS:
                        return
                    playing = self.left[0]
                    async with asyncio.timeout(LIMIT + kind.lasts[1]):
                        result = await play(cast, kind)
                    self._keep(result)
                    playing = None
        except Exception as error:
            story = folder / f"failed-{self._worlds}.txt"
            story.write_text("".join(traceback.format_exception(error)))
            if playing is None:  # a world that cannot be made or left says nothing of any run
                raise
            first = str(error).partition("\n")[0]
            self._keep(
                Result(None, 0.0, 0.0, False, [f"{type(error).__name__}: {first} ({story})"])
            )
        finally:
            await outer.clear()

    def _keep(self, result: Result) -> None:
        made = Run(*self.left.pop(0), result)
        self.runs.append(made)
        with self._kept.open("a") as file:
            file.write(made.line() + "\n")
        say(made.line())

    @property
    def won(self) -> bool:
        """Whether all went as it must."""
        return not any(each.result.troubles for each in self.runs)


# The runs as a table in Markdown, and its place in a page.


def table(all_kinds: Mapping[str, Kind], runs: Sequence[Run]) -> str:
    """A row for each kind that was played."""
    rows = [_HEAD, tuple("---" for _ in _HEAD)]
    for name, kind in all_kinds.items():
        if of_kind := [each.result for each in runs if each.kind == name]:
            rows.append(_row(kind, of_kind))
    return "\n".join(f"| {' | '.join(each)} |" for each in rows)


def _row(kind: Kind, results: Sequence[Result]) -> tuple[str, ...]:
    first = [each.first for each in results if each.first is not None]
    within = sum(each <= kind.goal for each in first)
    goal = f"{kind.goal:g} s" + ("" if within == len(first) else f": {within} of {len(first)}")
    wrong = sum(bool(each.troubles) for each in results)
    return (
        kind.title,
        str(len(results)),
        kind.since,
        _spread(first),
        goal,
        _spread(each.led for each in results if each.first is not None),
        str(sum(each.shared for each in results)),
        str(wrong),
    )


def _spread(seconds: Iterable[float]) -> str:
    found = sorted(seconds)
    return f"{statistics.median(found):.1f}, {found[-1]:.1f} s" if found else "–"


def put_into_page(text: str, page: Path = PAGE) -> None:
    """Replaces the table of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="make failover", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    parser.add_argument("--only", default="", help="kinds, with commas between")
    parser.add_argument("--slow-for", type=float, default=600.0, help="seconds of the slow seed")
    parser.add_argument("--kept", type=Path, default=Path("failover.jsonl"), help="what was played")
    parser.add_argument(
        "--table", action="store_true", help="put it into docs/failover.md, when all is played"
    )
    return parser.parse_args()


def main() -> int:
    """Plays and tells; the logs stay where something went wrong."""
    asked = arguments()
    all_kinds = kinds(asked.slow_for)
    only = [each for each in asked.only.split(",") if each]
    assets = assets_in(os.environ.get("KUBEBUILDER_ASSETS"))
    if assets is None or not set(only) <= all_kinds.keys():
        say(f"KUBEBUILDER_ASSETS=$(hack/kube-assets etcd kube-apiserver); {', '.join(all_kinds)}")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="failover-"))
    runs = Runs(all_kinds, asked.runs, only, asked.kept)
    interrupted = False
    try:
        asyncio.run(runs.play_all(assets, folder))
    except KeyboardInterrupt:
        interrupted = True
    found = table(all_kinds, runs.runs)
    say(found)
    if asked.table and not runs.left and not interrupted:
        put_into_page(found)
    if not runs.won:
        say(f"logs: {folder}")
        return 1
    shutil.rmtree(folder)
    return int(interrupted)


if __name__ == "__main__":
    sys.exit(main())
