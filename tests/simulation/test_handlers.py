"""Targets of endpoint probes answer as the world says: hosts by what was said of them, containers by their pods."""

import asyncio
from dataclasses import replace

import pytest

from app.core.model.endpoints import (
    EndpointProbeSpec,
    Exec,
    Grpc,
    HttpGet,
    ProbeOutcome,
    Ran,
    TargetAddress,
    TcpSocket,
)
from app.core.model.names import LabelSelector
from app.simulation.handlers import TargetAnswer
from app.simulation.workloads import PodTimes, Workload
from tests.simulation.worlds import about, simulated
from tests.support.endpointprobes import handled_by

A, B = "shoot--local--a", "shoot--local--b"
CANARY = "canary.example.org"
TCP = EndpointProbeSpec("canary", tcp_socket=TcpSocket(443), host=CANARY)
OUTSIDE = TargetAddress(A, CANARY)
EXACT = PodTimes(jitter=0)
SUCCESS, FAILURE, ERROR = ProbeOutcome

in_a_world = simulated()


async def outcome(world, probe=TCP, address=OUTSIDE):
    return (await world.handlers.run(probe, address)).outcome


def container_of(world, **more):
    world.add_workload(Workload(A, "etcd", ports={"client": 2379}, times=EXACT, **more))
    (pod,) = world.pods(A, "etcd")
    return TargetAddress(A, "10.0.0.1", pod.name, "etcd", {"client": 2379})


def of_container(handler):
    return EndpointProbeSpec("etcd", **handled_by(handler), pods=LabelSelector(), timeout=2)


@in_a_world
async def test_each_answer_has_its_outcome(world):
    expected = {
        TargetAnswer.WELL: SUCCESS,
        TargetAnswer.UNWELL: FAILURE,
        TargetAnswer.REFUSES: FAILURE,
        TargetAnswer.SWALLOWS: FAILURE,
        TargetAnswer.ERRS: ERROR,
    }
    for answer, what in expected.items():
        with world.faults.target_answers(CANARY, answer):
            assert await outcome(world) is what
        assert await outcome(world) is SUCCESS
    assert set(expected) == set(TargetAnswer)


@in_a_world
async def test_a_canary_that_is_down_uses_up_the_time_that_there_is(world, clock):
    begun = clock.now()
    with world.faults.canary_down(CANARY):
        ran = await world.handlers.run(replace(TCP, timeout=3), OUTSIDE)
    assert ran == Ran(FAILURE, "no answer within 3 s")
    assert clock.now() == about(begun + 3)


@in_a_world
async def test_one_that_is_slow_is_well_where_there_is_time_enough(world, clock):
    begun = clock.now()
    with world.faults.target_slow(CANARY, 2.5):
        assert await outcome(world, replace(TCP, timeout=3)) is SUCCESS
        assert clock.now() == about(begun + 2.505)
        assert await outcome(world, replace(TCP, timeout=2)) is FAILURE
    assert clock.now() == about(begun + 4.505)


@in_a_world
async def test_what_is_said_for_one_namespace_holds_there_only_and_goes_first(world):
    with world.faults.target_answers(CANARY, TargetAnswer.REFUSES, namespace=A):
        assert await outcome(world) is FAILURE
        assert await outcome(world, address=TargetAddress(B, CANARY)) is SUCCESS
        with world.faults.target_answers(CANARY, TargetAnswer.ERRS):
            assert await outcome(world) is FAILURE
            assert await outcome(world, address=TargetAddress(B, CANARY)) is ERROR


@in_a_world
async def test_a_cut_of_the_seeds_network_swallows_what_is_for_the_outside(world):
    inside = [
        TargetAddress(A, f"kube-apiserver.{A}.svc"),
        TargetAddress(A, "kube-apiserver.garden.svc.cluster.local"),
        TargetAddress(A, "localhost"),
        container_of(world),
    ]
    with world.faults.seed_network_cut():
        with world.faults.seed_network_cut():
            pass
        assert await outcome(world) is FAILURE
        assert [await outcome(world, address=each) for each in inside] == [SUCCESS] * 4
    assert await outcome(world) is SUCCESS


@in_a_world
async def test_a_run_whose_way_is_mended_in_time_is_answered(world, clock, tasks):
    fault = world.faults.seed_network_cut()
    run = asyncio.ensure_future(world.handlers.run(replace(TCP, timeout=5), OUTSIDE))
    await clock.sleep(2)
    fault.lift()
    assert (await run).outcome is SUCCESS


@pytest.mark.parametrize(
    "handler",
    [TcpSocket(2379), TcpSocket("client"), HttpGet("client"), Grpc(2379), Exec(("true",))],
    ids=repr,
)
@in_a_world
async def test_a_container_answers_while_it_runs_and_is_well_while_it_is_ready(
    world, clock, handler
):
    address, probe = container_of(world, service="etcd"), of_container(handler)
    assert await outcome(world, probe, address) is SUCCESS
    with world.faults.service_unready(A, "etcd"):
        assert await outcome(world, probe, address) is FAILURE
    assert await outcome(world, probe, address) is SUCCESS
    with world.faults.workload_broken(A, "etcd"):
        await clock.sleep(30)
        ran = await world.handlers.run(probe, address)
    dead = Ran(ERROR, "it could not be probed"), Ran(FAILURE, "connection refused")
    assert ran == dead[not isinstance(handler, Exec)]


@in_a_world
async def test_a_pod_that_is_gone_says_nothing(world, clock):
    address = container_of(world)
    world.delete_pod(A, address.pod)
    await clock.sleep(5)
    ran = await world.handlers.run(of_container(TcpSocket(2379)), address)
    assert ran == Ran(FAILURE, "no answer within 2 s")


@in_a_world
async def test_a_port_name_that_the_container_has_not_got_is_an_error_at_once(world, clock):
    begun, address = clock.now(), container_of(world)
    ran = await world.handlers.run(of_container(HttpGet("metrics")), address)
    assert ran == Ran(ERROR, "the container has no port named metrics")
    assert clock.now() == begun
