"""Whether protection is active, since when, and what a flow would write (spec, words; 4.3)."""

from app.core.model import annotations as ann
from app.core.model.workloads import Direction, ResourceRef
from app.prober.rules import protection
from app.prober.rules.tally import Stakes
from tests.prober.rules.facts import CA, KCM, MCM, NOW, dependent, protected, workload

OTHER = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")


def test_protection_is_active_iff_a_dependent_carries_the_meltdown_key():
    assert not protection.active([None, workload(0, {ann.REPLICAS: "3"})])
    assert protection.active([workload(), workload(3, {ann.MELTDOWN: "whatever"})])


def test_it_began_at_the_earliest_time_in_its_dependents_annotations():
    views = [
        None,
        protected(since="2027-01-15T08:00:05Z"),
        protected(since="2027-01-15T08:00:00Z"),
        protected(since="nonsense"),
        protected(since=None),
        workload(0, {ann.SINCE: "2020-01-01T00:00:00Z"}),
    ]
    assert protection.began_at(views) == NOW


def test_it_is_not_known_when_it_began_where_no_annotation_says():
    assert protection.began_at([protected(since=None), workload()]) is None


def test_at_zero_counts_whatever_the_annotations():
    assert protection.at_zero([None, protected(), workload(0), workload(2)]) == 2


def stakes(**views):
    dependents = [dependent(KCM), dependent(CA, optional=True)]
    return protection.stakes(dependents, {KCM: views.get("kcm"), CA: views.get("ca")}, NOW)


def test_what_is_up_could_be_written_down_only():
    assert stakes(kcm=workload(1)) == Stakes(False, True, False, exposed=True)


def test_what_is_protected_could_be_written_up_only():
    assert stakes(kcm=protected()) == Stakes(True, False, True)


def test_what_is_gone_has_nothing_to_write():
    assert stakes() == Stakes(False, False, False)


def test_what_is_at_0_without_our_keys_may_be_written_up():
    assert stakes(kcm=workload(0)) == Stakes(True, False, False)


def test_what_is_left_of_our_keys_is_to_be_written_up():
    assert stakes(kcm=workload(1), ca=workload(2, {ann.REPLICAS: "2"})) == Stakes(
        True, True, False, True
    )


def ignored(replicas, **annotations):
    return workload(replicas, {ann.IGNORE_SCALING: "true", **annotations})


def test_what_is_up_and_ignored_is_not_exposed_and_that_it_all_is_is_known():
    assert stakes(kcm=ignored(1)) == Stakes(False, False, False, ignored=True)
    assert stakes(kcm=ignored(1), ca=ignored(2)) == Stakes(False, False, False, ignored=True)
    assert stakes(kcm=ignored(1), ca=workload(0)) == Stakes(True, False, False, ignored=True)


def test_what_is_ignored_does_not_matter_where_something_else_is_up_or_was_taken_down():
    assert stakes(kcm=ignored(1), ca=workload(2)) == Stakes(False, True, False, exposed=True)
    assert stakes(kcm=ignored(1), ca=protected()) == Stakes(True, False, True)
    assert stakes(kcm=ignored(0), ca=ignored(0)) == Stakes(False, False, False)


def test_of_a_protection_that_is_not_complete_what_is_up_is_exposed():
    assert stakes(kcm=workload(1), ca=protected()) == Stakes(True, True, True, exposed=True)


def test_a_key_that_is_dropped_from_an_ignored_dependent_at_0_exposes_nothing():
    found = stakes(kcm=ignored(0, **{ann.MELTDOWN: ""}), ca=protected())
    assert (found.down_writes, found.exposed, found.ignored) == (True, False, False)


def test_replicas_that_only_scale_knows_are_asked_for_wherever_there_may_be_something_to_write():
    """The key alone does not say that it is at 0: a process may have been killed between the two."""
    up = workload(None, ref=OTHER)
    down = protected(None, ref=OTHER)
    assert protection.stakes([dependent(OTHER)], {OTHER: up}, NOW) == Stakes(
        False, True, False, exposed=True
    )
    assert protection.stakes([dependent(OTHER)], {OTHER: down}, NOW) == Stakes(True, True, True)
    for direction in Direction:
        assert protection.assumed(None, direction) is None
        assert protection.assumed(workload(2, ref=MCM), direction) == workload(2, ref=MCM)
