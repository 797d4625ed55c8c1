"""The judge of `make failover` by itself: it finds what must not happen."""

import base64
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.model import workloads as ann
from tests.e2e import objects
from tests.e2e.audit import POLICY, Request
from tests.e2e.failover_kinds import COUNTS, KINDS
from tests.e2e.failover_play import Leases, Moments, Result, counts, judged
from tests.e2e.failover_runs import Run, table
from tests.e2e.objects import CA

GARDEN = "garden-01"


def request(at, by, resource="deployments", name=CA, body=None, code=200):
    return Request(
        at, at + 0.01, "prober", "update", "", resource, "", name, code, body or {}, credential=by
    )


def lease(at, by, holder="x"):
    made = request(at, by, "leases", objects.LEASE, {"spec": {"holderIdentity": holder}})
    return replace(made, namespace=GARDEN)


def by_the_administrator(at, verb, **spec):
    """What is done to the Lease without a token of an instance."""
    body = {"spec": spec} if spec else {}
    return replace(lease(at, ""), user="admin", verb=verb, body=body)


def scaled(at, by, name, count, saved=None):
    annotations = {} if saved is None else {ann.REPLICAS: saved}
    body = {"metadata": {"annotations": annotations}, "spec": {"replicas": count}}
    return request(at, by, name=name, body=body)


def outage(**other):
    """Down and up as it should be, by one; `other`: those of cluster-autoscaler."""
    down = [scaled(1, "a", name, 0, str(count)) for name, count in COUNTS.items() if name != CA]
    up = [scaled(9, "a", name, count) for name, count in COUNTS.items() if name != CA]
    return [*down, *up, *other.get("instead", [scaled(1, "a", CA, 0, "1"), scaled(9, "a", CA, 1)])]


def test_an_outage_that_went_well_has_nothing_wrong():
    assert list(counts(outage())) == []
    taken = [lease(0, "a"), lease(10, "a"), lease(26, "b")]
    writes = [request(1, "a"), request(24.9, "a"), request(27, "b")]
    assert list(Leases(taken).over(writes, 0)) == []


def test_a_count_that_is_lost_is_found():
    wrong = list(counts(outage(instead=[scaled(1, "a", CA, 0, "0"), scaled(9, "a", CA, 1)])))
    assert len(wrong) == 1
    assert "saved count is '0' instead of 1" in wrong[0]
    assert list(counts(outage(instead=[scaled(1, "a", CA, 0), scaled(9, "a", CA, 1)])))


def test_what_two_do_is_found_and_what_one_does_twice():
    twice = [scaled(1, "a", CA, 0, "1"), scaled(2, "b", CA, 0, "1"), scaled(9, "b", CA, 1)]
    wrong = list(counts(outage(instead=twice)))
    assert "the same by two" in wrong[0]
    assert "went to [0, 0, 1]" in wrong[1]
    assert list(counts(outage(instead=[scaled(1, "a", CA, 0, "1")]))), "it never came back"


def test_a_write_without_the_lease_is_found_a_refused_one_too():
    taken = Leases([lease(0, "a"), lease(2, "a", holder=""), lease(3, "b")])
    assert "not its Lease" in next(taken.over([request(2.5, "a")], 0)), "given back"
    assert "not its Lease" in next(taken.over([request(4, "a", code=409)], 0)), "taken"
    assert list(taken.over([request(4, "a")], 2)) == [], "it cannot know yet"
    assert "15.1 s old" in next(taken.over([request(18.1, "b")], 0))
    assert "nobody" in next(Leases([]).over([request(1, "a")], 0))


def test_the_lease_is_held_since_it_was_taken_without_a_break():
    taken = Leases([lease(0, "a"), lease(2, "b"), lease(4, "b"), lease(6, "a"), lease(8, "a")])
    assert taken.since(request(5, "b")) == 2
    assert taken.since(request(9, "a")) == 6
    assert taken.since(request(7, "b")) == 2, "it was taken away a moment ago"


def test_a_second_writer_is_found_however_often_the_holder_renews():
    taken = Leases([lease(0, "a"), lease(3, "b"), lease(5, "b"), lease(7, "b")])
    assert "not its Lease, for 5.00 s" in next(taken.over([request(8, "a")], 2))
    assert list(taken.over([request(4.9, "a")], 2)) == [], "it cannot know yet"
    given_back = Leases([lease(0, "a"), lease(2, "a", holder="")])
    assert "not its Lease" in next(given_back.over([request(2.5, "a")], 2)), "it knows"


def test_a_stranger_takes_the_lease_an_edit_of_the_times_or_a_deletion_does_not():
    stranger = by_the_administrator(2, "patch", holderIdentity="a-stranger")
    taken = Leases([lease(0, "a"), stranger, lease(20, "b")])
    assert list(taken.over([request(3.9, "a")], 2)) == []
    assert "not its Lease" in next(taken.over([request(4.1, "a")], 2))
    assert taken.since(request(21, "b")) == 20
    for harmless in (
        by_the_administrator(2, "patch", leaseDurationSeconds=1),
        by_the_administrator(2, "delete"),
    ):
        kept = Leases([lease(0, "a"), harmless, lease(4, "a")])
        assert list(kept.over([request(3, "a")], 0)) == [], harmless
        assert kept.since(request(5, "a")) == 0, harmless
    assert objects.LEASE in POLICY, "what the administrator writes into it is in the log"


# A whole run: `a` leads, and gets SIGTERM at 10 s.


def token(name):
    payload = base64.urlsafe_b64encode(json.dumps({"jti": name}).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


def judge(kind, writes, leases, known=10.5):
    """What it says of these writes in an outage that could be known at that moment, and ended at 30 s."""
    audit = SimpleNamespace(requests=lambda since: [each for each in leases if each.at >= since])
    cast: Any = SimpleNamespace(
        stage=SimpleNamespace(writes=lambda _: writes, garden=GARDEN),
        seed=SimpleNamespace(audit=audit),
        tokens={"first": token("a"), "second": token("b")},
        leader=SimpleNamespace(name="first"),
    )
    return judged(cast, kind, Moments(5, 10, 10, known, 30))


def saved(at, by="b"):
    """All go to 0 at once, and come back at 31 s."""
    down = [scaled(at, by, name, 0, str(count)) for name, count in COUNTS.items()]
    return [*down, *(scaled(31, by, name, count) for name, count in COUNTS.items())]


FOLLOWED = [lease(9, "a"), lease(10, "a", holder=""), *(lease(11 + n, "b") for n in range(21))]


def test_a_run_that_went_well_has_no_troubles():
    assert judge(KINDS["sigterm"], saved(17), FOLLOWED) == Result(7, 1, 0.5, False, [])


def test_a_write_before_the_outage_could_be_known_is_found_a_refused_one_too():
    found = judge(KINDS["sigterm"], saved(17), FOLLOWED, known=17.5)
    assert found.troubles == ["written 0.5 s before it could be known"]
    refused = request(12, "b", code=409)
    found = judge(KINDS["sigterm"], [refused, *saved(17)], FOLLOWED, known=14)
    assert found.troubles == ["written 2.0 s before it could be known"]


def test_a_late_write_is_found_and_a_refused_one_before_it_does_not_count():
    refused = request(12, "b", code=409)
    for writes in (saved(19.5), [refused, *saved(19.5)]):
        found = judge(KINDS["sigterm"], writes, FOLLOWED)
        assert found.first == 9.5
        assert found.troubles == ["protected 8.5 s after the one that wrote could look"]


def test_a_write_with_another_token_is_found():
    found = judge(KINDS["sigterm"], saved(17, "c"), [*FOLLOWED, lease(16.5, "c")])
    assert any("none of the two: {'c'}" in each for each in found.troubles)


@pytest.mark.parametrize(
    ("kind", "known", "start"),
    [("sigterm", 12, 10), ("both-cut", 12, 12), ("both-cut", 8, 10), ("lease-deleted", 8, 10)],
)
def test_what_the_goal_counts_from(kind, known, start):
    assert Moments(5, 10, 10, known, 30).counted_from(KINDS[kind]) == start


# What is made of the runs.


def test_a_run_without_a_first_write_is_not_in_the_columns_of_seconds():
    runs = [
        Run("etcd", 1, Result(3, 2, 0, False, [])),
        Run("etcd", 2, Result(None, 0, 0, False, ["x"])),
    ]
    assert "| 2 | return | 3.0, 3.0 s | 7 s | 2.0, 2.0 s | 0 | 1 |" in table(KINDS, runs)
