"""The end of a hold: the automatic verdicts act again."""

from dataclasses import replace

import pytest

from app.core.errors import FeatureUnavailable, Unreachable
from app.core.model.scaling_runs import OperationPhase
from app.core.model.workloads import Direction
from tests.api.facts import NAMESPACE, NOW, healthy, pause, request
from tests.api.fakes import type_of

PATH = f"/api/v1/shoots/{NAMESPACE}/hold"


@pytest.fixture(autouse=True)
def held(shoots, overrides):
    shoots.add(healthy())
    overrides.add(pause(), request(done=False))


def test_the_hold_ends_with_its_request_and_the_pause_stays(client, overrides, audit):
    answer = client.delete(PATH)
    assert (answer.status_code, answer.content) == (204, b"")
    assert overrides.orders == {}
    assert overrides.effective(NAMESPACE).hold is None
    assert overrides.api() == pause()
    said = audit.entries()[0].attempt
    assert (said.action, said.namespace, said.target) == ("end-hold", NAMESPACE, "op-1")
    assert (said.before["author"], said.after) == ("alice", None)


def test_of_several_holds_the_one_that_acts_is_ended_and_the_others_stay(client, overrides):
    overrides.clear()
    overrides.add(request(operation="op-2"), request(done=False))
    assert client.delete(PATH).status_code == 204
    assert list(overrides.orders) == ["op-2"]


def test_a_request_that_holds_nothing_is_left_alone(client, overrides):
    overrides.clear()
    over = replace(request(), hold_until=NOW - 1)
    failed = replace(request(Direction.UP, "op-2"), phase=OperationPhase.FAILED, hold_until=None)
    overrides.add(over, failed)
    assert client.delete(PATH).status_code == 204
    assert len(overrides.orders) == 2


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (FeatureUnavailable("scalerequests", "may not be deleted"), "feature-off"),
        (Unreachable("away"), "seed-away"),
    ],
)
def test_a_hold_that_cannot_be_ended_stays_and_is_in_the_audit(
    client, overrides, audit, error, problem
):
    overrides.breaks = error
    answer = client.delete(PATH)
    assert (answer.status_code, type_of(answer)) == (503, problem)
    assert len(overrides.orders) == 1
    said = audit.entries()[0].attempt
    assert not said.performed
    assert (said.before["author"], said.before["operation"]) == ("alice", "op-1")


def test_where_there_are_no_requests_the_feature_is_off(client, overrides):
    overrides.clear()
    overrides.off = "the right to list scalerequests is missing"
    answer = client.delete(PATH)
    assert (answer.status_code, type_of(answer)) == (503, "feature-off")


def test_right_after_the_start_it_is_not_known_whether_there_is_one(client, overrides):
    overrides.synced = False
    answer = client.delete(PATH)
    assert (answer.status_code, type_of(answer)) == (503, "not-listed")
    assert len(overrides.orders) == 1


def test_where_the_hold_is_gone_by_then_there_was_none(client, overrides, audit):
    end = overrides.delete_request

    async def delete_request(found, *, by):
        overrides.orders.clear()
        return await end(found, by=by)

    overrides.delete_request = delete_request
    assert client.delete(PATH).status_code == 204
    assert audit.entries()[0].attempt.before is None
