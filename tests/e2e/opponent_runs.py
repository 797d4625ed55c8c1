"""`make opponent`: many experiments against the real kube-controller-manager, as a table.

As many are played at a time as the machine bears; the columns `CPU` and `late` say whether it did. Exit code 0: with
the watchdog no node was ever marked, and without it the manager marked all that were cut off.
"""

import argparse
import asyncio
import os
import random
import shutil
import statistics
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.actors import WorkloadController
from tests.e2e.api import all_of
from tests.e2e.controlplane import ControlPlane, Planes, control_planes
from tests.e2e.landscape import furnish_people, furnish_seed, furnish_shoot
from tests.e2e.opponent import manager_in
from tests.e2e.opponent_play import ALL, LIMIT, MOST, PHASES, Outcome, play
from tests.e2e.processes import say
from tests.e2e.stage import Stage


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is to be played."""

    number: int
    share: float
    protected: bool
    phase: float


class Runs:
    """Experiments and their outcomes."""

    def __init__(self, manager: Path, folder: Path, wanted: Sequence[Experiment]) -> None:
        self.outcomes: dict[Experiment, Outcome] = {}
        self.failed: list[Experiment] = []
        self._manager, self._folder = manager, folder
        self._left = list(wanted)

    async def play_all(self, at_once: int) -> None:
        """Plays them, so many at a time, each lane on an API server of its own."""
        place = control_planes(self._manager.parent, self._folder, shared=at_once, own_storage=0)
        async with place as planes, WorkloadController(planes.seed.api) as controller:
            await furnish_seed(planes.seed.api)
            await furnish_people(planes.seed.api)
            await all_of(furnish_shoot(plane.api) for plane in planes.shoots)
            async with asyncio.TaskGroup() as lanes:
                for plane in planes.shoots:
                    lanes.create_task(self._lane(planes, plane, controller))

    async def _lane(
        self, planes: Planes, plane: ControlPlane, controller: WorkloadController
    ) -> None:
        while self._left:
            what = self._left.pop(0)
            stage = Stage(what.number, self._folder, planes.seed, plane, controller, [])
            try:
                await self._play(what, stage)
            except Exception as error:  # noqa: BLE001 - one that fails is reported, the others go on
                error.add_note(stage.report())
                self._failed(what, error)
            finally:
                await stage.clear()

    def _failed(self, what: Experiment, error: Exception) -> None:
        self.failed.append(what)
        story = self._folder / f"run-{what.number}.txt"
        story.write_text("".join(traceback.format_exception(error)))
        say(f"run {what.number} failed ({story}): {str(error).partition(chr(10))[0]}")

    async def _play(self, what: Experiment, stage: Stage) -> None:
        async with asyncio.timeout(LIMIT):
            result = await play(
                stage, self._manager, share=what.share, protected=what.protected, phase=what.phase
            )
        self.outcomes[what] = result
        say(line(str(what.number), result))

    def of(self, share: float, *, protected: bool) -> dict[Experiment, Outcome]:
        """The outcomes of one kind, in the order in which they were to be played."""
        found = {
            k: v for k, v in self.outcomes.items() if (k.share, k.protected) == (share, protected)
        }
        return dict(sorted(found.items(), key=lambda each: each[0].number))

    @property
    def won(self) -> bool:
        """Whether all went as it should."""
        outages = {what: result.outage for what, result in self.outcomes.items()}
        bitten = all(
            each.unknown >= each.nodes for what, each in outages.items() if not what.protected
        )
        saved = [result for what, result in self.outcomes.items() if what.protected]
        unmarked = all((each.outage.marked, each.recovery.marked) == (0, 0) for each in saved)
        return not self.failed and bitten and unmarked


def planned(runs: int, chance: random.Random) -> list[Experiment]:
    """One of each without the watchdog, then `runs` of each with it, both shares in turn."""
    kinds = [(share, False) for share in (ALL, MOST)]
    kinds += [(share, True) for _ in range(runs) for share in (ALL, MOST)]
    return [
        Experiment(number, share, protected, chance.uniform(0, PHASES))
        for number, (share, protected) in enumerate(kinds)
    ]


def tell(runs: Runs) -> None:
    """The tables, in Markdown, and what they come to."""
    for share, what in ((ALL, "all nodes"), (MOST, "80 % of the nodes")):
        for protected, whom in ((False, "without the watchdog"), (True, "with it")):
            found = runs.of(share, protected=protected)
            say(f"\n### {what} cut off, {whom}\n")
            for number, result in enumerate(found.values(), start=1):
                if number == 1:
                    heads = result.figures()
                    say(f"| run | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
                say(line(str(number), result))
            say("\n" + "\n".join(f"- {each}" for each in summary(list(found.values()))))
    say(f"\n{len(runs.failed)} failed: {[each.number for each in runs.failed]}")


def line(run: str, result: Outcome) -> str:
    """One outcome as a row in Markdown."""
    return f"| {' | '.join((run, *result.figures().values()))} |"


def summary(results: Sequence[Outcome]) -> list[str]:
    """What all of them together say."""
    outages = [each.outage for each in results]
    spread: dict[str, list[float | None]] = {
        "first write": [each.first_write for each in outages],
        "KCM at 0": [each.at_zero for each in outages],
        "KCM gone": [each.gone for each in outages],
        "markable": [*(each.markable for each in outages)],
        "first mark": [each.first_mark for each in outages],
    }
    found = [f"{len(results)} runs, {sum(each.marked > 0 for each in outages)} with a marked node"]
    found += [f"nodes marked after the outage: {sum(each.recovery.marked for each in results)}"]
    found += [f"pods evicted: {sum(each.evictions for each in outages)}"]
    for name, values in spread.items():
        if known := [each for each in values if each is not None]:
            middle = statistics.median(known)
            found.append(f"{name}: {min(known):.2f} … {middle:.2f} … {max(known):.2f} s")
    return found


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="make opponent", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    parser.add_argument("--at-once", type=int, default=6, help="experiments at a time")
    parser.add_argument("--seed", type=int, default=None, help="of the phases of the cuts")
    return parser.parse_args()


def main() -> int:
    """Plays and tells; the logs stay where something went wrong."""
    asked = arguments()
    manager = manager_in(os.environ.get("KUBEBUILDER_ASSETS"))
    if manager is None:
        say("KUBEBUILDER_ASSETS=$(hack/kube-assets etcd kube-apiserver kube-controller-manager)")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="opponent-"))
    runs = Runs(manager, folder, planned(asked.runs, random.Random(asked.seed)))
    asyncio.run(runs.play_all(asked.at_once))
    tell(runs)
    if not runs.won:
        say(f"logs: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
