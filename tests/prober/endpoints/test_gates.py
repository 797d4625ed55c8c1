"""Gates as time goes by: they close and open, and it is told when nothing is known of them."""

from dataclasses import replace

import pytest

from app.core.model.endpoints import CachedResult, Effect, GateReason, Waiting
from app.core.model.probing import NoticeKind
from app.core.ports import WatchState
from app.core.reporting.notices import Severity
from tests.support.endpointprobes import (
    ERROR,
    FAILURE,
    NAMESPACE,
    SUCCESS,
    container,
    gate_probe,
    pod,
    pod_probe,
)

POD_GATE = replace(pod_probe("gate"), effect=Effect.GATE_SCALE_DOWN)


def gate(bench):
    (found,) = bench.probes.gates(NAMESPACE)
    return found


def told_of_gates(bench):
    return [str(each.reason) for each in bench.notices if each.reason.startswith("Gate")]


async def test_before_the_first_run_it_is_open(started):
    bench = await started(gate_probe(), takes=1.0, says=[FAILURE])
    assert bench.closed() is None
    assert gate(bench).reason is GateReason.NO_RESULT


async def test_the_first_failure_closes_it_and_everybody_hears(started):
    bench = await started(gate_probe(), says=[FAILURE])
    host = f"kube-apiserver.{NAMESPACE}.svc"
    assert bench.closed().startswith(
        f"the gate canary is closed, its target fails: {host} since 2027-01-15T"
    )
    assert bench.closed().endswith(": it was Failure")
    (notice,) = [each for each in bench.notices if each.reason == "GateClosed"]
    assert (notice.kind, notice.severity) == (NoticeKind.LIFECYCLE, Severity.WARNING)
    assert notice.message == bench.closed()
    assert notice.facts == {"probe": "canary", "gate": "Failing"}
    assert bench.told[-1] == NAMESPACE
    assert bench.view().closed


async def test_a_success_opens_it(started):
    bench = await started(gate_probe(), says=[FAILURE, SUCCESS])
    told = len(bench.told)
    await bench.passes(10)
    assert bench.closed() is None
    assert told_of_gates(bench) == ["GateClosed", "GateOpened"]
    assert len(bench.told) > told
    assert gate(bench).reason is GateReason.PASSING
    assert (bench.view().gate, bench.view().closed) == (GateReason.PASSING, False)
    assert round(gate(bench).since - bench.began, 2) == 10.0


async def test_it_stays_closed_while_failures_go_on_and_is_told_once(started):
    bench = await started(gate_probe(), says=[FAILURE])
    await bench.passes(600)
    assert bench.closed()
    assert told_of_gates(bench) == ["GateClosed"]


async def test_without_a_result_for_three_periods_it_opens_by_itself_and_that_is_told(started):
    bench = await started(gate_probe(), says=[FAILURE, ERROR])
    await bench.passes(29.9)
    assert bench.closed()
    told = len(bench.told)
    await bench.passes(0.2)
    assert told_of_gates(bench) == ["GateClosed", "GateOpened"]
    assert len(bench.told) == told + 1
    opened = bench.notices[-1]
    assert opened.severity is Severity.WARNING
    assert "no counted result, or none for 30 s" in opened.message
    assert bench.closed() is None


async def test_a_process_that_was_frozen_knows_nothing_until_it_has_run_again(started):
    bench = await started(gate_probe(), says=[FAILURE])
    bench.freeze(31)
    assert bench.closed() is None
    await bench.passes(0.1)
    assert bench.closed()
    assert told_of_gates(bench) == ["GateClosed", "GateOpened", "GateClosed"]


async def test_without_a_target_it_is_open_and_that_is_told_once_it_has_lasted(started):
    bench = await started(POD_GATE)
    assert bench.closed() is None
    assert gate(bench).reason is GateReason.NO_TARGET
    await bench.passes(29.9)
    assert told_of_gates(bench) == []
    await bench.passes(0.2)
    assert told_of_gates(bench) == ["GateBlind"]
    await bench.passes(600)
    assert told_of_gates(bench) == ["GateBlind"]
    bench.pods.put(pod())
    await bench.passes(0.1)
    assert told_of_gates(bench) == ["GateBlind", "GateSighted"]


@pytest.mark.parametrize(
    "watch",
    [
        pytest.param(WatchState(synced=False, last_contact=None), id="never asked"),
        pytest.param(WatchState(synced=False, last_contact=4e9), id="never listed"),
        pytest.param(WatchState(synced=True, last_contact=None), id="never in touch"),
        pytest.param(WatchState(synced=True, last_contact=0.0), id="stale"),
    ],
)
async def test_while_the_pods_are_not_known_it_is_open(started, watch):
    bench = await started(POD_GATE, says=[FAILURE], pods=[pod()])
    assert bench.closed()
    bench.pods.state = watch
    assert bench.closed() is None
    assert gate(bench).reason is GateReason.TARGETS_UNKNOWN
    await bench.passes(10)
    assert told_of_gates(bench) == ["GateClosed", "GateOpened"]


async def test_a_closed_gate_opens_when_the_watch_of_its_pods_grows_stale(started):
    bench = await started(replace(POD_GATE, period=3600), says=[FAILURE], pods=[pod()])
    bench.pods.state = WatchState(synced=True, last_contact=bench.clock.now())
    bench.pods.tell()
    await bench.passes(89)
    assert told_of_gates(bench) == ["GateClosed"]
    await bench.passes(1.1)
    assert told_of_gates(bench) == ["GateClosed", "GateOpened"]


async def test_of_several_gates_one_that_is_closed_is_enough(bench_of):
    bench = bench_of(gate_probe(name="first"), gate_probe(name="second"))
    bench.handlers.say(FAILURE, of="second")
    await bench.start()
    assert bench.closed().startswith("the gate second is closed")
    bench.handlers.say(FAILURE, of="first")
    await bench.passes(30.1)
    assert bench.closed().startswith("the gate first is closed")
    assert "; the gate second is closed" in bench.closed()


async def test_a_shoot_that_is_no_longer_probed_has_no_alarm_left(started):
    bench = await started(gate_probe(), says=[FAILURE])
    await bench.probes.stop(NAMESPACE)
    told = len(bench.told)
    await bench.passes(120)
    assert told_of_gates(bench) == ["GateClosed"]
    assert len(bench.told) == told


async def test_a_target_whose_container_has_not_been_created_keeps_it_open(bench_of):
    bench = bench_of(POD_GATE, says=[FAILURE])
    await bench.start(pod("etcd-0"), pod("etcd-1", containers=(container(id="", running=False),)))
    assert bench.closed() is None
    assert gate(bench).message.endswith("etcd-1/etcd")
    unseen = next(view for view in bench.probes.views(NAMESPACE) if view.target.pod == "etcd-1")
    assert (unseen.result, unseen.since, unseen.waiting) == (
        CachedResult.UNKNOWN,
        None,
        Waiting.NOT_CREATED,
    )


async def test_a_closed_gate_goes_on_saying_what_its_targets_said_while_runs_end_in_errors(started):
    bench = await started(gate_probe(), says=[FAILURE, FAILURE, ERROR])
    await bench.passes(25)
    assert bench.view().last_outcome is ERROR
    assert bench.closed().endswith(": it was Failure")
    await bench.passes(30)
    assert bench.closed() is None


async def test_a_gate_that_is_known_for_longer_does_not_make_the_opening_of_another_late(bench_of):
    bench = bench_of(gate_probe(name="short"), gate_probe(name="long", period=3600))
    bench.handlers.say(FAILURE, ERROR, of="short")
    bench.handlers.say(FAILURE, of="long")
    await bench.start()
    await bench.passes(30.1)
    assert told_of_gates(bench) == ["GateClosed", "GateClosed", "GateOpened"]


async def test_an_instance_that_does_not_probe_tells_nothing_of_gates_and_begins_anew(started):
    bench = await started(gate_probe(), says=[FAILURE])
    told = len(bench.told)
    bench.leadership.become(leading=False, may_probe=False)
    assert len(bench.told) > told
    await bench.passes(120)
    assert told_of_gates(bench) == ["GateClosed"]
    bench.leadership.become(leading=False, may_probe=True)
    await bench.passes(0.1)
    assert told_of_gates(bench) == ["GateClosed", "GateClosed"]
    assert bench.closed()
