"""When a 403 is one in passing, as an API server gives that has just started."""

import math

from app.core.limits import RefusalCount


def test_the_third_refusal_in_a_row_is_not_in_passing():
    refusals = RefusalCount()
    assert not refusals.refused(sent=0.0, now=1.0)
    assert not refusals.refused(sent=3.0, now=4.0)
    assert refusals.refused(sent=6.0, now=7.0)


def test_refusals_of_deletions_that_were_on_their_way_together_are_one():
    refusals = RefusalCount()
    assert not any(refusals.refused(sent=0.9, now=1.0 + late) for late in range(20))


def test_what_is_not_refused_begins_the_count_anew():
    refusals = RefusalCount()
    for sent in (0.0, 3.0, 6.0, 9.0):
        assert not refusals.refused(sent, now=sent + 1)
        refusals.allowed()


def test_after_a_refusal_the_next_deletion_is_tried_2_s_later_and_alone():
    refusals = RefusalCount()
    assert refusals.next_at(on_their_way=True) == -math.inf
    refusals.refused(sent=0.0, now=1.0)
    assert refusals.next_at(on_their_way=True) == math.inf
    assert refusals.next_at(on_their_way=False) == 3.0
    refusals.allowed()
    assert refusals.next_at(on_their_way=True) == -math.inf
