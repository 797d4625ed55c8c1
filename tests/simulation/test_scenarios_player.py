"""The player on virtual time: each action begins and ends, in both worlds; pauses, overlap, and who is in a scene."""

import asyncio
import contextlib

import pytest

from app.core.errors import (
    CertificateUntrusted,
    ClusterError,
    CredentialRefused,
    NotFound,
    ServerFault,
    Throttled,
    Unauthorized,
    Unreachable,
)
from app.core.model import workloads as ann
from app.simulation.builders import World
from app.simulation.manifests import SECRET_NAME
from app.simulation.memory import MemoryPlace
from app.simulation.scenarios.actions import ACTIONS
from app.simulation.scenarios.player import Player
from app.simulation.scenarios.scenario import cast, parse_scenario, populate
from app.simulation.store import ObjectKey
from app.simulation.workloads import API_SERVER, ETCD_SERVICE
from tests.simulation.worlds import about, adapters, connect, simulated

A = "shoot--demo--a"
KCM = "kube-controller-manager"


class Lab:
    """Two worlds of the same shoots, and a scenario to be played on both."""

    def __init__(self, world, scenes, *, shoots=4, nodes=4, speed=1.0):
        self.clock, self.tasks = world.clock, world.tasks
        head = "name: mine\nabout: a test\nscenes:\n"
        scenario = parse_scenario(head + scenes, "file.yaml", shoots)
        parts = cast(shoots, nodes)
        self.worlds = [World(self.clock, self.tasks, seed=3, place=MemoryPlace()) for _ in range(2)]
        for each in self.worlds:
            populate(each, parts, health_timeout=30.0)
        self.player = Player(self.clock, self.worlds, scenario, parts, speed=speed)
        self.told = []
        self.player.subscribe(self.hear)
        self.began = self.clock.now()

    def hear(self, performance):
        kind = "begins" if performance.ended is None else "ends"
        self.told.append((self.elapsed, kind, performance.number, performance.shoots))

    @property
    def elapsed(self):
        return round(self.clock.now() - self.began, 3)

    def begin(self):
        return asyncio.ensure_future(self.player.play())

    async def played(self):
        """What was told until the end."""
        await self.player.play()
        return self.told


# When.


@simulated()
async def test_scenes_overlap_each_has_its_own_time(world):
    lab = Lab(
        world, "- {after: 5s, do: path-cut, for: 30s}\n- {after: 10s, do: api-down, for: 5s}\n"
    )
    assert await lab.played() == [
        (5, "begins", 1, ("a",)),
        (15, "begins", 2, ("b",)),
        (20, "ends", 2, ("b",)),
        (35, "ends", 1, ("a",)),
    ]
    assert lab.player.over
    assert lab.player.running == ()


@simulated()
async def test_speed_shortens_the_pauses_and_nothing_else(world):
    scenes = "- {after: 20s, do: path-cut, for: 30s}\n- {afterEnd: 40s, do: path-cut, for: 10s, times: 2, every: 15s}\n"
    lab = Lab(world, scenes, speed=10)
    assert [(at, kind) for at, kind, *_ in await lab.played()] == [
        (2, "begins"),
        (32, "ends"),
        (36, "begins"),
        (61, "ends"),
    ]


@simulated()
async def test_after_the_end_is_after_the_end_of_every_scene_before(world):
    lab = Lab(
        world,
        "- {after: 0s, do: path-cut, for: 60s}\n- {after: 0s, do: path-cut, for: 10s}\n"
        "- {afterEnd: 5s, do: token-rotated}\n",
    )
    assert (await lab.played())[-1] == (65, "ends", 3, ("c",))


@simulated()
async def test_a_scene_of_several_turns_lets_go_between_them(world):
    lab = Lab(world, "- {after: 0s, do: api-down, for: 10s, times: 3, every: 25s}\n")
    playing = lab.begin()
    writable = []
    for at in (6, 16, 26, 36, 46, 56, 66):
        await lab.clock.sleep_until(lab.began + at)
        assert all(each.ends == about(lab.began + 60) for each in lab.player.running)
        writable.append(lab.worlds[0].shoot(A).api.writable)
    assert writable == [False, True, False, True, True, False, True]
    assert [kind for _, kind, *_ in lab.told] == ["begins", "ends"], "told once"
    await playing


@simulated()
async def test_what_is_cancelled_ends_what_it_has_begun(world):
    lab = Lab(world, "- {after: 0s, do: api-down, for: 1h}\n")
    playing = lab.begin()
    await lab.clock.sleep(1)
    assert not lab.worlds[0].shoot(A).api.writable
    playing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await playing
    assert all(each.shoot(A).api.writable for each in lab.worlds)
    assert not lab.player.over


@simulated()
async def test_an_action_that_fails_ends_the_play_with_its_error(world):
    lab = Lab(world, "- {after: 0s, do: kubeconfig-absent, for: 1m}\n")
    lab.worlds[0].store.delete(ObjectKey("Secret", A, SECRET_NAME))
    with pytest.raises(ExceptionGroup) as caught:
        await lab.player.play()
    assert isinstance(caught.value.exceptions[0], NotFound)


# Who.


@simulated()
async def test_scenes_take_shoots_in_turn_those_in_none_first(world):
    scenes = "- {after: 1s, do: path-cut, for: 10s, shoots: 2}\n" * 2
    scenes += "- {after: 20s, do: token-rotated, shoots: 3}\n"
    lab = Lab(world, scenes)
    begun = [shoots for _, kind, _, shoots in await lab.played() if kind == "begins"]
    assert begun == [("a", "b"), ("c", "d")]
    assert lab.told[-1][3] == ("a", "b", "c")


@simulated()
async def test_a_scene_waits_until_a_shoot_is_free_and_takes_fewer_than_it_wants(world):
    scenes = "- {after: 0s, do: path-cut, for: 30s, shoots: 1}\n- {after: 1s, do: path-cut, for: 5s, shoots: 3}\n"
    scenes += "- {after: 1s, do: token-rotated}\n"
    assert await Lab(world, scenes, shoots=2).played() == [
        (0, "begins", 1, ("a",)),
        (1, "begins", 2, ("b",)),
        (6, "ends", 2, ("b",)),
        (6, "ends", 3, ("b",)),
        (30, "ends", 1, ("a",)),
    ]


@simulated()
async def test_named_shoots_may_be_in_several_scenes_at_once(world):
    scenes = "- {after: 0s, do: path-cut, for: 30s, shoots: a}\n"
    scenes += "- {after: 5s, do: storage-away, for: 5s, shoots: [a, c]}\n"
    lab = Lab(world, scenes)
    assert [each[:2] for each in await lab.played()] == [
        (0, "begins"),
        (5, "begins"),
        (10, "ends"),
        (30, "ends"),
    ]


@simulated()
async def test_what_holds_one_change_at_a_time_is_changed_once_at_a_time(world):
    scenes = "- {after: 0s, do: kubeconfig-absent, for: 30s, shoots: a}\n"
    scenes += "- {after: 5s, do: kubeconfig-refused, for: 5s, shoots: b}\n"
    scenes += "- {after: 0s, do: kubeconfig-refused, for: 5s, shoots: all}\n"
    lab = Lab(world, scenes)
    begun = [(at, number) for at, kind, number, _ in await lab.played() if kind == "begins"]
    assert begun == [(0, 1), (5, 2), (30, 3)]
    for each in lab.worlds:
        assert await (await connect(each, A)).version()


@simulated()
async def test_a_seed_wide_scene_has_every_shoot(world):
    lab = Lab(world, "- {after: 0s, do: path-cut, for: 2m, shoots: all}\n")
    playing = lab.begin()
    await lab.clock.sleep(60)
    for each in lab.worlds:
        namespaces = [f"shoot--demo--{name}" for name in "abcd"]
        assert all(len(each.not_ready_nodes(namespace)) == 4 for namespace in namespaces)
    await playing


@simulated()
async def test_the_same_happens_to_the_twin(world):
    lab = Lab(world, "- {after: 0s, do: path-cut, for: 2m, with: {fraction: 0.5}}\n", nodes=10)
    playing = lab.begin()
    await lab.clock.sleep(70)
    mine, twins = (each.not_ready_nodes(A) for each in lab.worlds)
    assert len(mine) == 5
    assert mine == twins
    await playing


# What: each action is seen while it lasts, and gone afterwards.


async def version(world):
    return await (await connect(world, A)).version()


async def leases(world):
    return await (await connect(world, A)).leases()


async def fails(world, call=version):
    try:
        await call(world)
    except (ClusterError, CredentialRefused) as error:
        return type(error)
    return None


async def failure_of_leases(world):
    return await fails(world, leases)


async def slowness(world):
    began = world.clock.now()
    await version(world)
    return world.clock.now() - began > 1


async def seed_call(world):
    return await fails(world, lambda each: adapters(each).seed.read_cluster(A))


async def gets_out(world):
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await world.network.through()
            return True
    return False


async def seed_slowness(world):
    began = world.clock.now()
    await adapters(world).seed.read_cluster(A)
    return world.clock.now() - began > 1


async def asleep(world):
    shoot = (await adapters(world).seed.read_cluster(A)).shoot
    return shoot.hibernation_enabled, await fails(world)


async def operation(world):
    return (await adapters(world).seed.read_cluster(A)).shoot.last_operation.type


async def served(world):
    return world.served(A, ETCD_SERVICE), world.served(A, API_SERVER)


async def expired(world):
    now = world.clock.now()
    return sum(now - lease.renew_time > 20 for lease in world.shoot(A).leases())


async def ahead(world):
    now = world.clock.now()
    return all(lease.renew_time > now + 60 for lease in world.shoot(A).leases())


async def scaled(world):
    kept = ann.IGNORE_SCALING in world.annotations(A, KCM)
    return world.replicas(A, KCM), kept


async def errors(world):
    return ServerFault in [await fails(world) for _ in range(20)]


SEEN = [
    ("path-cut", "", expired, 4, 0),
    ("path-cut", "{zone: zone-a}", expired, 2, 0),
    ("path-cut", "{fraction: 0.25}", expired, 1, 0),
    ("kubelets-dead", "{nodes: 3}", expired, 3, 0),
    ("clocks-off", "{by: 1m}", expired, 4, 0),
    ("clocks-off", "{by: 2m, behind: false}", ahead, True, False),
    ("api-down", "", fails, Unreachable, None),
    ("api-hanging", "", fails, Unreachable, None),
    ("api-slow", "{by: 3s}", slowness, True, False),
    ("api-errors", "{rate: 0.5}", errors, True, False),
    ("api-throttled", "{retryAfter: 3s}", fails, Throttled, None),
    ("storage-away", "{how: fails}", failure_of_leases, ServerFault, None),
    ("storage-away", "", failure_of_leases, Unreachable, None),
    ("etcd-outage", "", served, (False, False), (True, True)),
    ("certificate-untrusted", "", fails, CertificateUntrusted, None),
    ("kubeconfig-absent", "", fails, NotFound, None),
    ("kubeconfig-without-token", "", fails, CredentialRefused, None),
    ("kubeconfig-refused", "", fails, CredentialRefused, None),
    ("hibernation", "", asleep, (True, Unreachable), (False, None)),
    ("migration", "", operation, "Migrate", "Reconcile"),
    ("manual-zero", "", scaled, (0, False), (1, False)),
    ("manual-zero", "{ignoreScaling: true}", scaled, (0, True), (1, False)),
    ("seed-down", "", seed_call, Unreachable, None),
    ("seed-network-cut", "", gets_out, False, True),
    ("seed-slow", "{by: 3s}", seed_slowness, True, False),
]


@pytest.mark.parametrize(("action", "options", "look", "during", "afterwards"), SEEN)
@simulated()
async def test_an_action_begins_and_ends(world, action, options, look, during, afterwards):
    given = f", with: {options}" if options else ""
    shoots = "" if ACTIONS[action].of_seed else ", shoots: a"
    lab = Lab(world, f"- {{after: 1s, do: {action}, for: 1m{shoots}{given}}}\n")
    assert await look(lab.worlds[0]) == afterwards, "before"
    playing = lab.begin()
    await lab.clock.sleep(35)
    assert await asyncio.gather(*map(look, lab.worlds)) == [during, during]
    await playing
    await lab.clock.sleep(30)
    assert await asyncio.gather(*map(look, lab.worlds)) == [afterwards, afterwards]


def test_every_action_that_lasts_is_looked_at_here():
    assert {name for name, *_ in SEEN} == {name for name, action in ACTIONS.items() if action.lasts}


@simulated()
async def test_a_rotated_token_ends_the_former_one_at_once_or_after_an_overlap(world):
    scenes = "- {after: 1s, do: token-rotated, shoots: a}\n"
    scenes += "- {after: 1s, do: token-rotated, shoots: b, with: {overlap: 1m}}\n"
    lab = Lab(world, scenes)
    former = {name: await connect(lab.worlds[0], f"shoot--demo--{name}") for name in "ab"}
    await lab.player.play()
    with pytest.raises(Unauthorized):
        await former["a"].version()
    assert await former["b"].version()
    assert await (await connect(lab.worlds[0], A)).version()


@simulated()
async def test_a_rotated_authority_is_named_by_the_secret(world):
    lab = Lab(world, "- {after: 1s, do: ca-rotated}\n")
    former = await connect(lab.worlds[0], A)
    await lab.player.play()
    with pytest.raises(CertificateUntrusted):
        await former.version()
    assert await (await connect(lab.worlds[0], A)).version()


@simulated()
async def test_who_scaled_by_hand_leaves_a_protection_alone_when_he_takes_it_back(world):
    lab = Lab(world, "- {after: 1s, do: manual-zero, for: 1m}\n")
    playing = lab.begin()
    await lab.clock.sleep(30)
    lab.worlds[0].patch(A, KCM, {"metadata": {"annotations": {ann.MELTDOWN: ""}}})
    await playing
    assert [each.replicas(A, KCM) for each in lab.worlds] == [0, 1]


@simulated()
async def test_what_a_deployment_does_not_have_cannot_be_scaled_by_hand(world):
    lab = Lab(world, "- {after: 1s, do: manual-zero, for: 1m}\n")
    for each in lab.worlds:
        each.store.delete(ObjectKey("Deployment", A, KCM))
    assert len(await lab.played()) == 2
