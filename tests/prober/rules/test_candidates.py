"""Which nodes count, and what is remembered of those that do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.probing import Exclusion, LeaseState
from app.core.model.shoots import NodeReading, WorkerPool
from app.prober.rules import candidates
from app.prober.rules.candidates import ExclusionMemory
from tests.prober.rules.facts import NOW, judgement, machine, node


def why_not(candidate, machines=None, conditions=None):
    effective = [machine()] if machines is None else machines
    return candidates.candidacy(candidate, effective, conditions or {})


def test_a_node_with_a_running_machine_is_a_candidate():
    assert why_not(node()) is None


def test_a_node_that_mcm_does_not_manage_is_none():
    assert why_not(node(not_managed=True)) is Exclusion.NOT_MANAGED


@pytest.mark.parametrize(
    "condition", ["KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable"]
)
def test_a_condition_that_is_unhealthy_by_default_excludes(condition):
    assert why_not(node(conditions=frozenset({condition}))) is Exclusion.UNHEALTHY_CONDITION


def test_a_condition_that_no_list_names_does_not_exclude():
    assert why_not(node(conditions=frozenset({"MemoryPressure", "Ready"}))) is None


def test_the_list_of_the_nodes_own_pool_replaces_the_default():
    conditions = candidates.pool_conditions([WorkerPool("a", frozenset({"Odd"})), WorkerPool("b")])
    odd, full = frozenset({"Odd"}), frozenset({"DiskPressure"})
    assert why_not(node(pool="a", conditions=odd), conditions=conditions) is not None
    assert why_not(node(pool="a", conditions=full), conditions=conditions) is None
    assert why_not(node(pool="b", conditions=full), conditions=conditions) is not None
    assert why_not(node(pool="c", conditions=full), conditions=conditions) is not None


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ([], Exclusion.NO_MACHINE),
        (["Failed"], Exclusion.MACHINE_FAILED),
        (["Terminating"], Exclusion.MACHINE_TERMINATING),
        (["Terminating", "Failed"], Exclusion.MACHINE_FAILED),
        (["Failed", "Running"], None),
        (["Pending"], None),
        (["Unknown"], None),
        ([""], None),
    ],
)
def test_a_machine_that_is_neither_failed_nor_terminating_is_needed(phases, expected):
    assert why_not(node(), [machine(phase=phase) for phase in phases]) is expected


@pytest.mark.parametrize("reason", ["ReadyForUpdate", "UpdateFailed"])
def test_a_node_in_an_in_place_update_is_none(reason):
    assert why_not(node(in_place_update=reason)) is Exclusion.IN_PLACE_UPDATE


def test_another_reason_of_an_in_place_update_does_not_exclude():
    assert why_not(node(in_place_update="UpdateCandidate")) is None


def test_a_lease_without_a_node_is_no_candidate_lease():
    known = candidates.judge_nodes(NodeReading((node("a"),), (machine("a"),), NOW), {})
    assert known.of("a") is None
    assert known.of("gone") is Exclusion.NO_NODE


def test_a_machine_counts_for_the_node_of_its_label_only():
    machines = (machine("a"), machine("b", "Failed"), machine(None))
    known = candidates.judge_nodes(NodeReading((node("a"), node("b")), machines, NOW), {})
    assert known.of("b") is Exclusion.MACHINE_FAILED
    assert known.with_machine == {"a"}


# Memory.


def remembered(late=True, renewed=NOW - 60):
    known = candidates.judge_nodes(NodeReading((), (), NOW), {})
    lease = judgement("gone", LeaseState.EXPIRED, renewed=renewed, late=late)
    return lease, ExclusionMemory().with_reading([lease], known, NOW)


def test_conditions_are_compared_as_sets():
    memory = ExclusionMemory({"a": frozenset(["x", "y"])})
    assert memory.under({"a": frozenset(["y", "x"])}) is memory


def test_a_candidate_is_not_remembered_as_excluded():
    known = candidates.judge_nodes(NodeReading((node(),), (machine(),), NOW), {})
    lease = judgement("n", LeaseState.EXPIRED, late=True)
    assert ExclusionMemory().with_reading([lease], known, NOW).excluded(lease, NOW) is None


@given(late=st.booleans(), waited=st.floats(0, 1000), moved=st.booleans(), same=st.booleans())
def test_nothing_is_remembered_of_a_lease_that_moved_or_is_5_minutes_old(late, waited, moved, same):
    lease, memory = remembered(late=late)
    memory = memory.under({} if same else {"a": frozenset({"Odd"})})
    seen = judgement("gone", renewed=NOW if moved else lease.renew_time)
    known = memory.excluded(seen, NOW + waited)
    assert (known is not None) == (late and not moved and same and NOW + waited - NOW < 300)
