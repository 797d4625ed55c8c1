"""What begins a recovery, what it watches, and what ends it."""

import asyncio

import pytest

from app.core.model.names import LabelSelector
from app.core.model.weeding import Cause, End, KeepReason, Phase, ServiceKey, WeederPolicy
from app.simulation.faults import PodWatched
from app.simulation.store import ObjectKey
from app.weeder.recovery import CalledOff
from tests.support import weeding

OTHER = "shoot--local--b"


async def test_after_an_outage_of_etcd_the_chain_is_restarted_link_by_link(harness):
    world = harness.world
    await harness.run(5)
    with world.faults.workload_broken(weeding.NAMESPACE, "etcd-main"):
        await harness.run(300)
    assert len(harness.waiting()) >= 6
    await harness.until(lambda: world.served(*weeding.ETCD), within=100)
    await harness.until(lambda: world.served(*weeding.API), within=15)
    await harness.until(lambda: not harness.waiting(), within=15)
    assert {each.pod[:14] for each in harness.recovery(weeding.ETCD).deletions} == {
        "kube-apiserver"
    }
    assert len(harness.recovery(weeding.API).deletions) == 5
    spared = [each.remaining for each in harness.recovery(weeding.API).deletions]
    assert sum(spared) > 200, "so much waiting"


async def test_only_pods_of_its_own_namespace_are_weeded(harness):
    harness.world.add_control_plane(OTHER)
    harness.crash(weeding.SCHEDULER, namespace=OTHER)
    await harness.recover(weeding.SCHEDULER)
    assert len(harness.names(weeding.NAMESPACE)) == 1
    assert harness.names(OTHER) == []


async def test_what_crashes_later_is_weeded_until_watch_duration_is_over(harness):
    back = await harness.recover()
    await harness.run(280)
    harness.crash(weeding.SCHEDULER)
    await harness.run(25)
    harness.crash("cloud-controller-manager")
    await harness.run(30)
    assert [name[:14] for name in harness.names()] == ["kube-scheduler"]
    ended = harness.recovery()
    assert ended.end is End.COMPLETED
    assert ended.ended - back == pytest.approx(300, abs=0.2)


async def test_a_watch_is_opened_only_for_a_recovery_and_closed_at_its_end(harness):
    await harness.run(100)
    assert harness.seed.most_watches == 0
    assert harness.world.requests.total(what="pods", verb="watch") == 0
    await harness.recover()
    assert harness.seed.open_watches == 1
    assert harness.count("dwd_weeder_watches_active") == 1
    await harness.run(300)
    assert harness.seed.open_watches == 0
    assert harness.count("dwd_weeder_watches_active") == 0


async def test_several_selectors_are_one_watch(lab):
    both = (
        LabelSelector((weeding.CONTROL_PLANE, weeding.requirement("role", "In", "scheduler"))),
        LabelSelector((weeding.requirement("role", "Exists"),)),
    )
    harness = lab.control_plane(WeederPolicy({weeding.API.service: both}))
    await harness.recover(weeding.SCHEDULER, "etcd-main")
    assert harness.seed.watched == [None]
    assert harness.seed.most_watches == 1
    assert len(harness.names()) == 2, "each once, also where both selectors match"


async def test_of_one_selector_the_server_selects(harness):
    await harness.recover(weeding.SCHEDULER)
    assert harness.seed.watched == [weeding.GARDENER_WEEDER.services[weeding.API.service][0]]


async def test_a_watch_that_never_syncs_ends_with_its_time_and_says_what_it_suffers_from(harness):
    away = harness.world.faults.pod_watch_cut(PodWatched.PODS)
    await harness.recover(weeding.SCHEDULER, settle=20)
    assert "no answer (ConnectionCut)" in harness.recovery().trouble
    assert harness.recovery().phase is Phase.OPENING
    await harness.run(300)
    assert harness.recovery().end is End.COMPLETED
    assert "no answer (ConnectionCut)" in harness.recovery().trouble, "it found nothing to delete"
    assert "no answer (ConnectionCut)" in harness.told("WeedingEnded")[0].message
    assert harness.seed.open_watches == 0
    away.lift()


async def test_a_cut_watch_misses_no_pod(harness):
    await harness.recover()
    with harness.world.faults.pod_watch_cut(PodWatched.PODS):
        harness.crash(weeding.SCHEDULER)
        await harness.run(5)
        assert harness.names() == []
    await harness.run(10)
    assert len(harness.names()) == 1


async def test_past_recoveries_are_kept_five_of_a_service(harness):
    for _ in range(8):
        await harness.recover()
        await harness.run(301)
    assert len(harness.recoveries()) == 6
    ids = [each.id for each in harness.recoveries()]
    assert ids == sorted(ids, reverse=True)


async def test_beyond_the_services_that_are_remembered_those_that_run_stay(harness, monkeypatch):
    monkeypatch.setattr("app.weeder.recovery._SERVICES", 1)
    harness.world.add_control_plane(OTHER)
    third = "shoot--local--c"
    harness.world.add_control_plane(third)
    for namespace in (weeding.NAMESPACE, OTHER, third):
        await harness.recover(key=ServiceKey(namespace, weeding.API.service))
    assert len(harness.weeder.registry.services()) == 3
    for namespace in (weeding.NAMESPACE, OTHER, third):
        _ = await harness.lose(ServiceKey(namespace, weeding.API.service))
    assert harness.seed.open_watches == 0, "each of them could be ended"


async def test_beyond_the_services_that_are_remembered_the_oldest_is_forgotten(
    harness, monkeypatch
):
    monkeypatch.setattr("app.weeder.recovery._SERVICES", 1)
    harness.world.add_control_plane(OTHER)
    await harness.recover()
    _ = await harness.lose()
    await harness.run(301)  # it no longer counts to the pace
    await harness.recover(key=ServiceKey(OTHER, weeding.API.service))
    assert harness.weeder.registry.services() == (ServiceKey(OTHER, weeding.API.service),)


async def test_the_pace_of_services_beyond_those_that_are_remembered_is_not_forgotten(
    harness, monkeypatch
):
    monkeypatch.setattr("app.weeder.recovery._SERVICES", 1)
    harness.world.add_control_plane(OTHER)
    for _ in range(4):
        for key in (weeding.API, ServiceKey(OTHER, weeding.API.service)):
            await harness.recover(key=key)
            _ = await harness.lose(key)
    assert len(harness.told("WeedingStarted")) == 3
    assert len(harness.told("WeedingDelayed")) == 1


async def test_a_long_namespace_keeps_what_it_tells_within_bounds(lab, monkeypatch):
    monkeypatch.setattr("app.weeder.deletions._MOST", 2)
    harness = lab.control_plane()
    await harness.recover(weeding.SCHEDULER, "cloud-controller-manager", "csi-driver-controller")
    assert len(harness.names()) == 3
    assert len(harness.recovery().deletions) == 2
    assert len(harness.recovery().spared) <= 2


async def test_replacing_leaves_no_task_behind(harness):
    await harness.recover()
    before = len(asyncio.all_tasks())
    for _ in range(4):
        harness.weeder.registry.begin(weeding.API, Cause.ASKED, 60.0)
        await harness.run(0.01)
    await harness.run(300)
    assert len(asyncio.all_tasks()) <= before
    assert harness.recovery().end is End.COMPLETED


async def test_a_namespace_that_is_deleted_in_the_middle_leaves_nothing_behind(slow):
    """Its owners, its slices and its pods go, while some of them still wait for their turn."""
    tasks = len(slow.environment.tasks._running)
    await slow.recover(*weeding.THREE)
    assert slow.recovery().queued == 2
    for kind in ("ReplicaSet", "StatefulSet"):
        for owner in slow.world.store.list(kind, weeding.NAMESPACE):
            slow.world.store.delete(ObjectKey(kind, weeding.NAMESPACE, owner["metadata"]["name"]))
    for pod in slow.pods():
        slow.world.delete_pod(weeding.NAMESPACE, pod.name)
    for key in (weeding.ETCD, weeding.API):
        slow.world.faults.slices_gone(*key)
    await slow.run(60)
    assert slow.pods() == []
    assert slow.recovery().end is End.LOST
    assert len(slow.names()) == 1, "what was not sent before is not sent"
    assert slow.seed.open_watches == 0
    assert slow.environment.deletion_turns.waiting(weeding.NAMESPACE) == 0
    assert (slow.weeder.controller._known, slow.status().since) == ({}, None)
    assert slow.told("RunnerFailed") == []
    assert not slow.died
    assert len(slow.environment.tasks._running) <= tasks


async def test_pods_that_go_with_their_namespace_before_the_slices_do_are_not_asked_for(slow):
    await slow.recover(*weeding.THREE)
    for pod in slow.pods():
        slow.world.delete_pod(weeding.NAMESPACE, pod.name)
    await slow.run(30)
    assert len(slow.seed.sent) == 1
    assert slow.recovery().queued == 0
    assert [each for each in slow.recovery().spared if each.reason is KeepReason.DROPPED] == []


# A watch of the services that tells nothing.


async def test_while_nothing_is_heard_of_the_services_for_90_s_nothing_is_deleted_and_then_it_goes_on(
    harness,
):
    await harness.recover()
    with harness.world.faults.pod_watch_cut(PodWatched.SLICES):
        await harness.run(80)
        harness.crash(weeding.SCHEDULER)
        await harness.run(5)
        assert len(harness.names()) == 1, "that is no long time yet"
        await harness.run(10)
        harness.crash("cloud-controller-manager")
        await harness.run(30)
        assert len(harness.names()) == 1
        stale = [each for each in harness.recovery().spared if each.reason is KeepReason.STALE]
        assert [each.pod[:24] for each in stale] == ["cloud-controller-manager"]
    await harness.run(45)
    assert len(harness.names()) == 2
    assert KeepReason.STALE not in {each.reason for each in harness.recovery().spared}
    assert [each.id for each in harness.recoveries()] == [1], "the same one"


async def test_a_deletion_that_waits_to_be_sent_while_the_services_become_stale_is_not(harness):
    waits = harness.hold_deletions()
    await harness.recover(weeding.SCHEDULER)
    waits[0]()
    with harness.world.faults.pod_watch_cut(PodWatched.SLICES):
        await harness.run(95)
        with pytest.raises(CalledOff, match="still ready"):
            waits[0]()


async def test_a_deletion_that_is_sent_late_spares_what_is_started_again_soon_by_itself(harness):
    """As where the process stood still after it had judged the pod."""
    waits = harness.hold_deletions()
    await harness.recover(weeding.SCHEDULER, restarts=4)  # 80 s
    await harness.run(60)
    waits[0]()
    await harness.run(10)
    with pytest.raises(CalledOff, match=r"^it does not wait for long"):
        waits[0]()
