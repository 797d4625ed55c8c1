"""The demo as a spectator has it, on virtual time: the story with a prober in the place of the process."""

import json
import re
from contextlib import asynccontextmanager

import pytest

from app.api.schemas import Shoot
from app.cli import answers
from app.cli.client import ApiCall, Client
from app.cli.problems import NoAnswer
from app.core.config.policy_files import parse_prober
from app.core.config.settings import DemoSettings
from app.core.model.probing import ShootState, Verdict
from app.simulation.builders import World
from app.simulation.demo.child import prober_file
from app.simulation.demo.screens import PlainScreen
from app.simulation.demo.seed import build
from app.simulation.demo.show import Show, has_probed, read_shoots
from app.simulation.demo.witness import What
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.scenarios.scenario import cast, find_scenario, parse_scenario
from app.simulation.server import MemoryServers
from tests.docs.pages import ROOT
from tests.simulation.worlds import simulated
from tests.support.harness import Lab
from tests.support.weeding import WeederLab


def leases(fresh, expired=0, unknown=0, **more):
    """What the last probe read, of now."""
    total = fresh + expired + unknown
    return {"candidates": total, "expired": expired, "unknown": unknown, **more}


def said(state, reason="Because", message="Some words.", *, read=None, would_be=None):
    """What the program says of a shoot; `read`: its leases."""
    shown = {"namespace": "of no interest", "state": state, "reason": reason, "message": message}
    return answers.of(Shoot, {**shown, "probe": {"wouldBe": would_be}, "leases": read})


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

    def tell(self, at, text):
        self.told.append((at, text))


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
            read = leases(
                counts.total - counts.expired - counts.unknown, counts.expired, counts.unknown
            )
        would_be = None if status.decision is None else status.decision.would_be
        return said(status.state, str(status.reason), status.message, read=read, would_be=would_be)


class Answers:
    """A program that says this, until it says something else."""

    def __init__(self, *names):
        self.said = {f"shoot--demo--{name}": HEALTHY for name in names}
        self.failure: NoAnswer | None = None

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
    def told(self):
        return [text for _, text in self.screen.told]

    @property
    def lost(self):
        return self.seed.mine.total, self.seed.theirs.total

    @property
    def rows(self):
        return {row.shoot: row for row in self.screen.pictures[-1].rows}


@asynccontextmanager
async def programs(demo, *policy, weeder=False):
    """A prober in the demo's seed, and a weeder; the demo is begun with what the prober says."""
    lab, weeders = Lab(demo.tasks, demo.clock), WeederLab(demo.tasks, demo.clock)
    lab.serve(demo.seed.world, demo.servers)
    harness = lab.prober(demo.seed.world, *policy)
    if weeder:
        weeders.serve(demo.seed.world, demo.servers)
        weeders.weeder(demo.seed.world)
    demo.begin(Prober(harness))
    try:
        yield harness
    finally:
        if weeder:
            await weeders.close()
        await lab.close()


def policy_of(scenario, *, gate=True):
    """What the program is told to do in a scenario."""
    canary = ("127.0.0.1", 4711) if scenario.canary and gate else None
    text = prober_file((ROOT / "config/prober.yaml").read_text(), scenario.mode, canary)
    return parse_prober(text, "prober.yaml", strict=True).policy


async def watched(world, scenario, *, shoots=2, nodes=4, stays=True):
    parts, place = cast(shoots, nodes, scenario.shoots), MemoryPlace()
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
        ("+0:20", "the program has not probed every shoot yet; the scenario begins")
    ]


@simulated()
async def test_a_program_that_does_not_answer_is_told_of_and_its_last_words_stay(world):
    demo = await watched(world, ONE_CUT)
    source = Answers("a", "b")
    demo.begin(source)
    await demo.clock.sleep(2.5)
    assert demo.screen.pictures[-1].state == "2 Healthy"
    source.failure = NoAnswer("too slow")
    await demo.clock.sleep(1)
    assert demo.screen.pictures[-1].state == "No news from the program: too slow"
    assert demo.rows["a"].state == ShootState.HEALTHY


async def test_more_than_a_page_of_shoots_is_read_page_by_page():
    class Program(Client):
        def __init__(self):
            """Asks nobody."""

        async def ask(self, call):
            assert call == ApiCall("GET", "shoots", {"limit": "500"} | call.query)
            name, following = ("b", None) if "continue" in call.query else ("a", "next/1")
            page = {"items": [{"namespace": name}], "metadata": {"continue": following}}
            return json.dumps(page).encode()

    assert list(await read_shoots(Program())) == ["a", "b"]


@pytest.mark.parametrize(
    ("read", "would_be", "probed"),
    [
        (leases(1), Verdict.HOLD, True),
        (None, Verdict.SCALE_UP, True),  # endpoint mode reads no leases
        (None, Verdict.SCALE_DOWN, True),
        (None, Verdict.HOLD, False),
        (None, None, False),
    ],
)
def test_a_shoot_was_probed_when_a_probe_has_said_something(read, would_be, probed):
    assert has_probed(said(ShootState.HEALTHY, read=read, would_be=would_be)) is probed


@simulated()
async def test_until_the_first_answer_the_program_is_starting(world):
    demo = await watched(world, ONE_CUT)
    source = Answers()
    source.failure = NoAnswer("refused")
    demo.begin(source)
    await demo.clock.sleep(0.5)
    assert demo.screen.pictures[-1].state == "The program is starting."
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
    assert demo.told[-2:] == [
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
    assert demo.rows["b"].replicas == ("1/2", "1/1", "–")


@simulated()
async def test_in_the_story_something_is_seen_within_45_s_and_the_watchdog_saves_every_machine(
    world,
):
    demo = await watched(world, STORY, shoots=12, nodes=5)
    async with programs(demo, weeder=True) as harness:
        await demo.clock.sleep(45)
        assert demo.rows["a"].state == ShootState.PROTECTED
        assert demo.rows["b"].state == ShootState.UNREACHABLE
        assert demo.rows["g"].reason == "CredentialsRefused"
        assert re.fullmatch(r"etcd-outage, \d waiting", demo.rows["c"].happens)
        await harness.until(lambda: demo.seed.player.over, within=900)
        await demo.clock.sleep(180)
        assert {row.state for row in demo.rows.values()} == {ShootState.HEALTHY}
        assert all(each == "1/1" for row in demo.rows.values() for each in row.replicas)
        mine, theirs = demo.lost
        assert (mine[What.NODE], mine[What.MACHINE]) == (0, 0)
        assert mine[What.BELOW] == theirs[What.BELOW] == 59, "in the zone that is below the limit"
        assert theirs[What.NODE] > 191
        assert theirs[What.MACHINE] > 150
        assert mine[What.RESTART] >= 6
        assert mine[What.RECOVERY] < 10
        assert theirs[What.RECOVERY] > 120, "back-offs are minutes"
        summary = [" ".join(line.split()) for line in demo.show.summary()]
        assert "6 path-cut: zonal-61 nodes marked NotReady 0 61" in summary
        assert "7 path-cut: zonal-59 lost below the limit 59 59" in summary
        third = summary.index("2 api-down: b nothing lost 0 0") + 1
        assert summary[third].startswith("3 etcd-outage: c pods restarted ")
        assert (demo.seed.mine.all_waiting, demo.seed.theirs.all_waiting) == (0, 0)


@simulated()
async def test_in_a_scenario_of_false_alarms_nothing_is_scaled(world):
    demo = await watched(world, FALSE_ALARMS, shoots=14, nodes=4)
    async with programs(demo) as harness:
        await harness.until(lambda: demo.seed.player.over, within=600)
        await demo.clock.sleep(60)
        assert demo.seed.world.journal.of(WATCHDOG) == ()
        assert {row.state for row in demo.rows.values()} == {ShootState.HEALTHY}
        one_kubelet = {What.BELOW: 2}
        assert demo.lost == (one_kubelet, one_kubelet), "its node and its machine"


async def at_the_end_of_the_seeds_network(demo, harness):
    """Plays it; the states and replicas that each shoot had in its first scene."""
    states: set[tuple[ShootState | None, str]] = set()
    replicas: set[str] = set()
    await harness.until(lambda: demo.seed.player.performances, within=60)
    while demo.seed.player.running:
        await demo.clock.sleep(1)
        states |= {(row.state, row.reason) for row in demo.rows.values()}
        replicas |= {each for row in demo.rows.values() for each in row.replicas}
    await harness.until(lambda: demo.seed.player.over, within=300)
    await demo.clock.sleep(120)
    return states, replicas


@simulated()
async def test_a_gate_keeps_a_false_alarm_of_the_seeds_network_from_scaling_anything(world):
    demo = await watched(world, SEED_NETWORK, shoots=4)
    async with programs(demo, policy_of(SEED_NETWORK)) as harness:
        states, replicas = await at_the_end_of_the_seeds_network(demo, harness)
        assert (ShootState.SUSPECT, "Gated") in states
        assert replicas == {"1/1"}, "nothing was scaled while the seed could not get out"
        scaled = {write.namespace for write in demo.seed.world.journal.of(WATCHDOG)}
        assert scaled == {"shoot--demo--a"}, "the one whose load balancer was gone"
        assert {row.state for row in demo.rows.values()} == {ShootState.HEALTHY}
        assert all(each == "1/1" for row in demo.rows.values() for each in row.replicas)
        told = "\n".join(demo.told)
        # Shoots of which the same is told at the same time share a line.
        gated = r"^(\w, )*c(, \w)*: Suspect \(Gated\): the API server answers through the internal path, not"
        assert re.search(gated, told, re.MULTILINE)
        assert (
            "; not scaled: the gate outside-of-the-seed is closed, its target fails: 127.0" in told
        )
        mine, theirs = demo.lost
        assert (mine, theirs[What.NODE]) == ({What.SCALED: 1, What.HELD_BACK: 4}, 4)
        summary = [" ".join(line.split()) for line in demo.show.summary()]
        first, second = "1 seed-network-cut: the seed", "2 path-cut: a nodes marked NotReady 0 4"
        assert summary[1:3] == [f"{first} shoots held back by the gate 4 0", second]


@simulated()
async def test_without_the_gate_every_shoot_would_have_been_scaled(world):
    demo = await watched(world, SEED_NETWORK, shoots=4)
    async with programs(demo, policy_of(SEED_NETWORK, gate=False)) as harness:
        states, replicas = await at_the_end_of_the_seeds_network(demo, harness)
        assert ShootState.PROTECTED in {each[0] for each in states}
        assert "0/0" in replicas
        assert len({write.namespace for write in demo.seed.world.journal.of(WATCHDOG)}) == 4
        assert demo.lost[0] == {What.SCALED: 4}


@simulated()
async def test_an_etcd_outage_is_told_pod_by_pod_and_compared_with_the_twin(world):
    demo = await watched(world, ETCD, shoots=3)
    async with programs(demo, weeder=True) as harness:
        await demo.clock.sleep(50)
        assert demo.rows["a"].happens.startswith("etcd-outage, 9 waiting")
        assert demo.rows["a"].state == ShootState.UNREACHABLE
        await harness.until(lambda: demo.seed.player.over, within=300)
        what, waiting, waiting_there = demo.screen.pictures[-1].counts[-1]
        assert what == "pods waiting"
        assert waiting < waiting_there, "those of a are back here, and not there"
        await demo.clock.sleep(240)
        told = demo.told
        deleted = [text for text in told if re.match(r"a: \S+ is deleted, 1m\d+s before", text)]
        assert len(deleted) == 8
        (over,) = [text for text in told if text.startswith("a: all 10 pods are ready, ")]
        assert told.index(deleted[-1]) < told.index(over)
        (without,) = [text for text in told if text.startswith("without the watchdog, a: all 10")]
        assert told.index(over) < told.index(without)
        assert set(demo.lost[1]) == {What.RECOVERY}, "no node, no machine"
        assert demo.seed.world.journal.of(WATCHDOG) == ()


# What is told of the program's answers, and of the scenes.

GATED = said(ShootState.SUSPECT, "Gated", "not scaled.", would_be=Verdict.SCALE_DOWN)
COUNTING = said(ShootState.SUSPECT, "Counting", would_be=Verdict.SCALE_DOWN)
PENDING, FINE = said(ShootState.PENDING), said(ShootState.HEALTHY)
PROTECTED, RECOVERING = said(ShootState.PROTECTED), said(ShootState.RECOVERING)


async def told_of(world, before, after, *, shoots=2):
    """A demo whose program says this of shoots, and then that; what is told of it since."""
    demo = await watched(world, ONE_CUT, shoots=shoots, nodes=2)
    source = Answers()
    demo.begin(source)
    for answer in (before, after):
        demo.screen.told.clear()
        demo.seed.mine.log.clear()
        source.said = {f"shoot--demo--{name}": each for name, each in answer.items() if each}
        await demo.clock.sleep(1)
    return demo


@pytest.mark.parametrize(
    ("before", "after", "lines", "counted"),
    [
        (FINE, PROTECTED, ["a: Healthy → Protected (Because): Some words."], What.SCALED),
        # Another reason or message is no change, and the start is no news unless it is bad.
        (COUNTING, said(ShootState.SUSPECT, "Two", "2 of 10"), [], None),
        (None, PENDING, [], None),
        (None, FINE, [], None),
        (PENDING, FINE, [], None),
        (FINE, PENDING, [], None),
        (None, said(ShootState.UNREACHABLE), ["a: Unreachable (Because): Some words."], None),
        # A gate that holds back is told though the state stays, and its end when the state changes.
        (COUNTING, GATED, ["a: Suspect (Gated): not scaled."], What.HELD_BACK),
        (FINE, GATED, ["a: Healthy → Suspect (Gated): not scaled."], What.HELD_BACK),
        (GATED, GATED, [], None),
        (GATED, COUNTING, [], None),
        # What comes back before the screen has seen it at 0 was scaled.
        (GATED, RECOVERING, ["a: Suspect → Recovering (Because): Some words."], What.SCALED),
        (PROTECTED, RECOVERING, ["a: Protected → Recovering (Because): Some words."], None),
    ],
)
@simulated()
async def test_a_change_is_told_where_it_is_news_and_counted_where_it_is_scaled_or_held_back(
    world, before, after, lines, counted
):
    demo = await told_of(world, {"a": before}, {"a": after})
    assert demo.told == lines
    assert [each.what for each in demo.seed.mine.log] == [counted] * bool(counted)


@simulated()
async def test_what_happens_to_many_shoots_alike_is_one_line_without_control_characters(world):
    names = [*"abcdefghijklmnopqrstuvwxyz", "s26", "s27"]
    after = dict.fromkeys(["s27", "b", "s26", "a", "c"], PROTECTED)
    after["x"] = said(ShootState.FAILING, "R", "one\n\x1b[31mtwo" + "x" * 999)
    demo = await told_of(world, dict.fromkeys(names, FINE), after, shoots=28)
    many, one = demo.told
    assert many == "a, b, c and 2 more: Healthy → Protected (Because): Some words."
    assert one.startswith("x: Healthy → Failing (R): one [31mtwo")
    assert len(one) <= 300


@simulated()
async def test_shoots_come_worst_first_with_old_leases_left_out_and_are_counted_by_state(world):
    answer = {
        "a": FINE,
        "b": said(ShootState.HEALTHY, read=leases(1, 2, 3)),
        "c": said(ShootState.UNREACHABLE, read=leases(10, asOf="before")),
        "d": PROTECTED,
    }
    demo = await told_of(world, {}, answer, shoots=5)
    picture = demo.screen.pictures[-1]
    assert [(row.shoot, row.word, row.leases) for row in picture.rows] == [
        ("d", "Protected", "-"),
        ("c", "Unreachable", "-"),
        ("a", "Healthy", "-"),
        ("b", "Healthy", "1 of 6"),
        ("e", "Starting", "-"),
    ]
    assert picture.state == "1 Protected, 1 Unreachable, 2 Healthy, 1 Starting"
    assert picture.unsettled == 3
    demo.seed.world.crash_looped("shoot--demo--b", "kube-scheduler", 5)
    await demo.clock.sleep(1)
    rows = demo.screen.pictures[-1].rows
    assert [row.shoot for row in rows if row.state == ShootState.HEALTHY] == ["b", "a"]
    assert demo.rows["b"].happens == "1 waiting"


SCENES = parse_scenario(
    """
name: mine
about: a test
scenes:
- {after: 5s, do: api-down, shoots: [a, b], for: 1m}
- {after: 10s, do: api-slow, shoots: a, for: 20s, times: 2, every: 30s}
- {after: 100s, do: seed-slow, for: 5s}
""",
    "file.yaml",
    3,
)


def lost(**numbers):
    """These numbers of both worlds in words."""
    both = {What[name]: found.split("/") for name, found in numbers.items()}
    return "; ".join(
        f"{what}: {mine}, without the watchdog {theirs}" for what, (mine, theirs) in both.items()
    )


@simulated()
async def test_what_was_seen_belongs_to_the_last_scene_that_had_begun_with_its_shoot_or_the_seed(
    world,
):
    demo = await watched(world, SCENES, shoots=3, nodes=2)
    mine, theirs = demo.seed.mine, demo.seed.theirs
    demo.begin(Answers("a", "b", "c"))

    async def all_lose(what, amount, after):
        await demo.clock.sleep(after)
        for name in "abc":
            mine.note(f"shoot--demo--{name}", what, amount)
        theirs.note("shoot--demo--a", what, 1)

    await all_lose(What.NODE, 1, after=2)
    await all_lose(What.NODE, 10, after=6)
    await all_lose(What.MACHINE, 100, after=10)
    await all_lose(What.RESTART, 1000, after=98)
    await demo.clock.sleep(10)
    ends = "scene 1 is over: a, b", "scene 2 is over: a", "scene 3 is over: the seed"
    assert [text for text in demo.told if text.startswith("scene")] == [
        "scene 1 begins: a, b: The API server refuses connections. (for 1m0s)",
        "scene 2 begins: a: The API server is slow. (2 times for 20s)",
        f"{ends[0]}; {lost(NODE='20/1', MACHINE='100/0')}",
        f"{ends[1]}; {lost(NODE='0/0', MACHINE='100/1')}",
        "scene 3 begins: the seed: The seed's API server is slow. (for 5s)",
        f"{ends[2]}; {lost(NODE='0/0', MACHINE='0/0', RESTART='3000/1')}",
    ]
    lines = demo.show.summary()
    assert len({len(line) for line in lines}) == 1, "in columns"
    assert [re.split(r" {2,}", line.strip()) for line in lines] == [
        ["scene", "with", "without"],
        ["1 api-down: a, b", "nodes marked NotReady", "20", "1"],
        ["machines deleted", "100", "0"],
        ["2 api-slow: a", "machines deleted", "100", "1"],
        ["3 seed-slow: the seed", "pods restarted", "3000", "1"],
        ["all together", "nodes marked NotReady", "33", "2"],
        ["machines deleted", "300", "1"],
        ["pods restarted", "3000", "1"],
    ]
