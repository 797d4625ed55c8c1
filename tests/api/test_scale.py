"""Scaling by hand: the order, the plan, and what is refused."""

from dataclasses import replace

import pytest

from app.api.auth.authorization import Call
from app.core.errors import NotKnownYet
from app.core.model.scaling_runs import ScaleSpec, ScalingPlan
from app.core.model.workloads import Direction
from tests.api import facts
from tests.api.fakes import Order, type_of

PATH = f"/api/v1/shoots/{facts.NAMESPACE}/scale"
UP = {"direction": "up", "reason": "the load balancer is back"}
ORDERED = ScaleSpec(Direction.UP, UP["reason"], "tester", 1_800.0)


@pytest.fixture(autouse=True)
def known(shoots):
    shoots.add(facts.healthy())


def test_an_order_is_accepted_with_the_operation_and_where_it_is(client, scaling_runs):
    answer = client.post(PATH, json=UP)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/api/v1/operations/{answer.json()['id']}"
    assert client.get(answer.headers["location"]).json() == answer.json()
    assert scaling_runs.orders == [Order(facts.NAMESPACE, ORDERED)]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"direction": "down"}, {"direction": Direction.DOWN}),
        ({"hold": "24h"}, {"hold": 86_400.0}),
        ({"hold": "1ms"}, {"hold": 0.001}),
        ({"force": True}, {"force": True}),
    ],
    ids=str,
)
def test_what_is_said_is_what_is_ordered(client, scaling_runs, said, expected):
    assert client.post(PATH, json=UP | said).status_code == 202
    assert scaling_runs.orders == [Order(facts.NAMESPACE, replace(ORDERED, **expected))]


def test_if_match_is_handed_on(client, scaling_runs):
    client.post(PATH, json=UP, headers={"If-Match": '"seen"'})
    assert scaling_runs.orders[0].if_match == '"seen"'


# The plan.


def test_a_dry_run_is_judged_on_the_same_order_and_begins_nothing(
    client, scaling_runs, monkeypatch
):
    orders = []

    async def plan(namespace, spec, *, if_match=None):
        orders.append(Order(namespace, spec, if_match))
        return ScalingPlan(namespace, spec.direction, (), '"all"')

    monkeypatch.setattr(scaling_runs, "plan", plan)
    body = UP | {"dryRun": True, "force": True}
    answer = client.post(PATH, json=body, headers={"If-Match": '"seen"'})
    assert (answer.status_code, answer.headers["etag"]) == (200, '"all"')
    assert "location" not in answer.headers
    assert orders == [Order(facts.NAMESPACE, replace(ORDERED, force=True), '"seen"')]
    assert (scaling_runs.orders, scaling_runs.known) == ([], {})


# Refused.


@pytest.mark.parametrize("dry_run", [False, True])
def test_force_needs_a_right_of_its_own_in_the_watchdogs_namespace(
    client, authority, scaling_runs, dry_run
):
    assert client.post(PATH, json=UP | {"force": True, "dryRun": dry_run}).status_code < 300
    asked = [("tester", Call.SCALE, facts.NAMESPACE), ("tester", Call.FORCE_SCALE, facts.HOME)]
    assert authority.asked == asked
    authority.forbidden.add(Call.FORCE_SCALE)
    scaling_runs.orders.clear()
    assert client.post(PATH, json=UP | {"force": True, "dryRun": dry_run}).status_code == 403
    assert scaling_runs.orders == []
    assert client.post(PATH, json=UP | {"dryRun": dry_run}).status_code < 300


# The audit.


def test_the_audit_has_the_hold_that_acted_and_what_the_dependents_had(
    client, shoots, overrides, audit
):
    views = {
        facts.KCM: facts.workload(facts.KCM, 2),
        facts.MCM: facts.protected_workload(facts.MCM),
        facts.CA: None,
    }
    shoots.add(replace(facts.healthy(), resources=views))
    overrides.add(facts.request())
    client.post(PATH, json=UP)
    said = audit.entries()[0].attempt
    assert said.before["hold"]["operation"] == "op-1"
    assert said.before["replicas"] == {str(facts.KCM): 2, str(facts.MCM): 0, str(facts.CA): None}
    assert (said.target, said.after["direction"]) == ("up", "up")


def test_the_audit_of_a_plan_has_nothing_before(client, audit):
    client.post(PATH, json=UP | {"dryRun": True})
    said = audit.entries()[0].attempt
    assert (said.action, said.before) == ("plan", None)


def test_it_waits_no_longer_than_two_seconds_for_the_overrides(
    client, process, overrides, scaling_runs
):
    overrides.synced = False
    scaling_runs.breaks = NotKnownYet("not read since the start")
    answer = client.post(PATH, json=UP)
    assert (answer.status_code, type_of(answer)) == (503, "not-listed")
    assert process.time == pytest.approx(facts.NOW + 2.0, abs=0.2)
