"""When a shoot is probed (rules 2), and from when on it may be scaled (4.1, "The first minute")."""

from dataclasses import replace

import pytest

from app.core.model.shoots import ClusterView, LastOperation, ShootView, Undecodable, WorkerPool
from app.prober.rules import lifecycle
from app.prober.rules.lifecycle import LifecycleAction
from tests.prober.rules.facts import NOW

SHOOT = ShootView(
    last_operation=LastOperation("Reconcile", "Succeeded", NOW - 600), workers=(WorkerPool("a"),)
)


def decide(deleting=False, **changes):
    shoot = replace(SHOOT, **changes)
    return lifecycle.decide(ClusterView("shoot--a--b", "1", shoot, deleting))


def operation(kind, state="Succeeded", at=NOW - 600):
    return {"last_operation": LastOperation(kind, state, at)}


def test_a_cluster_that_is_gone_stops():
    assert lifecycle.decide(None).action is LifecycleAction.STOP


def test_a_cluster_that_is_being_deleted_stops_even_if_its_shoot_cannot_be_read():
    found = lifecycle.decide(ClusterView("n", "1", Undecodable("cut"), deleting=True))
    assert found.action is LifecycleAction.STOP


@pytest.mark.parametrize(
    "changes",
    [
        {"is_hibernated": True},
        {"last_operation": None},
        operation("Create", "Processing"),
        operation("Create", "Error"),
        operation("Restore", "Processing"),
        operation("Delete", "Processing"),
        {"is_hibernated": True, **operation("Reconcile", "Processing")},
    ],
)
def test_does_not_start_unless_protection_is_active_and_a_running_prober_goes_on(changes):
    found = decide(**changes)
    assert found.action is LifecycleAction.KEEP
    assert not found.runs(running=False, protected=False)
    assert found.runs(running=False, protected=True)
    assert found.runs(running=True, protected=False)


@pytest.mark.parametrize(
    "changes",
    [
        operation("Reconcile", "Processing"),
        operation("Reconcile", "Failed"),
        operation("Reconcile", "Succeeded"),
        operation("Create"),
        operation("Restore"),
    ],
)
def test_starts_or_keeps(changes):
    found = decide(**changes)
    assert found.action is LifecycleAction.PROBE
    assert found.runs(running=False, protected=False)


@pytest.mark.parametrize(
    ("cluster", "reason", "message"),
    [
        (None, "ClusterGone", "the Cluster is gone"),
        (
            ClusterView("n", "1", SHOOT, deleting=True),
            "Deleting",
            "the Cluster is being deleted",
        ),
        (
            ClusterView("n", "1", Undecodable("cut")),
            "Undecodable",
            "the Shoot cannot be read: cut",
        ),
    ],
)
def test_what_a_cluster_says_is_told_with_its_reason(cluster, reason, message):
    found = lifecycle.decide(cluster)
    assert (found.reason, found.message) == (reason, message)


STOP, KEEP, PROBE = LifecycleAction.STOP, LifecycleAction.KEEP, LifecycleAction.PROBE


@pytest.mark.parametrize(
    ("changes", "action", "reason", "message"),
    [
        ({"deleting": True}, STOP, "Deleting", "the Shoot is being deleted"),
        (
            {"hibernation_enabled": True},
            STOP,
            "Hibernated",
            "the Shoot is hibernated or hibernating",
        ),
        (
            {"hibernation_enabled": True, "is_hibernated": True},
            STOP,
            "Hibernated",
            "the Shoot is hibernated or hibernating",
        ),
        (operation("Migrate"), STOP, "Migrating", "the Shoot is moving to another seed"),
        (
            operation("Migrate", "Processing"),
            STOP,
            "Migrating",
            "the Shoot is moving to another seed",
        ),
        ({"workers": ()}, STOP, "NoWorkers", "the Shoot has no workers"),
        ({"is_hibernated": True}, KEEP, "WakingUp", "the Shoot is waking up"),
        ({"last_operation": None}, KEEP, "NoOperation", "the Shoot has no last operation yet"),
        (operation("Create", "Error"), KEEP, "CreateNotSucceeded", "Create is Error"),
        (operation("Restore"), PROBE, "Eligible", "last operation Restore Succeeded"),
    ],
)
def test_what_a_shoot_asks_for_and_why(changes, action, reason, message):
    found = lifecycle.decide(ClusterView("n", "1", replace(SHOOT, **changes)))
    assert (found.action, found.reason, found.message) == (action, reason, message)
    assert found.runs(running=True, protected=True) is (action is not STOP)


@pytest.mark.parametrize("running", [True, False])
def test_an_undecodable_shoot_keeps_what_is_and_says_why(running):
    found = lifecycle.decide(ClusterView("n", "1", Undecodable("workers: not a list")))
    assert found.runs(running=running, protected=True) is running
    assert "workers: not a list" in found.message


# initialDelay


def scaling_from(shoot, in_first_list=False):
    found = lifecycle.scaling_from(shoot, initial_delay=30, now=NOW, in_first_list=in_first_list)
    return round(found - NOW, 6)


def shoot(kind, at):
    return replace(SHOOT, last_operation=LastOperation(kind, "Succeeded", at))


def test_initial_delay_counts_from_when_the_shoot_became_eligible():
    assert scaling_from(shoot("Create", NOW - 10)) == 20


def test_a_shoot_whose_last_operation_lies_further_back_is_not_held_back_again():
    assert scaling_from(shoot("Create", NOW - 31)) == 0


def test_a_time_in_the_future_counts_as_now():
    assert scaling_from(shoot("Create", NOW + 500)) == 30


def test_a_last_operation_without_a_time_counts_as_now():
    assert scaling_from(shoot("Create", None)) == 30


def test_a_shoot_without_last_operation_is_held_back():
    assert scaling_from(replace(SHOOT, last_operation=None)) == 30


def test_a_reconciled_shoot_of_the_first_list_is_not_held_back():
    assert scaling_from(shoot("Reconcile", NOW), in_first_list=True) == 0
    assert scaling_from(shoot("Reconcile", NOW)) == 30
    assert scaling_from(shoot("Create", NOW), in_first_list=True) == 30
