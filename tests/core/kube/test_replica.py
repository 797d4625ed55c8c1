"""A copy of some namespaces only: nothing is kept of others, and what is known of one is all of it or nothing."""

import json

from app.core.kube.decoding import pod_objects
from app.core.kube.pods import NamespacedReplica
from tests.core.kube.podserver import A, B, C, pod_of


def replica(*followed):
    made = NamespacedReplica("pods", pod_objects.probed_pod, lambda _: None)
    for namespace in followed:
        made.follow(namespace)
    return made


def decoded(copy, *keys):
    """What the copy makes of a page of these pods."""
    pods = (json.dumps(pod_of(namespace, name, 1)).encode() for namespace, name in keys)
    return {key: record for key, _, record in map(copy.decode, pods) if record is not None}


def listed(copy, *keys):
    copy.list_begins()
    return copy.replace(decoded(copy, *keys))


def test_before_the_first_list_nobody_is_covered_and_nobody_joins():
    copy = replica(A)
    assert (copy.covers(A), copy.waiting(), copy.keeps(A)) == (False, (), False)


def test_a_list_covers_who_is_followed_when_it_begins():
    copy = replica(A)
    assert listed(copy, (A, "a"), (B, "b")) == ((A, "a"),)
    assert (list(copy.of(A)), list(copy.of(B))) == (["a"], [])
    assert (copy.covers(A), copy.covers(B), copy.waiting()) == (True, False, ())


def test_who_comes_during_a_list_is_not_covered_by_it_and_joins_after():
    copy = replica(A)
    copy.list_begins()
    found = decoded(copy, (A, "a"), (B, "b"))
    copy.follow(B)
    assert copy.waiting() == ()
    found |= decoded(copy, (B, "b2"))
    copy.replace(found)
    assert (list(copy.of(B)), copy.covers(B), copy.waiting()) == ([], False, (B,))


def test_of_who_leaves_during_a_list_nothing_stays():
    copy = replica(A, B)
    copy.list_begins()
    found = decoded(copy, (A, "a"), (B, "b"))
    copy.leave(B)
    copy.follow(B)
    assert copy.replace(found) == ((A, "a"),)
    assert (list(copy.of(B)), copy.covers(B), copy.waiting()) == ([], False, (B,))


def test_of_who_leaves_nothing_stays():
    copy = replica(A, B)
    listed(copy, (A, "a"), (B, "b"))
    copy.leave(B)
    assert (list(copy.of(B)), copy.covers(B), copy.keeps(B)) == ([], False, False)
    assert (list(copy.of(A)), copy.followed) == (["a"], {A})
    copy.leave(A)
    assert copy.empty


def test_a_broken_pod_of_who_has_left_is_complained_of_again():
    copy = replica(A)
    listed(copy)
    broken = json.dumps(pod_of(A, "a", 1, podIP=7)).encode()
    copy.decode(broken)
    assert copy._warned
    copy.leave(A)
    assert not copy._warned


def test_who_joins_is_covered_by_a_list_of_his_own():
    copy = replica(A)
    listed(copy, (A, "a"))
    copy.follow(B)
    copy.join(B)
    assert (copy.keeps(B), copy.covers(B)) == (True, False)
    assert copy.merge(B, decoded(copy, (B, "b")))
    assert (list(copy.of(B)), copy.covers(B), copy.waiting()) == (["b"], True, ())


def test_what_the_watch_told_meanwhile_wins_even_over_an_attempt_later():
    copy = replica(A)
    listed(copy)
    copy.follow(B)
    copy.join(B)
    copy.put((B, "new"), decoded(copy, (B, "new"))[B, "new"])
    copy.remove((B, "gone"))
    copy.join(B)  # the first list failed
    assert copy.merge(B, decoded(copy, (B, "b"), (B, "gone")))
    assert sorted(copy.of(B)) == ["b", "new"]


def test_objects_of_other_namespaces_in_such_a_list_are_ignored():
    copy = replica(A)
    listed(copy, (A, "a"))
    copy.follow(B)
    copy.join(B)
    assert copy.merge(B, decoded(copy, (B, "b"), (A, "strange"), (C, "c")))
    assert (sorted(copy.of(A)), sorted(copy.of(B)), sorted(copy.of(C))) == (["a"], ["b"], [])


def test_a_list_of_everything_that_begins_meanwhile_makes_a_list_of_one_worthless():
    copy = replica(A)
    listed(copy)
    copy.follow(B)
    copy.join(B)
    found = decoded(copy, (B, "old"))
    copy.list_begins()
    assert not copy.merge(B, found)
    copy.replace(decoded(copy, (B, "b")))
    assert not copy.merge(B, found)
    assert (list(copy.of(B)), copy.covers(B)) == (["b"], True)
