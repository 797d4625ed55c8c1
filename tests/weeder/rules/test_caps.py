"""How many pods of one owner may be deleted within watchDuration."""

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Forbidden, NotFound, Unreachable
from app.core.model.names import LabelSelector
from app.core.model.weeding import Delete, WeederPolicy
from app.weeder import rules
from app.weeder.rules import UNKNOWN, DeletedBefore, Ledger
from tests.weeder.rules.facts import NOW, owner, pod

WINDOW = 300.0
LEAST = 5
OTHER = owner("rs-2")


def ledger(*sent, at=NOW):
    """One that has entered the pods of these uids."""
    made = Ledger(WINDOW, LEAST)
    for uid in sent:
        made.enter(pod(uid), at)
    return made


def used(made, now=NOW, view=None):
    return made.deleted_before(view or pod("new"), now).used


def allowed(made, now=NOW, view=None):
    return made.deleted_before(view or pod("new"), now).allowed


def already(made, uid, now=NOW):
    return made.deleted_before(pod(uid), now).already


def pods(number, whose=None):
    return [pod(f"o{n}", owner=whose or pod().owner) for n in range(number)]


# What counts.


def test_owners_are_told_apart_by_uid_and_not_by_name():
    made = ledger("a", "b")
    assert used(made, view=pod("c", owner=pod().owner._replace(uid="rs-9"))) == 0
    assert used(made, view=pod("c", owner=OTHER)) == 0
    renamed = pod("c", owner=pod().owner._replace(name="x", kind="StatefulSet"))
    assert used(made, view=renamed) == 2


def test_a_uid_is_remembered_for_two_windows():
    made = ledger("a")
    assert already(made, "a", NOW + 2 * WINDOW - 0.5)
    assert not already(made, "a", NOW + 2 * WINDOW)


# What is sent again.


def test_for_a_pod_whose_deletion_is_sent_again_its_own_does_not_count():
    made = ledger("a", "b")
    made.answered(pod("a"), UNKNOWN)
    assert made.deleted_before(pod("a"), NOW) == DeletedBefore(already=False, used=1, allowed=LEAST)
    assert made.deleted_before(pod("new"), NOW) == DeletedBefore(
        already=False, used=2, allowed=LEAST
    )


@pytest.mark.parametrize(
    ("steps", "dealt_with"),
    [
        (["sending"], True),
        (["sending", "done"], True),
        (["sending", "unanswered"], False),
        (["sending", "unanswered", "sending"], True),
        (["sending", "unanswered", "sending", "called off"], False),
        (["sending", "unanswered", "sending", "refused"], False),
        (["sending", "called off"], False),
    ],
)
def test_a_deletion_is_sent_again_only_if_it_may_not_have_been_carried_out_and_is_not_in_flight(
    steps, dealt_with
):
    made, one = ledger(), pod("a")
    for second, step in enumerate(steps):
        if step == "sending":
            made.sending(one, NOW + second)
        elif step == "called off":
            made.called_off(one)
        else:
            error = {"refused": Forbidden("403", status=403), "unanswered": Unreachable("cut")}
            made.answered(one, rules.answer(error.get(step)))
    assert already(made, "a", NOW + len(steps)) is dealt_with


def test_that_there_was_no_answer_is_remembered_for_as_long_as_the_deletion_itself():
    made = ledger("a")
    made.answered(pod("a"), UNKNOWN)
    made.enter(pod("b"), NOW + 2 * WINDOW - 1)
    assert not already(made, "a", NOW + 2 * WINDOW - 1)


def test_a_404_after_no_answer_counts_as_the_first_request_may_have_deleted_it():
    made = ledger("a")
    made.answered(pod("a"), UNKNOWN)
    made.sending(pod("a"), NOW + 1)
    made.answered(pod("a"), rules.answer(NotFound("gone", status=404)))
    assert used(made) == 1


def test_one_that_was_answered_when_it_was_sent_again_is_not_sent_a_third_time():
    made = ledger("a")
    made.answered(pod("a"), UNKNOWN)
    made.sending(pod("a"), NOW + 1)
    assert already(made, "a", NOW + 1), "it is on its way"
    made.answered(pod("a"), rules.answer(None))
    assert already(made, "a", NOW + 2)


def test_its_own_that_has_left_the_window_is_not_taken_off_twice():
    made = ledger("a")
    made.enter(pod("b"), NOW + 100)
    made.answered(pod("a"), UNKNOWN)
    assert made.deleted_before(pod("a"), NOW + WINDOW).used == 1


def test_its_own_that_counts_for_an_earlier_owner_is_not_taken_off():
    made = ledger("a")
    made.enter(pod("b", owner=OTHER), NOW)
    made.answered(pod("a"), UNKNOWN)
    assert made.deleted_before(pod("a", owner=OTHER), NOW).used == 1


# What is allowed.


@pytest.mark.parametrize(("first", "second"), [(8, 20), (20, 8)])
def test_the_first_recovery_within_the_window_decides(first, second):
    made = ledger()
    made.opened(NOW, pods(first))
    made.opened(NOW + 100, pods(second))
    assert allowed(made, NOW + WINDOW - 1) == first
    assert allowed(made, NOW + WINDOW) == second
    assert allowed(made, NOW + WINDOW + 100) == LEAST


def test_time_that_goes_back_gives_nothing_free():
    made = ledger("a")
    made.opened(NOW + WINDOW - 1, pods(8))
    assert made.deleted_before(pod("new"), NOW - 1e6) == DeletedBefore(
        already=False, used=1, allowed=8
    )
    made.enter(pod("b"), NOW - 1e6)
    assert used(made, NOW + WINDOW) == 1


# Size and speed.


def held(made):
    return sum(len(each) for each in vars(made).values() if hasattr(each, "__len__"))


def test_after_two_windows_without_deletions_nothing_is_held():
    made = ledger(*(f"p{n}" for n in range(100)))
    made.opened(NOW, pods(50))
    made.answered(pod("p1"), UNKNOWN)
    assert held(made) > 200
    made.deleted_before(pod("new"), NOW + 2 * WINDOW)
    made.answered(pod("p2"), UNKNOWN)
    assert held(made) == 0


def test_what_is_held_does_not_grow_with_time():
    made, sizes = ledger(), []
    for second in range(int(8 * WINDOW)):
        now = NOW + second
        if second % 60 == 0:
            made.opened(now, [pod("x", owner=owner(f"rs-{n}")) for n in range(10)])
        made.enter(pod(f"p{second}", owner=owner(f"rs-{second}")), now)
        sizes.append(held(made))
    assert max(sizes) == max(sizes[: int(3 * WINDOW)])


# Properties, against lists that forget nothing.


class Plain:
    """What the page says, by looking at everything each time."""

    def __init__(self, window, least):
        self.window, self.least = window, least
        self.sent, self.openings = [], []

    def deleted_before(self, view, now):
        mine = [s for s in self.sent if s[1] == key(view) and now - self.window < s[2] <= now]
        counts = [
            sum(1 for each in there if key(each) == key(view) and not each.terminating)
            for at, there in self.openings
            if at > now - self.window
        ]
        first = next((count for count in counts if count), 0)
        known = any(s[0] == view.uid and s[2] > now - 2 * self.window for s in self.sent)
        return DeletedBefore(known, len(mine), max(self.least, first))

    def enter(self, view, now):
        self.take_back(view.uid)
        self.sent.append((view.uid, key(view), now))

    def take_back(self, uid):
        self.sent = [s for s in self.sent if s[0] != uid]

    def opened(self, now, there):
        self.openings.append((now, list(there)))


def key(view):
    return view.uid if view.owner is None else view.owner.uid


VIEWS = st.builds(
    lambda n, whose, terminating: pod(f"p{n}", owner=whose, terminating=terminating),
    st.integers(0, 12),
    st.sampled_from([None, pod().owner, pod().owner, OTHER]),
    st.booleans(),
)
STEPS = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 4.0, 9.5, 10.0, 25.0])),
    st.tuples(st.just("opened"), st.lists(VIEWS, max_size=8, unique_by=lambda view: view.uid)),
    st.tuples(st.just("enter"), VIEWS),
    st.tuples(st.just("take_back"), VIEWS),
    st.tuples(st.just("ask"), VIEWS),
)


@given(st.lists(STEPS, max_size=40), st.integers(1, 3))
def test_it_says_what_lists_that_forget_nothing_say(steps, least):
    made, plain, now = Ledger(10.0, least), Plain(10.0, least), NOW
    for what, given_ in steps:
        if what == "wait":
            now += given_
        elif what == "opened":
            made.opened(now, given_)
            plain.opened(now, given_)
        elif what == "enter":
            made.enter(given_, now)
            plain.enter(given_, now)
        elif what == "take_back":
            made.take_back(given_.uid)
            plain.take_back(given_.uid)
        else:
            assert made.deleted_before(given_, now) == plain.deleted_before(given_, now)
    for view in (pod("p1"), pod("p2", owner=OTHER), pod("p3", owner=None)):
        assert made.deleted_before(view, now) == plain.deleted_before(view, now)


def test_an_owner_that_a_recovery_finds_takes_less_than_half_a_kb():
    """After an outage of a whole seed there are 10,000, and they stay until a pod is judged again."""
    found = [[pod(f"p{n}", owner=owner(f"rs-{n}"))] for n in range(1_000)]
    made = Ledger(WINDOW, LEAST)
    tracemalloc.start()
    for each in found:
        made.opened(NOW, each)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 500 * len(found)


ATTEMPTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 3.0, 11.0]),  # seconds since the last
        st.sampled_from(["judge"] * 6 + ["recovery"]),
        st.integers(0, 30),  # a pod; its owner follows from its number, as a pod keeps its owner
        st.sampled_from(["accepted"] * 4 + ["refused", "unanswered"]),
    ),
    max_size=80,
)


def owned(n):
    return pod(f"p{n}", owner=(pod().owner, OTHER)[n % 2])


@given(ATTEMPTS)
def test_no_uid_twice_and_never_more_than_the_cap_in_any_window(attempts):
    """What a server may have deleted, whatever the recoveries and answers; the cap here is 6 for each owner."""
    policy = WeederPolicy(watch_duration=50.0, max_deletions_per_workload=2)
    made, now, deleted = Ledger(policy.watch_duration, 2), NOW, []
    everything = [replace(owned(n), uid=f"start-{n}") for n in range(12)]
    made.opened(now, everything)
    for gap, what, number, answer in attempts:
        now += gap
        if what == "recovery":
            made.opened(now, everything[: number % 13])
            continue
        view = owned(number)
        if not isinstance(judged(view, policy, made, now), Delete):
            continue
        made.enter(view, now)
        if answer == "refused":
            made.take_back(view.uid)
        else:
            deleted.append((view, now))
    for view, at in deleted:
        since = [each for each in deleted if at - 50.0 < each[1] <= at]
        assert sum(1 for each, _ in since if each.owner == view.owner) <= 6
        assert (
            sum(1 for each, when in deleted if each.uid == view.uid and at <= when < at + 100) == 1
        )


def judged(view, policy, made, now):
    crashing = replace(view, containers=tuple(c._replace(last_exit=now) for c in view.containers))
    return rules.judge(crashing, (LabelSelector(),), policy, made.deleted_before(view, now), now)
