"""What the log, the history and the subscribers hear of endpoint probes."""

from app.core.metrics import Metrics
from app.core.reporting.history import History
from app.core.reporting.metering import Metering
from app.core.reporting.notices import Severity
from tests.support.endpointprobes import (
    ERROR,
    FAILURE,
    NAMESPACE,
    SUCCESS,
    host_probe,
    pod,
    pod_probe,
)


def told(bench):
    return [(str(each.reason), each.severity) for each in bench.notices]


async def test_a_result_is_told_when_it_counts_and_is_another_one(bench_of):
    bench = bench_of(host_probe())
    bench.handlers.say(SUCCESS, SUCCESS, FAILURE, FAILURE, ERROR, FAILURE, FAILURE, SUCCESS)
    await bench.start()
    await bench.passes(90)
    assert told(bench) == [
        ("EndpointProbeSucceeded", Severity.DEBUG),
        ("EndpointProbeFailed", Severity.WARNING),
        ("EndpointProbeSucceeded", Severity.INFO),
    ]


async def test_a_notice_names_the_probe_the_target_and_what_it_said(started):
    bench = await started(pod_probe(failure_threshold=1), says=[FAILURE], pods=[pod()])
    await bench.passes(6)
    (notice,) = bench.notices
    assert notice.message == "Readiness probe etcd of etcd-0/etcd: Failure: it was Failure"
    assert notice.facts == {"probe": "etcd", "target": "etcd-0/etcd", "result": "Failure"}
    assert notice.namespace == NAMESPACE


async def test_a_restart_of_a_container_that_passes_again_is_no_news_for_the_log(started):
    bench = await started(pod_probe(), pods=[pod()])
    await bench.passes(6)
    bench.pods.change(id="containerd://etcd-2")
    await bench.passes(10)
    assert bench.view().counted
    assert len(bench.notices) == 1


async def test_listeners_hear_of_counted_results_and_of_those_that_count_no_longer(started):
    bench = await started(pod_probe(), pods=[pod()])
    assert bench.told == []  # the initial value is no result
    await bench.passes(6)
    assert bench.told == [NAMESPACE]
    await bench.passes(10)
    assert bench.told == [NAMESPACE]
    bench.pods.change(id="containerd://etcd-2")
    assert bench.told == [NAMESPACE] * 2
    bench.pods.remove()
    assert bench.told == [NAMESPACE] * 2


async def test_a_listener_that_fails_stops_neither_the_worker_nor_the_others(bench_of):
    bench = bench_of(host_probe())
    heard: list[str] = []

    def fails(_):
        raise ValueError

    bench.probes.subscribe(fails)
    bench.probes.subscribe(heard.append)
    await bench.start()
    await bench.passes(6)
    assert heard == [NAMESPACE]
    assert "RunnerFailed" not in bench.reasons


async def test_history_and_metrics_take_what_is_told(bench_of):
    bench = bench_of(host_probe(failure_threshold=1), says=[FAILURE, RuntimeError("boom"), SUCCESS])
    await bench.start()
    await bench.passes(30)
    history, metering = History(), Metering(Metrics())
    for notice in bench.notices:
        history.note(notice)
        metering.note(notice)
    assert [entry.reason for entry in history.of(NAMESPACE)] == [
        "EndpointProbeSucceeded",
        "RunnerFailed",
        "EndpointProbeFailed",
    ]


async def test_of_a_shoot_that_is_probed_again_the_first_result_is_told_again(started):
    bench = await started(host_probe())
    await bench.passes(6)
    await bench.probes.stop(NAMESPACE)
    bench.probes.start(NAMESPACE)
    await bench.passes(6)
    assert told(bench) == [("EndpointProbeSucceeded", Severity.DEBUG)] * 2
