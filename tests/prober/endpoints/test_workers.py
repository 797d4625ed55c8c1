"""One worker: when it runs, what it asks whom, and what comes of results, errors and crashes."""

from dataclasses import replace

import pytest

from app.core.model.endpoints import CachedResult, Effect, ProbeType, TargetAddress, Waiting
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.ports import WatchState
from app.prober.endpoints.worker import ProbeTarget
from tests.support.endpointprobes import (
    ERROR,
    ETCD,
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

LIVENESS = ProbeType.LIVENESS
MAINS = LabelSelector((Requirement("role", Operator.IN, frozenset({"main"})),))


def result_of(bench, name=None):
    view = bench.view(name)
    return view.result, view.counted


# When it runs.


@pytest.mark.parametrize(
    ("probe", "takes", "times"),
    [
        pytest.param(host_probe(), 0.0, [5, 15, 25, 35], id="one that only reports: anywhere"),
        pytest.param(gate_probe(), 0.0, [0, 10, 20, 30], id="a gate: at once"),
        pytest.param(gate_probe(), 3.3, [0, 10, 20, 30], id="its distance, whatever a run takes"),
        pytest.param(gate_probe(), 13.0, [0, 13, 26], id="longer than a period"),
    ],
)
async def test_it_begins_in_its_first_period_and_keeps_its_distance(started, probe, takes, times):
    bench = await started(probe, takes=takes)
    await bench.passes(38)
    assert bench.run_times == times


async def test_after_the_process_was_frozen_there_is_one_run_and_not_one_for_each_period(started):
    bench = await started(gate_probe())
    await bench.passes(12)
    bench.freeze(300)
    await bench.passes(20)
    late = [at for at in bench.run_times if at > 12]
    assert late == [312.01, 320.0, 330.0]


# Whom it asks.


async def test_the_namespace_stands_in_the_host(started):
    bench = await started(gate_probe())
    (run,) = bench.handlers.runs
    assert run.address == TargetAddress(NAMESPACE, f"kube-apiserver.{NAMESPACE}.svc")
    assert bench.view().target == ProbeTarget(host=f"kube-apiserver.{NAMESPACE}.svc")
    assert str(bench.view().target) == f"kube-apiserver.{NAMESPACE}.svc"


async def test_a_container_is_asked_at_the_ip_that_its_pod_has_then(bench_of):
    bench = bench_of(pod_probe())
    await bench.start(pod(ip="10.0.0.1", containers=(container(ports={"client": 2379}),)))
    await bench.passes(6)
    bench.pods.change(ip="10.0.0.2")
    await bench.passes(10)
    ports = {"client": 2379}
    assert [run.address for run in bench.handlers.runs] == [
        TargetAddress(NAMESPACE, "10.0.0.1", "etcd-0", "etcd", ports),
        TargetAddress(NAMESPACE, "10.0.0.2", "etcd-0", "etcd", ports),
    ]
    assert str(bench.view().target) == "etcd-0/etcd"


async def test_while_nothing_is_known_of_its_pod_it_waits_and_keeps_what_it_knew(started):
    bench = await started(pod_probe(), pods=[pod()])
    await bench.passes(6)
    (worker,) = bench.workers()
    worker.observe(None)
    await bench.passes(20)
    assert len(bench.handlers.runs) == 1
    assert bench.view().waiting is Waiting.NO_POD
    assert result_of(bench) == (CachedResult.SUCCESS, True)


# Errors, and results that count.


async def test_a_run_that_ends_in_an_error_is_repeated_at_once_three_runs_at_most(started):
    bench = await started(gate_probe(), says=[ERROR])
    await bench.passes(5)
    assert bench.run_times == [0.0, 0.0, 0.0]
    assert result_of(bench) == (CachedResult.FAILURE, False)
    assert (bench.view().last_outcome, bench.view().message) == (ERROR, "it was Error")


async def test_each_run_is_metered_with_its_outcome_and_duration(started):
    bench = await started(gate_probe(), takes=0.25, says=[ERROR, SUCCESS])
    await bench.passes(5)
    metered = [(*run[:2], round(run[2], 3)) for run in bench.meter.runs]
    assert metered == [(NAMESPACE, ERROR, 0.25), (NAMESPACE, SUCCESS, 0.25)]


async def test_a_view_says_what_was_found_when_and_how_often(started):
    bench = await started(host_probe(), says=[SUCCESS, FAILURE])
    assert (bench.view().last_run, bench.view().since) == (None, bench.began)
    await bench.passes(26)
    view = bench.view()
    assert (view.name, view.type, view.gate, view.closed) == (
        "canary",
        ProbeType.READINESS,
        None,
        None,
    )
    assert (view.result, view.counted, view.run) == (CachedResult.SUCCESS, True, 2)
    assert round(view.since - bench.began, 2) == 5.0
    assert round(view.last_run - bench.began, 2) == 25.0
    assert (view.last_outcome, view.message, view.waiting) == (FAILURE, "it was Failure", None)


# The life of a container.


async def test_another_container_of_the_same_pod_has_the_initial_value_at_once(bench_of):
    bench = bench_of(pod_probe(type=LIVENESS, failure_threshold=1), says=[FAILURE])
    await bench.start(pod())
    await bench.passes(6)
    assert result_of(bench) == (CachedResult.FAILURE, True)
    assert bench.view().waiting is Waiting.HELD
    bench.pods.change(id="containerd://etcd-2")
    assert result_of(bench) == (CachedResult.SUCCESS, False)
    (entry,) = bench.said()
    assert entry.message == ""


async def test_what_a_run_found_of_a_container_that_was_replaced_meanwhile_is_not_said_of_the_next(
    started,
):
    bench = await started(pod_probe(success_threshold=1), takes=2.0, pods=[pod()])
    await bench.passes(5.5)
    assert bench.handlers.under_way
    bench.pods.change(id="containerd://etcd-2")
    await bench.passes(2)
    assert not bench.handlers.under_way
    assert result_of(bench) == (CachedResult.FAILURE, False)


async def test_a_pod_that_is_being_deleted_during_a_run_ends_its_liveness_when_the_run_ends(
    started,
):
    bench = await started(pod_probe(type=LIVENESS), takes=2.0, pods=[pod()])
    await bench.passes(5.5)
    bench.pods.change(deleting=True)
    await bench.passes(60)
    assert bench.run_times == [5.0]
    assert not bench.said()


async def test_while_startup_has_not_passed_the_others_of_its_target_wait(bench_of):
    bench = bench_of(pod_probe(), startup_probe(failure_threshold=30), host_probe())
    bench.handlers.say(FAILURE, FAILURE, SUCCESS, of="startup")
    await bench.start(pod())
    assert bench.view("etcd").waiting is Waiting.STARTUP
    await bench.passes(20)
    assert bench.view("etcd").waiting is Waiting.STARTUP
    assert {run.probe for run in bench.handlers.runs} == {"startup", "canary"}
    await bench.passes(20)
    assert result_of(bench, "startup") == (CachedResult.SUCCESS, True)
    assert bench.view("startup").waiting is Waiting.STARTED
    assert result_of(bench, "etcd") == (CachedResult.SUCCESS, True)
    assert [run.probe for run in bench.handlers.runs].count("startup") == 3


async def test_until_it_is_known_which_pods_have_a_startup_probe_the_others_wait(
    bench_of, monkeypatch
):
    """Each selector has a watch of its own: the pods of one may be known before those of another."""
    gate = replace(pod_probe(effect=Effect.GATE_SCALE_DOWN), pods=MAINS)
    bench = bench_of(startup_probe(), gate, says=[FAILURE])
    pods, unknown = bench.pods, {ETCD}
    known, state = pods.pods, pods.watch_state
    monkeypatch.setattr(pods, "pods", lambda n, each: () if each in unknown else known(n, each))
    monkeypatch.setattr(
        pods,
        "watch_state",
        lambda n, each: WatchState(each not in unknown, state(n, each).last_contact),
    )
    await bench.start(pod(labels={"app": "etcd", "role": "main"}))
    await bench.passes(25)
    assert bench.view("etcd").waiting is Waiting.STARTUP
    assert not bench.handlers.runs
    assert bench.closed() is None
    unknown.clear()
    pods.tell()
    await bench.passes(25)
    assert {run.probe for run in bench.handlers.runs} == {"startup"}


async def test_after_a_restart_of_the_container_the_others_wait_for_its_startup_again(started):
    bench = await started(startup_probe(), pod_probe(), pods=[pod()])
    await bench.passes(20)
    assert result_of(bench, "etcd") == (CachedResult.SUCCESS, True)
    bench.handlers.say(ERROR, of="startup")
    bench.pods.change(id="containerd://etcd-2")
    await bench.passes(60)
    assert bench.view("etcd").waiting is Waiting.STARTUP
    assert result_of(bench, "etcd") == (CachedResult.FAILURE, False)


async def test_a_startup_that_has_passed_in_the_container_before_holds_up_the_next(
    bench_of, monkeypatch
):
    """Its watch may show the new container later than that of the others."""
    bench = bench_of(startup_probe(), replace(pod_probe(), pods=MAINS))
    await bench.start(pod(labels={"app": "etcd", "role": "main"}))
    await bench.passes(20)
    assert result_of(bench, "etcd") == (CachedResult.SUCCESS, True)
    known, before = bench.pods.pods, bench.pods.pods(NAMESPACE, ETCD)
    late = {ETCD: before}
    monkeypatch.setattr(bench.pods, "pods", lambda n, each: late.get(each) or known(n, each))
    bench.pods.change(id="containerd://etcd-2")
    await bench.passes(20)
    assert bench.view("etcd").waiting is Waiting.STARTUP
    late.clear()
    bench.pods.tell()
    await bench.passes(20)
    assert result_of(bench, "etcd") == (CachedResult.SUCCESS, True)


async def test_a_startup_of_one_container_holds_up_no_other(bench_of):
    bench = bench_of(startup_probe(container="etcd"), pod_probe(container="backup"))
    bench.handlers.say(FAILURE, of="startup")
    await bench.start(pod(containers=(container("etcd"), container("backup"))))
    await bench.passes(20)
    assert result_of(bench, "etcd") == (CachedResult.SUCCESS, True)


async def test_a_startup_that_ended_with_its_pods_deletion_holds_up_nobody(bench_of):
    bench = bench_of(startup_probe(), pod_probe())
    bench.handlers.say(ERROR, of="startup")
    await bench.start(pod())
    await bench.passes(20)
    bench.pods.change(deleting=True)
    await bench.passes(10)
    assert result_of(bench, "etcd") == (CachedResult.SUCCESS, True)


# Crashes.


async def test_a_worker_that_crashes_is_told_and_started_again_and_keeps_what_it_knew(bench_of):
    bench = bench_of(host_probe(), gate_probe(name="other"))
    bench.handlers.say(SUCCESS, RuntimeError("boom"), SUCCESS, of="canary")
    await bench.start()
    await bench.passes(16)
    (crash,) = [each for each in bench.notices if each.reason == "RunnerFailed"]
    assert crash.namespace == NAMESPACE
    assert crash.message == (
        f"the worker of probe canary on kube-apiserver.{NAMESPACE}.svc failed and is started "
        "again: RuntimeError"
    )
    assert result_of(bench, "canary") == (CachedResult.SUCCESS, True)
    await bench.passes(10)
    canary = [run.at - bench.began for run in bench.handlers.runs if run.probe == "canary"]
    assert [round(at) for at in canary] == [5, 15, 25]


@pytest.mark.parametrize("seconds", [1.5, 30.0])
async def test_a_worker_that_crashes_again_and_again_is_no_flood(started, seconds):
    bench = await started(gate_probe(period=1), says=[RuntimeError("boom")])
    await bench.passes(seconds)
    crashes = bench.reasons.count("RunnerFailed")
    assert 1 <= crashes <= 6
    assert len(bench.handlers.runs) == crashes
