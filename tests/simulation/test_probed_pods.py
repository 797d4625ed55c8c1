"""The pods of endpoint probes in a simulated seed: what is seen of their containers, and when they are watched."""

from dataclasses import replace

from app.core.model.endpoints import EndpointProbeSpec, ProbedContainer, TcpSocket
from app.core.model.policy import ProberPolicy
from app.core.model.selectors import LabelSelector, Operator, Requirement
from app.simulation.faults import PodWatched
from app.simulation.probed_pods import DESERTED, SimulatedProbedPods
from app.simulation.workloads import SERVED_AT, Owner, PodTimes, Workload
from tests.simulation.worlds import simulated

A, B = "shoot--local--a", "shoot--local--b"
EXACT = PodTimes(jitter=0)
SERVERS = LabelSelector((Requirement("app", Operator.IN, frozenset({"server"})),))
CLIENTS = LabelSelector((Requirement("app", Operator.IN, frozenset({"client"})),))


def pods_of(world):
    for namespace in (A, B):
        world.add_workload(
            Workload(
                namespace,
                "server",
                service="server",
                ports={"metrics": 9000},
                owner=Owner.STATEFUL_SET,
                times=EXACT,
            )
        )
        world.add_workload(Workload(namespace, "client", needs="server", init=True, times=EXACT))
    return SimulatedProbedPods(world.parts, (SERVERS, CLIENTS, SERVERS), world.tasks)


in_a_world = simulated(pods=pods_of)


def the_pod(pods, selector=SERVERS, namespace=A):
    (pod,) = pods.pods(namespace, selector)
    return pod


def the_container(pods, selector=SERVERS):
    (container,) = the_pod(pods, selector).containers
    return container


async def follow(pods, clock, *namespaces):
    for namespace in namespaces:
        pods.follow(namespace)
    await clock.sleep(0.1)


@in_a_world
async def test_a_pod_that_has_run_for_an_hour_is_seen_so(world, pods, clock):
    await follow(pods, clock, A)
    pod, container = the_pod(pods), the_container(pods)
    truth = world.pod(A, "server-0")
    assert (pod.namespace, pod.name, pod.uid) == (A, "server-0", truth.uid)
    assert (pod.phase, pod.deleting, pod.ip[:3]) == ("Running", False, "10.")
    assert container.id.startswith("containerd://")
    assert (container.name, container.running) == ("server", True)
    assert int(clock.now() - container.started_at) in (3600, 3601)
    assert container.ports == {"server": SERVED_AT, "metrics": 9000}


@in_a_world
async def test_each_run_of_a_container_has_an_id_of_its_own(world, pods, clock):
    await follow(pods, clock, A)
    seen = [the_container(pods)]
    pods.subscribe(lambda _: seen.append(the_container(pods)))
    with world.faults.workload_broken(A, "server"):
        await clock.sleep(60)
    runs = [each for each in seen if each.running]
    waits = [each for each in seen if not each.running]
    ids = list(dict.fromkeys(each.id for each in runs))
    assert len(ids) == 1 + world.restarts(A, "server") >= 3
    assert {each.id for each in waits} <= set(ids)
    assert {each.started_at for each in waits} == {None}
    starts = list(dict.fromkeys(each.started_at for each in runs))
    assert starts == sorted(starts)
    assert len(starts) == len(ids)


@in_a_world
async def test_a_pod_that_is_made_anew_goes_through_the_life_of_a_pod(world, pods, clock):
    await follow(pods, clock, A)
    first, seen = the_pod(pods), []

    def note(_):
        found = pods.pods(A, SERVERS)
        seen.append([(pod.deleting, pod.phase, bool(pod.containers[0].id)) for pod in found])

    pods.subscribe(note)
    world.delete_pod(A, "server-0")
    await clock.sleep(10)
    assert seen[0] == [(True, "Running", True)]
    assert [] in seen
    assert [(False, "Pending", False)] in seen
    assert seen[-1] == [(False, "Running", True)]
    assert the_pod(pods).uid != first.uid
    assert the_container(pods).id != first.containers[0].id


@in_a_world
async def test_init_containers_are_no_targets(pods, clock):
    await follow(pods, clock, A)
    assert the_container(pods, CLIENTS)._replace(id="", started_at=None) == ProbedContainer(
        "client", running=True
    )


@in_a_world
async def test_of_namespaces_that_nobody_follows_nothing_is_seen(world, pods, clock):
    told: list[str] = []
    pods.subscribe(told.append)
    await follow(pods, clock, A)
    world.delete_pod(B, "server-0")
    await clock.sleep(10)
    assert pods.pods(B, SERVERS) == ()
    assert set(told) == {A}
    assert not pods.watch_state(B, SERVERS).synced
    await follow(pods, clock, B)
    assert the_pod(pods, namespace=B).name == "server-0"
    pods.leave(A)
    assert (pods.pods(A, SERVERS), pods.watch_state(A, SERVERS).synced) == ((), False)


@in_a_world
async def test_there_is_one_watch_of_each_selector_while_anybody_is_followed(world, pods, clock):
    watches = world.parts.watches
    await clock.sleep(100)
    assert watches.open_now("Pod") == 0
    assert not pods.watch_state(A, SERVERS).synced
    await follow(pods, clock, A, B)
    assert watches.open_now("Pod") == 2
    pods.leave(A)
    await clock.sleep(DESERTED * 2)
    assert watches.open_now("Pod") == 2
    pods.leave(B)
    await clock.sleep(DESERTED - 1)
    assert watches.open_now("Pod") == 2
    await clock.sleep(2)
    assert watches.open_now("Pod") == 0
    world.delete_pod(A, "server-0")
    pods.follow(A)
    assert pods.pods(A, SERVERS) == ()
    await clock.sleep(10)
    assert watches.open_now("Pod") == 2
    assert not the_pod(pods).deleting


@in_a_world
async def test_a_watch_that_stalls_or_is_cut_shows_what_it_has_missed_after(world, pods, clock):
    await follow(pods, clock, A)
    first = the_pod(pods)
    for fault in (world.faults.pod_watch_stalled, world.faults.pod_watch_cut):
        with fault(PodWatched.PODS):
            world.delete_pod(A, "server-0")
            await clock.sleep(100)
            assert the_pod(pods) == first
            assert pods.watch_state(A, SERVERS).stale(clock.now())
        await clock.sleep(60)
        assert the_pod(pods).uid != first.uid
        first = the_pod(pods)
    assert pods.troubles() == {}


@in_a_world
async def test_a_right_that_is_missing_is_a_trouble_and_ends_nothing(world, pods, clock):
    with world.faults.pods_forbidden("list"):
        await follow(pods, clock, A)
        await clock.sleep(100)
        assert pods.pods(A, SERVERS) == ()
        assert "forbidden" in pods.troubles()["pods app=server"]
    await clock.sleep(60)
    assert the_pod(pods).name == "server-0"


@in_a_world
async def test_a_world_gives_the_selectors_of_a_policy(world, clock):
    world.add_workload(Workload(A, "server", times=EXACT, owner=Owner.STATEFUL_SET))
    of_pods = EndpointProbeSpec("p", TcpSocket(1), pods=SERVERS)
    policy = ProberPolicy("kubeconfig", ())
    for probes, watches in (
        ((), 0),
        ((EndpointProbeSpec("h", TcpSocket(1), host="example.org"),), 0),
        ((of_pods, replace(of_pods, name="q")), 1),
    ):
        seen = world.probed_pods(replace(policy, endpoint_probes=probes), world.tasks)
        await follow(seen, clock, A)
        assert world.parts.watches.open_now("Pod") == watches
        assert watches == 0 or the_pod(seen).name == "server-0"
