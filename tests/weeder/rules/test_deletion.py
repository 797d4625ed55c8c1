"""Whether a pod is deleted, or why not."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.weeding import (
    CRASH_LOOP,
    ContainerView,
    Delete,
    Keep,
    KeepReason,
    OwnerView,
    WeederPolicy,
)
from app.weeder import rules
from app.weeder.rules import DeletedBefore
from tests.weeder.rules.facts import NOW, crashed, pod, running

ALL = LabelSelector()
NONE = LabelSelector((Requirement("role", Operator.EXISTS),))
POLICY = WeederPolicy()
FREE = DeletedBefore(already=False, used=0, allowed=5)


def judged(view, selectors=(ALL,), policy=POLICY, *, already=False, used=0, allowed=5, now=NOW):
    return rules.judge(view, selectors, policy, DeletedBefore(already, used, allowed), now)


def reason(view, *args, **more):
    verdict = judged(view, *args, **more)
    assert isinstance(verdict, Keep), verdict
    return verdict.reason


def left(restarts=6, ago=0.0, now=NOW):
    return rules.remaining_backoff(crashed("main", restarts, ago), now)


# The remaining back-off.


@pytest.mark.parametrize(
    ("restarts", "whole"),
    [(0, 10), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (2**31, 300), (2**63, 300)],
)
def test_the_back_off_is_10_seconds_doubled_by_each_restart_up_to_5_minutes(restarts, whole):
    assert left(restarts) == whole
    assert left(restarts, 4) == whole - 4
    assert left(restarts, whole) == 0


@pytest.mark.parametrize(
    ("told", "restarts", "whole"),
    [
        *((10.0, 40, 10.0), (1.0, 40, 1.0), (160.0, 40, 160.0), (1e9, 40, 300.0)),
        *((160.0, None, 160.0), (1e9, None, 300.0), (5.0, 1, 5.0), (300.0, 2, 20.0)),
    ],
)
def test_the_back_off_is_what_the_kubelet_says_where_that_is_shorter_than_restarts_suggest(
    told, restarts, whole
):
    """It begins anew after 10 minutes without a crash, and when the kubelet restarts; restarts go on counting."""
    assert rules.remaining_backoff(crashed(restarts=restarts, backoff=told), NOW) == whole
    later = crashed(restarts=restarts, ago=0.5, backoff=told)
    assert rules.remaining_backoff(later, NOW) == whole - 0.5


def test_a_back_off_whose_begin_is_not_told_is_not_known_whatever_its_length():
    assert rules.remaining_backoff(crashed(ago=None, backoff=10.0), NOW) is None


def test_a_pod_that_crashed_often_in_its_life_is_left_alone_while_its_back_off_is_short():
    long_lived = crashed(restarts=12, backoff=10.0)
    assert reason(pod("a", long_lived)) is KeepReason.SHORT_BACKOFF


def test_an_exit_in_the_future_is_another_clock_and_waits_no_more_than_the_whole_back_off():
    assert left(2, -3600) == 20


@pytest.mark.parametrize(
    ("restarts", "ago"), [(None, 0), (6, None), (None, None), (-1, 0), (-(2**31), 0), (6, NOW)]
)
def test_without_a_restart_count_or_an_exit_time_it_is_not_known(restarts, ago):
    assert left(restarts, ago) is None


@given(st.none() | st.integers(-5, 2**40), st.none() | st.floats(-1e9, 1e12), st.floats(0, 1e12))
def test_it_is_never_negative_and_never_more_than_5_minutes(restarts, last_exit, now):
    found = rules.remaining_backoff(ContainerView("a", CRASH_LOOP, restarts, last_exit), now)
    assert found is None or 0 <= found <= 300
    untold = last_exit is None or last_exit <= 0
    assert (found is None) == (restarts is None or restarts < 0 or untold)


# What is deleted.


@pytest.mark.parametrize(
    ("containers", "counts"),
    [
        ([crashed("short", 1), crashed("long", 5), crashed("middle", 3)], Delete("long", 160.0)),
        ([crashed("long", 6), crashed("unknown", None)], Delete("unknown", None)),
        ([crashed("init", 6, init=True), running()], Delete("init", 300.0)),
    ],
    ids=["the longest", "one that is not known", "an init container"],
)
def test_of_the_waits_of_several_containers_the_longest_counts(containers, counts):
    assert judged(pod("a", *containers)) == counts


# What is not, and why.


@pytest.mark.parametrize(
    "container",
    [
        running(),
        ContainerView("main"),
        ContainerView("main", ""),
        ContainerView("main", "ImagePullBackOff", 6, NOW),
        ContainerView("main", "crashloopbackoff", 6, NOW),
        ContainerView("main", None, 2**31, NOW),
    ],
)
def test_a_pod_whose_container_does_not_wait_for_a_back_off_is_left_alone(container):
    assert reason(pod("a", container)) is KeepReason.NOT_WAITING


def test_a_pod_without_container_status_is_left_alone():
    verdict = judged(replace(pod("a"), containers=()))
    assert verdict == Keep(KeepReason.NOT_WAITING, "it lists no containers")


@pytest.mark.parametrize(
    ("least", "waits", "culled"),
    [
        (10.0, crashed("main", 2, 9.9), True),  # of 20 s in all
        (10.0, crashed("main", 2, 10.0), False),
        (0.0, crashed("main", 1, 9.5), True),
        (0.0, crashed("main", 1, 10.0), False),
        (300.0, crashed("main", 6, 0.0), False),
        (300.0, crashed("main", None), True),
    ],
)
def test_the_remaining_back_off_has_to_exceed_min_backoff_remaining_or_to_be_unknown(
    least, waits, culled
):
    verdict = judged(pod("a", waits), policy=WeederPolicy(min_backoff_remaining=least))
    assert isinstance(verdict, Delete) is culled
    assert culled or verdict.reason is KeepReason.SHORT_BACKOFF


FAULTS: list[tuple[KeepReason, dict[str, Any]]] = [
    (KeepReason.NOT_SELECTED, {"labels": {}}),
    (KeepReason.TERMINATING, {"terminating": True}),
    (KeepReason.NOT_WAITING, {"containers": (running(),)}),
    (KeepReason.ALREADY_DELETED, {"already": True}),
    (KeepReason.BARE_POD, {"owner": None}),
    (KeepReason.SHORT_BACKOFF, {"containers": (crashed("main", 1, 1),)}),
    (KeepReason.CAP_REACHED, {"used": 5}),
]


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_of_several_reasons_the_first_in_order_is_told(first):
    later = {key: value for _, fault in reversed(FAULTS[first:]) for key, value in fault.items()}
    deleted_before = {key: later.pop(key) for key in ("already", "used") if key in later}
    view = replace(pod("a", labels={"role": "x"}), **later)
    assert reason(view, (NONE,), **deleted_before) is FAULTS[first][0]


@pytest.mark.parametrize("bare", [True, False])
def test_a_static_pod_is_left_alone_whatever_is_configured(bare):
    """The API server shows its mirror, whose owner is the Node: another mirror would show the same containers."""
    static = pod("a", owner=OwnerView("v1", "Node", "seed-node-1", "uid-n"))
    verdict = judged(static, policy=WeederPolicy(weed_bare_pods=bare))
    assert (verdict.reason, "static pod" in verdict.message) == (KeepReason.BARE_POD, True)
    other = pod("a", owner=OwnerView("example.org/v1", "Node", "n", "uid-n"))
    assert isinstance(judged(other), Delete)


# What an operator reads.


def message(*args, **more):
    verdict = judged(*args, **more)
    assert isinstance(verdict, Keep)
    return verdict.message


def test_the_message_of_a_short_back_off_names_the_container_and_both_numbers():
    short = "kube-scheduler waits 4 s more, which is no longer than minBackoffRemaining (10 s)"
    assert message(pod("a", crashed("kube-scheduler", 1, 6))) == short
    policy = WeederPolicy(min_backoff_remaining=2.5)
    assert message(pod("a", crashed("main", 1, 8.75)), policy=policy) == (
        "main waits 1.2 s more, which is no longer than minBackoffRemaining (2.5 s)"
    )


def test_the_message_of_a_cap_names_the_owner_and_all_numbers():
    assert message(pod("a"), used=6, allowed=5) == (
        "6 deletions of pods of ReplicaSet/kube-scheduler-rs-1 within 300 s (watchDuration); 5 are allowed"
    )
    policy = WeederPolicy(weed_bare_pods=True)
    assert message(pod("a", owner=None), policy=policy, used=5) == (
        "5 deletions of this bare pod within 300 s (watchDuration); 5 are allowed"
    )


def test_the_message_of_a_pod_that_does_not_wait_names_what_its_containers_wait_for():
    assert message(pod("a", running(), running())) == (
        "none of its 2 containers waits in CrashLoopBackOff"
    )
    others = [
        ContainerView(f"c{n}", reason)
        for n, reason in enumerate(["ImagePullBackOff", "", "x", "y", "z"])
    ]
    assert message(pod("a", *others)) == (
        "none of its 5 containers waits in CrashLoopBackOff; waiting: "
        "c0 for ImagePullBackOff, c1 for no reason, c2 for x and 2 more"
    )


def test_a_message_is_one_line_of_bounded_length_whatever_the_kubelet_tells():
    text = message(pod("a", ContainerView("main", "\x1b[31m\n" + "x" * 5_000)))
    assert text.isprintable()
    assert len(text) <= 300


@pytest.mark.parametrize(
    ("view", "more", "word"),
    [
        (pod("a", labels={}), {"selectors": (NONE,)}, "labels"),
        (pod("a", terminating=True), {}, "being deleted already"),
        (pod("a"), {"already": True}, "was sent already"),
        (pod("a", owner=None), {}, "weedBarePods is false"),
    ],
)
def test_the_other_messages_say_what_is_the_matter(view, more, word):
    assert word in message(view, **more)


# Properties.

WAITING = st.sampled_from([None, "", CRASH_LOOP, CRASH_LOOP, "ContainerCreating", "ErrImagePull"])
CONTAINERS = st.builds(
    ContainerView,
    st.sampled_from(["a", "b"]),
    WAITING,
    st.none() | st.integers(-2, 9) | st.just(2**31),
    st.none() | st.floats(NOW - 400, NOW + 400),
    st.booleans(),
    st.none() | st.sampled_from([0.0, 10.0, 160.0, 1e9]),
)
PODS = st.builds(
    lambda containers, terminating, whose: replace(
        pod("a", owner=whose), containers=tuple(containers), terminating=terminating
    ),
    st.lists(CONTAINERS, max_size=4),
    st.booleans(),
    st.none() | st.just(pod().owner),
)
STANDINGS = st.builds(DeletedBefore, st.booleans(), st.integers(0, 9), st.integers(1, 9))
POLICIES = st.builds(
    WeederPolicy,
    min_backoff_remaining=st.sampled_from([0.0, 10.0, 100.0, 300.0, 1e6]),
    weed_bare_pods=st.booleans(),
)


def long_enough(container, least):
    """By counting the back-off up, as the kubelet does after each crash, up to what it says."""
    if container.waiting != CRASH_LOOP:
        return False
    counted = container.restarts is not None and container.restarts >= 0
    if container.last_exit is None or not (counted or container.backoff is not None):
        return True
    wait = 10 if counted else 300
    for _ in range(min(container.restarts, 10) - 1 if counted else 0):
        wait = min(2 * wait, 300)
    wait = wait if container.backoff is None else min(wait, container.backoff)
    return wait - max(NOW - container.last_exit, 0) > max(least, 0)


@settings(max_examples=500)
@given(PODS, STANDINGS, POLICIES, st.lists(st.sampled_from([ALL, NONE]), max_size=3))
def test_a_pod_is_deleted_if_and_only_if_the_page_says_so(view, deleted_before, policy, selectors):
    verdict = rules.judge(view, selectors, policy, deleted_before, NOW)
    due = (
        ALL in selectors
        and not view.terminating
        and any(long_enough(each, policy.min_backoff_remaining) for each in view.containers)
        and (view.owner is not None or policy.weed_bare_pods)
        and not deleted_before.already
        and deleted_before.used < deleted_before.allowed
    )
    assert isinstance(verdict, Delete) is due


@given(PODS, POLICIES)
def test_what_is_told_of_a_deletion_is_the_longest_wait_of_a_container_that_waits(view, policy):
    verdict = rules.judge(view, (ALL,), policy, FREE, NOW)
    if isinstance(verdict, Delete):
        waits = [each for each in view.containers if each.waiting == CRASH_LOOP]
        assert verdict.container in {each.name for each in waits}
        told = math.inf if verdict.remaining is None else verdict.remaining
        known = [rules.remaining_backoff(each, NOW) for each in waits]
        assert told == max(math.inf if each is None else each for each in known)
