"""The story of the demo: a handful of shoots, of which one loses its nodes' path after a minute and gets it back."""

import sys
from typing import Final, TextIO

from app.core.runtime.clock import Clock
from app.core.runtime.tasks import Tasks
from app.core.simulation.builders import World

_QUIET: Final = 60.0
_OUTAGE: Final = 75.0
_BETWEEN: Final = 90.0
_NAMES: Final = "abcdefghijklmnopqrstuvwxyz"


class Story:
    """What happens in the simulated seed, told to whoever watches the terminal."""

    def __init__(
        self, clock: Clock, tasks: Tasks, shoots: int, nodes: int, out: TextIO | None = None
    ) -> None:
        self._clock, self._tasks = clock, tasks
        self._out = sys.stdout if out is None else out
        self.world = World(clock, tasks, seed=1)
        self._names = [f"shoot--demo--{_name(number)}" for number in range(shoots)]
        for name in self._names:
            self.world.add_shoot(name, nodes=nodes)

    def begin(self, api: tuple[str, int]) -> None:
        """Starts to tell, and to let things happen."""
        base = f"http://{api[0]}:{api[1]}"
        self._introduce(base)
        _ = self._tasks.once(lambda: self._play(base), "story")

    def _introduce(self, base: str) -> None:
        count = len(self._names)
        self._say(
            f"A simulated seed with {count} shoot{'s' if count > 1 else ''}; the prober watches them."
        )
        self._say("Have a look from another terminal; Ctrl-C ends the demo:")
        for path in ("status", "shoots", f"shoots/{self._names[0]}"):
            self._say(f"    curl -s {base}/api/v1/{path}")
        self._say(
            f"In {_QUIET:.0f} s the nodes of {self._names[0]} lose their path to its API server."
        )

    async def _play(self, base: str) -> None:
        await self._clock.sleep(_QUIET)
        number = 0
        while True:
            await self._outage(self._names[number % len(self._names)], base)
            number += 1
            await self._clock.sleep(_BETWEEN)

    async def _outage(self, shoot: str, base: str) -> None:
        self._say(f"The nodes of {shoot} lose their path now. Their leases are no longer renewed;")
        self._say("in half a minute enough of them are expired, and the controllers go to 0.")
        with self.world.faults.path_cut(shoot):
            await self._clock.sleep(_OUTAGE / 2)
            self._say("Why is it at 0?")
            self._say(f"    curl -s {base}/api/v1/shoots/{shoot}")
            self._say(f"    curl -s {base}/api/v1/shoots/{shoot}/nodes")
            await self._clock.sleep(_OUTAGE / 2)
            marked = len(self.world.not_ready_nodes(shoot))
        self._say(
            f"The path of {shoot} is back. Nodes that were marked NotReady meanwhile: {marked}."
        )
        self._say(
            "After three good looks the controllers come back, kube-controller-manager first."
        )
        self._say(f"    curl -s {base}/api/v1/shoots/{shoot}/history")

    def _say(self, text: str) -> None:
        self._out.write(f"  | {text}\n")
        self._out.flush()


def _name(number: int) -> str:
    """The letters from a to z, then s26, s27 and so on."""
    return _NAMES[number] if number < len(_NAMES) else f"s{number}"
