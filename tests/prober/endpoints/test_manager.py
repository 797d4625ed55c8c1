"""Workers are started, replaced and stopped with their targets, shoots and leadership."""

import random
from collections import Counter

import pytest

from app.core.model.endpoints import CachedResult, ProbeType
from tests.support.endpointprobes import (
    FAILURE,
    NAMESPACE,
    SUCCESS,
    container,
    gate_probe,
    host_probe,
    pod,
    pod_probe,
    startup_probe,
)

OTHER = "shoot--local--b"


def targets(bench):
    return [str(view.target) for view in bench.probes.views(NAMESPACE)]


async def test_each_container_of_each_pod_that_matches_is_a_target(bench_of):
    bench = bench_of(pod_probe())
    both = (container("etcd"), container("backup"))
    await bench.start(
        pod("etcd-1"), pod("etcd-0", containers=both), pod("other", labels={"app": "kcm"})
    )
    assert sorted(targets(bench)) == ["etcd-0/backup", "etcd-0/etcd", "etcd-1/etcd"]


async def test_container_narrows_the_targets(bench_of):
    bench = bench_of(pod_probe(container="backup"))
    await bench.start(pod("etcd-0", containers=(container("etcd"), container("backup"))))
    assert targets(bench) == ["etcd-0/backup"]


async def test_a_pod_that_comes_later_is_probed_and_one_that_goes_is_not_any_more(started):
    bench = await started(pod_probe())
    assert targets(bench) == []
    bench.pods.put(pod())
    await bench.passes(6)
    assert len(bench.handlers.runs) == 1
    bench.pods.remove()
    assert targets(bench) == []
    assert not bench.said()
    await bench.passes(60)
    assert len(bench.handlers.runs) == 1


async def test_a_pod_that_no_longer_matches_is_no_target(started):
    bench = await started(pod_probe(), pods=[pod()])
    bench.pods.change(labels={"app": "other"})
    assert targets(bench) == []


async def test_another_pod_of_the_same_name_is_another_target(started):
    bench = await started(pod_probe(), pods=[pod()])
    await bench.passes(6)
    assert bench.view().counted
    bench.pods.put(pod(uid="another"))
    assert bench.view().target.uid == "another"
    assert (bench.view().result, bench.view().counted) == (CachedResult.FAILURE, False)
    assert len(bench.said()) == 1


async def test_a_run_of_a_target_that_went_is_broken_off_and_says_nothing(started):
    bench = await started(pod_probe(), takes=2.0, pods=[pod()])
    await bench.passes(6)
    assert bench.handlers.under_way == 1
    bench.pods.remove()
    await bench.passes(0.01)
    assert bench.handlers.under_way == 0
    await bench.passes(5)
    assert not bench.said()
    assert not bench.meter.runs


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_finished_is_not_probed_any_more_and_its_result_is_gone(
    started, phase
):
    bench = await started(pod_probe(), pods=[pod()])
    await bench.passes(6)
    bench.pods.change(phase=phase)
    assert not bench.said()
    assert targets(bench) == []
    bench.pods.tell()
    await bench.passes(60)
    assert len(bench.handlers.runs) == 1


async def test_a_pod_that_had_finished_before_is_never_probed(started):
    bench = await started(pod_probe(), pods=[pod(phase="Succeeded")])
    await bench.passes(60)
    assert targets(bench) == []
    assert not bench.handlers.runs
    bench.pods.remove()


async def test_a_pod_that_is_being_deleted_ends_liveness_with_success_and_readiness_goes_on(
    bench_of,
):
    bench = bench_of(pod_probe("live", type=ProbeType.LIVENESS), pod_probe("ready"))
    bench.handlers.say(FAILURE, of="live")
    await bench.start(pod())
    await bench.passes(40)
    assert bench.view("live").result is CachedResult.FAILURE
    (live,) = [worker for worker in bench.workers() if worker.probe.name == "live"]
    bench.pods.change(deleting=True)
    assert (live.ended, live.state.result) == (True, CachedResult.SUCCESS)
    runs = len(bench.handlers.runs)
    await bench.passes(20)
    assert [run.probe for run in bench.handlers.runs[runs:]] == ["ready", "ready"]
    assert [view.name for view in bench.probes.views(NAMESPACE)] == ["ready"]


async def test_views_come_in_the_order_of_the_configuration(bench_of):
    bench = bench_of(pod_probe("z"), startup_probe("m"), host_probe("a"))
    await bench.start(pod("etcd-1"), pod("etcd-0"))
    found = [(view.name, view.target.pod) for view in bench.probes.views(NAMESPACE)]
    assert found == [("z", "etcd-0"), ("z", "etcd-1"), ("m", "etcd-0"), ("m", "etcd-1"), ("a", "")]


# Shoots.


async def test_starting_twice_is_starting_once(started):
    bench = await started(gate_probe())
    bench.probes.start(NAMESPACE)
    await bench.passes(5)
    assert len(bench.handlers.runs) == 1
    assert bench.pods.followed == [NAMESPACE]


async def test_stopping_ends_runs_and_results_and_lets_the_pods_go(started):
    bench = await started(gate_probe(), pod_probe(), takes=1.0, pods=[pod()])
    await bench.probes.stop(NAMESPACE)
    assert bench.handlers.under_way == 0
    assert not bench.said()
    assert bench.pods.followed == []
    assert bench.probes.views(NAMESPACE) == ()
    await bench.probes.stop(NAMESPACE)
    bench.pods.tell()
    await bench.passes(60)
    assert len(bench.handlers.runs) == 1


async def test_a_shoot_that_is_probed_again_begins_anew(started):
    bench = await started(gate_probe(), says=[FAILURE])
    await bench.probes.stop(NAMESPACE)
    bench.probes.start(NAMESPACE)
    assert (bench.view().counted, bench.closed()) == (False, None)
    await bench.passes(0.01)
    assert bench.closed()


async def test_shoots_do_not_mix(started):
    bench = await started(gate_probe(), says=[FAILURE])
    bench.handlers.say(SUCCESS)
    bench.probes.start(OTHER)
    await bench.passes(0.01)
    assert bench.probes.closed(NAMESPACE)
    assert bench.probes.closed(OTHER) is None
    await bench.probes.stop(OTHER)
    assert bench.pods.followed == [NAMESPACE]


async def test_what_is_not_probed_has_nothing_to_say(bench_of):
    bench = bench_of(gate_probe())
    assert bench.closed() is None
    assert bench.probes.views(NAMESPACE) == ()
    assert bench.probes.gates(NAMESPACE) == ()


# Leadership.


async def test_a_standby_that_looks_runs_the_gates_and_nothing_else(bench_of):
    bench = bench_of(gate_probe(), host_probe("report"))
    bench.leadership.become(leading=False)
    bench.handlers.say(FAILURE)
    await bench.start()
    await bench.passes(60)
    assert {run.probe for run in bench.handlers.runs} == {"canary"}
    assert bench.closed()


async def test_a_standby_that_does_not_probe_runs_nothing_and_holds_nothing_back(started):
    bench = await started(gate_probe(), host_probe("report"), says=[FAILURE])
    assert bench.closed()
    bench.leadership.become(leading=False, may_probe=False)
    assert bench.closed() is None
    assert bench.probes.gates(NAMESPACE) == ()
    assert bench.probes.views(NAMESPACE) == ()
    runs = len(bench.handlers.runs)
    await bench.passes(120)
    assert len(bench.handlers.runs) == runs


async def test_who_comes_to_lead_starts_what_only_reports_and_keeps_what_the_gates_know(bench_of):
    bench = bench_of(gate_probe(), host_probe("report"))
    bench.leadership.become(leading=False)
    bench.handlers.say(FAILURE)
    await bench.start()
    bench.leadership.become(leading=True)
    assert bench.closed()
    await bench.passes(6)
    assert [run.probe for run in bench.handlers.runs] == ["canary", "report"]


async def test_the_startup_that_a_gate_waits_for_runs_wherever_the_gate_does(bench_of):
    bench = bench_of(pod_probe("gate", effect=gate_probe().effect), startup_probe())
    bench.leadership.become(leading=False)
    await bench.start(pod())
    await bench.passes(15)
    assert [run.probe for run in bench.handlers.runs] == ["startup", "gate"]


async def test_a_startup_that_no_gate_waits_for_is_the_leaders(bench_of):
    bench = bench_of(gate_probe(), startup_probe())
    bench.leadership.become(leading=False)
    await bench.start(pod())
    await bench.passes(15)
    assert {run.probe for run in bench.handlers.runs} == {"canary"}


async def test_what_only_reports_is_spread_over_its_period_so_that_a_start_is_no_burst(started):
    probes = [host_probe(f"probe-{number}") for number in range(200)]
    bench = await started(*probes, chance=random.Random(1))
    await bench.passes(10)
    assert len(bench.run_times) == 200
    in_each_second = [sum(1 for at in bench.run_times if int(at) == second) for second in range(10)]
    assert all(8 <= number <= 35 for number in in_each_second)


async def test_what_begins_in_the_same_stretch_of_time_runs_together_in_each_period(bench_of):
    probes = [host_probe(f"probe-{number}") for number in range(200)]
    bench = bench_of(*probes, chance=random.Random(1), together=0.25)
    # The bench may begin anywhere in a stretch; what begins in one that has begun runs by itself.
    await bench.passes(0.25 - bench.clock.now() % 0.25)
    await bench.start()
    await bench.passes(29.9)
    assert len(bench.run_times) == 600
    # By the clock itself, as the stretches are. A step of virtual time is 10 ms.
    beside = [run.at % 0.25 for run in bench.handlers.runs]
    assert [each for each in beside if 0.02 < each < 0.23] == []
    at_once = Counter(bench.run_times)
    assert max(at_once.values()) <= 15  # 5 of each stretch, more or less: no burst


async def test_a_gate_does_not_wait_for_others_to_run_with(bench_of):
    bench = bench_of(gate_probe(), together=0.25)
    await bench.passes(0.2)
    await bench.start()
    await bench.passes(10)
    assert bench.run_times == [0.2, 10.2]


async def test_a_run_that_ends_although_it_was_broken_off_says_nothing(bench_of):
    bench = bench_of(gate_probe())
    bench.handlers.takes, bench.handlers.stubborn = 1.0, True
    await bench.start()
    await bench.probes.stop(NAMESPACE)
    assert not bench.said()
    assert bench.notices == []
