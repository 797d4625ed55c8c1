"""The judge of `make failover` by itself: it finds what must not happen."""

from app.core.model import workloads as ann
from tests.e2e.audit import Request
from tests.e2e.failover_judge import Leases, counts
from tests.e2e.failover_kinds import COUNTS
from tests.e2e.objects import CA


def request(at, by, resource="deployments", name=CA, body=None, code=200):
    return Request(
        at, at + 0.01, "prober", "update", "", resource, "", name, code, body or {}, credential=by
    )


def lease(at, by, holder="x"):
    return request(at, by, "leases", body={"spec": {"holderIdentity": holder}})


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
