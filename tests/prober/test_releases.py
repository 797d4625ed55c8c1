"""A protection that lasts for `maxProtectionDuration` is let go, with a hold as long."""

import asyncio

import pytest

from app.core.model.instants import rfc3339
from app.core.model.overrides import Scope
from app.core.model.probing import ShootState, VerdictReason
from app.simulation.traffic import Trouble
from tests.prober.people import REQUEST, UP, again, with_operator
from tests.support.doubles import SetLeadership
from tests.support.harness import KCM, SHOOT

MOST = 300.0


@pytest.fixture
async def operator(lab, virtual_time):
    """Somebody at a shoot whose protection has just become complete, in an outage that goes on."""
    with virtual_time():
        operator = await with_operator(lab, max_protection=MOST)
        operator.faults.path_cut(SHOOT).__enter__()
        await operator.protect()
    return operator


def released(operator) -> bool:
    return bool(operator.told("ProtectionReleased"))


async def test_it_is_released_when_its_time_is_over_and_held_for_as_long(operator):
    since = operator.status().protected_since
    assert since is not None
    at = await operator.until(lambda: released(operator), within=MOST)
    assert MOST <= at - since < MOST + 2.5
    (notice,) = operator.told("ProtectionReleased")
    assert notice.event
    assert notice.resource is not None
    assert "maxProtectionDuration" in notice.message
    assert "held for 300 s" in notice.message
    await operator.until(lambda: operator.replicas() == (1, 1, 1), within=120)
    hold = operator.hold()
    assert hold is not None
    assert (hold.author, hold.direction) == ("dependency-watchdog", UP)
    (made,) = operator.objects()
    assert made["spec"]["author"] == "dependency-watchdog"
    await operator.run(MOST - 100)
    assert operator.reason() is VerdictReason.HELD
    assert operator.replicas() == (1, 1, 1), "the outage goes on, and nothing is scaled"


async def test_after_its_hold_an_outage_that_goes_on_is_protected_again(operator):
    await operator.until(lambda: released(operator), within=MOST)
    ended = await operator.done(within=60)
    await operator.run(MOST)
    await operator.until(lambda: operator.replicas() == (0, 0, 0), within=10)
    assert rfc3339(operator.now) > str(ended["holdUntil"])


async def test_it_waits_for_the_end_of_a_wide_pause(operator):
    await operator.pause(Scope.ALL, seconds=2 * MOST)
    await operator.run(2 * MOST - 30)
    assert not released(operator)
    await operator.until(lambda: released(operator), within=60)


async def test_it_waits_where_a_stale_watch_may_hide_a_pause(operator, monkeypatch):
    reflector = operator.environment.overrides._pauses._reflector
    monkeypatch.setattr(reflector, "_once", asyncio.Event().wait)
    operator.world.watches.cut("Pause")
    operator.kubectl.create("Pause", SHOOT, "mine", reason="hands off")
    with operator.faults.seed_trouble(Trouble(refused=True, what=frozenset({"pauses"}))):
        await operator.run(MOST)
        assert len(operator.told("ProtectionNotReleased")) == 1, "nobody can tell"
    await operator.run(120)
    assert len(operator.told("ProtectionNotReleased")) == 1, "it was read"
    assert not released(operator)


async def test_a_pause_of_scaling_down_does_not_delay_it(operator):
    await operator.pause(Scope.SCALE_DOWN, seconds=2 * MOST)
    await operator.until(lambda: released(operator), within=MOST)


async def test_it_waits_for_the_end_of_a_hold(operator):
    operator.request("Down", hold="24h")
    await operator.run(2 * MOST)
    assert not released(operator)
    operator.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
    await operator.until(lambda: released(operator), within=5)


async def test_without_the_right_to_write_overrides_it_is_not_released_and_that_is_reported(
    operator,
):
    fault = operator.faults.overrides_forbidden("create")
    await operator.run(MOST + 130)
    assert operator.replicas() == (0, 0, 0)
    found = operator.told("ProtectionNotReleased")
    assert 2 <= len(found) <= 4, "once a minute"
    assert "403" in found[0].message
    fault.lift()
    await operator.until(lambda: released(operator), within=65)


async def test_what_is_not_to_be_released_before_its_time_is_forgotten_after_it(operator):
    releases = operator.prober._releases
    await operator.until(lambda: released(operator), within=MOST)
    operator.faults.cluster_gone(SHOOT)
    await operator.run(MOST - 60)
    assert list(releases._not_before) == [SHOOT]
    await operator.run(65)
    assert releases._not_before == {}


async def test_a_release_that_fails_is_not_tried_again_before_its_time(operator):
    operator.faults.pods_stuck(SHOOT, KCM)
    await operator.until(lambda: released(operator), within=MOST)
    await operator.until(lambda: operator.told("ScaleRequestFailed"), within=90)
    await operator.until(lambda: operator.state() is ShootState.PROTECTED, within=60)
    await operator.run(MOST - 100)
    assert len(operator.told("ProtectionReleased")) == 1
    await operator.until(lambda: len(operator.told("ProtectionReleased")) == 2, within=120)


async def test_who_deletes_the_object_of_a_release_has_the_shoot_protected_for_as_long_again(
    operator,
):
    await operator.until(lambda: released(operator), within=MOST)
    (made,) = operator.objects()
    operator.kubectl.delete("ScaleRequest", SHOOT, made["metadata"]["name"])
    await operator.until(lambda: operator.state() is ShootState.PROTECTED, within=60)
    await operator.run(MOST - 60)
    assert len(operator.told("ProtectionReleased")) == 1
    assert operator.replicas() == (0, 0, 0)


async def test_a_release_ends_with_the_probing_of_its_shoot(operator):
    await operator.until(lambda: operator.told("FlowStarted")[1:], within=MOST)
    operator.faults.hibernated(SHOOT)
    ended = await operator.done(within=5)
    assert not operator.runs()
    assert ended["phase"] == "Cancelled"


async def test_a_restart_does_not_begin_the_time_anew(operator):
    await operator.run(MOST - 60)
    await operator.kill()
    following = again(operator)
    await following.until(lambda: released(following), within=120)


async def test_a_standby_releases_nothing(lab, operator):
    standby = lab.prober(
        operator.world, leadership=SetLeadership(leading=False), max_protection=MOST
    )
    await standby.run(MOST + 20)
    assert not standby.told("ProtectionReleased")


# Of several at once, each is judged when its turn comes.


OTHER = "shoot--local--b"


async def both_due(lab):
    """Two shoots whose protection is over; the object that releases the first is being made, which takes 9 s."""
    operator = await with_operator(lab, max_protection=MOST, settle=0)
    world, harness = operator.world, operator
    world.add_shoot(OTHER)
    await harness.run(60)
    for namespace in (SHOOT, OTHER):
        world.faults.path_cut(namespace).__enter__()
    await harness.until(lambda: all(harness.status(n).protected_since for n in (SHOOT, OTHER)), 120)
    world.faults.seed_trouble(
        Trouble(latency=9.0, verbs=frozenset({"create"}), what=frozenset({"scalerequests"}))
    )
    await harness.until(lambda: world.store.list("ScaleRequest"), within=2 * MOST)
    (made,) = world.store.list("ScaleRequest")
    first = made["metadata"]["namespace"]
    return operator, first, OTHER if first == SHOOT else SHOOT


def let_go(operator, namespace):
    return operator.told("ProtectionReleased", namespace)


@pytest.mark.parametrize("kind", ["Pause", "ScaleRequest"])
async def test_what_somebody_decides_while_another_one_is_released_counts(lab, kind):
    operator, first, second = await both_due(lab)
    spec = {"direction": "Down"} if kind == "ScaleRequest" else {}
    operator.kubectl.create(kind, second, "mine", reason="hands off", **spec)
    await operator.run(100)
    assert let_go(operator, first)
    assert not let_go(operator, second)
    assert operator.replicas(second) == (0, 0, 0)


async def test_a_shoot_that_is_not_probed_any_more_is_not_released(lab):
    operator, _, second = await both_due(lab)
    operator.faults.hibernated(second)
    await operator.run(100)
    assert not let_go(operator, second)
    assert not operator.world.store.list("ScaleRequest", second)


async def test_a_pause_that_comes_while_its_own_object_is_made_does_not_stop_the_release(lab):
    """The object decides: a pause that comes after it stops no manual scaling run."""
    operator, first, _ = await both_due(lab)
    operator.kubectl.create("Pause", first, "mine", reason="hands off")
    await operator.until(lambda: let_go(operator, first), within=30)
    await operator.until(lambda: operator.replicas(first) == (1, 1, 1), within=60)
