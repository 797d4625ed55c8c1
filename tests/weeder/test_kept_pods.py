"""What was to be deleted and is still there, and why: shown while a recovery goes on, and after its end."""

from dataclasses import replace

import pytest

from app.core.model.weeding import Delete, DeletionResult, End, Keep, KeepReason, PodView
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from app.simulation.workloads import API_SERVER
from app.weeder.deletions import RecoveryLog
from tests.support.weeding import DELETE, GARDENER_WEEDER, NAMESPACE, SCHEDULER, THREE

FIVE = (*THREE, "gardener-resource-manager")
"""Workloads with five pods."""
SOON = Keep(KeepReason.CAP_REACHED, "5 are allowed")
WELL = Keep(KeepReason.NOT_WAITING, "all run")
TRIED = Keep(KeepReason.REFUSED, "429")

TROUBLES = [
    pytest.param(
        Trouble(throttled=True, retry_after=20.0, verbs=DELETE), "429 (Throttled)", id="throttled"
    ),
    pytest.param(Trouble(error_rate=1.0, verbs=DELETE), "internal error", id="5xx"),
    pytest.param(Trouble(silent=True, verbs=DELETE), "no answer", id="no answer"),
]


def shown(harness, *workloads):
    """What is shown of pods of these workloads, the newest recovery's."""
    return [each for each in harness.recovery().spared if each.pod.startswith(workloads)]


def reasons(harness, *workloads):
    return [each.reason for each in shown(harness, *workloads)]


# Refused for good.


async def test_a_refusal_in_passing_is_shown_only_while_it_lasts(harness):
    with harness.world.faults.pods_forbidden("delete"):
        await harness.recover(SCHEDULER, settle=1)
        assert reasons(harness, SCHEDULER) == [KeepReason.FORBIDDEN]
    await harness.run(8)
    assert len(harness.names()) == 1
    assert KeepReason.FORBIDDEN not in reasons(harness, SCHEDULER)


# Not answered as it should be.


@pytest.mark.parametrize(("trouble", "message"), TROUBLES)
async def test_a_pod_that_is_asked_for_in_vain_is_shown_with_what_the_server_said(
    harness, trouble, message
):
    with harness.world.faults.seed_trouble(trouble):
        await harness.recover(SCHEDULER, settle=7)
        (pod,) = shown(harness, SCHEDULER)
        assert pod.reason is KeepReason.REFUSED
        assert message in pod.message
        assert harness.recovery().end is None
        _ = await harness.lose()
        await harness.run(6)
    assert harness.recovery().end is End.LOST
    (pod,) = shown(harness, SCHEDULER)
    assert (pod.reason, message in pod.message) == (KeepReason.REFUSED, True), "after the end too"


async def test_a_pod_that_changes_while_its_deletion_is_on_its_way_is_not_shown_as_spared(harness):
    harness.hold_deletions()
    await harness.recover(SCHEDULER)
    (pod,) = harness.world.pods(NAMESPACE, SCHEDULER)
    touched = {"metadata": {"annotations": {"touched": ""}}}
    harness.world.store.patch(ObjectKey("Pod", NAMESPACE, pod.name), touched)
    await harness.run(20)
    assert reasons(harness, SCHEDULER) == []


async def test_it_vanishes_when_it_runs_again(harness):
    with harness.world.faults.seed_trouble(Trouble(throttled=True, verbs=DELETE)):
        await harness.recover(SCHEDULER, restarts=2, settle=2)
        assert reasons(harness, SCHEDULER) == [KeepReason.REFUSED]
        await harness.run(60)
        assert reasons(harness, SCHEDULER) == [KeepReason.NOT_WAITING]
        _ = await harness.lose()
    assert reasons(harness, SCHEDULER) == []


async def test_it_vanishes_when_somebody_else_has_deleted_it(harness):
    with harness.world.faults.seed_trouble(Trouble(throttled=True, verbs=DELETE)):
        await harness.recover(SCHEDULER, settle=2)
        (before,) = shown(harness, SCHEDULER)
        harness.world.store.delete(ObjectKey("Pod", NAMESPACE, before.pod))
        await harness.run(5)
    assert before.pod not in {each.pod for each in harness.recovery().spared}


@pytest.mark.parametrize(
    "trouble", [Trouble(throttled=True, verbs=DELETE), None], ids=["429", "short"]
)
@pytest.mark.parametrize("selectors", [1, 2])
async def test_it_vanishes_when_no_selector_matches_it_any_more(lab, selectors, trouble):
    """As of a pod that somebody keeps aside to look at it."""
    (of_api,) = GARDENER_WEEDER.services[API_SERVER]
    several = replace(GARDENER_WEEDER, services={API_SERVER: (of_api,) * selectors})
    harness = lab.control_plane(several, min_backoff_remaining=10.0 if trouble else 1000.0)
    with harness.world.faults.seed_trouble(trouble or Trouble()):
        await harness.recover(SCHEDULER)
        (pod,) = harness.world.pods(NAMESPACE, SCHEDULER)
        assert reasons(harness, SCHEDULER)
        patch = {"metadata": {"labels": {"gardener.cloud/role": "debug"}}}
        harness.world.store.patch(ObjectKey("Pod", NAMESPACE, pod.name), patch)
        await harness.run(30)
        assert reasons(harness, pod.name) == []


async def test_a_deletion_that_is_answered_after_the_end_is_no_spared_pod(harness):
    with harness.world.faults.seed_trouble(Trouble(throttled=True, verbs=DELETE)):
        await harness.recover(SCHEDULER, settle=0.5)
        assert reasons(harness, SCHEDULER) == [KeepReason.REFUSED]
    with harness.world.faults.seed_trouble(Trouble(latency=4.0, verbs=DELETE)):
        await harness.until(lambda: len(harness.seed.sent) == 2)
        _ = await harness.lose()
        assert reasons(harness, SCHEDULER) == [KeepReason.REFUSED]
        await harness.run(6)
    assert len(harness.names()) == 1
    assert reasons(harness, SCHEDULER) == []


# Dropped.


async def test_pods_that_were_still_queued_at_the_end_are_shown_as_dropped(slow):
    await slow.recover(*THREE)
    assert slow.recovery().queued == 2
    assert KeepReason.DROPPED not in reasons(slow, *THREE)
    _ = await slow.lose()
    dropped = [each for each in shown(slow, *THREE) if each.reason is KeepReason.DROPPED]
    assert len(dropped) == 2
    assert not {each.pod for each in dropped} & set(slow.names())
    why = "it still waited for its turn when the recovery ended"
    assert {(each.message, each.at) for each in dropped} == {(why, slow.recovery().ended)}


async def test_a_pod_whose_deletion_was_about_to_be_sent_at_the_end_is_shown_as_dropped(harness):
    harness.delay_deletions(5.0)
    await harness.recover(SCHEDULER)
    assert harness.recovery().queued == 0
    _ = await harness.lose()
    await harness.run(10)
    assert harness.seed.sent == []
    assert reasons(harness, SCHEDULER) == [KeepReason.DROPPED]
    assert harness.recovery().queued == 1
    assert "1 that were still queued" in harness.told("WeedingEnded")[0].message


async def test_pods_that_were_queued_when_the_right_was_found_missing_are_forbidden_too(lab):
    """They have not been asked for: the first of them had the answer for all."""
    harness = lab.control_plane(deletions_a_second=1.0)
    with harness.world.faults.pods_forbidden("delete"):
        await harness.recover(*FIVE, settle=20)
    assert harness.recovery().end is End.FORBIDDEN
    assert len({each.pod for each in harness.seed.sent}) <= 3
    assert reasons(harness, *FIVE) == [KeepReason.FORBIDDEN] * 5
    assert any("forbidden" in each.message.lower() for each in shown(harness, *FIVE))


# What there is room for.


def pod(number):
    return PodView("ns", f"pod-{number:04}", f"uid-{number}", "1")


@pytest.mark.parametrize(
    ("those", "one_more", "fits"),
    [(WELL, SOON, True), (WELL, WELL, False), (SOON, SOON, False)],
    ids=["makes room for what is of interest", "not for one that is well", "nor of as much"],
)
def test_a_full_list(those, one_more, fits):
    recovery_log = RecoveryLog()
    for number in range(500):
        recovery_log.skipped(pod(number), those, 0.0)
    recovery_log.skipped(pod(900), one_more, 1.0)
    assert len(recovery_log.spared) == 500
    assert ("pod-0900" in recovery_log.names()) is fits
    recovery_log.skipped(pod(499), TRIED, 2.0)
    assert {each.pod: each.reason for each in recovery_log.spared}["pod-0499"] is TRIED.reason


def test_refused_pods_are_kept_up_to_500():
    recovery_log = RecoveryLog()
    for number in range(501):
        recovery_log.failed(pod(number).name, TRIED, 0.0)
    recovery_log.failed(pod(3).name, Keep(KeepReason.FORBIDDEN, "403"), 1.0)
    assert len(recovery_log.spared) == 500
    assert recovery_log.spared[3].reason is KeepReason.FORBIDDEN


def test_refused_pods_are_among_those_that_are_looked_for_again():
    """One that went while nobody looked must not be shown for ever."""
    recovery_log = RecoveryLog()
    recovery_log.failed(pod(1).name, TRIED, 0.0)
    assert recovery_log.names() == {pod(1).name}
    recovery_log.gone(pod(1).name)
    assert recovery_log.spared == ()


def test_of_a_pod_that_is_well_the_refusal_from_before_is_forgotten():
    """The answer for one of the same name comes when its successor has been judged already."""
    recovery_log = RecoveryLog()
    recovery_log.skipped(pod(1), WELL, 0.0)
    recovery_log.failed(pod(1).name, TRIED, 1.0)
    recovery_log.skipped(replace(pod(1), resource_version="2"), WELL, 2.0)
    recovery_log.close()
    assert recovery_log.spared == ()


def test_a_pod_that_was_deleted_is_not_shown_as_spared_while_it_terminates():
    recovery_log = RecoveryLog()
    recovery_log.deleted(pod(1), Delete("main", 9.0), DeletionResult.DELETED, 0.0)
    recovery_log.skipped(pod(1), Keep(KeepReason.TERMINATING, "it is being deleted already"), 1.0)
    assert recovery_log.spared == ()


def test_of_more_than_500_deletions_each_is_counted():
    recovery_log = RecoveryLog()
    for number in range(750):
        result = DeletionResult.GONE if number % 3 == 0 else DeletionResult.DELETED
        recovery_log.deleted(pod(number), Delete("main", None), result, 0.0)
    assert len(recovery_log.deletions) == 500
    assert recovery_log.number == 500
    recovery_log.deleted(pod(900), Delete("main", None), DeletionResult.DRY_RUN, 0.0)
    assert recovery_log.number == 501
