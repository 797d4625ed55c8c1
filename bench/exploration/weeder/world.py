"""One world of the weeder, from its recipe to what came of it."""

import random
from typing import Final

from app.core.clock import Clock
from app.core.reporting.notices import Notice
from app.simulation.builders import World
from app.simulation.memory import MemoryPlace
from app.simulation.workloads import control_plane
from bench.exploration.director import Director
from bench.exploration.instances import Instance
from bench.exploration.play import Over, Play
from bench.exploration.weeder import invariants
from bench.exploration.weeder.draws import FAULTS, PlaneHand
from bench.exploration.weeder.facts import Accepted, Sending
from bench.exploration.weeder.ledger import WeederLedger
from bench.exploration.weeder.people import ACTS
from bench.exploration.weeder.process import WeederProcess, WeederSurroundings
from bench.exploration.weeder.recipe import STRAY, WeederRecipe
from bench.exploration.weeder.waits import Waits
from bench.exploration.wishes import Told

_CALM: Final = 31.0
"""Whatever was tried in vain before is tried again within this, seconds."""
_BOUNDARIES: Final = 20
"""A list, a watch and three deletions have so many."""
_LONGEST: Final = 1200.0
"""Then all has to be at rest: the longest back-off twice, and two recoveries with their waits; seconds."""
_REST: Final = 70.0
_END: Final = 5.0


class Weeding(Play[WeederProcess, WeederRecipe]):
    """One world of the weeder."""

    def __init__(self, recipe: WeederRecipe) -> None:
        super().__init__(
            recipe, strikes=recipe.strike_every < recipe.chaos, every=recipe.strike_every
        )
        self._waits: Waits | None = None
        self._calm = False
        self._suspected: dict[str, bool] = {}

    # The play.

    def _set_up(self, clock: Clock) -> None:
        recipe = self.recipe
        place = MemoryPlace()
        self.world = self._world(clock, place)
        ledger = self.ledger = WeederLedger(self.world, recipe)
        ledger.on_sending, ledger.on_accepted = self._sending, self._accepted
        ledger.on_passage = self._passed
        around = WeederSurroundings(
            self._grounds(self.world, place, ledger),
            recipe,
            lambda: Told(clock.now, self.world.store, clock.now(), ("pauses",)),
            ledger.ready_since,
            lambda: self._calm,
            self._heard,
            self._failed,
        )
        ledger.process = self._running
        self.instances = [self._instance("abc"[n], around, clock) for n in range(recipe.instances)]
        hand = PlaneHand(random.Random(f"{recipe.seed}/director"), self.world, recipe)
        self.director = Director(
            hand, ledger, self.tasks, self.log, self.story.counts, FAULTS, ACTS
        )

    def _running(self, name: str) -> WeederProcess | None:
        running = (each.process for each in self.instances)
        return next((each for each in running if each is not None and each.name == name), None)

    def _world(self, clock: Clock, place: MemoryPlace) -> World:
        recipe = self.recipe
        seed = random.Random(f"{recipe.seed}/world").randrange(1 << 30)
        world = World(
            clock,
            self.tasks,
            seed=seed,
            latency=recipe.latency,
            place=place,
        )
        for plane in recipe.planes:
            for workload in plane.workloads:
                world.add_workload(workload)
        for workload in control_plane(STRAY):
            if workload.service is None:
                world.add_workload(workload)
                world.faults.workload_broken(STRAY, workload.name)
        return world

    def _instance(
        self, name: str, around: WeederSurroundings, clock: Clock
    ) -> Instance[WeederProcess]:
        return Instance(
            name,
            lambda run, machine, seed: WeederProcess(around, run, machine, seed),
            self._timeline,
            self._machine,
            clock,
            self.tasks,
            random.Random(f"{self.recipe.seed}/strikes/{name}"),
            self.recipe.seed,
            self.log,
            self.story.counts,
            self._woken,
            boundaries=_BOUNDARIES,
        )

    def _woken(self, process: WeederProcess) -> None:
        self.ledger.woke[process.name] = self.ledger.now

    async def _chaos(self) -> None:
        recipe = self.recipe
        await self._go_wrong(recipe.chaos, faults=recipe.fault_every, people=recipe.people_every)

    async def _settle(self) -> None:
        self._calm = True
        self._right_again()
        await self._pass(max(_CALM, self.director.felt_until - self.world.clock.now()))
        self._waits = Waits(self.ledger)
        last = self.world.clock.now() + _LONGEST
        while self._restless() and self.world.clock.now() < last:
            await self._pass(5.0)
        self.log("world", "nothing recovers any more")
        began = self.world.clock.now()
        await self._pass(_REST)
        self._check_rest(began)
        await self._stop()

    def _restless(self) -> bool:
        """Whether something recovers, or will, as something waits for its back-off or its first start."""
        processes = [each.process for each in self.instances]
        ends = [each.sight.quiet_at for each in processes if each is not None and each.sight]
        if max(ends, default=0.0) >= self.world.clock.now():
            return True
        pods = (pod for plane in self.recipe.planes for pod in self.world.pods(plane.namespace))
        return any(pod.ready_since is None for pod in pods)

    def _check_rest(self, began: float) -> None:
        for process in (each.process for each in self.instances):
            if process is None:
                self._violated("at_rest_nothing_happens", "no process runs")
            elif self.ledger.asked.get(process.name, 0.0) > began:
                self._violated("at_rest_nothing_happens", f"{process.name} sends requests")
        if watches := self.world.watches.open_now("Pod"):
            self._violated("at_rest_nothing_happens", f"{watches} watches of pods are open")
        if self.story.violations:
            raise Over

    async def _stop(self) -> None:
        """All are told to end, and have to."""
        processes = [each.process for each in self.instances]
        for process in processes:
            if process is not None:
                process.terminate()
        await self._pass(_END)
        for process in processes:
            if process is not None and process.machine.alive:
                self._violated("a_process_ends_when_it_is_told_to", process.name)

    # What is looked at, and heard.

    def _each_second(self) -> None:
        for process in (each.process for each in self.instances):
            if process is None or not process.machine.alive:
                continue
            self._look_at_watches(process)
            if self._waits is not None and process.leading:
                self._judge("nobody_waits_without_a_reason", self._waits.look(process))

    def _look_at_watches(self, process: WeederProcess) -> None:
        """One that is found twice in a row is not just being closed."""
        check = invariants.no_watch_outlasts_its_recovery
        wrong = check(self.ledger, process)
        if wrong is not None and self._suspected.get(process.name):
            self._violated(check.__name__, wrong)
        self._suspected[process.name] = wrong is not None

    def _judge(self, name: str, wrong: str | None) -> None:
        if wrong is not None:
            self._violated(name, wrong)

    def _sending(self, process: WeederProcess, sending: Sending) -> None:
        self.log(process.name, f"deletes {sending.namespace}/{sending.name} {sending.uid[:8]}")
        for check in invariants.ON_SENDING:
            self._judge(check.__name__, check(self.ledger, process, sending))

    def _accepted(self, accepted: Accepted) -> None:
        sending = accepted.sending
        self.story.deletions += 1
        self.log(sending.process, f"has deleted {sending.namespace}/{sending.name}")
        for check in invariants.ON_ACCEPTED:
            self._judge(check.__name__, check(self.ledger, accepted))

    def _heard(self, process: WeederProcess, notice: Notice) -> None:
        if not process.machine.alive:
            return
        if notice.reason == "RunnerFailed":
            self._failed(process, f"{notice.namespace}: {notice.message}")
        self.log(process.name, f"{notice.namespace} {notice.reason}: {notice.message}")
        if notice.reason == "WeedingStarted":
            self._something_begins(process)
