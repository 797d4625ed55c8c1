"""The feed: what is remembered, who can resume, and that nobody is waited for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.reporting.changes import ChangeKind, Feed, Follower, FollowerTooSlow, Wanted

SHOOT, OVERRIDE = ChangeKind.SHOOT, ChangeKind.OVERRIDE
A, B = "shoot--a", "shoot--b"
ALL = Wanted()


def told(feed, *bodies, kind=SHOOT, namespace=A):
    for body in bodies:
        feed.publish(kind, namespace, body)


def bodies(changes):
    return [each.body for each in changes]


@pytest.fixture
def feed():
    return Feed("c0ffee", most=10, most_bytes=1_000)


async def test_a_reader_is_told_what_comes_after_its_place_in_order_and_once(feed):
    told(feed, b"before")
    with feed.follow(ALL, feed.position) as follower:
        told(feed, b"1", b"2")
        assert bodies(follower.take(100)) == [b"1", b"2"]
        assert follower.take(100) == []
        told(feed, b"3")
        assert bodies(follower.take(100)) == [b"3"]


async def test_all_readers_are_given_the_same_bytes(feed):
    with feed.follow(ALL, 0) as one, feed.follow(ALL, 0) as other:
        told(feed, b"x" * 500)
        assert one.take(1)[0] is other.take(1)[0]


async def test_a_batch_is_bounded_and_has_one_change_at_least(feed):
    with feed.follow(ALL, 0) as follower:
        told(feed, b"a" * 50, b"b" * 50, b"c" * 50)
        assert len(follower.take(100)) == 2
        assert await follower.news(0.0), "the rest is there at once"
        assert len(follower.take(10)) == 1
        assert not await follower.news(5.0)


async def test_a_reader_sleeps_until_there_is_something(feed):
    with feed.follow(ALL, 0) as follower:
        assert not await follower.news(15.0)
        told(feed, b"1")
        assert await follower.news(15.0)


async def test_a_reader_that_has_left_is_not_woken(feed):
    with feed.follow(ALL, 0) as follower:
        pass
    told(feed, b"1")
    assert not await follower.news(1.0)


@pytest.mark.parametrize("most", [{"most": 3}, {"most_bytes": 30}])
async def test_a_reader_that_is_too_slow_is_told_so_and_holds_up_nobody(most):
    feed = Feed("c0ffee", **({"most": 100, "most_bytes": 10_000} | most))
    with feed.follow(ALL, 0) as slow, feed.follow(ALL, 0) as quick:
        for number in range(4):
            told(feed, b"%010d" % number)
            assert len(quick.take(100)) == 1
        with pytest.raises(FollowerTooSlow, match="change 1 is forgotten"):
            slow.take(100)


async def test_memory_is_bounded_by_number_and_by_bytes():
    feed = Feed("c0ffee", most=5, most_bytes=100)
    told(feed, *[b"x"] * 50)
    assert len(list(feed.after(45))) == 5
    told(feed, *[b"x" * 40] * 5)
    assert len(list(feed.after(feed.position - 2))) == 2
    with pytest.raises(FollowerTooSlow):
        list(feed.after(feed.position - 3))


async def test_a_change_larger_than_all_memory_is_forgotten_at_once_and_breaks_nothing():
    feed = Feed("c0ffee", most=5, most_bytes=10)
    with feed.follow(ALL, 0) as follower:
        told(feed, b"x" * 11)
        with pytest.raises(FollowerTooSlow):
            follower.take(100)
    assert feed.resume(feed.id_of(1)) == 1
    assert feed.resume(feed.id_of(0)) is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), [b"a", b"b", b"all"]),
        (Wanted(A), [b"a", b"all"]),
        (Wanted(B), [b"b", b"all"]),
        (Wanted("shoot--c"), [b"all"]),
        (Wanted(kinds=frozenset({SHOOT})), [b"a", b"b"]),
        (Wanted(B, frozenset({OVERRIDE})), [b"all"]),
        (Wanted(B, frozenset({ChangeKind.WEEDER})), []),
    ],
)
async def test_a_reader_hears_only_what_it_wants_and_its_place_moves_on_all_the_same(
    feed, wanted, found
):
    with feed.follow(wanted, 0) as follower:
        told(feed, b"a")
        told(feed, b"b", namespace=B)
        told(feed, b"all", kind=OVERRIDE, namespace=None)
        assert bodies(follower.take(1_000)) == found
        assert follower.position == feed.position


async def test_whoever_knows_the_last_id_resumes_behind_it(feed):
    told(feed, b"1", b"2", b"3")
    for number in (0, 1, 2, 3):
        assert feed.resume(f"c0ffee-{number}") == number
    with feed.follow(ALL, 1) as follower:
        assert bodies(follower.take(100)) == [b"2", b"3"]


@pytest.mark.parametrize(
    "last_id",
    [
        "", "-", "3", "c0ffee", "c0ffee-", "c0ffee-x", "c0ffee--1", "c0ffee-4", "beef-2",
        "C0FFEE-2", "c0ffee-2 ", " c0ffee-2", "c0ffee-2\n", "c0ffee-٢", "c0ffee-" + "9" * 400,
        "c0ffee-2-2", "\x00", "'; DROP TABLE shoots",
    ],
)  # fmt: skip
async def test_an_id_that_is_none_of_ours_cannot_be_resumed(feed, last_id):
    told(feed, b"1", b"2", b"3")
    assert feed.resume(last_id) is None


async def test_what_is_forgotten_cannot_be_resumed_and_what_is_just_remembered_can(feed):
    told(feed, *[b"x"] * 25)
    assert feed.resume("c0ffee-14") is None
    assert feed.resume("c0ffee-15") == 15
    with feed.follow(ALL, 15) as follower:
        assert len(follower.take(1_000)) == 10


async def test_nobody_resumes_across_an_interruption_and_ids_go_on(feed):
    told(feed, b"1", b"2")
    feed.interrupt()
    assert feed.position == 3
    for number in (0, 1, 2):
        assert feed.resume(f"c0ffee-{number}") is None
    assert feed.resume("c0ffee-3") == 3
    told(feed, b"4")
    with feed.follow(ALL, 3) as follower:
        assert [each.number for each in follower.take(100)] == [4]


@given(
    st.lists(
        st.one_of(st.integers(1, 40), st.just("interrupt"), st.just("read"), st.just("resume")),
        max_size=60,
    )
)
async def test_a_reader_misses_nothing_and_hears_nothing_twice_or_learns_that_it_has(steps):
    """Against a list of all that was ever told."""
    feed = Feed("ab", most=6, most_bytes=120)
    everything: dict[int, bytes] = {}
    broken_at, place, follower = 0, 0, Follower(feed, ALL, 0)
    for step in steps:
        if isinstance(step, int):
            body = bytes([step]) * step
            feed.publish(SHOOT, A, body)
            everything[feed.position] = body
        elif step == "interrupt":
            feed.interrupt()
            broken_at = feed.position
        else:
            if step == "resume":
                found = feed.resume(feed.id_of(place))
                if found is None:
                    place = feed.position
                follower = Follower(feed, ALL, place)
            missed = [n for n in everything if n > place]
            try:
                taken = follower.take(10_000)
            except FollowerTooSlow:
                lost = sum(len(everything[n]) for n in missed)
                assert broken_at > place or len(missed) > 6 or lost > 120
                place = feed.position
                follower = Follower(feed, ALL, place)
            else:
                assert [each.number for each in taken] == missed
                assert bodies(taken) == [everything[n] for n in missed]
                place = follower.position
