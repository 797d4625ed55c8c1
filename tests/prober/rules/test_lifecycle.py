"""When a shoot is probed (rules 2), and from when on it may be scaled (4.1, "The first minute")."""

from dataclasses import replace

import pytest

from app.core.model.shoots import ClusterView, LastOperation, ShootView, Undecodable, WorkerPool
from app.prober.rules import lifecycle
from app.prober.rules.lifecycle import Lifecycle, LifecycleAction
from tests.prober.rules.facts import NOW

SHOOT = ShootView(
    last_operation=LastOperation("Reconcile", "Succeeded", NOW - 600), workers=(WorkerPool("a"),)
)


STOP, KEEP = LifecycleAction.STOP, LifecycleAction.KEEP
PROBE, UNKNOWN = LifecycleAction.PROBE, LifecycleAction.UNKNOWN
DELETED = "the Cluster is being deleted"
HIBERNATED = "the Shoot is hibernated or hibernating"
MOVING = "the Shoot is moving to another seed"
SELF_HOSTED = "the Shoot runs its control plane on its own nodes"


def cluster(shoot=SHOOT, *, deleting=False, **changes):
    changed = replace(shoot, **changes) if changes else shoot
    return ClusterView("shoot--a--b", "1", changed, deleting)


def after(kind, state="Succeeded"):
    return cluster(last_operation=LastOperation(kind, state, NOW - 600))


@pytest.mark.parametrize(
    ("given", "action", "reason", "message"),
    [
        (None, STOP, "ClusterGone", "the Cluster is gone"),
        (cluster(deleting=True), STOP, "Deleting", DELETED),
        (cluster(Undecodable("cut"), deleting=True), STOP, "Deleting", DELETED),
        (cluster(Undecodable("cut")), UNKNOWN, "Undecodable", "the Shoot cannot be read: cut"),
        (cluster(replace(SHOOT, deleting=True)), STOP, "Deleting", "the Shoot is being deleted"),
        (cluster(hibernation_enabled=True), STOP, "Hibernated", HIBERNATED),
        (cluster(hibernation_enabled=True, is_hibernated=True), STOP, "Hibernated", HIBERNATED),
        (after("Migrate"), STOP, "Migrating", MOVING),
        (after("Migrate", "Processing"), STOP, "Migrating", MOVING),
        (cluster(workers=()), STOP, "NoWorkers", "the Shoot has no workers"),
        (cluster(self_hosted=True), STOP, "SelfHosted", SELF_HOSTED),
        (cluster(is_hibernated=True), KEEP, "WakingUp", "the Shoot is waking up"),
        (cluster(last_operation=None), KEEP, "NoOperation", "the Shoot has no last operation yet"),
        (after("Create", "Processing"), KEEP, "CreateNotSucceeded", "Create is Processing"),
        (after("Create", "Error"), KEEP, "CreateNotSucceeded", "Create is Error"),
        (after("Restore", "Processing"), KEEP, "RestoreNotSucceeded", "Restore is Processing"),
        (after("Delete", "Processing"), KEEP, "DeleteNotSucceeded", "Delete is Processing"),
        (after("Create"), PROBE, "Eligible", "last operation Create Succeeded"),
        (after("Restore"), PROBE, "Eligible", "last operation Restore Succeeded"),
        (after("Reconcile"), PROBE, "Eligible", "last operation Reconcile Succeeded"),
        (
            after("Reconcile", "Processing"),
            PROBE,
            "Eligible",
            "last operation Reconcile Processing",
        ),
        (after("Reconcile", "Failed"), PROBE, "Eligible", "last operation Reconcile Failed"),
    ],
)
def test_what_a_cluster_asks_for_and_why(given, action, reason, message):
    assert lifecycle.decide(given) == Lifecycle(action, reason, message)


@pytest.mark.parametrize(
    ("action", "neither", "protected", "running"),
    [
        (PROBE, True, True, True),
        (KEEP, False, True, True),
        (UNKNOWN, False, False, True),
        (STOP, False, False, False),
    ],
)
def test_whether_it_is_probed_may_depend_on_what_runs_and_on_whether_protection_is_active(
    action, neither, protected, running
):
    found = Lifecycle(action, "Because", "it is so")
    assert found.runs(running=False, protected=False) is neither
    assert found.runs(running=False, protected=True) is protected
    assert found.runs(running=True, protected=False) is running
    assert found.runs(running=True, protected=True) is running


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
