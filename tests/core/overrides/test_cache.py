"""What a process knows of the overrides: what its watches show, what it wrote itself, and what time ends."""

import pytest

from app.core.errors import Forbidden, Unreachable
from app.core.kube.custom_objects import CustomObjects
from app.core.model.overrides import Scope
from app.simulation.traffic import Trouble
from tests.core.overrides.replicas import HOME, OTHER, SHOOT

TROUBLES = {
    "down": lambda faults: faults.seed_down(),
    "silent": lambda faults: faults.seed_trouble(Trouble(silent=True)),
}


async def test_what_kubectl_makes_is_in_force_within_a_second_and_until_it_is_deleted(replica):
    replica.world.people.create("Pause", SHOOT, "mine", reason="r", scope="scaleDown")
    await replica.run(1)
    found = replica.acting()
    assert (found.scope, found.author, found.verified) == (Scope.SCALE_DOWN, "unknown", False)
    assert found.until == found.created_at + 86_400
    assert replica.acting(OTHER) is None
    assert replica.cache.paused(SHOOT) is None, "the weeder goes on: it scales nothing down"
    replica.world.people.delete("Pause", SHOOT, "mine")
    await replica.run(1)
    assert replica.acting() is None


async def test_a_pause_in_the_own_namespace_is_of_all_shoots(replica):
    replica.world.people.create("Pause", HOME, "all", reason="r")
    await replica.run(1)
    assert replica.acting(OTHER) == replica.cache.global_pause() == replica.acting()
    assert str(replica.cache.paused(OTHER)).startswith("all shoots are paused by unknown until ")


async def test_listeners_hear_of_the_shoot_that_is_concerned_and_of_each_end(replica):
    heard = []
    replica.cache.subscribe(lambda namespace: heard.append((namespace, replica.now)))
    await replica.pause(seconds=60)
    await replica.run(70)
    assert {namespace for namespace, _ in heard} == {SHOOT}
    assert any(at == pytest.approx(replica.now - 10, abs=2) for _, at in heard)
    heard.clear()
    await replica.pause(None)
    assert {namespace for namespace, _ in heard} == {None}


async def test_a_watch_that_lags_does_not_bring_back_what_our_own_write_has_replaced(lab):
    replica = lab.replica(lab.world(watch_delay=5.0))
    await lab.clock.sleep(10)
    await replica.pause(reason="first")
    await lab.clock.sleep(2)
    await replica.pause(reason="second")
    for _ in range(20):
        assert replica.acting().reason == "second"
        await lab.clock.sleep(0.5)


async def test_a_change_by_somebody_else_overtakes_our_own_write(replica):
    await replica.pause()
    replica.world.people.delete("Pause", SHOOT, "api")
    await replica.run(1)
    assert replica.acting() is None


async def test_what_we_wrote_stays_in_force_while_a_mute_watch_does_not_show_it(replica):
    replica.world.faults.overrides_watch_stalled()
    await replica.pause()
    await replica.run(300)
    assert replica.acting() is not None
    await replica.resume()
    await replica.run(100)
    assert replica.acting() is None


async def test_what_we_ended_is_not_brought_back_by_a_mute_watch(replica):
    await replica.pause()
    await replica.run(5)
    replica.world.faults.overrides_watch_stalled()
    await replica.resume()
    for _ in range(30):
        assert replica.acting() is None
        await replica.run(5)


@pytest.mark.parametrize(
    ("happens", "still", "gone"),
    [
        pytest.param(
            lambda world: world.people.delete("Pause", SHOOT, "api"), 20, 50, id="deleted"
        ),
        pytest.param(
            lambda world: world.faults.crds_removed(), 0, 120, id="gone with its definition"
        ),
    ],
)
async def test_what_we_wrote_and_no_watch_showed_is_gone_in_the_end(replica, happens, still, gone):
    replica.world.faults.overrides_watch_stalled()
    await replica.pause()
    happens(replica.world)
    await replica.run(still)
    assert replica.acting() is not None
    await replica.run(gone - still)
    assert replica.acting() is None


async def test_one_that_cannot_be_read_again_does_not_keep_the_others_from_it(replica, monkeypatch):
    replica.world.faults.overrides_watch_stalled()
    await replica.pause(OTHER)
    await replica.pause(SHOOT)
    replica.world.people.delete("Pause", SHOOT, "api")
    read = CustomObjects._get

    async def refuses_one(objects, namespace, *more):
        if namespace == OTHER:
            raise Forbidden("get pauses")
        return await read(objects, namespace, *more)

    monkeypatch.setattr(CustomObjects, "_get", refuses_one)
    await replica.run(50)
    assert (replica.acting(OTHER) is None, replica.acting(SHOOT)) == (False, None)


async def test_overrides_that_never_could_be_read_count_as_none_after_a_minute(lab):
    world = lab.world()
    fault = world.faults.overrides_away()
    replica = lab.replica(world)
    await replica.seed_answers()
    await lab.clock.sleep(50)
    assert (replica.cache.synced, replica.cache.features_off()) == (False, {})
    await lab.clock.sleep(20)
    assert replica.cache.synced
    assert replica.cache.features_off().keys() == {"pauses", "scalerequests"}
    fault.lift()
    await lab.clock.sleep(60)
    assert replica.cache.troubles() == {}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_while_the_seed_has_never_answered_anything_overrides_do_not_count_as_none(
    lab, trouble
):
    world = lab.world()
    fault = trouble(world.faults)
    replica = lab.replica(world)
    await lab.clock.sleep(300)
    assert not replica.cache.synced
    fault.lift()
    await lab.clock.sleep(60)
    assert (replica.cache.synced, replica.cache.features_off()) == (True, {})


@pytest.mark.parametrize("trouble", ["forbidden", "absent"])
async def test_without_the_right_or_the_definitions_the_features_are_off_until_they_are_there(
    lab, trouble
):
    world = lab.world()
    faults = world.faults
    fault = faults.overrides_forbidden() if trouble == "forbidden" else faults.crds_removed()
    replica = lab.replica(world)
    await lab.clock.sleep(40)
    assert replica.cache.synced
    assert replica.cache.features_off().keys() == {"pauses", "scalerequests"}
    assert replica.sample("dwd_feature_off", feature="pauses") == 1
    fault.lift()
    await lab.clock.sleep(70)
    assert replica.cache.features_off() == {}
    assert replica.sample("dwd_feature_off", feature="pauses") == 0
    await replica.pause()


async def test_each_feature_is_on_or_off_by_itself(lab):
    world = lab.world()
    world.faults.crds_removed("ScaleRequest")
    replica = lab.replica(world)
    await lab.clock.sleep(40)
    assert replica.cache.features_off().keys() == {"scalerequests"}
    await replica.pause()
    assert replica.acting() is not None


@pytest.mark.parametrize("trouble", ["forbidden", "away", "cut"])
async def test_what_cannot_be_read_any_more_stays_as_it_was_and_is_reported(replica, trouble):
    await replica.pause(seconds=3_600)
    faults = replica.world.faults
    begin = {
        "forbidden": faults.overrides_forbidden,
        "away": faults.overrides_away,
        "cut": faults.overrides_watch_cut,
    }[trouble]
    fault = begin()
    await replica.run(300)
    assert replica.acting() is not None
    assert replica.cache.troubles().keys() == {"pauses", "scalerequests"}
    fault.lift()
    await replica.run(120)
    assert replica.cache.troubles() == {}


async def test_over_a_stale_watch_a_decision_reads_live(replica):
    with replica.world.faults.overrides_watch_cut():
        await replica.run(120)
        replica.world.people.create("Pause", SHOOT, "mine", reason="r")
        replica.world.people.create("Pause", HOME, "all", reason="r")
    assert replica.acting() is None
    await replica.cache.refresh(SHOOT)
    assert len(replica.cache.effective(SHOOT).pauses) == 2
    with replica.world.faults.seed_down(), pytest.raises(Unreachable):
        await replica.cache.refresh(SHOOT)


async def test_a_fresh_watch_is_trusted_without_a_request(replica):
    replica.world.requests.reset()
    await replica.cache.refresh(SHOOT)
    assert replica.world.requests.total() == 0
