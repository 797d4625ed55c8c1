"""The pods of endpoint probes on a simulated seed: which are watched and when, what watches survive."""

import asyncio
from contextlib import asynccontextmanager
from itertools import count
from random import Random

import pytest

from app.core.kube import resources
from app.core.kube.pods import IDLE_TIMEOUT, ProbedPods
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.ports import WatchState
from app.simulation.faults import PodWatched
from app.simulation.identities import WATCHDOG
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from tests.support.seed_lab import SeedLab

A, B, C = "shoot--dev--a", "shoot--dev--b", "shoot--dev--c"
LABELS = {"role": "apiserver", "app": "etcd"}
ROLE, ETCD = (
    LabelSelector((Requirement(key, Operator.IN, frozenset({value})),))
    for key, value in LABELS.items()
)
LABEL = "pods role=apiserver"


class Seen:
    """The pods of a seed, as they are seen, and what is told of them."""

    def __init__(self, lab, selectors, **world):
        self.world, core = lab.world(**world), lab.core()
        self.store, self.faults, self.tasks = self.world.store, self.world.faults, core.tasks
        self.process, self.metrics = lab.process(self.world, core, WATCHDOG), core.metrics
        self.pods = ProbedPods(self.process.api, selectors, core.tasks, Random(1))
        self.told: list[tuple[str, str]] = []
        """Each namespace that was told, and what was seen of it then."""
        self.pods.subscribe(lambda namespace: self.told.append((namespace, self.names(namespace))))
        self._versions = count()
        for namespace in (A, B, C):
            for number in range(2):
                self.put(namespace, f"{namespace[-1]}{number}")

    def put(self, namespace, name):
        """A pod is there, or is another version of itself."""
        key = ObjectKey("Pod", namespace, name)
        annotations = {"version": str(next(self._versions))}
        meta = {"name": name, "namespace": namespace, "labels": LABELS, "annotations": annotations}
        if self.store.find(key) is not None:
            self.store.patch(key, {"metadata": {"annotations": annotations}})
            return
        spec, phase = {"containers": [{"name": "main"}]}, {"phase": "Running", "podIP": "10.0.0.1"}
        kind = {"apiVersion": "v1", "kind": "Pod"}
        self.store.create(key, {**kind, "metadata": meta, "spec": spec, "status": phase})

    def delete(self, namespace, name):
        self.store.delete(ObjectKey("Pod", namespace, name))

    def names(self, namespace, selector=ROLE):
        return " ".join(sorted(each.name for each in self.pods.pods(namespace, selector)))

    def synced(self, namespace):
        return self.pods.watch_state(namespace, ROLE).synced

    @property
    def lists(self):
        """How many pages were asked for."""
        return self.world.requests.total(verb="list", what="pods")

    @property
    def asked(self):
        return self.world.requests.total(what="pods")

    @property
    def open(self):
        return self.world.watches.open_now("Pod")

    def sample(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
async def probed(tasks, clock):
    """Watches of these selectors run within; those who are followed were, and are listed where that is possible."""
    lab = SeedLab(tasks, clock)

    @asynccontextmanager
    async def made(*selectors, following=(), before=lambda _: None, **world):
        seen = Seen(lab, (ROLE,) if not selectors else filter(None, selectors), **world)
        before(seen)
        await seen.pods.start()
        for namespace in following:
            seen.pods.follow(namespace)
        await asyncio.sleep(2)
        try:
            yield seen
        finally:
            await seen.process.kill()

    return made


# When there is a watch.


async def test_without_a_selector_nothing_is_asked_whoever_is_followed(probed):
    async with probed(None, following=(A,)) as none:
        await asyncio.sleep(100)
        none.pods.leave(A)
        assert none.asked == 0
        assert (none.pods.troubles(), none.pods.forbidden) == ({}, None)


async def test_nothing_is_asked_while_nobody_is_followed(probed):
    async with probed() as seen:
        await asyncio.sleep(1000)
        assert seen.asked == 0
        assert seen.pods.watch_state(A, ROLE) == WatchState(synced=False, last_contact=None)
        assert (seen.names(A), seen.sample("dwd_feature_off", feature="endpoint-pods")) == ("", 0)


async def test_all_who_are_followed_at_a_start_cost_one_list_and_one_watch(probed):
    many = tuple(f"shoot--dev--{number}" for number in range(200))
    async with probed() as seen:
        for namespace in many:
            seen.put(namespace, "p")
        for namespace in many:
            seen.pods.follow(namespace)
            await asyncio.sleep(0.0025)
        await asyncio.sleep(5)
        assert all(seen.names(namespace) == "p" for namespace in many)
        assert (seen.lists, seen.open) == (1, 1)


async def test_equal_selectors_share_a_watch_and_others_have_their_own(probed):
    async with probed(ROLE, ETCD, ROLE, following=(A,)) as seen:
        assert (seen.lists, seen.open) == (2, 2)
        assert seen.names(A, ROLE) == seen.names(A, ETCD) == "a0 a1"


async def test_a_selector_that_nobody_configured_is_a_mistake_of_the_caller(probed):
    async with probed() as seen:
        with pytest.raises(KeyError):
            seen.pods.pods(A, ETCD)


async def test_the_watch_ends_a_minute_after_the_last_has_left_and_opens_again(probed):
    async with probed(following=(A, B)) as seen:
        seen.pods.leave(A)
        await asyncio.sleep(IDLE_TIMEOUT + 30)
        assert seen.open == 1
        seen.pods.leave(B)
        await asyncio.sleep(IDLE_TIMEOUT - 1)
        assert seen.open == 1
        await asyncio.sleep(2)
        assert seen.open == 0
        seen.delete(A, "a0")
        await asyncio.sleep(1000)
        lists = seen.lists
        seen.pods.follow(A)
        assert not seen.synced(A)
        await asyncio.sleep(2)
        assert (seen.names(A), seen.lists) == ("a1", lists + 1)


async def test_who_comes_back_within_the_minute_needs_no_other_watch(probed):
    async with probed(following=(A,)) as seen:
        seen.pods.leave(A)
        await asyncio.sleep(IDLE_TIMEOUT - 1)
        seen.pods.follow(B)
        await asyncio.sleep(IDLE_TIMEOUT * 3)
        assert seen.names(B) == "b0 b1"
        assert seen.lists == 1


async def test_a_watch_that_is_closed_leaves_no_contact_that_looks_stale(probed):
    contact = "dwd_watch_last_contact_timestamp_seconds"
    async with probed(following=(A,)) as seen:
        known = seen.pods.watch_state(A, ROLE).last_contact
        assert seen.sample(contact, kind=LABEL) == known is not None
        seen.pods.leave(A)
        await asyncio.sleep(IDLE_TIMEOUT + 1)
        assert seen.sample(contact, kind=LABEL) is None
        assert seen.pods.troubles() == {}


# Which pods are seen.


async def test_only_the_pods_of_namespaces_that_are_followed_are_shown_and_told(probed):
    async with probed(following=(A,)) as seen:
        seen.put(B, "b0")
        seen.put(B, "new")
        seen.delete(B, "b1")
        seen.put(A, "a2")
        await asyncio.sleep(1)
        assert (seen.names(A), seen.names(B)) == ("a0 a1 a2", "")
        assert {namespace for namespace, _ in seen.told} == {A}


async def test_a_list_of_everything_is_told_of_each_namespace_once(probed):
    async with probed(following=(A, B)) as seen:
        assert seen.told == [(A, "a0 a1"), (B, "b0 b1")]


async def test_each_change_is_told_with_what_is_seen_then(probed, lines):
    fails = lambda seen: seen.pods.subscribe(lambda _: 1 // 0)  # noqa: E731 - its word
    async with probed(following=(A,), before=fails) as seen:
        seen.told.clear()
        seen.put(A, "a2")
        await asyncio.sleep(0.1)
        seen.put(A, "a0")
        await asyncio.sleep(0.1)
        seen.delete(A, "a1")
        await asyncio.sleep(0.1)
        assert seen.told == [(A, "a0 a1 a2"), (A, "a0 a1 a2"), (A, "a0 a2")]
    assert [each["watch"] for each in lines] == ["pods"] * 4


async def test_who_has_left_is_dropped_at_once(probed):
    async with probed(following=(A, B)) as seen:
        seen.pods.leave(A)
        assert (seen.names(A), seen.synced(A)) == ("", False)
        seen.told.clear()
        seen.put(A, "a2")
        await asyncio.sleep(1)
        assert (seen.names(A), seen.names(B)) == ("", "b0 b1")
        assert seen.told == []


async def test_to_follow_twice_or_to_leave_who_is_not_followed_changes_nothing(probed):
    async with probed(following=(A, A)) as seen:
        seen.pods.leave(B)
        seen.pods.follow(A)
        await asyncio.sleep(1)
        assert (seen.lists, seen.names(A)) == (1, "a0 a1")


# Who is followed later.


async def test_one_that_is_followed_later_is_known_at_once_and_nothing_is_asked(probed):
    async with probed(following=(A,)) as seen:
        seen.put(B, "b2")
        seen.delete(B, "b0")
        await asyncio.sleep(1)
        asked = seen.asked
        seen.pods.follow(B)
        assert (seen.names(A), seen.names(B), seen.synced(B)) == ("a0 a1", "b1 b2", True)
        seen.pods.leave(B)
        seen.pods.follow("shoot--dev--empty")
        assert (seen.synced(B), seen.synced("shoot--dev--empty")) == (False, True)
        await asyncio.sleep(1)
        assert (seen.asked, seen.open) == (asked, 1)


async def test_half_of_a_list_is_never_shown(probed, monkeypatch):
    monkeypatch.setattr(resources, "PROBED_POD_PAGE", 1)
    async with probed() as seen:
        seen.faults.seed_trouble(Trouble(latency=0.5, verbs=frozenset({"list"})))
        seen.pods.follow(A)
        seen.pods.follow(C)
        await asyncio.sleep(1.2)
        seen.pods.leave(A)
        seen.pods.follow(B)  # in the middle of whose pods it is
        await asyncio.sleep(0.6)
        seen.pods.follow(A)  # whose pages are through
        assert not any(seen.names(each) or seen.synced(each) for each in (A, B, C))
        assert seen.told == []
        await asyncio.sleep(20)
        assert seen.told == [(A, "a0 a1"), (B, "b0 b1"), (C, "c0 c1")]
        assert seen.lists == 6, "a page for each pod, once"


# What happens to the watch.


async def test_a_watch_that_nobody_needs_has_no_trouble(probed):
    async with probed(following=(A,)) as seen:
        seen.faults.pod_watch_cut(PodWatched.PODS)
        await asyncio.sleep(10)
        assert seen.pods.troubles()
        seen.pods.leave(A)
        await asyncio.sleep(IDLE_TIMEOUT + 1)
        assert seen.pods.troubles() == {}


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_right_that_is_missing_turns_one_feature_off_and_ends_nothing(probed, verb, lines):
    faults = []
    forbidden = lambda seen: faults.append(seen.faults.pods_forbidden(verb))  # noqa: E731 - its word
    async with probed(following=(A,), before=forbidden) as seen:
        await asyncio.sleep(300)
        off = seen.sample("dwd_feature_off", feature="endpoint-pods")
        assert off == 1
        assert f"{verb} pods" in seen.pods.forbidden
        assert seen.synced(A) is (verb == "watch")
        assert "403" in seen.pods.troubles()[LABEL]
        assert seen.asked < 40
        faults[0].lift()
        await asyncio.sleep(60)
        assert (seen.names(A), seen.pods.troubles()) == ("a0 a1", {})
        off = seen.sample("dwd_feature_off", feature="endpoint-pods")
        assert (off, seen.pods.forbidden) == (0, None)
    (told,) = (entry for entry in lines if entry.get("feature") == "endpoint-pods")
    assert (told["log_level"], f"{verb} pods" in told["error"]) == ("error", True)
    assert sum(entry["log_level"] == "error" for entry in lines) == 3  # two may be in passing
