"""Scaling runs, running and past; and their cancellation."""

from dataclasses import replace

import pytest

from app.api.auth.authorization import Call
from app.api.problems import Problem, ProblemType
from app.core.errors import OperationGone
from app.core.model.scaling_runs import OperationPhase, RunStep, StepPhase, Trigger
from app.core.model.workloads import Direction
from tests.api.facts import CA, KCM, MCM, NAMESPACE, NOW, run

LIST = "/api/v1/operations"


def operation(name="op-1", namespace=NAMESPACE, **more):
    how = {"direction": Direction.DOWN, "trigger": Trigger.AUTO, "namespace": namespace}
    return run(name, **how | more)


def manual(name="op-2", **more):
    return run(name, author="alice", **more)


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["items"]]


# Who may.


@pytest.mark.parametrize(("method", "call"), [("GET", Call.READ_SHOOT), ("DELETE", Call.CANCEL)])
def test_the_right_is_asked_for_on_the_shoot_of_the_operation(
    client, scaling_runs, authority, method, call
):
    scaling_runs.add(manual(namespace="shoot--other"))
    client.request(method, f"{LIST}/op-2")
    assert authority.asked == [("tester", call, "shoot--other")]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_who_may_not_is_not_told_which_operations_there_are(
    client, scaling_runs, authority, method
):
    authority.refuses = Problem(ProblemType.HOST_NOT_ALLOWED, "no")
    scaling_runs.add(manual())
    answers = {client.request(method, f"{LIST}/{each}").status_code for each in ("op-2", "op-9")}
    scaling_runs.breaks = OperationGone("earlier")
    answers.add(client.request(method, f"{LIST}/op-2").status_code)
    assert answers == {403}
    assert {each[2] for each in authority.asked} == {NAMESPACE, ""}
    assert scaling_runs.known["op-2"].phase is OperationPhase.RUNNING


# All.


def test_the_newest_comes_first_and_equals_by_id(client, scaling_runs):
    scaling_runs.add(
        operation("b", created=NOW - 5),
        operation("c", created=NOW - 1),
        operation("a", created=NOW - 5),
    )
    assert ids(client.get(LIST)) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("namespace=shoot--other", ["other"]),
        ("trigger=manual", ["ended", "pending"]),
        ("trigger=auto", ["other", "running"]),
        ("running=true", ["other", "pending", "running"]),
        ("running=false", ["ended"]),
        ("running=true&trigger=manual", ["pending"]),
        ("namespace=nowhere", []),
    ],
)
def test_filters_choose_among_them(client, scaling_runs, query, expected):
    scaling_runs.add(
        operation("running"),
        operation("other", "shoot--other"),
        manual("ended", phase=OperationPhase.DONE),
        manual("pending", phase=OperationPhase.PENDING),
    )
    assert sorted(ids(client.get(f"{LIST}?{query}"))) == expected


# Cancelling.


def test_a_manual_one_is_cancelled(client, scaling_runs):
    scaling_runs.add(manual())
    answer = client.delete(f"{LIST}/op-2")
    assert answer.status_code == 202
    assert answer.json()["phase"] == "Cancelled"
    assert scaling_runs.known["op-2"].phase is OperationPhase.CANCELLED


def test_a_dry_run_names_the_run_and_what_it_would_not_come_to_and_cancels_nothing(
    client, scaling_runs
):
    steps = (
        RunStep(KCM, 0, StepPhase.DONE, written=NOW, ended=NOW),
        RunStep(MCM, 1, StepPhase.RUNNING, written=NOW),
        RunStep(CA, 2),
    )
    scaling_runs.add(replace(manual(), steps=steps))
    answer = client.delete(f"{LIST}/op-2", params={"dryRun": "true"})
    assert answer.status_code == 200
    assert [tuple(each.values()) for each in answer.json()["changes"]] == [
        (f"operation op-2, scaling {manual().direction}", "Running", "Cancelled"),
        (f"{CA}, level 2 of that run", "Waiting", "Cancelled"),
    ]
    assert scaling_runs.known["op-2"].phase is OperationPhase.RUNNING


def test_a_dry_run_is_refused_where_the_cancellation_would_be_refused_or_do_nothing(
    client, scaling_runs, process
):
    process.dry_run = True
    scaling_runs.add(operation(), manual(phase=OperationPhase.DONE))
    for name, why in (("op-1", "pause or hold instead"), ("op-2", "has ended: Done")):
        answer = client.delete(f"{LIST}/{name}", params={"dryRun": "true"})
        assert answer.status_code == 409
        assert why in answer.json()["detail"]
