"""The weeder's ports on a simulated seed do what they promise, also when the seed is in trouble."""

import asyncio
from dataclasses import replace

import pytest

from app.core.errors import Conflict, Forbidden, NotFound, ServerFault, Throttled, Unreachable
from app.core.model.pods import CRASH_LOOP
from app.core.model.selectors import LabelSelector, Operator, Requirement
from app.core.model.weeding import ServiceKey
from app.core.ports import Pauses, Relisted, SeedChange, Watched, WeederSeed
from app.simulation.faults import PodWatched
from app.simulation.reflection import SILENCE
from app.simulation.store import ObjectKey
from app.simulation.traffic import Host, Trouble
from app.simulation.weeder_seed import WEEDER
from app.simulation.workloads import PodTimes, Workload
from tests.simulation.worlds import about, simulated

A = "shoot--local--a"
B = "shoot--local--b"
SERVER = ServiceKey(A, "server")
EXACT = PodTimes(jitter=0)

in_a_world = simulated()


class Ear:
    """Keeps what a listener hears, and what the slices said at that moment."""

    def __init__(self, world):
        self.seed = world.weeder_seed
        self.clock = world.clock
        self.heard = []
        self.at = []
        self.seed.subscribe(self)

    def service_changed(self, key):
        endpoints = [each for view in self.seed.slices(key) for each in view.endpoints]
        self.heard.append((key, sorted(each.ready for each in endpoints)))
        self.at.append(self.clock.now())

    def services_relisted(self, relisted):
        self.heard.append(relisted)
        self.at.append(self.clock.now())


def add(world, namespace=A, name="server", **more):
    world.add_workload(Workload(namespace, name, service=name, times=EXACT, **more))


async def nothing():
    """Admits at once."""


def app(name):
    return LabelSelector((Requirement("app", Operator.IN, frozenset({name})),))


def nobody():
    """Nothing forbids the write."""


async def watching(world, tasks, namespace=A, selector=None, admitted=nothing):
    names: list[str] = []
    watch = world.weeder_seed.watch_pods(namespace, selector, names.append, admitted)
    task = tasks.once(watch.run, "pod watch")
    await world.clock.sleep(0.2)
    return watch, names, task


@in_a_world
async def test_it_is_what_the_ports_say(world):
    seed: WeederSeed = world.weeder_seed
    pauses: Pauses = world.pauses
    assert seed.services() == ()
    assert pauses.synced


# Slices.


@in_a_world
async def test_nothing_is_asked_for_before_somebody_listens(world, clock):
    add(world)
    await clock.sleep(600)
    assert world.requests.total() == 0
    assert not world.weeder_seed.watch_state().synced


@in_a_world
async def test_the_first_list_is_told_once_without_an_instant(world, clock):
    add(world)
    add(world, B)
    ear = Ear(world)
    await clock.sleep(1)
    assert ear.heard == [Relisted(None, (SERVER, ServiceKey(B, "server")))]
    assert set(world.weeder_seed.services()) == {SERVER, ServiceKey(B, "server")}
    assert world.weeder_seed.watch_state().synced
    assert world.requests.total(Host.SEED, "list", "endpointslices") == 1
    assert world.requests.total(Host.SEED, "watch", "endpointslices") == 1


@in_a_world
async def test_only_the_services_that_were_selected_are_heard_of(world, clock):
    add(world)
    add(world, name="other")
    world.weeder_seed.select(["server"])
    ear = Ear(world)
    await clock.sleep(1)
    with world.faults.service_unready(A, "other"):
        await clock.sleep(1)
    assert ear.heard == [Relisted(None, (SERVER,))]
    assert world.weeder_seed.services() == (SERVER,)


@in_a_world
async def test_each_change_is_told_late_by_the_delay_with_what_it_was_at_that_moment(world, clock):
    add(world)
    ear = Ear(world)
    await clock.sleep(1)
    written = []

    def wrote(event):
        if event.key.kind == "EndpointSlice":
            written.append(clock.now())

    world.store.subscribe(wrote)
    with world.faults.service_unready(A, "server"):
        await clock.sleep(1)
    await clock.sleep(1)
    assert ear.heard[1:] == [(SERVER, [False]), (SERVER, [True])]
    assert ear.at[1:] == [about(at + 0.05) for at in written]


@in_a_world
async def test_a_deleted_slice_and_a_second_one_are_told(world, clock):
    add(world, replicas=2)
    ear = Ear(world)
    await clock.sleep(1)
    world.split_service(A, "server", 2)
    await clock.sleep(1)
    assert ear.heard[1:] == [(SERVER, [True]), (SERVER, [True, True])]
    world.delete_slice(A, world.slices(A, "server")[0].name)
    await clock.sleep(1)
    assert ear.heard[3:] == [(SERVER, [True]), (SERVER, [True, True])]


@in_a_world
async def test_a_slice_that_changes_its_service_is_told_to_both(world, clock):
    add(world)
    ear = Ear(world)
    await clock.sleep(1)
    (view,) = world.slices(A, "server")
    labels = {"kubernetes.io/service-name": "other"}
    world.store.patch(ObjectKey("EndpointSlice", A, view.name), {"metadata": {"labels": labels}})
    await clock.sleep(0.06)
    assert ear.heard[1:] == [(ServiceKey(A, "other"), [True]), (SERVER, [])]


@in_a_world
async def test_a_stalled_watch_tells_nothing_and_then_all_of_it_one_by_one(world, clock):
    add(world)
    ear = Ear(world)
    await clock.sleep(1)
    stalled = clock.now()
    with world.faults.pod_watch_stalled(PodWatched.SLICES):
        for _ in range(2):
            with world.faults.service_unready(A, "server"):
                await clock.sleep(10)
            await clock.sleep(10)
        assert len(ear.heard) == 1
        assert world.weeder_seed.watch_state().last_contact == about(stalled)
    await clock.sleep(0.1)
    assert ear.heard[1:] == [(SERVER, [False]), (SERVER, [True])] * 2
    assert world.weeder_seed.watch_state().last_contact == clock.now()


@in_a_world
async def test_a_mute_watch_is_given_up_for_a_list(world, clock):
    add(world)
    ear = Ear(world)
    await clock.sleep(1)
    with world.faults.pod_watch_mute(PodWatched.SLICES), world.faults.slices_gone(A, "server"):
        muted = clock.now()
        await clock.sleep(SILENCE - 1)
        assert len(ear.heard) == 1
        assert world.weeder_seed.watch_state().last_contact == about(muted)
        await clock.sleep(4)
        assert len(ear.heard) == 2
        assert not world.slices(A, "server")


@in_a_world
async def test_a_cut_watch_goes_on_where_it_was_without_a_list(world, clock):
    add(world)
    ear = Ear(world)
    await clock.sleep(1)
    with world.faults.service_unready(A, "server"):
        await clock.sleep(10)
    await clock.sleep(10)
    ear.heard[1:] = []
    with world.faults.pod_watch_cut(PodWatched.SLICES):
        with world.faults.service_unready(A, "server"):
            await clock.sleep(10)
        await clock.sleep(10)
        assert len(ear.heard) == 1
        assert world.weeder_seed.watch_state().last_contact == about(clock.now() - 20)
    await clock.sleep(30)
    assert ear.heard[1:] == [(SERVER, [False]), (SERVER, [True])]
    assert world.requests.total(verb="list", what="endpointslices") == 1


@in_a_world
async def test_a_watch_that_expired_lists_anew_and_says_since_when_and_what_differs(world, clock):
    add(world)
    add(world, B)
    ear = Ear(world)
    listed = clock.now()  # nothing happens from then on, so nobody knows how much of it was watched
    await clock.sleep(1)
    with world.faults.pod_watch_cut(PodWatched.SLICES, expired=True):
        with world.faults.service_unready(A, "server"):
            await clock.sleep(10)
        await clock.sleep(10)
    await clock.sleep(60)
    (relisted,) = ear.heard[1:]
    assert relisted.since == about(listed)
    assert relisted.changed == (SERVER,)


@in_a_world
async def test_a_list_after_an_expired_watch_in_which_nothing_changed_names_nothing(world, clock):
    add(world)
    world.add_workload(Workload(A, "client"))
    ear = Ear(world)
    await clock.sleep(60)
    with world.faults.pod_watch_cut(PodWatched.SLICES, expired=True):
        world.crash_looped(A, "client", 5)
        await clock.sleep(5)
    await clock.sleep(60)
    assert [each.changed for each in ear.heard] == [(SERVER,), ()]


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(refused=True),
        Trouble(silent=True),
        Trouble(error_rate=1.0),
        Trouble(forbidden=True),
        Trouble(throttled=True, retry_after=2.0),
    ],
)
@in_a_world
async def test_the_slices_are_listed_when_the_seed_is_well_again(world, clock, trouble):
    add(world)
    fault = world.faults.seed_trouble(trouble)
    ear = Ear(world)
    await clock.sleep(100)
    assert ear.heard == []
    assert not world.weeder_seed.watch_state().synced
    fault.lift()
    await clock.sleep(31)
    assert ear.heard == [Relisted(None, (SERVER,))]


# Pods.


@in_a_world
async def test_pods_are_listed_and_watched_in_one_namespace(world, clock, tasks):
    add(world, replicas=2)
    add(world, B)
    watch, names, _ = await watching(world, tasks)
    assert watch.synced
    assert watch.pods() == {pod.name: pod for pod in world.pods(A)}
    assert sorted(names) == sorted(watch.pods())
    names.clear()
    world.delete_pod(B, world.pods(B)[0].name)
    world.delete_pod(A, world.pods(A)[0].name)
    await clock.sleep(10)
    assert watch.pods() == {pod.name: pod for pod in world.pods(A)}
    assert {name.rpartition("-")[0] for name in names} == {
        pod.owner.name for pod in world.pods(A) if pod.owner
    }


@in_a_world
async def test_changes_of_pods_come_late_by_the_delay(world, clock, tasks):
    add(world)
    watch, _, _ = await watching(world, tasks)
    (pod,) = world.pods(A)
    world.crash_looped(A, "server", 3)
    assert not watch.pods()[pod.name].containers[0].crash_loops
    await clock.sleep(0.06)
    assert watch.pods()[pod.name].containers[0].waiting == CRASH_LOOP


@in_a_world
async def test_only_pods_that_the_selector_matches_are_seen_and_one_that_no_longer_does_is_gone(
    world, clock, tasks
):
    add(world)
    add(world, name="other")
    watch, names, _ = await watching(world, tasks, selector=app("server"))
    (pod,) = world.pods(A, "server")
    (other,) = world.pods(A, "other")
    assert set(watch.pods()) == {pod.name} == set(names)
    world.store.patch(ObjectKey("Pod", A, pod.name), {"metadata": {"labels": {"app": "other"}}})
    world.store.patch(ObjectKey("Pod", A, other.name), {"metadata": {"labels": {"x": "y"}}})
    await clock.sleep(0.1)
    assert watch.pods() == {}
    assert names == [pod.name, pod.name]


@in_a_world
async def test_nothing_is_asked_for_before_it_is_admitted(world, clock, tasks):
    gate = asyncio.Event()
    watch, _, _ = await watching(world, tasks, admitted=gate.wait)
    await clock.sleep(60)
    assert not watch.synced
    assert world.requests.total() == 0
    gate.set()
    await clock.sleep(1)
    assert watch.synced


@in_a_world
async def test_open_watches_are_counted_and_closed_with_their_task(world, clock, tasks):
    add(world)
    seed = world.weeder_seed
    assert (seed.open_watches, seed.most_watches) == (0, 0)
    _, _, first = await watching(world, tasks)
    _, _, second = await watching(world, tasks, B)
    assert seed.open_watches == 2
    for task in (first, second):
        task.cancel()
    await clock.sleep(0)
    await clock.sleep(0)
    assert (seed.open_watches, seed.most_watches) == (0, 2)


@pytest.mark.parametrize("expired", [False, True])
@in_a_world
async def test_a_pod_watch_survives_a_cut_without_missing_a_pod(world, clock, tasks, expired):
    add(world, replicas=2)
    watch, names, _ = await watching(world, tasks)
    names.clear()
    with world.faults.pod_watch_cut(PodWatched.PODS, expired=expired):
        await clock.sleep(1)
        assert watch.trouble
        world.crash_looped(A, "server", 6)
        world.delete_pod(A, world.pods(A)[0].name)
        await clock.sleep(9)
        assert names == []
    await clock.sleep(60)
    assert watch.pods() == {pod.name: pod for pod in world.pods(A)}
    assert len(set(names)) == 3
    assert watch.trouble is None
    assert world.requests.total(verb="list", what="pods") == (2 if expired else 1)


@in_a_world
async def test_a_stalled_pod_watch_shows_what_was(world, clock, tasks):
    add(world)
    watch, _, _ = await watching(world, tasks)
    before = dict(watch.pods())
    with world.faults.pod_watch_stalled(PodWatched.PODS):
        world.crash_looped(A, "server", 6)
        await clock.sleep(60)
        assert watch.pods() == before
    await clock.sleep(0)
    assert watch.pods() != before


@in_a_world
async def test_a_pod_watch_gives_up_when_it_is_refused_again_and_again_but_not_in_passing(
    world, clock
):
    watch = world.weeder_seed.watch_pods(A, None, lambda _: None, nothing)
    world.faults.pods_forbidden("watch")
    with pytest.raises(Forbidden):
        await watch.run()
    assert world.requests.total(verb="watch", what="pods") == 3


@in_a_world
async def test_a_passing_refusal_ends_nothing(world, clock, tasks):
    add(world)
    fault = world.faults.pods_forbidden()
    watch, _, task = await watching(world, tasks)
    assert "forbidden" in (watch.trouble or "")
    fault.lift()
    await clock.sleep(2)
    assert watch.synced
    assert not task.done()


# One pod.


@in_a_world
async def test_a_pod_is_read_live(world):
    add(world)
    (pod,) = world.pods(A)
    assert await world.weeder_seed.read_pod(A, pod.name) == pod
    assert await world.weeder_seed.read_pod(A, "nobody") is None
    assert world.requests.total(Host.SEED, "get", "pods", A) == 2


@in_a_world
async def test_whether_any_pod_matches_is_one_request(world):
    add(world, B)
    assert await world.weeder_seed.any_pod(app("server"))
    assert not await world.weeder_seed.any_pod(app("renamed"))
    assert world.requests.total() == 2


def delete(world, pod, *, starting=nobody, **other):
    wanted = {"uid": pod.uid, "resource_version": pod.resource_version, **other}
    return world.weeder_seed.delete_pod(A, pod.name, starting=starting, **wanted)


@in_a_world
async def test_a_deletion_is_entered_in_the_journal(world, clock):
    add(world)
    (pod,) = world.pods(A)
    await delete(world, pod)
    (write,) = world.journal.of(WEEDER, A)
    assert (write.verb, write.ref.name, write.ref.kind) == ("delete", pod.name, "Pod")
    assert world.pod(A, pod.name).terminating
    (deletion,) = world.pod_deletions
    assert (deletion.uid, deletion.by, deletion.waiting) == (pod.uid, WEEDER, False)


@in_a_world
async def test_a_pod_that_is_not_the_one_that_was_judged_is_not_deleted(world, clock):
    add(world)
    (pod,) = world.pods(A)
    with pytest.raises(Conflict):
        await delete(world, pod, uid="other")
    with pytest.raises(Conflict):
        await delete(world, pod, resource_version="1")
    world.crash_looped(A, "server", 2)
    with pytest.raises(Conflict):
        await delete(world, pod)
    with pytest.raises(NotFound):
        await delete(world, replace(pod, name="nobody"))
    assert world.pod_deletions == ()
    assert world.journal.of(WEEDER) == ()


@in_a_world
async def test_what_forbids_the_deletion_is_asked_before_it_is_sent(world):
    add(world)
    (pod,) = world.pods(A)

    def starting():
        raise RuntimeError("not now")

    with pytest.raises(RuntimeError):
        await delete(world, pod, starting=starting)
    assert world.requests.total() == 0
    assert world.pods(A) == (pod,)


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (Trouble(forbidden=True, verbs=frozenset({"delete"})), Forbidden),
        (Trouble(throttled=True, retry_after=7.0), Throttled),
        (Trouble(error_rate=1.0), ServerFault),
        (Trouble(refused=True), Unreachable),
        (Trouble(silent=True, verbs=frozenset({"delete"})), Unreachable),
    ],
)
@in_a_world
async def test_a_deletion_meets_the_troubles_of_the_seed(world, clock, trouble, error):
    add(world)
    (pod,) = world.pods(A)
    begun = clock.now()
    with world.faults.seed_trouble(trouble), pytest.raises(error) as caught:
        await delete(world, pod)
    assert caught.value.retry_after == trouble.retry_after
    assert clock.now() - begun == about(5.0 if trouble.silent else clock.now() - begun)
    assert world.pods(A) == (pod,)


@in_a_world
async def test_a_deletion_without_an_answer_may_have_been_done(world, clock):
    add(world)
    (pod,) = world.pods(A)
    slow = Trouble(latency=6.0, verbs=frozenset({"delete"}))
    with world.faults.seed_trouble(slow), pytest.raises(Unreachable):
        await delete(world, pod)
    assert [each.uid for each in world.pod_deletions] == [pod.uid]


# Beside the prober.


@in_a_world
async def test_the_probers_watch_hears_nothing_of_pods_services_and_slices(world, clock):
    heard: list[SeedChange] = []
    world.add_shoot(A, nodes=1)
    await clock.sleep(1)
    world.seed.subscribe(heard.append)
    add(world)
    world.faults.workload_broken(A, "server")
    await clock.sleep(600)
    kinds = {change.what for change in heard}
    assert kinds <= {Watched.DEPENDENTS}
    assert len(heard) == 1  # its ReplicaSet, which could be a dependent


@in_a_world
async def test_thousands_of_changes_of_pods_do_not_expire_the_probers_watches(world, clock):
    world.add_shoot(A, nodes=1)
    add(world)
    with world.faults.watch_stalled(Watched.CLUSTERS):
        key = ObjectKey("Pod", A, world.pods(A)[0].name)
        for number in range(25_000):
            world.store.patch(key, {"metadata": {"labels": {"n": str(number)}}})
        world.patch_cluster(A, {"spec": {"hibernation": {"enabled": True}}})
        heard: list[SeedChange] = []
        world.seed.subscribe(heard.append)
    assert len(heard) == 1


@in_a_world
async def test_what_a_watch_of_the_prober_has_caught_up_with_is_not_delivered_again(world, clock):
    world.add_shoot(A, nodes=1)
    await clock.sleep(1)
    with world.faults.watch_stalled(Watched.CLUSTERS):
        world.patch_cluster(A, {"spec": {"hibernation": {"enabled": True}}})
        world.patch_cluster(A, {"spec": {"hibernation": {"enabled": False}}})
    heard: list[SeedChange] = []
    world.seed.subscribe(heard.append)
    await clock.sleep(1)
    assert heard == []


# Pauses.


@in_a_world
async def test_pauses_are_set_by_hand_and_told(world):
    told = []
    world.pauses.subscribe(lambda: told.append(world.pauses.paused(A)))
    world.pauses.pause(A, "maintenance")
    assert world.pauses.paused(A) == "maintenance"
    assert world.pauses.paused(B) is None
    world.pauses.resume(A)
    world.pauses.resume(A)
    assert told == ["maintenance", None]
    world.pauses.synced = False
    assert (world.pauses.synced, len(told)) == (False, 3)
