"""One world of the prober, from its recipe to what came of it."""

import random
from collections.abc import Collection, Iterable
from typing import Final, NoReturn

from app.core.clock import Clock
from app.core.model import workloads as ann
from app.core.model.endpoints import EndpointProbeSpec, Ran, TargetAddress
from app.core.model.probing import NoticeKind
from app.core.reporting.notices import Notice
from app.prober.rules.candidates import QUORUM
from app.prober.rules.verdict import flapping_span
from app.simulation.builders import World
from app.simulation.memory import MemoryPlace
from app.simulation.store import Object
from app.simulation.workloads import Workload
from bench.exploration import invariants, operators, path_invariants, people
from bench.exploration.director import Director
from bench.exploration.draws import FAULTS, Hand
from bench.exploration.facts import Change, OverrideChange, StatusSending
from bench.exploration.instances import Instance
from bench.exploration.ledger import Ledger
from bench.exploration.line import Boundary, Passage, Sending
from bench.exploration.path_draws import CANARY, WITNESS
from bench.exploration.path_draws import FAULTS as PATH_FAULTS
from bench.exploration.play import Over, Play
from bench.exploration.process import Process, Surroundings
from bench.exploration.recipe import STRAY, Recipe
from bench.exploration.wishes import in_force

_ACTS: Final = {**people.ACTS, **operators.ACTS}
_LEASE_ACTS: Final = {name: act for name, act in _ACTS.items() if name != "deletes a witness"}
"""Where there are no gates."""
_PATH_ACTS: Final = {
    name: act
    for name, act in _ACTS.items()
    if name not in {"changes a node", "changes a machine", "leaves a Lease"}
}
"""Where nothing of nodes is read."""
_HEARD: Final = 31.0
"""A watch that was interrupted is tried again within this, seconds."""
_CLOSED: Final = 0.5
_TOLD: Final = 75.0
"""Once everything is right, whoever leads has been told of all that is over within this, seconds."""
_LONGEST: Final = 1_800.0
"""What people wish for in these worlds is over by then, seconds."""


class Exploration(Play[Process, Recipe]):
    """One world."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(
            recipe, strikes=recipe.strike_every < recipe.chaos, every=recipe.strike_every
        )
        asked = path_invariants.ON_SENDING if recipe.endpoint_mode else invariants.BY_LEASES
        self._on_sending = (*asked, *invariants.ON_SENDING)
        self._waiting: dict[str, tuple[frozenset[str], float]] = {}
        """The ScaleRequests of each shoot that have not ended, and since when it is these, while all is right."""
        self._right_at = 0.0
        """When everything became right."""

    # The play.

    def _set_up(self, clock: Clock) -> None:
        recipe = self.recipe
        place = MemoryPlace()
        self.world = self._world(clock, place)
        self.ledger = Ledger(
            self.world, recipe.policy, elected=recipe.elected, watch_delay=recipe.watch_delay
        )
        self.ledger.on_sending, self.ledger.on_change = self._sending, self._changed
        self.ledger.on_status, self.ledger.on_override = self._shows, self._override_changed
        self.ledger.on_passage = self._passed
        around = Surroundings(
            self._grounds(self.world, place, self.ledger),
            recipe.policy,
            self.ledger.told,
            self._ran,
            self._heard,
            self._failed,
            lambda process, text: self.log(process.name, text),
        )
        self.instances = [self._instance("abc"[n], around, clock) for n in range(recipe.instances)]
        rng = random.Random(f"{recipe.seed}/director")
        hand = Hand(
            rng,
            self.world,
            recipe.policy,
            self._processes,
            asked_to_end=self.ledger.asked_to_end.add,
            acknowledged=self._acknowledged,
        )
        faults, acts = (PATH_FAULTS, _PATH_ACTS) if recipe.endpoint_mode else (FAULTS, _LEASE_ACTS)
        self.director = Director(
            hand, self.ledger, self.tasks, self.log, self.story.counts, faults, acts
        )

    def _processes(self) -> list[Process]:
        return [each.process for each in self.instances if each.process is not None]

    def _world(self, clock: Clock, place: MemoryPlace) -> World:
        recipe = self.recipe
        seed = random.Random(f"{recipe.seed}/world").randrange(1 << 30)
        world = World(
            clock,
            self.tasks,
            seed=seed,
            latency=recipe.latency,
            pace=recipe.pace,
            external_secret_name=recipe.policy.external_secret,
            place=place,
        )
        for shoot in recipe.shoots:
            world.add_shoot(
                shoot.name,
                nodes=shoot.nodes,
                unmanaged=shoot.unmanaged,
                grace=shoot.grace,
                lease_duration=shoot.lease_duration,
                replicas=shoot.counts,
            )
            world.add_dependent(shoot.name, STRAY, 0)
            keys = {ann.MELTDOWN: "", ann.REPLICAS: "4"}
            world.patch(shoot.name, STRAY, {"metadata": {"annotations": keys}})
            if any(each.pods for each in recipe.policy.endpoint_probes):
                world.add_workload(Workload(shoot.name, WITNESS))
        return world

    def _instance(self, name: str, around: Surroundings, clock: Clock) -> Instance[Process]:
        return Instance(
            name,
            lambda run, machine, seed: Process(around, run, machine, seed),
            self._timeline,
            self._machine,
            clock,
            self.tasks,
            random.Random(f"{self.recipe.seed}/strikes/{name}"),
            self.recipe.seed,
            self.log,
            self.story.counts,
            self._woken,
        )

    def _woken(self, process: Process) -> None:
        self.ledger.woke[process.name] = self.world.clock.now()

    async def _chaos(self) -> None:
        recipe = self.recipe
        await self._go_wrong(recipe.chaos, faults=recipe.fault_every, people=recipe.people_every)

    async def _settle(self) -> None:
        self._right_again()
        self._leave_gate_closed()
        began = self._right_at = max(self.world.clock.now(), self.director.felt_until)
        free = {shoot.name: began for shoot in self.recipe.shoots}
        found = {name: self._extra(name) for name in free}
        few = [name for name in free if self._few(name)]
        last = began + _LONGEST
        while free:
            if self.world.clock.now() > last:
                wishes, now = self.ledger.wishes(), self.world.clock.now()
                # A pause without an end is one of a day, and may outlive the world.
                left = [name for name in free if not in_force(wishes, name, now)]
                if not left:
                    return
                self._give_up(left, few)
            self._check_finished()
            now = self.world.clock.now()
            free = {
                name: max(now, since) if self._bound(name) else since
                for name, since in free.items()
            }
            due = {name: free[name] + self._settled_after(name) + found[name] for name in free}
            name = min(free, key=lambda each: due[each])
            if (wait := due[name] - self.world.clock.now()) > 0:
                await self._pass(min(wait, 1.0))  # what begins meanwhile moves it
            else:
                self._check_settled(name, few=name in few or self._few(name))
                del free[name]

    def _leave_gate_closed(self) -> None:
        """In every second world with a canary its gate stays closed: that must not hold back what goes up."""
        canary = any(each.host for each in self.recipe.policy.endpoint_probes)
        if canary and random.Random(f"{self.recipe.seed}/gate").random() < _CLOSED:
            self.world.faults.canary_down(CANARY)
            self.log("world", "the canary is down for good")

    def _give_up(self, left: Iterable[str], few: Collection[str]) -> NoReturn:
        """Says what is wrong with these shoots, which never come to rest.

        Raises:
            Over: always.
        """
        for name in left:
            self._check_settled(name, few=name in few)
        self._violated("the_world_itself_is_sound", f"{', '.join(left)} never comes to rest")
        raise Over

    def _bound(self, namespace: str) -> bool:
        """Whether people's wishes are in force for a shoot, in truth or as who leads was told, or are not known yet."""
        now = self.world.clock.now()
        if in_force(self.ledger.wishes(), namespace, now):
            return True
        told = [self.ledger.told(each.name) for each in self._processes() if each.leading]
        late = now < self._right_at + _TOLD
        return any(not each.known(now) or (late and each.may_bind(namespace, now)) for each in told)

    def _check_finished(self) -> None:
        """A ScaleRequest that nobody hinders comes to its end, whichever process began it."""
        now = self.world.clock.now()
        for shoot in self.recipe.shoots:
            undone, before = self.ledger.undone(shoot.name), self._waiting.get(shoot.name)
            if before is None or before[0] != undone:
                self._waiting[shoot.name] = (undone, max(now, self._right_at))
        longest = _HEARD + self.recipe.settled_after(0.0)
        check = invariants.what_was_begun_by_hand_is_finished
        if (wrong := check(self._waiting, now - longest)) is not None:
            self._violated(check.__name__, wrong)
            raise Over

    def _few(self, namespace: str) -> bool:
        """Whether too few candidates are left for a verdict; paths need none."""
        return not self.recipe.endpoint_mode and len(self.world.candidates(namespace)) < QUORUM

    def _settled_after(self, namespace: str) -> float:
        leaders = [i.process.name for i in self.instances if i.process is not None]
        begun = [at for at, process in self.ledger.standing(namespace).begun if process in leaders]
        return self.recipe.settled_after(flapping_span(begun) if begun else 0.0)

    def _extra(self, namespace: str) -> float:
        """What is at 0 without our keys is believed only at the second regular look."""
        found = self.ledger.dependents(namespace)
        if any(not each.replicas and not each.annotations for each in found):
            return 2 * self.recipe.policy.probe_interval * (1 + self.recipe.policy.jitter)
        return 0.0

    def _check_settled(self, namespace: str, *, few: bool) -> None:
        check = invariants.every_shoot_is_as_it_should_be
        wrong = check(self.ledger, namespace, self._state(namespace), few=few)
        if wrong is not None:
            self._violated(check.__name__, wrong)
            raise Over
        self.log("world", f"{namespace} is as it should be")

    def _state(self, namespace: str) -> str:
        for instance in self.instances:
            process = instance.process
            if process is not None and process.leading and process.prober is not None:
                status = process.prober.registry.status(namespace)
                return "not known" if status is None else str(status.state)
        return "without a leader"

    # What is heard of it.

    def _sending(self, sending: Sending) -> None:
        patch = sending.patch
        keys = {key.removeprefix(ann.PREFIX): value for key, value in patch.annotations.items()}
        self.log(
            sending.process,
            f"writes {sending.namespace}/{sending.ref} at {patch.resource_version}: "
            f"{patch.replicas} {keys}",
        )
        if self.ledger.begun_before_it_stood_still(sending):
            return
        for check in self._on_sending:
            if (wrong := check(self.ledger, sending)) is not None:
                self._violated(check.__name__, wrong)

    def _changed(self, change: Change) -> None:
        before, after = change.before, change.after
        shown = [None if each is None else each.replicas for each in (before, after)]
        self.story.downs += change.process is not None and shown[1] == 0 and bool(shown[0])
        self.story.ups += change.process is not None and shown[0] == 0 and bool(shown[1])
        by = change.process or "world"
        keys = (
            "" if after is None else sorted(k.removeprefix(ann.PREFIX) for k in after.annotations)
        )
        place = f"{change.key.namespace}/{change.key.name}"
        self.log(by, f"{place} is now {shown[1]} {keys}, was {shown[0]}")
        for check in invariants.ON_CHANGE:
            if (wrong := check(self.ledger, change)) is not None:
                self._violated(check.__name__, wrong)

    def _shows(self, sending: StatusSending) -> None:
        for check in invariants.ON_STATUS:
            if (wrong := check(self.ledger, sending)) is not None:
                self._violated(check.__name__, wrong)

    def _override_changed(self, change: OverrideChange) -> None:
        place = f"{change.key.kind} {change.key.namespace}/{change.key.name}"
        after = change.after
        shown = "gone" if after is None else f"{after['spec']} {_status(after)}"
        self.log(change.process or "world", f"{place} is now {shown}")
        for check in invariants.ON_OVERRIDE:
            if (wrong := check(self.ledger, change)) is not None:
                self._violated(check.__name__, wrong)

    def _acknowledged(self, what: str, uid: str, version: str | None) -> None:
        """A process says that something was written, or (None) deleted."""
        there = any(each.uid == uid for each in self.ledger.wishes())
        if there if version is None else (uid, version) not in self.ledger.ever:
            so = "is still there" if version is None else f"never was at {version}"
            self._violated("nothing_acknowledged_is_lost", f"done, it says: {what}; {uid} {so}")

    def _passed(self, passage: Passage) -> None:
        super()._passed(passage)
        if self.recipe.endpoint_mode and passage.boundary is Boundary.SENT:
            check = path_invariants.nothing_of_nodes_is_read
            if (wrong := check(passage.request)) is not None:
                self._violated(check.__name__, f"{passage.process}: {wrong}")

    def _ran(
        self, process: Process, probe: EndpointProbeSpec, address: TargetAddress, ran: Ran
    ) -> None:
        gate = self.ledger.paths.gate(process.name, address.namespace, probe.name)
        before = gate.closed_since
        gate.ran(probe, ran.outcome, self.world.clock.now())
        if gate.closed_since != before:
            side = "open" if gate.closed_since is None else "closed"
            self.log(process.name, f"{address.namespace} the gate {probe.name} is {side}")

    def _heard(self, process: Process, notice: Notice) -> None:
        if not process.machine.alive:
            return
        if notice.reason == "RunnerFailed":
            self._failed(process, f"{notice.namespace}: {notice.message}")
        if notice.kind is not NoticeKind.LOOK:
            self.log(process.name, f"{notice.namespace} {notice.reason}: {notice.message}")
        if notice.reason == "FlowStarted":
            self._something_begins(process)


def _status(obj: Object) -> str:
    """The status, without the instants."""
    status = obj.get("status") or {}
    steps = [f"{each['resource']} {each['phase']}" for each in status.get("steps") or ()]
    told = {k: status[k] for k in ("phase", "message", "until", "holdUntil") if status.get(k)}
    return f"{told} {steps}" if steps else str(told or "")
