"""Weed now: a person asks for a recovery; same rules, same caps, same pace."""

import pytest

from app.core.errors import LeadershipLost, NotFound, NotKnownYet, Refused
from app.core.model.weeding import Cause, End, KeepReason, Phase, ServiceKey
from app.simulation.leadership import SimulatedLeadership, SimulatedPauses
from app.weeder.messages import _NAME
from tests.support.weeding import API, ETCD, NAMESPACE

SCHEDULER = "kube-scheduler"
PAUSED = "paused by carol until 15:00: moving etcd"


def weed(stand, key=API, *, force=False, reason="it hangs", author="alice"):
    return stand.weeder.controller.weed_now(key, author=author, reason=reason, force=force)


async def ready(stage, **options):
    """A control plane that has been well for long; nothing is weeded by itself."""
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    stand = stage.weeder(world, **options)
    await stand.run(5)
    assert stand.recoveries() == ()
    return stand


async def test_pods_that_wait_are_deleted_for_the_whole_watch_duration(stage):
    stand = await ready(stage)
    stand.crash(SCHEDULER)
    asked = weed(stand)
    assert (asked.cause, asked.asked.author, asked.asked.reason) == (
        Cause.ASKED,
        "alice",
        "it hangs",
    )
    assert asked.until - asked.began == 300
    await stand.run(1)
    assert len(stand.names()) == 1
    await stand.run(300)
    assert stand.recovery().end is End.COMPLETED


async def test_the_rules_are_those_of_every_recovery(stage):
    stand = await ready(stage)
    stand.crash(SCHEDULER, restarts=1)
    weed(stand)
    await stand.run(1)
    assert stand.names() == []
    reasons = {each.pod[: len(SCHEDULER)]: each.reason for each in stand.recovery().spared}
    assert reasons[SCHEDULER] is KeepReason.SHORT_BACKOFF


async def test_so_are_the_caps_however_often_it_is_asked_for(stage):
    stand = await ready(stage, max_deletions_per_workload=1)
    for _ in range(3):
        stand.crash(SCHEDULER)
        weed(stand)
        await stand.run(3)
    assert len(stand.names()) == 1


async def test_what_runs_is_replaced(stand):
    await stand.recover()
    weed(stand)
    assert [each.cause for each in stand.recoveries()] == [Cause.ASKED, Cause.BECAME_READY]
    assert stand.recoveries()[1].end is End.REPLACED


async def test_after_three_within_watch_duration_the_next_waits(stage):
    stand = await ready(stage)
    for _ in range(3):
        weed(stand)
        await stand.run(1)
    waits = weed(stand)
    assert waits.phase is Phase.WAITING
    assert waits.due - waits.began == 30


async def test_who_asks_again_while_it_waits_does_not_put_it_off(stage):
    stand = await ready(stage)
    for _ in range(3):
        weed(stand)
        await stand.run(1)
    due = weed(stand).due
    for _ in range(5):
        await stand.run(7)
        if stand.now < due:
            assert weed(stand).due == due
    await stand.until(lambda: stand.recovery().phase is Phase.WATCHING, within=1)
    assert stand.now < due + 6


async def test_a_service_that_is_lost_ends_it(stage):
    stand = await ready(stage)
    weed(stand)
    await stand.lose()
    assert stand.recovery().end is End.LOST


# Refused.


async def test_a_service_that_is_not_ready_is_refused_and_nothing_begins(stand):
    await stand.lose()
    with pytest.raises(Refused, match="kube-apiserver is not ready"):
        weed(stand, force=True)
    assert stand.recoveries() == ()


@pytest.mark.parametrize("key", [ServiceKey(NAMESPACE, "other"), ServiceKey("other", API.service)])
async def test_a_service_that_nobody_knows_is_not_found(stand, key):
    await stand.run(1)
    with pytest.raises(NotFound, match="nothing is known about"):
        weed(stand, key)


async def test_a_standby_refuses_and_one_that_led_too(stage):
    leadership = SimulatedLeadership(leading=False)
    stand = await ready(stage, leadership=leadership)
    with pytest.raises(LeadershipLost):
        weed(stand)
    leadership.become(leading=True)
    weed(stand)
    leadership.become(leading=False)
    with pytest.raises(LeadershipLost):
        weed(stand)
    assert stand.recovery().end is End.NOT_LEADER


async def test_a_process_that_ends_refuses(stage):
    stand = await ready(stage)
    await stand.weeder.stop()
    with pytest.raises(LeadershipLost, match="ending"):
        weed(stand)


async def test_a_paused_namespace_is_refused_and_the_pause_is_named(stand):
    await stand.run(1)
    stand.world.pauses.pause(NAMESPACE, PAUSED)
    with pytest.raises(Refused, match=PAUSED):
        weed(stand)
    assert stand.recoveries() == ()


async def test_before_it_is_known_what_is_paused_it_is_refused_forced_or_not(stage):
    pauses = SimulatedPauses()
    pauses.synced = False
    stand = await ready(stage, pauses=pauses)
    for force in (False, True):
        with pytest.raises(NotKnownYet, match="have not been read yet"):
            weed(stand, force=force)


# In spite of a pause.


async def test_a_forced_one_goes_on_in_spite_of_the_pause(stand):
    await stand.run(1)
    stand.world.pauses.pause(NAMESPACE, PAUSED)
    stand.crash(SCHEDULER)
    weed(stand, force=True)
    await stand.run(1)
    assert len(stand.names()) == 1


async def test_others_of_the_namespace_stay_paused_meanwhile(stand):
    await stand.run(1)
    stand.world.pauses.pause(NAMESPACE, PAUSED)
    weed(stand, ETCD, force=True)
    await stand.recover(SCHEDULER)
    await stand.run(10)
    assert stand.names() == []


async def test_the_next_recovery_of_the_service_is_paused_as_ever(stand):
    await stand.run(1)
    stand.world.pauses.pause(NAMESPACE, PAUSED)
    weed(stand, force=True)
    await stand.recover(SCHEDULER)
    await stand.run(10)
    assert stand.recovery().cause is Cause.BECAME_READY
    assert stand.names() == []


async def test_a_pause_that_comes_later_stops_it(stand):
    """Else nobody could stop what goes wrong."""
    await stand.run(1)
    stand.world.pauses.pause(NAMESPACE, PAUSED)
    weed(stand, force=True)
    stand.world.pauses.pause(NAMESPACE, "paused by dave until 16:00: stop")
    stand.crash(SCHEDULER)
    await stand.run(10)
    assert stand.names() == []


async def test_force_where_nothing_is_paused_is_no_licence_against_a_later_pause(stand):
    await stand.run(1)
    weed(stand, force=True)
    stand.world.pauses.pause(NAMESPACE, PAUSED)
    stand.crash(SCHEDULER)
    await stand.run(10)
    assert stand.names() == []


# Told.


async def test_who_asked_and_why_is_told_and_is_an_event_on_the_service(stage):
    stand = await ready(stage)
    weed(stand, reason="KCM\x1b hangs")
    (told,) = stand.told("WeedingStarted")
    assert told.message.startswith("alice requested weeding for kube-apiserver (KCM hangs): pods")
    assert told.event
    assert (told.resource.kind, told.resource.name) == ("Service", "kube-apiserver")
    assert (told.numbers["author"], told.numbers["action"]) == ("alice", "Weed")


async def test_the_pause_that_was_overridden_is_told(stand):
    await stand.run(1)
    stand.world.pauses.pause(NAMESPACE, PAUSED)
    weed(stand, force=True, reason="")
    (told,) = stand.told("WeedingStarted")
    assert told.message.startswith(
        f"alice requested weeding for kube-apiserver, despite: {PAUSED}: pods"
    )


async def test_one_that_waits_is_an_event_too(stage):
    stand = await ready(stage)
    for _ in range(4):
        weed(stand)
        await stand.run(1)
    (told,) = stand.told("WeedingDelayed")
    assert told.event
    assert "this one waits 30 s" in told.message


async def test_each_deletion_names_who_asked(stage):
    stand = await ready(stage)
    stand.crash(SCHEDULER)
    weed(stand, author="a" * 500)
    await stand.run(1)
    (told,) = stand.told("PodWeeded")
    assert f"{'a' * (_NAME - 1)}… requested weeding for kube-apiserver: " in told.message


async def test_a_recovery_that_nobody_asked_for_is_no_event_and_names_nobody(stand):
    await stand.recover(SCHEDULER)
    (told,) = stand.told("WeedingStarted")
    assert not told.event
    assert "author" not in told.numbers
    assert stand.recovery().asked is None


async def test_in_a_dry_run_nothing_is_deleted_when_asked_for_either(stage):
    stand = await ready(stage, dry_run=True)
    stand.crash(SCHEDULER)
    weed(stand)
    await stand.run(2)
    assert stand.seed.sent == []


async def test_the_control_planes_that_have_services_are_known(stage):
    stand = await ready(stage)
    assert stand.weeder.controller.namespaces() == {NAMESPACE}


async def test_before_the_services_are_listed_nobody_knows_which_there_are(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    assert stage.weeder(world).weeder.controller.namespaces() is None
