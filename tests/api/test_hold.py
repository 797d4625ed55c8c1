"""The end of a hold: the automatic verdicts act again."""

import pytest

from app.core.errors import (
    Conflict,
    EntryChanged,
    NotKnownYet,
    OperationGone,
    Refused,
    StoreFull,
    Unreachable,
)
from app.core.model.overrides import OverrideEntry
from app.core.model.policy import Loop
from app.core.model.scaling_runs import OperationPhase, ScalingRunStatus, Trigger
from app.core.model.workloads import Direction
from tests.api.facts import NAMESPACE, NOW, healthy, hold, pause

PATH = f"/api/v1/shoots/{NAMESPACE}/hold"
RUNNING = ScalingRunStatus(
    "op-1", NAMESPACE, Direction.UP, Trigger.MANUAL, OperationPhase.RUNNING, NOW
)


@pytest.fixture(autouse=True)
def held(shoots, overrides, scaling_runs):
    shoots.add(healthy())
    scaling_runs.add(RUNNING)
    overrides.entries[NAMESPACE] = OverrideEntry(pause(), hold(done=False))


def phase(scaling_runs):
    return scaling_runs.known["op-1"].phase


def test_the_hold_ends_and_its_run_is_cancelled_and_the_pause_stays(
    client, overrides, scaling_runs
):
    answer = client.delete(PATH)
    assert (answer.status_code, answer.content) == (204, b"")
    assert overrides.entry(NAMESPACE) == OverrideEntry(pause=pause())
    assert phase(scaling_runs) is OperationPhase.CANCELLED


def test_the_end_of_a_hold_that_is_not_there_is_204_and_cancels_nothing(
    client, overrides, scaling_runs
):
    overrides.entries.clear()
    assert client.delete(PATH).status_code == 204
    assert phase(scaling_runs) is OperationPhase.RUNNING


@pytest.mark.parametrize("found", [hold(done=True), hold(operation=None, done=False)])
def test_a_hold_whose_run_has_ended_or_that_has_none_cancels_nothing(
    client, overrides, scaling_runs, found
):
    overrides.entries[NAMESPACE] = OverrideEntry(hold=found)
    assert client.delete(PATH).status_code == 204
    assert overrides.entries == {}
    assert phase(scaling_runs) is OperationPhase.RUNNING


def test_a_standby_ends_it_and_leaves_the_run_to_the_leader(
    client, process, overrides, scaling_runs
):
    process.leading = False
    assert client.delete(PATH).status_code == 204
    assert overrides.entry(NAMESPACE).hold is None
    assert phase(scaling_runs) is OperationPhase.RUNNING


@pytest.mark.parametrize(
    "error",
    [
        Refused("it has ended"),
        OperationGone("of an earlier leader"),
        Unreachable("away"),
        NotKnownYet("not read since the start"),
    ],
)
def test_once_the_hold_is_gone_a_run_that_cannot_be_cancelled_fails_nothing(
    client, overrides, scaling_runs, error
):
    scaling_runs.breaks = error
    assert client.delete(PATH).status_code == 204
    assert overrides.entry(NAMESPACE).hold is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (EntryChanged("changed"), 409),
        (Conflict("changed"), 409),
        (StoreFull("full"), 503),
        (Unreachable("away"), 503),
    ],
)
def test_a_hold_that_cannot_be_ended_keeps_its_run(client, overrides, scaling_runs, error, status):
    overrides.breaks = error
    assert client.delete(PATH).status_code == status
    assert overrides.entry(NAMESPACE).hold is not None
    assert phase(scaling_runs) is OperationPhase.RUNNING


def test_a_namespace_that_is_no_shoots_is_404(client, overrides):
    assert client.delete("/api/v1/shoots/garden/hold").status_code == 404


def test_a_dry_run_ends_no_hold(client, process, overrides, scaling_runs):
    process.dry_run = True
    answer = client.delete(PATH)
    assert answer.json()["type"] == "urn:dependency-watchdog:problem:dry-run"
    assert overrides.entry(NAMESPACE).hold is not None
    assert phase(scaling_runs) is OperationPhase.RUNNING


@pytest.mark.parametrize("peer", [None, "http://dwd-prober:8080"])
def test_holds_are_the_probers(client, process, overrides, peer):
    process.loops, process.peer_url = (Loop.WEEDER,), peer
    found = client.delete(PATH).json()
    assert found["type"] == "urn:dependency-watchdog:problem:loop-not-here"
    assert found["peer"] == peer
    assert overrides.entry(NAMESPACE).hold is not None


def test_the_audit_has_the_hold_that_was_ended_and_its_operation(client, audit):
    client.delete(PATH)
    (record,) = audit.entries()
    said = record.attempt
    assert (said.action, said.namespace, said.target) == ("end-hold", NAMESPACE, "op-1")
    assert said.before["author"] == "alice"
    assert said.after is None


@pytest.mark.parametrize("error", [EntryChanged("changed"), StoreFull("full"), Unreachable("away")])
def test_a_refused_attempt_has_the_hold_that_stays_there(client, overrides, audit, error):
    overrides.breaks = error
    client.delete(PATH)
    said = audit.entries()[0].attempt
    assert (said.performed, said.before["author"], said.before["operation"]) == (
        False,
        "alice",
        "op-1",
    )


def test_so_has_a_dry_run(client, process, audit):
    process.dry_run = True
    client.delete(PATH)
    assert audit.entries()[0].attempt.before["author"] == "alice"


def test_where_the_hold_is_gone_by_then_there_was_none(client, overrides, audit):
    end = overrides.end_hold

    async def end_hold(namespace, **more):
        overrides.entries.clear()
        return await end(namespace, **more)

    overrides.end_hold = end_hold
    assert client.delete(PATH).status_code == 204
    assert audit.entries()[0].attempt.before is None
