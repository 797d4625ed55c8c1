"""Weed now: a person asks for a recovery; same rules, same caps, same pace."""

import pytest

from app.core.errors import LeadershipLost, NotFound, NotKnownYet, Refused
from app.core.model.weeding import Cause, End, Phase, ServiceKey
from app.weeder.messages import _NAME
from tests.support.doubles import SetLeadership, SetPauses
from tests.support.weeding import API, ETCD, NAMESPACE, SCHEDULER

PAUSED = "paused by carol until 15:00: moving etcd"


def weed(harness, key=API, *, force=False, reason="it hangs", author="alice"):
    return harness.weeder.controller.weed_now(key, author=author, reason=reason, force=force)


async def ready(lab, **options):
    """A control plane that has been well for long; nothing is weeded by itself."""
    harness = lab.control_plane(**options)
    await harness.run(5)
    assert harness.recoveries() == ()
    return harness


async def test_pods_that_wait_are_deleted_for_the_whole_watch_duration(lab):
    harness = await ready(lab)
    harness.crash(SCHEDULER)
    asked = weed(harness)
    assert (asked.cause, asked.asked.author, asked.asked.reason) == (
        Cause.ASKED,
        "alice",
        "it hangs",
    )
    assert asked.until - asked.began == 300
    await harness.run(1)
    assert len(harness.names()) == 1
    await harness.run(300)
    assert harness.recovery().end is End.COMPLETED


async def test_who_asks_again_while_it_waits_does_not_put_it_off(lab):
    harness = await ready(lab)
    for _ in range(3):
        weed(harness)
        await harness.run(1)
    waits = weed(harness)
    assert (waits.phase, waits.due - waits.began) == (Phase.WAITING, 30)
    due = waits.due
    for _ in range(5):
        await harness.run(7)
        if harness.now < due:
            assert weed(harness).due == due
    await harness.until(lambda: harness.recovery().phase is Phase.WATCHING, within=1)
    assert harness.now < due + 6


# Refused.


async def test_a_service_that_is_not_ready_is_refused_and_nothing_begins(harness):
    await harness.lose()
    with pytest.raises(Refused, match="kube-apiserver is not ready"):
        weed(harness, force=True)
    assert harness.recoveries() == ()


@pytest.mark.parametrize("key", [ServiceKey(NAMESPACE, "other"), ServiceKey("other", API.service)])
async def test_a_service_that_nobody_knows_is_not_found(harness, key):
    await harness.run(1)
    with pytest.raises(NotFound, match="nothing is known about"):
        weed(harness, key)


async def test_a_standby_refuses_and_one_that_led_too(lab):
    leadership = SetLeadership(leading=False)
    harness = await ready(lab, leadership=leadership)
    with pytest.raises(LeadershipLost, match=r"^only the leader of the weeder deletes pods"):
        weed(harness)
    leadership.become(leading=True)
    weed(harness)
    leadership.become(leading=False)
    with pytest.raises(LeadershipLost):
        weed(harness)
    assert harness.recovery().end is End.NOT_LEADER


async def test_a_process_that_ends_refuses(lab):
    harness = await ready(lab)
    await harness.weeder.stop()
    with pytest.raises(LeadershipLost, match=r"^this process is ending$"):
        weed(harness)


async def test_a_paused_namespace_is_refused_and_the_pause_is_named(harness):
    await harness.run(1)
    harness.pauses.pause(NAMESPACE, PAUSED)
    with pytest.raises(Refused, match=PAUSED):
        weed(harness)
    assert harness.recoveries() == ()


async def test_before_it_is_known_what_is_paused_it_is_refused_forced_or_not(lab):
    pauses = SetPauses()
    pauses.synced = False
    harness = await ready(lab, pauses=pauses)
    for force in (False, True):
        with pytest.raises(NotKnownYet, match=r"^the overrides have not been read yet"):
            weed(harness, force=force)


# In spite of a pause.


async def test_a_forced_one_goes_on_in_spite_of_the_pause(harness):
    await harness.run(1)
    harness.pauses.pause(NAMESPACE, PAUSED)
    harness.crash(SCHEDULER)
    weed(harness, force=True)
    await harness.run(1)
    assert len(harness.names()) == 1


@pytest.mark.parametrize("forced", [API, ETCD], ids=["the next", "another service"])
async def test_other_recoveries_stay_paused_meanwhile(harness, forced):
    await harness.run(1)
    harness.pauses.pause(NAMESPACE, PAUSED)
    weed(harness, forced, force=True)
    await harness.recover(SCHEDULER)
    await harness.run(10)
    assert harness.recovery().cause is Cause.BECAME_READY
    assert harness.names() == []


@pytest.mark.parametrize("paused", [True, False], ids=["despite a pause", "without need"])
async def test_a_pause_that_comes_later_stops_what_was_forced(harness, paused):
    """Else nobody could stop what goes wrong."""
    await harness.run(1)
    if paused:
        harness.pauses.pause(NAMESPACE, PAUSED)
    weed(harness, force=True)
    harness.pauses.pause(NAMESPACE, "paused by dave until 16:00: stop")
    harness.crash(SCHEDULER)
    await harness.run(10)
    assert harness.names() == []


# Told.


async def test_who_asked_and_why_is_told_and_is_an_event_on_the_service(lab):
    harness = await ready(lab)
    weed(harness, reason="KCM\x1b hangs")
    (told,) = harness.told("WeedingStarted")
    assert told.message.startswith("alice requested weeding for kube-apiserver (KCM hangs): pods")
    assert told.event
    assert (told.resource.kind, told.resource.name) == ("Service", "kube-apiserver")
    assert (told.author, told.action) == ("alice", "Weed")


async def test_the_pause_that_was_overridden_is_told(harness):
    await harness.run(1)
    harness.pauses.pause(NAMESPACE, PAUSED)
    weed(harness, force=True, reason="")
    (told,) = harness.told("WeedingStarted")
    assert told.message.startswith(
        f"alice requested weeding for kube-apiserver, despite: {PAUSED}: pods"
    )


async def test_one_that_waits_is_an_event_too(lab):
    harness = await ready(lab)
    for _ in range(4):
        weed(harness)
        await harness.run(1)
    (told,) = harness.told("WeedingDelayed")
    assert told.event
    assert "this one waits 30 s" in told.message


async def test_each_deletion_names_who_asked(lab):
    harness = await ready(lab)
    harness.crash(SCHEDULER)
    weed(harness, author="a" * 500)
    await harness.run(1)
    (told,) = harness.told("PodWeeded")
    assert f"{'a' * (_NAME - 1)}… requested weeding for kube-apiserver: " in told.message


async def test_a_recovery_that_nobody_asked_for_is_no_event_and_names_nobody(harness):
    await harness.recover(SCHEDULER)
    (told,) = harness.told("WeedingStarted")
    assert not told.event
    assert told.author is None
    assert harness.recovery().asked is None


async def test_the_control_planes_that_have_services_are_known(lab):
    assert (await ready(lab)).weeder.controller.namespaces() == {NAMESPACE}


async def test_before_the_services_are_listed_nobody_knows_which_there_are(lab):
    assert lab.control_plane().weeder.controller.namespaces() is None
