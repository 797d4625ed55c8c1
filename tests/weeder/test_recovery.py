"""What begins a recovery, what it watches, and what ends it."""

import asyncio

import pytest

from app.core.model.selectors import LabelSelector
from app.core.model.weeding import Cause, End, KeepReason, Phase, ServiceKey, WeederPolicy
from app.simulation.faults import PodWatched
from app.simulation.store import ObjectKey
from app.weeder.deletions import CalledOff
from tests.support.weeding import (
    API,
    CONTROL_PLANE,
    ETCD,
    GARDENER_WEEDER,
    NAMESPACE,
    requirement,
)

SCHEDULER = "kube-scheduler"
THREE = (SCHEDULER, "cloud-controller-manager", "csi-driver-controller")
OTHER = "shoot--local--b"


@pytest.fixture
async def slow(stage):
    """One deletion in 20 s."""
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    return stage.weeder(world, deletions_a_second=0.05)


async def test_after_an_outage_of_etcd_the_chain_is_restarted_link_by_link(stand):
    world = stand.world
    await stand.run(5)
    with world.faults.workload_broken(NAMESPACE, "etcd-main"):
        await stand.run(300)
    assert len(stand.waiting()) >= 6
    await stand.until(lambda: world.served(*ETCD), within=100)
    await stand.until(lambda: world.served(*API), within=15)
    await stand.until(lambda: not stand.waiting(), within=15)
    assert {each.pod[:14] for each in stand.recovery(ETCD).deletions} == {"kube-apiserver"}
    assert len(stand.recovery(API).deletions) == 5
    spared = [each.remaining for each in stand.recovery(API).deletions]
    assert sum(spared) > 200, "so much waiting"


async def test_a_change_to_ready_weeds_what_waits(stand):
    back = await stand.recover(SCHEDULER)
    assert stand.recovery().cause is Cause.BECAME_READY
    (deletion,) = stand.deleted()
    assert deletion.at - back < 0.2


async def test_a_service_that_stays_ready_is_weeded_for_by_nobody(stand):
    await stand.run(5)
    stand.crash(SCHEDULER)
    await stand.run(200)
    assert stand.names() == []
    assert stand.seed.most_watches == 0


async def test_only_pods_of_its_own_namespace_are_weeded(stand):
    stand.world.add_control_plane(OTHER)
    stand.crash(SCHEDULER, namespace=OTHER)
    await stand.recover(SCHEDULER)
    assert len(stand.names(NAMESPACE)) == 1
    assert stand.names(OTHER) == []


async def test_only_pods_that_a_selector_matches_are_weeded(stand):
    stand.world.add_control_plane(OTHER, independent=True)
    await stand.recover("etcd-main", "plutono", key=ServiceKey(OTHER, API.service))
    assert [name[:7] for name in stand.names()] == ["plutono"]


async def test_what_crashes_later_is_weeded_until_watch_duration_is_over(stand):
    back = await stand.recover()
    await stand.run(280)
    stand.crash(SCHEDULER)
    await stand.run(25)
    stand.crash("cloud-controller-manager")
    await stand.run(30)
    assert [name[:14] for name in stand.names()] == ["kube-scheduler"]
    ended = stand.recovery()
    assert ended.end is End.COMPLETED
    assert ended.ended - back == pytest.approx(300, abs=0.2)


async def test_a_watch_is_opened_only_for_a_recovery_and_closed_at_its_end(stand):
    await stand.run(100)
    assert stand.seed.most_watches == 0
    assert stand.world.requests.total(what="pods", verb="watch") == 0
    await stand.recover()
    assert stand.seed.open_watches == 1
    assert stand.count("dwd_weeder_watches_active") == 1
    await stand.run(300)
    assert stand.seed.open_watches == 0
    assert stand.count("dwd_weeder_watches_active") == 0


async def test_several_selectors_are_one_watch(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    both = (
        LabelSelector((CONTROL_PLANE, requirement("role", "In", "scheduler"))),
        LabelSelector((requirement("role", "Exists"),)),
    )
    stand = stage.weeder(world, WeederPolicy({API.service: both}))
    await stand.recover(SCHEDULER, "etcd-main")
    assert stand.seed.watched == [None]
    assert stand.seed.most_watches == 1
    assert len(stand.names()) == 2, "each once, also where both selectors match"


async def test_of_one_selector_the_server_selects(stand):
    await stand.recover(SCHEDULER)
    assert stand.seed.watched == [GARDENER_WEEDER.services[API.service][0]]


async def test_a_service_that_comes_and_goes_has_one_watch_at_a_time(stand):
    for _ in range(3):
        await stand.recover(settle=2.0)
    assert stand.seed.open_watches == 1
    assert stand.seed.most_watches == 1


async def test_two_services_that_come_back_have_a_watch_each(stand):
    await stand.recover(key=ETCD)
    await stand.recover(key=API)
    assert stand.seed.open_watches == 2


async def test_the_loss_of_the_service_ends_its_recovery(stand):
    await stand.recover()
    fault = await stand.lose()
    stand.crash(SCHEDULER)
    await stand.run(4)
    assert stand.recovery().end is End.LOST
    assert stand.seed.open_watches == 0
    assert stand.names() == []
    fault.lift()


async def test_the_loss_of_another_service_ends_nothing(stand):
    await stand.recover()
    fault = await stand.lose(ETCD)
    assert stand.recovery().phase is Phase.WATCHING
    fault.lift()


async def test_a_newer_recovery_replaces_the_one_that_runs(stand):
    await stand.recover()
    stand.weeder.registry.begin(API, Cause.ASKED, 60.0)
    await stand.run(1)
    newest, before = stand.recoveries()
    assert before.end is End.REPLACED
    assert newest.phase is Phase.WATCHING
    assert newest.until - newest.due == 60
    assert stand.seed.open_watches == 1


async def test_each_recovery_lasts_for_the_whole_time_anew(stand):
    await stand.recover()
    await stand.run(200)
    await stand.recover()
    await stand.run(150)
    stand.crash(SCHEDULER)
    await stand.run(1)
    assert len(stand.names()) == 1


async def test_a_watch_that_never_syncs_ends_with_its_time_and_says_what_it_suffers_from(stand):
    away = stand.world.faults.pod_watch_cut(PodWatched.PODS)
    await stand.recover(SCHEDULER, settle=20)
    assert "refused" in stand.recovery().trouble
    assert stand.recovery().phase is Phase.OPENING
    await stand.run(300)
    assert stand.recovery().end is End.COMPLETED
    assert stand.seed.open_watches == 0
    away.lift()


async def test_a_cut_watch_misses_no_pod(stand):
    await stand.recover()
    with stand.world.faults.pod_watch_cut(PodWatched.PODS):
        stand.crash(SCHEDULER)
        await stand.run(5)
        assert stand.names() == []
    await stand.run(10)
    assert len(stand.names()) == 1


async def test_a_watch_of_which_the_server_has_forgotten_the_events_misses_no_pod(stand):
    await stand.recover()
    with stand.world.faults.pod_watch_cut(PodWatched.PODS, expired=True):
        stand.crash(SCHEDULER)
        await stand.run(5)
    await stand.run(20)
    assert len(stand.names()) == 1


async def test_an_api_server_that_restarts_in_the_middle_loses_no_pod(stand):
    await stand.recover()
    down = stand.world.faults.seed_down()
    cuts = [stand.world.faults.pod_watch_cut(what) for what in PodWatched]
    stand.crash(SCHEDULER)
    await stand.run(20)
    for fault in (down, *cuts):
        fault.lift()
    await stand.run(40)
    assert len(stand.names()) == 1
    assert stand.recovery().cause is Cause.BECAME_READY, "the same one: nothing was lost meanwhile"


async def test_a_namespace_that_is_gone_is_forgotten(stand):
    """Neither what is known of its services nor its recovery outlives it."""
    await stand.recover()
    stand.world.faults.slices_gone(*API)
    await stand.run(1)
    assert API not in stand.weeder.controller._known
    assert stand.recovery().end is End.LOST


async def test_past_recoveries_are_kept_five_of_a_service(stand):
    for _ in range(8):
        await stand.recover()
        await stand.run(301)
    assert len(stand.recoveries()) == 6
    ids = [each.id for each in stand.recoveries()]
    assert ids == sorted(ids, reverse=True)


async def test_beyond_the_services_that_are_remembered_those_that_run_stay(stand, monkeypatch):
    monkeypatch.setattr("app.weeder.registry._SERVICES", 1)
    stand.world.add_control_plane(OTHER)
    third = "shoot--local--c"
    stand.world.add_control_plane(third)
    for namespace in (NAMESPACE, OTHER, third):
        await stand.recover(key=ServiceKey(namespace, API.service))
    assert len(stand.weeder.registry.services()) == 3
    for namespace in (NAMESPACE, OTHER, third):
        _ = await stand.lose(ServiceKey(namespace, API.service))
    assert stand.seed.open_watches == 0, "each of them could be ended"


async def test_beyond_the_services_that_are_remembered_the_oldest_is_forgotten(stand, monkeypatch):
    monkeypatch.setattr("app.weeder.registry._SERVICES", 1)
    stand.world.add_control_plane(OTHER)
    await stand.recover()
    _ = await stand.lose()
    await stand.run(301)  # it no longer counts to the pace
    await stand.recover(key=ServiceKey(OTHER, API.service))
    assert stand.weeder.registry.services() == (ServiceKey(OTHER, API.service),)


async def test_the_pace_of_services_beyond_those_that_are_remembered_is_not_forgotten(
    stand, monkeypatch
):
    monkeypatch.setattr("app.weeder.registry._SERVICES", 1)
    stand.world.add_control_plane(OTHER)
    for _ in range(4):
        for key in (API, ServiceKey(OTHER, API.service)):
            await stand.recover(key=key)
            _ = await stand.lose(key)
    assert len(stand.told("WeedingStarted")) == 3
    assert len(stand.told("WeedingDelayed")) == 1


async def test_a_long_namespace_keeps_what_it_tells_within_bounds(stage, monkeypatch):
    monkeypatch.setattr("app.weeder.recovery_log._MOST", 2)
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    stand = stage.weeder(world)
    await stand.recover(SCHEDULER, "cloud-controller-manager", "csi-driver-controller")
    assert len(stand.names()) == 3
    assert len(stand.recovery().deletions) == 2
    assert len(stand.recovery().spared) <= 2


async def test_replacing_leaves_no_task_behind(stand):
    await stand.recover()
    before = len(asyncio.all_tasks())
    for _ in range(4):
        stand.weeder.registry.begin(API, Cause.ASKED, 60.0)
        await stand.run(0.01)
    await stand.run(300)
    assert len(asyncio.all_tasks()) <= before
    assert stand.recovery().end is End.COMPLETED


async def test_a_namespace_that_is_deleted_in_the_middle_leaves_nothing_behind(slow):
    """Its owners, its slices and its pods go, while some of them still wait for their turn."""
    tasks = len(asyncio.all_tasks())
    await slow.recover(*THREE)
    assert slow.recovery().queued == 2
    for kind in ("ReplicaSet", "StatefulSet"):
        for owner in slow.world.store.list(kind, NAMESPACE):
            slow.world.store.delete(ObjectKey(kind, NAMESPACE, owner["metadata"]["name"]))
    for pod in slow.pods():
        slow.world.delete_pod(NAMESPACE, pod.name)
    for key in (ETCD, API):
        slow.world.faults.slices_gone(*key)
    await slow.run(60)
    assert slow.pods() == []
    assert slow.recovery().end is End.LOST
    assert len(slow.names()) == 1, "what was not sent before is not sent"
    assert slow.seed.open_watches == 0
    assert slow.environment.deletions.waiting == 0
    assert not slow.weeder.controller._known
    assert slow.told("RunnerFailed") == []
    assert not slow.died
    assert len(asyncio.all_tasks()) <= tasks


async def test_pods_that_go_with_their_namespace_before_the_slices_do_are_not_asked_for(slow):
    await slow.recover(*THREE)
    for pod in slow.pods():
        slow.world.delete_pod(NAMESPACE, pod.name)
    await slow.run(30)
    assert len(slow.seed.sent) == 1
    assert slow.recovery().queued == 0
    assert [each for each in slow.recovery().spared if each.reason is KeepReason.DROPPED] == []


# A watch of the services that tells nothing.


async def test_while_nothing_is_heard_of_the_services_for_90_s_nothing_is_deleted(stand):
    await stand.recover()
    with stand.world.faults.pod_watch_cut(PodWatched.SLICES):
        await stand.run(80)
        stand.crash(SCHEDULER)
        await stand.run(5)
        assert len(stand.names()) == 1, "that is no long time yet"
        await stand.run(10)
        stand.crash("cloud-controller-manager")
        await stand.run(30)
        assert len(stand.names()) == 1
        stale = [each for each in stand.recovery().spared if each.reason is KeepReason.STALE]
        assert [each.pod[:24] for each in stale] == ["cloud-controller-manager"]
        assert stand.recovery().end is None


async def test_when_the_services_are_heard_of_again_it_goes_on(stand):
    await stand.recover()
    with stand.world.faults.pod_watch_cut(PodWatched.SLICES):
        await stand.run(100)
        stand.crash(SCHEDULER)
        await stand.run(20)
        assert stand.names() == []
    await stand.run(45)
    assert len(stand.names()) == 1
    assert KeepReason.STALE not in {each.reason for each in stand.recovery().spared}
    assert [each.id for each in stand.recoveries()] == [1], "the same one"


async def test_a_deletion_that_waits_to_be_sent_while_the_services_become_stale_is_not(
    stand, monkeypatch
):
    waits = []

    async def wait_first(namespace, name, *, starting, **more):
        waits.append(starting)
        await stand.run(1000)

    monkeypatch.setattr(stand.seed, "delete_pod", wait_first)
    await stand.recover(SCHEDULER)
    waits[0]()
    with stand.world.faults.pod_watch_cut(PodWatched.SLICES):
        await stand.run(95)
        with pytest.raises(CalledOff, match="still ready"):
            waits[0]()


async def test_a_deletion_that_is_sent_late_spares_what_is_started_again_soon_by_itself(
    stand, monkeypatch
):
    """As where the process stood still after it had judged the pod."""
    waits = []

    async def wait_first(namespace, name, *, starting, **more):
        waits.append(starting)
        await stand.run(1000)

    monkeypatch.setattr(stand.seed, "delete_pod", wait_first)
    await stand.recover(SCHEDULER, restarts=4)  # 80 s
    await stand.run(60)
    waits[0]()
    await stand.run(10)
    with pytest.raises(CalledOff, match="for long"):
        waits[0]()
