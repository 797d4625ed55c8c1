"""Which deletions may be tried again, and which pods were dealt with."""

import pytest

from app.core.errors import Forbidden
from app.core.model.names import LabelSelector
from app.core.model.weeding import Delete, KeepReason, WeederPolicy
from app.weeder import rules
from app.weeder.rules import UNKNOWN, Ledger, answer
from tests.weeder.rules.facts import NOW, crashed, pod

ALL = (LabelSelector(),)
POLICY = WeederPolicy(watch_duration=300.0)
POD = pod("p-1", crashed(restarts=50))


@pytest.fixture
def records():
    return Ledger(POLICY.watch_duration, POLICY.max_deletions_per_workload)


def judged(records, now=NOW):
    """Of the pod, which has just crashed once more."""
    crashing = pod("p-1", crashed(restarts=50, ago=NOW - now))
    found = rules.judge(crashing, ALL, POLICY, records.deleted_before(crashing, now), now)
    return "Delete" if isinstance(found, Delete) else found.reason


def test_while_a_deletion_is_in_flight_and_once_it_is_done_there_is_no_other(records):
    records.sending(POD, NOW)
    assert judged(records) is KeepReason.ALREADY_DELETED
    records.answered(POD, answer(None))
    assert judged(records, NOW + 1) is KeepReason.ALREADY_DELETED


def test_one_that_got_no_answer_may_be_sent_again_once_it_is_not_in_flight(records):
    records.sending(POD, NOW)
    records.answered(POD, UNKNOWN)
    assert judged(records, NOW + 1) == "Delete"
    records.sending(POD, NOW + 2)
    assert judged(records, NOW + 2) is KeepReason.ALREADY_DELETED


def test_one_that_is_called_off_may_be_tried_again_though_an_earlier_one_may_have_been_carried_out(
    records,
):
    records.sending(POD, NOW)
    records.answered(POD, UNKNOWN)
    records.sending(POD, NOW + 2)
    records.called_off(POD)
    assert judged(records, NOW + 2) == "Delete"


def test_a_refusal_after_one_without_an_answer_leaves_it_open(records):
    records.sending(POD, NOW)
    records.answered(POD, UNKNOWN)
    records.sending(POD, NOW + 2)
    records.answered(POD, answer(Forbidden("403", status=403)))
    assert judged(records, NOW + 3) == "Delete"


def test_that_there_was_no_answer_is_remembered_for_as_long_as_the_deletion_itself(records):
    records.sending(POD, NOW)
    records.answered(POD, UNKNOWN)
    other = pod("p-2", crashed(restarts=50))
    records.sending(other, NOW + 599)
    records.answered(other, UNKNOWN)
    assert judged(records, NOW + 599) == "Delete"


# Refusals in a row.
