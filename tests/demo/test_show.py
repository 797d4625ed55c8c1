"""The demo as a spectator has it, on virtual time: the story with a prober in the place of the process."""

import re

from app.core.config.policy_files import parse_prober
from app.core.config.settings import DemoSettings
from app.core.model.probing import ShootState
from app.simulation.builders import World
from app.simulation.demo.child import prober_file
from app.simulation.demo.losses import Toll
from app.simulation.demo.program_api import DemoLeases, NoDemoAnswer
from app.simulation.demo.screens import PlainScreen
from app.simulation.demo.seed import build
from app.simulation.demo.show import Show
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.scenarios.scenario import cast, find_scenario, parse_scenario
from app.simulation.server import MemoryServers
from tests.demo.scenes import leases, said
from tests.docs.pages import ROOT
from tests.simulation.worlds import simulated
from tests.support.harness import Lab
from tests.support.weeding import WeederLab

HEALTHY = said(ShootState.HEALTHY, "LeasesRenewed", "all is well", read=leases(4))
ONE_CUT = parse_scenario(
    "name: mine\nabout: a test\nscenes: [{after: 5s, do: path-cut, for: 2m}]", "file.yaml", 2
)
STORY = find_scenario("story", 12)
ETCD = find_scenario("etcd", 3)
FALSE_ALARMS = find_scenario("false-alarms", 14)
SEED_NETWORK = find_scenario("seed-network", 4)


class Screen(PlainScreen):
    """Keeps what it is given."""

    def __init__(self, *, stays=True):
        self.told, self.pictures, self.stays = [], [], stays

    def show(self, picture):
        self.pictures.append(picture)

    def tell(self, told):
        self.told.append((round(told.at), told.text))


class Prober:
    """What a prober's registry says, as the REST API would."""

    def __init__(self, harness):
        self._registry = harness.prober.registry

    async def shoots(self):
        return {each.namespace: self._said(each) for each in self._registry.statuses()}

    def _said(self, status):
        read = None
        if status.tally is not None:
            counts = status.tally.candidates
            read = DemoLeases(counts.total, counts.expired, counts.unknown)
        would_be = None if status.decision is None else status.decision.would_be
        return said(status.state, str(status.reason), status.message, read=read, would_be=would_be)


class Answers:
    """A program that says this, until it says something else."""

    def __init__(self, *names):
        self.said = {f"shoot--demo--{name}": HEALTHY for name in names}
        self.failure: NoDemoAnswer | None = None

    async def shoots(self):
        if self.failure is not None:
            raise self.failure
        return self.said


class Watched:
    """A demo without processes."""

    def __init__(self, world: World, scenario, parts, seed, servers, *, stays=True):
        self.clock, self.tasks = world.clock, world.tasks
        self.parts = parts
        self.seed, self.servers = seed, servers
        self.screen = Screen(stays=stays)
        self.show = Show(self.clock, scenario.name, self.parts, self.seed, self.screen, ["a hint"])

    def begin(self, source):
        _ = self.tasks.once(lambda: self.show.watch(source.shoots), "screen")
        self.playing = self.tasks.once(self.show.play, "scenario")

    @property
    def rows(self):
        return {row.shoot: row for row in self.screen.pictures[-1].rows}


def policy_of(scenario, *, gate=True):
    """What the program is told to do in a scenario."""
    canary = ("127.0.0.1", 4711) if scenario.canary and gate else None
    text = prober_file((ROOT / "config/prober.yaml").read_text(), scenario.mode, canary)
    return parse_prober(text, "prober.yaml", strict=True).policy


async def watched(world, scenario, *, shoots=2, nodes=4, stays=True):
    parts, place = cast(shoots, nodes, scenario.own), MemoryPlace()
    seed = await build(world.clock, world.tasks, scenario, parts, DemoSettings(), place)
    return Watched(world, scenario, parts, seed, MemoryServers(seed.world, place), stays=stays)


@simulated()
async def test_the_scenario_begins_when_every_shoot_was_looked_at(world):
    demo = await watched(world, ONE_CUT)
    source = Answers("a")
    demo.begin(source)
    await demo.clock.sleep(10)
    assert demo.screen.told == []
    source.said = Answers("a", "b").said
    await demo.clock.sleep(7)
    assert "scene 1 begins: a" in demo.screen.told[0][1]


@simulated()
async def test_it_begins_without_them_where_that_takes_too_long(world):
    demo = await watched(world, ONE_CUT)
    demo.begin(Answers("a"))
    await demo.clock.sleep(24)
    assert demo.screen.told == [
        (20, "the program has not probed every shoot yet; the scenario begins")
    ]


@simulated()
async def test_a_program_that_does_not_answer_is_told_of_and_its_last_words_stay(world):
    demo = await watched(world, ONE_CUT)
    source = Answers("a", "b")
    demo.begin(source)
    await demo.clock.sleep(2.5)
    assert demo.screen.pictures[-1].trouble == ""
    source.failure = NoDemoAnswer("too slow")
    await demo.clock.sleep(1)
    assert demo.screen.pictures[-1].trouble == "No news from the program: too slow"
    assert demo.rows["a"].state is ShootState.HEALTHY


@simulated()
async def test_until_the_first_answer_the_program_is_starting(world):
    demo = await watched(world, ONE_CUT)
    source = Answers()
    source.failure = NoDemoAnswer("refused")
    demo.begin(source)
    await demo.clock.sleep(0.5)
    assert demo.screen.pictures[-1].trouble == "The program is starting."
    assert [row.word for row in demo.screen.pictures[-1].rows] == ["Starting", "Starting"]


@simulated()
async def test_the_end_of_the_scenario_is_told_and_the_watch_goes_on(world):
    demo = await watched(world, ONE_CUT)
    demo.begin(Answers("a", "b"))
    await demo.clock.sleep(130)
    assert demo.screen.told[-1][1] == "the scenario is over; the watchdog goes on until Ctrl-C"
    assert demo.screen.pictures[-1].over
    before = len(demo.screen.pictures)
    await demo.clock.sleep(10)
    assert len(demo.screen.pictures) == before + 10
    assert not demo.playing.done()


@simulated()
async def test_where_nobody_watches_it_ends_when_every_shoot_is_as_before(world):
    demo = await watched(world, ONE_CUT, stays=False)
    source = Answers("a", "b")
    demo.begin(source)
    await demo.clock.sleep(100)
    protected = said(ShootState.PROTECTED, "LeasesExpired", "at 0", read=leases(0, 4))
    source.said = source.said | {"shoot--demo--a": protected}
    await demo.clock.sleep(60)
    assert demo.seed.player.over
    assert not demo.playing.done()
    source.said = Answers("a", "b").said
    await demo.clock.sleep(2)
    assert demo.playing.done()
    assert [text for _, text in demo.screen.told[-2:]] == [
        "the scenario is over; this ends when every shoot is back to normal",
        "a: Protected → Healthy (LeasesRenewed): all is well",
    ]


@simulated()
async def test_where_a_shoot_does_not_come_back_it_ends_all_the_same(world):
    demo = await watched(world, ONE_CUT, stays=False)
    failing = said(ShootState.FAILING, "CredentialsRefused", "no", read=leases(4))
    source = Answers("a", "b")
    source.said = source.said | {"shoot--demo--a": failing}
    demo.begin(source)
    await demo.clock.sleep(300)
    assert not demo.playing.done()
    await demo.clock.sleep(15)
    assert demo.playing.done()
    assert demo.screen.told[-1][1] == "1 shoot not back to normal; the end"


@simulated()
async def test_replicas_are_shown_as_they_truly_are(world):
    demo = await watched(world, ONE_CUT)
    demo.begin(Answers("a", "b"))
    demo.seed.world.patch("shoot--demo--b", "kube-controller-manager", {"spec": {"replicas": 2}})
    demo.seed.world.delete("shoot--demo--b", "cluster-autoscaler")
    await demo.clock.sleep(2.5)
    kcm, mcm, ca = demo.rows["b"].replicas
    assert (str(kcm), str(mcm), ca) == ("1/2", "1/1", None)


@simulated()
async def test_in_the_story_something_is_seen_within_45_s_and_the_watchdog_saves_every_machine(
    world,
):
    demo = await watched(world, STORY, shoots=12, nodes=5)
    lab = Lab(demo.tasks, demo.clock)
    lab.serve(demo.seed.world, demo.servers)
    harness = lab.prober(demo.seed.world)
    weeders = WeederLab(demo.tasks, demo.clock)
    weeders.serve(demo.seed.world, demo.servers)
    weeders.weeder(demo.seed.world)
    demo.begin(Prober(harness))
    await demo.clock.sleep(45)
    assert demo.rows["a"].state is ShootState.PROTECTED
    assert demo.rows["b"].state is ShootState.UNREACHABLE
    assert demo.rows["g"].reason == "CredentialsRefused"
    assert demo.rows["c"].scenes == ("etcd-outage",)
    assert demo.rows["c"].waiting > 0
    await harness.until(lambda: demo.seed.player.over, within=900)
    await demo.clock.sleep(180)
    assert {row.state for row in demo.rows.values()} == {ShootState.HEALTHY}
    assert all(str(each) == "1/1" for row in demo.rows.values() for each in row.replicas)
    lost = demo.seed.lost
    assert lost.having == Toll()
    assert lost.below == (Toll(59, 0), Toll(59, 0)), "in the zone that is below the limit"
    assert lost.lacking.nodes > 191
    assert lost.lacking.machines > 150
    summary = "\n".join(demo.show.summary())
    assert "6 path-cut: zonal-61                                  0         61" in summary
    assert "7 path-cut: zonal-59, below the limit                59         59" in summary
    assert " 3 etcd-outage: c" in summary.split("pods restarted")[1]
    pods = demo.screen.pictures[-1].pods
    assert (pods.waiting, pods.waiting_without) == (0, 0)
    assert pods.saving.restarts >= 6
    assert pods.saving.most > 120, "back-offs are minutes"
    await weeders.close()
    await lab.close()


@simulated()
async def test_in_a_scenario_of_false_alarms_nothing_is_scaled(world):
    demo = await watched(world, FALSE_ALARMS, shoots=14, nodes=4)
    lab = Lab(demo.tasks, demo.clock)
    lab.serve(demo.seed.world, demo.servers)
    harness = lab.prober(demo.seed.world)
    demo.begin(Prober(harness))
    await harness.until(lambda: demo.seed.player.over, within=600)
    await demo.clock.sleep(60)
    assert demo.seed.world.journal.of(WATCHDOG) == ()
    assert {row.state for row in demo.rows.values()} == {ShootState.HEALTHY}
    lost = demo.seed.lost
    assert lost.having == lost.lacking == Toll()
    assert lost.below == (Toll(1, 1), Toll(1, 1)), "one kubelet has stopped"
    await lab.close()


async def at_the_end_of_the_seeds_network(demo, harness):
    """Plays it; the states and replicas that each shoot had in its first scene."""
    states: set[tuple[ShootState | None, str]] = set()
    replicas: set[str] = set()
    demo.begin(Prober(harness))
    await harness.until(lambda: demo.seed.player.performances, within=60)
    while demo.seed.player.running:
        await demo.clock.sleep(1)
        states |= {(row.state, row.reason) for row in demo.rows.values()}
        replicas |= {str(each) for row in demo.rows.values() for each in row.replicas}
    await harness.until(lambda: demo.seed.player.over, within=300)
    await demo.clock.sleep(120)
    return states, replicas


@simulated()
async def test_a_gate_keeps_a_false_alarm_of_the_seeds_network_from_scaling_anything(world):
    demo = await watched(world, SEED_NETWORK, shoots=4)
    lab = Lab(demo.tasks, demo.clock)
    lab.serve(demo.seed.world, demo.servers)
    harness = lab.prober(demo.seed.world, policy_of(SEED_NETWORK))
    states, replicas = await at_the_end_of_the_seeds_network(demo, harness)
    assert (ShootState.SUSPECT, "Gated") in states
    assert replicas == {"1/1"}, "nothing was scaled while the seed could not get out"
    scaled = {write.namespace for write in demo.seed.world.journal.of(WATCHDOG)}
    assert scaled == {"shoot--demo--a"}, "the one whose load balancer was gone"
    assert {row.state for row in demo.rows.values()} == {ShootState.HEALTHY}
    assert all(str(each) == "1/1" for row in demo.rows.values() for each in row.replicas)
    told = "\n".join(text for _, text in demo.screen.told)
    # Shoots of which the same is told at the same time share a line.
    gated = r"^(\w, )*c(, \w)*: Suspect \(Gated\): the API server answers through the internal path, not"
    assert re.search(gated, told, re.MULTILINE)
    assert "; not scaled: the gate outside-of-the-seed is closed, its target fails: 127.0" in told
    lost = demo.seed.lost
    assert (lost.having, lost.lacking.nodes) == (Toll(), 4), "in scene 1 no node was harmed"
    summary = demo.show.summary()
    assert [line.split()[-4:] for line in summary[-3:]] == [
        ["0", "shoots", "4", "shoots"],
        ["1", "shoot", "0", "shoots"],
        ["1", "shoot", "4", "shoots"],
    ]
    assert summary[-4].split("  ")[-1].strip() == "held back by the gate"
    await lab.close()


@simulated()
async def test_without_the_gate_every_shoot_would_have_been_scaled(world):
    demo = await watched(world, SEED_NETWORK, shoots=4)
    lab = Lab(demo.tasks, demo.clock)
    lab.serve(demo.seed.world, demo.servers)
    harness = lab.prober(demo.seed.world, policy_of(SEED_NETWORK, gate=False))
    states, replicas = await at_the_end_of_the_seeds_network(demo, harness)
    assert ShootState.PROTECTED in {each[0] for each in states}
    assert "0/0" in replicas
    assert len({write.namespace for write in demo.seed.world.journal.of(WATCHDOG)}) == 4
    assert "held back" not in "\n".join(demo.show.summary())
    await lab.close()


@simulated()
async def test_an_etcd_outage_is_told_pod_by_pod_and_compared_with_the_twin(world):
    demo = await watched(world, ETCD, shoots=3)
    lab = Lab(demo.tasks, demo.clock)
    lab.serve(demo.seed.world, demo.servers)
    weeders = WeederLab(demo.tasks, demo.clock)
    weeders.serve(demo.seed.world, demo.servers)
    weeders.weeder(demo.seed.world)
    harness = lab.prober(demo.seed.world)
    demo.begin(Prober(harness))
    await demo.clock.sleep(50)
    assert demo.rows["a"].happens.startswith("etcd-outage, 9 waiting")
    assert demo.rows["a"].state is ShootState.UNREACHABLE
    await harness.until(lambda: demo.seed.player.over, within=300)
    pods = demo.screen.pictures[-1].pods
    assert pods.waiting < pods.waiting_without, "those of a are back here, and not there"
    await demo.clock.sleep(240)
    told = [text for _, text in demo.screen.told]
    began = told.index("a: etcd-main-client is ready again; 8 pods in CrashLoopBackOff")
    deleted = [text for text in told if text.startswith("a: ") and " is deleted, " in text]
    assert len(deleted) == 8
    back = [text for text in told if text.startswith("a: ") and " is back after " in text]
    assert len(back) == 8
    assert all(re.search(r"back after \d s instead of 1 min \d+ s$", text) for text in back)
    assert began < told.index(deleted[0]) < told.index(back[0])
    (over,) = [text for text in told if text.startswith("a: all 10 pods are ready, ")]
    assert re.search(r"ready, \d+ s after etcd-main-client$", over)
    others = [text for text in told if text.startswith("without the watchdog, ")]
    assert len(others) == 2, "of the twin, the end alone"
    (without,) = [text for text in others if "a: all 10 pods" in text]
    assert re.search(r"ready, 1 min \d+ s after etcd-main-client there$", without)
    assert told.index(over) < told.index(without)
    assert demo.seed.lost.having == demo.seed.lost.lacking == Toll()
    assert demo.seed.world.journal.of(WATCHDOG) == ()
    await weeders.close()
    await lab.close()


@simulated()
async def test_the_summary_has_a_table_of_pods_only_where_some_were_restarted(world):
    demo = await watched(world, ETCD, shoots=3)
    demo.begin(Answers("a", "b", "c"))
    await demo.clock.sleep(300)
    assert "restarted" not in "\n".join(demo.show.summary())
    over = [text for _, text in demo.screen.told if "all 10 pods are ready" in text]
    assert len(over) == 4, "two shoots, in either world"
