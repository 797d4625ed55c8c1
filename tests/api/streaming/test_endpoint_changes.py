"""Which changes of endpoint probes are told."""

from dataclasses import replace

import pytest

from app.core.model.endpoints import CachedResult, GateReason, ProbeOutcome, Waiting
from tests.api.facts import CANARY, NAMESPACE, NOW, container, endpoint, gate, healthy

OPEN = (gate(),)


@pytest.fixture
async def change(harness, shoots, endpoints):
    """Begins with one probe, and tells of the next ones; returns what a client heard."""
    shoots.add(healthy())
    endpoints.found[NAMESPACE], endpoints.closing[NAMESPACE] = (endpoint(),), OPEN
    client = await harness.listen()

    async def to(*views, gates=OPEN):
        endpoints.found[NAMESPACE], endpoints.closing[NAMESPACE] = views, gates
        harness.streams.publisher.shoot_changed(NAMESPACE)
        await harness.run(0.3)
        return client.data("shoot")

    return to


@pytest.mark.parametrize(
    "view",
    [
        endpoint(result=CachedResult.FAILURE),
        endpoint(counted=False),
        endpoint(since=NOW - 1),
        endpoint(target=container("etcd-main-0")),
        endpoint(waiting=Waiting.HELD),
        endpoint(gate=GateReason.FAILING),
    ],
    ids=["result", "counted", "since", "target", "waiting", "gate"],
)
async def test_another_result_is_a_change_of_the_shoot(change, view):
    [event] = await change(view)
    assert event["namespace"] == NAMESPACE
    assert len(event["endpointProbes"]) == 1


async def test_a_gate_that_closes_and_one_that_opens_are_told_with_the_reason(change):
    closed = gate(reason=GateReason.FAILING, message="its target fails")
    await change(endpoint(), gates=(closed,))
    events = await change(endpoint())
    assert [each["gates"][0]["state"] for each in events] == ["Closed", "Open"]
    assert events[0]["gates"][0]["message"] == "its target fails"


async def test_targets_that_come_and_go_are_told(change):
    both = endpoint(), endpoint("etcd", container("etcd-main-0"))
    await change(*both)
    events = await change()
    assert [each["endpointProbesTotal"] for each in events] == [2, 0]


async def test_runs_that_change_no_result_are_told_to_nobody(change):
    told = []
    for second in range(20):
        again = replace(
            endpoint(),
            last_run=NOW + second,
            run=100 + second,
            last_outcome=ProbeOutcome.ERROR if second % 2 else ProbeOutcome.SUCCESS,
            message=f"in {second} ms",
        )
        told = await change(again, gates=(gate(message=f"{CANARY} in {second} ms"),))
    assert told == []
