"""Only what is known for sure closes a gate."""

import math
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from app.core.model.endpoints import CachedResult, Effect, EndpointProbeSpec, GateReason, TcpSocket
from app.prober.rules.gates import GateInputs, judge, lifespan

NOW = 1_800_000_000.0
PROBE = EndpointProbeSpec(
    "canary", tcp_socket=TcpSocket(443), host="canary", period=10, effect=Effect.GATE_SCALE_DOWN
)
FAILS = GateInputs(
    "etcd-0/etcd",
    CachedResult.FAILURE,
    counted=True,
    since=NOW - 20,
    result_at=NOW,
    message="refused",
)
WELL = GateInputs("etcd-1/etcd", CachedResult.SUCCESS, counted=True, since=NOW - 5, result_at=NOW)
INITIAL = GateInputs("etcd-2/etcd", CachedResult.FAILURE, since=NOW)
UNSEEN = GateInputs("etcd-3/etcd")
OLD = replace(FAILS, target="etcd-4/etcd", result_at=NOW - 30.1)


def test_why_it_is_closed_names_the_probe_the_targets_what_they_said_and_since_when():
    assert judge(PROBE, [FAILS], NOW).message == (
        "the gate canary is closed, its target fails: "
        "etcd-0/etcd since 2027-01-15T07:59:40Z: refused"
    )


def test_of_many_targets_three_are_named():
    many = [replace(FAILS, target=f"etcd-{number}/etcd") for number in range(4)]
    message = judge(PROBE, many, NOW).message
    assert "all its 4 targets fail: etcd-0/etcd since" in message
    assert message.endswith("; etcd-2/etcd since 2027-01-15T07:59:40Z: refused; and 1 more")
    assert judge(PROBE, many[:3], NOW).message.endswith("Z: refused")


@pytest.mark.parametrize(
    ("readings", "reason", "names"),
    [
        pytest.param([FAILS, WELL], GateReason.PASSING, "healthy: etcd-1/etcd", id="one is well"),
        pytest.param([WELL, OLD], GateReason.PASSING, "healthy: etcd-1/etcd", id="well and old"),
        pytest.param([], GateReason.NO_TARGET, "it has no target", id="none"),
        pytest.param([INITIAL], GateReason.NO_RESULT, "etcd-2/etcd", id="initial value"),
        pytest.param([FAILS, UNSEEN], GateReason.NO_RESULT, "etcd-3/etcd", id="never seen"),
        pytest.param([FAILS, OLD], GateReason.NO_RESULT, "etcd-4/etcd", id="too old"),
        pytest.param(
            [replace(FAILS, counted=False)], GateReason.NO_RESULT, "etcd-0/etcd", id="not counted"
        ),
        pytest.param(
            [replace(WELL, result_at=NOW - 31)], GateReason.NO_RESULT, "etcd-1/etcd", id="was well"
        ),
        pytest.param(
            [replace(FAILS, result_at=None)], GateReason.NO_RESULT, "etcd-0/etcd", id="never ran"
        ),
        pytest.param(
            [replace(FAILS, result=CachedResult.UNKNOWN)],
            GateReason.NO_RESULT,
            "etcd-0/etcd",
            id="unknown",
        ),
    ],
)
def test_it_is_open_and_says_why(readings, reason, names):
    gate = judge(PROBE, readings, NOW)
    assert (gate.closed, gate.reason, gate.until) == (False, reason, math.inf)
    assert gate.message.startswith("the gate canary is open: ")
    assert gate.message.endswith(names)


def test_without_knowing_which_targets_there_are_it_is_open():
    assert judge(PROBE, [FAILS], NOW, known_until=NOW).closed
    gate = judge(PROBE, [FAILS], NOW, known_until=NOW - 0.1)
    assert (gate.closed, gate.reason) == (False, GateReason.TARGETS_UNKNOWN)
    assert gate.message == "the gate canary is open: the pods are not known"


def test_only_want_of_knowledge_makes_it_blind():
    blind = {reason for reason in GateReason if reason.blind}
    assert blind == {GateReason.NO_TARGET, GateReason.NO_RESULT, GateReason.TARGETS_UNKNOWN}


def test_a_closed_gate_says_when_it_opens_by_itself():
    first = replace(FAILS, result_at=NOW - 12)
    gate = judge(PROBE, [FAILS, first], NOW)
    assert gate.until == NOW + 18
    assert judge(PROBE, [FAILS, first], gate.until).closed
    assert not judge(PROBE, [FAILS, first], gate.until + 0.01).closed


def test_a_closed_gate_of_pods_opens_when_their_watch_grows_stale():
    assert judge(PROBE, [FAILS], NOW, known_until=NOW + 4).until == NOW + 4


RESULTS = st.sampled_from([None, *CachedResult])
READINGS = st.lists(
    st.builds(
        GateInputs,
        st.sampled_from(["a", "b"]),
        RESULTS,
        st.booleans(),
        st.just(NOW),
        st.none() | st.floats(NOW - 60, NOW),
    ),
    max_size=4,
)


@given(READINGS, st.floats(NOW - 60, NOW + 60))
def test_it_closes_exactly_while_each_target_fails_and_each_result_is_of_the_last_three_periods(
    readings, known_until
):
    each_fails = all(
        reading.result is CachedResult.FAILURE
        and reading.counted
        and reading.result_at is not None
        and NOW - reading.result_at <= lifespan(PROBE)
        for reading in readings
    )
    gate = judge(PROBE, readings, NOW, known_until)
    assert gate.closed == (bool(readings) and each_fails and known_until >= NOW)


@pytest.mark.parametrize(
    ("period", "timeout", "seconds"), [(10, 1, 30.0), (2, 10, 30.0), (5, 5, 15.0), (1, 1, 3.0)]
)
def test_a_result_lasts_three_times_as_long_as_it_takes_to_have_the_next(period, timeout, seconds):
    assert lifespan(replace(PROBE, period=period, timeout=timeout)) == seconds
