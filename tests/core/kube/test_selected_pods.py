"""The pods of endpoint probes: which are watched and when, what watches survive."""

import asyncio
from random import Random

import pytest
import structlog

from app.core.errors import (
    Forbidden,
    Unreachable,
)
from app.core.kube import resources
from app.core.kube.pods import IDLE_TIMEOUT, START_DELAY
from app.core.kube.seed_api import Budget
from app.core.ports import WatchState
from tests.core.kube.podserver import ETCD, ROLE, A, B, C, PodServer, Probed, probed

LABEL = "pods role=apiserver"


@pytest.fixture
async def server():
    made = PodServer()
    for namespace in (A, B, C):
        for number in range(2):
            made.put(namespace, f"{namespace[-1]}{number}")
    return made


# When there is a watch.


async def test_without_a_selector_nothing_is_asked_whoever_is_followed(server):
    none = Probed(server, ())
    await none.pods.start()
    none.pods.follow(A)
    await asyncio.sleep(100)
    none.pods.leave(A)
    assert server.asked == []
    assert (none.pods.troubles(), none.pods.forbidden) == ({}, None)
    await none.pods.close()


async def test_nothing_is_asked_while_nobody_is_followed(server):
    async with probed(server) as seen:
        await asyncio.sleep(1000)
        assert server.asked == []
        assert seen.pods.watch_state(A, ROLE) == WatchState(synced=False, last_contact=None)
        assert seen.names(A) == ""


async def test_hundreds_who_are_followed_at_a_start_cost_one_list_and_one_watch(server):
    many = tuple(f"shoot--dev--{number}" for number in range(300))
    for namespace in many:
        server.put(namespace, "p")
    async with probed(server) as seen:
        for namespace in many:
            seen.pods.follow(namespace)
            await asyncio.sleep(START_DELAY / 400)
        await asyncio.sleep(5)
        assert all(seen.names(namespace) == "p" for namespace in many)
        assert (server.lists(), server.open) == (1, 1)
        assert server.budgets == {Budget.NORMAL}


async def test_equal_selectors_share_a_watch_and_others_have_their_own(server):
    async with probed(server, ROLE, ETCD, ROLE, following=(A,)) as seen:
        assert (server.lists(), server.open) == (2, 2)
        asked = {each.params["labelSelector"] for each in server.asked}
        assert asked == {"role=apiserver", "role=main"}
        assert seen.names(A, ROLE) == seen.names(A, ETCD) == "a0 a1"


async def test_a_selector_that_nobody_configured_is_a_mistake_of_the_caller(server):
    async with probed(server) as seen:
        with pytest.raises(KeyError):
            seen.pods.pods(A, ETCD)


async def test_the_watch_ends_a_minute_after_the_last_has_left_and_opens_again(server):
    async with probed(server, following=(A, B)) as seen:
        seen.pods.leave(A)
        await asyncio.sleep(IDLE_TIMEOUT + 30)
        assert server.open == 1
        seen.pods.leave(B)
        await asyncio.sleep(IDLE_TIMEOUT - 1)
        assert server.open == 1
        await asyncio.sleep(2)
        assert server.open == 0
        server.delete(A, "a0")
        await asyncio.sleep(1000)
        lists = server.lists()
        seen.pods.follow(A)
        assert not seen.synced(A)
        await asyncio.sleep(2)
        assert (seen.names(A), server.lists()) == ("a1", lists + 1)


async def test_who_comes_back_within_the_minute_needs_no_other_watch(server):
    async with probed(server, following=(A,)) as seen:
        seen.pods.leave(A)
        await asyncio.sleep(IDLE_TIMEOUT - 1)
        seen.pods.follow(B)
        await asyncio.sleep(IDLE_TIMEOUT * 3)
        assert seen.names(B) == "b0 b1"
        assert server.lists() == 1


async def test_a_watch_that_is_closed_leaves_no_contact_that_looks_stale(server):
    contact = "dwd_watch_last_contact_timestamp_seconds"
    async with probed(server, following=(A,)) as seen:
        assert seen.sample(contact, kind=LABEL) is not None
        seen.pods.leave(A)
        await asyncio.sleep(IDLE_TIMEOUT + 1)
        assert seen.sample(contact, kind=LABEL) is None
        assert seen.pods.troubles() == {}


# Which pods are seen.


async def test_only_the_pods_of_namespaces_that_are_followed_are_shown_and_told(server):
    async with probed(server, following=(A,)) as seen:
        server.put(B, "b0")
        server.put(B, "new")
        server.delete(B, "b1")
        server.put(A, "a2")
        await asyncio.sleep(1)
        assert (seen.names(A), seen.names(B)) == ("a0 a1 a2", "")
        assert {namespace for namespace, _ in seen.told} == {A}


async def test_a_list_of_everything_is_told_of_each_namespace_once(server):
    async with probed(server, following=(A, B)) as seen:
        assert seen.told == [(A, "a0 a1"), (B, "b0 b1")]


async def test_each_change_is_told_with_what_is_seen_then(server):
    async with probed(server, following=(A,)) as seen:
        seen.told.clear()
        server.put(A, "a2")
        await asyncio.sleep(0.1)
        server.put(A, "a0", phase="Failed")
        await asyncio.sleep(0.1)
        server.delete(A, "a1")
        await asyncio.sleep(0.1)
        assert seen.told == [(A, "a0 a1 a2"), (A, "a0 a1 a2"), (A, "a0 a2")]


async def test_who_has_left_is_dropped_at_once(server):
    async with probed(server, following=(A, B)) as seen:
        seen.pods.leave(A)
        assert (seen.names(A), seen.synced(A)) == ("", False)
        seen.told.clear()
        server.put(A, "a2")
        await asyncio.sleep(1)
        assert (seen.names(A), seen.names(B)) == ("", "b0 b1")
        assert seen.told == []


async def test_to_follow_twice_or_to_leave_who_is_not_followed_changes_nothing(server):
    async with probed(server, following=(A, A)) as seen:
        seen.pods.leave(B)
        seen.pods.follow(A)
        await asyncio.sleep(1)
        assert (server.lists(), seen.names(A)) == (1, "a0 a1")


# Who is followed later.


async def test_one_that_is_followed_later_is_known_at_once_and_nothing_is_asked(server):
    async with probed(server, following=(A,)) as seen:
        server.put(B, "b2")
        server.delete(B, "b0")
        await asyncio.sleep(1)
        asked = len(server.asked)
        seen.pods.follow(B)
        assert (seen.names(A), seen.names(B), seen.synced(B)) == ("a0 a1", "b1 b2", True)
        seen.pods.leave(B)
        seen.pods.follow("shoot--dev--empty")
        assert (seen.synced(B), seen.synced("shoot--dev--empty")) == (False, True)
        await asyncio.sleep(1)
        assert (len(server.asked), server.open) == (asked, 1)


async def test_half_of_a_list_is_never_shown(server, monkeypatch):
    monkeypatch.setattr(resources, "PROBED_POD_PAGE", 1)
    async with probed(server) as seen:
        server.after = 0.5
        seen.pods.follow(A)
        seen.pods.follow(C)
        await asyncio.sleep(START_DELAY + 1.2)
        seen.pods.leave(A)
        seen.pods.follow(B)  # in the middle of whose pods it is
        await asyncio.sleep(0.6)
        seen.pods.follow(A)  # whose pages are through
        assert not any(seen.names(each) or seen.synced(each) for each in (A, B, C))
        assert seen.told == []
        await asyncio.sleep(20)
        assert seen.told == [(A, "a0 a1"), (B, "b0 b1"), (C, "c0 c1")]
        assert server.lists() == 1


# What happens to the watch.


async def test_a_watch_that_nobody_needs_has_no_trouble(server):
    async with probed(server, following=(A,)) as seen:
        server.fails = lambda _: Unreachable("refused")
        server.cut()
        await asyncio.sleep(10)
        assert seen.pods.troubles()
        seen.pods.leave(A)
        await asyncio.sleep(IDLE_TIMEOUT + 1)
        assert seen.pods.troubles() == {}


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_right_that_is_missing_turns_one_feature_off_and_ends_nothing(server, verb):
    def forbidden(request):
        asked = "watch" if "watch" in request.params else "list"
        return Forbidden(f"{verb} pods: 403", status=403) if asked == verb else None

    server.fails = forbidden
    with structlog.testing.capture_logs() as logs:
        async with probed(server, following=(A,)) as seen:
            await asyncio.sleep(300)
            off = seen.sample("dwd_feature_off", feature="endpoint-pods")
            assert (off, seen.pods.forbidden) == (1, f"{verb} pods: 403")
            assert seen.synced(A) is (verb == "watch")
            assert f"{verb} pods: 403" in seen.pods.troubles()[LABEL]
            assert len(server.asked) < 40
            server.fails = lambda _: None
            await asyncio.sleep(60)
            assert (seen.names(A), seen.pods.troubles()) == ("a0 a1", {})
            off = seen.sample("dwd_feature_off", feature="endpoint-pods")
            assert (off, seen.pods.forbidden) == (0, None)
    told = [entry for entry in logs if entry.get("feature") == "endpoint-pods"]
    assert [entry["log_level"] for entry in told] == ["error"]
    assert sum(entry["log_level"] == "error" for entry in logs) == 3  # two may be in passing


# Whatever happens, in whatever order.


class Weather:
    """Pods come, change and go, namespaces are followed and left, and watches, lists and the log suffer."""

    def __init__(self, server, seen, chance):
        self.server, self.seen, self.chance = server, seen, chance
        self.followed = set()
        self.rough = chance.choice((0.0, 0.02, 0.2))
        """The share of what hurts the server."""

    async def blow(self, things):
        for _ in range(things):
            roughly = self.chance.random() < self.rough
            self.chance.choice(ROUGH if roughly else MILD)(self, self.chance.choice((A, B, C)))
            if self.chance.random() < 0.7:
                await asyncio.sleep(self.chance.choice((0.0, 0.02, 0.1, 0.5)))

    def put(self, namespace):
        self.server.put(namespace, f"{namespace[-1]}{self.chance.randrange(4)}")

    def delete(self, namespace):
        mine = [name for place, name in self.server.pods if place == namespace]
        if mine:
            self.server.delete(namespace, self.chance.choice(mine))

    def follow(self, namespace):
        self.followed.add(namespace)
        self.seen.pods.follow(namespace)

    def leave(self, namespace):
        self.followed.discard(namespace)
        self.seen.pods.leave(namespace)

    def pace(self, _):
        self.server.lag = self.chance.choice((0.0, 0.05, 0.3))
        self.server.before = self.chance.choice((0.01, 0.3, 1.0))
        self.server.after = self.chance.choice((0.01, 0.3, 1.0))

    def cut(self, _):
        self.server.cut()

    def forget(self, _):
        self.server.compact()
        self.server.cut()

    def fail(self, _):
        rate = self.chance.choice((0.0, 0.0, 0.5))

        def fails(_):
            return Unreachable("by chance") if self.chance.random() < rate else None

        self.server.fails = fails

    async def calm(self):
        """Nothing happens until everything must have been heard of."""
        self.server.fails = lambda _: None
        self.server.lag = 0.0
        await asyncio.sleep(100)

    def there(self, namespace):
        return {
            name: each["metadata"]["resourceVersion"]
            for (place, name), each in self.server.pods.items()
            if place == namespace and namespace in self.followed
        }


MILD = (
    *[Weather.put] * 4,
    *[Weather.delete] * 3,
    *[Weather.follow] * 3,
    Weather.leave,
    Weather.leave,
    Weather.pace,
)
ROUGH = (Weather.cut, Weather.forget, Weather.fail)


@pytest.mark.parametrize("seed", range(40))
async def test_in_the_end_exactly_the_pods_that_there_are_are_seen(server, monkeypatch, seed):
    chance = Random(seed)
    monkeypatch.setattr(resources, "PROBED_POD_PAGE", chance.choice((1, 2, 100)))
    async with probed(server) as seen:
        weather = Weather(server, seen, chance)
        for _ in range(6):
            await weather.blow(60)
            await weather.calm()
            for namespace in (A, B, C):
                assert seen.versions(namespace) == weather.there(namespace)
                assert seen.synced(namespace) is (namespace in weather.followed)
