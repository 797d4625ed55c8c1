"""One watch: what it says, and when."""

import asyncio
import json

import pytest

from app.core.clock import Clock
from app.simulation.server import rendering, streams
from app.simulation.server.catalog import SEED_RESOURCES
from app.simulation.server.options import ListOptions, RequestedObject
from app.simulation.server.streams import StoreWatch, TooSlow, Watching
from app.simulation.store import ObjectKey, Store

DEPLOYMENTS = next(each for each in SEED_RESOURCES if each.kind == "Deployment")
EVERYWHERE = RequestedObject("apps", "v1", "deployments")


def key(name, namespace="ns"):
    return ObjectKey("Deployment", namespace, name)


def body(replicas=1, **labels):
    return {
        "apiVersion": "apps/v1",
        "metadata": {"labels": labels},
        "spec": {"replicas": replicas},
    }


class Watcher:
    """A watch that is followed."""

    def __init__(self, store, *, target=EVERYWHERE, **options):
        self.events = []
        self.stalled = self.mute = self.takes_nothing = False
        chosen = ListOptions(watch=True, **options)
        watching = Watching(DEPLOYMENTS, target, chosen, rendering.shown)
        self.stream = StoreWatch(
            store, Clock.of_loop(), watching, lambda: self.stalled, lambda: self.mute
        )
        self.task = asyncio.ensure_future(self.stream.run(self.send))

    async def send(self, lines):
        if self.takes_nothing:
            await asyncio.Event().wait()
        self.events += [json.loads(line) for line in lines.splitlines()]

    def told(self):
        return [(e["type"], e["object"]["metadata"].get("name", "")) for e in self.events]


async def test_a_watch_from_a_version_tells_what_was_missed_and_what_comes():
    store = Store()
    store.create(key("a"), body())
    begun = store.version
    store.create(key("b"), body())
    watcher = Watcher(store, version=begun, timeout=10)
    await asyncio.sleep(1)
    store.patch(key("b"), {"spec": {"replicas": 2}})
    store.delete(key("b"))
    await watcher.task
    assert watcher.told() == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_a_watch_without_a_version_begins_with_all_there_is():
    store = Store()
    store.create(key("a"), body())
    watcher = Watcher(store, timeout=5)
    await watcher.task
    assert watcher.told() == [("ADDED", "a")]


async def test_a_watch_with_initial_events_marks_their_end():
    store = Store()
    store.create(key("a"), body())
    watcher = Watcher(store, timeout=5, initial_events=True)
    await watcher.task
    assert [word for word, _ in watcher.told()] == ["ADDED", "BOOKMARK"]
    assert watcher.events[1]["object"]["metadata"]["annotations"] == {
        "k8s.io/initial-events-end": "true"
    }


async def test_a_version_that_is_forgotten_is_an_error_in_the_stream_and_its_end():
    store = Store()
    store.create(key("a"), body())
    begun = store.version
    store.create(key("b"), body())
    store.compact()
    watcher = Watcher(store, version=begun, timeout=60)
    await asyncio.wait_for(watcher.task, 1)
    [event] = watcher.events
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_a_watch_ends_after_the_time_that_was_asked_for_and_is_marked_before():
    store = Store()
    clock = Clock.of_loop()
    begun = clock.now()
    target = EVERYWHERE._replace(namespace="ns")
    watcher = Watcher(store, target=target, version=1, timeout=45, bookmarks=True)
    store.create(key("a", "other"), body())
    await watcher.task
    assert clock.now() - begun == pytest.approx(45)
    assert [word for word, _ in watcher.told()] == ["BOOKMARK"]
    assert watcher.events[0]["object"]["metadata"]["resourceVersion"] == str(store.version)


async def test_without_being_asked_there_is_no_bookmark():
    store = Store()
    target = EVERYWHERE._replace(namespace="ns")
    watcher = Watcher(store, target=target, version=1, timeout=45)
    store.create(key("a", "other"), body())
    await watcher.task
    assert not watcher.events


async def test_where_nothing_is_new_there_is_no_bookmark():
    store = Store()
    watcher = Watcher(store, version=1, timeout=45, bookmarks=True)
    store.create(ObjectKey("Secret", "ns", "a"), {"apiVersion": "v1"})
    store.create(key("a"), body())
    await watcher.task
    assert watcher.told() == [("ADDED", "a")]


async def test_only_what_the_selector_chooses_is_told_and_what_leaves_it_is_deleted():
    store = Store()
    watcher = Watcher(store, version=store.version, timeout=10, labels="app=x")
    store.create(key("a"), body(app="x"))
    store.create(key("b"), body(app="y"))
    store.patch(key("a"), {"metadata": {"labels": {"app": "y"}}})
    store.patch(key("b"), {"metadata": {"labels": {"app": "x"}}})
    await watcher.task
    assert watcher.told() == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]


async def test_other_namespaces_and_kinds_are_not_told():
    store = Store()
    target = EVERYWHERE._replace(namespace="ns")
    watcher = Watcher(store, target=target, version=store.version, timeout=10)
    store.create(key("a", "other"), body())
    store.create(ObjectKey("Secret", "ns", "a"), {"apiVersion": "v1"})
    store.create(key("b"), body())
    await watcher.task
    assert watcher.told() == [("ADDED", "b")]


async def test_a_stalled_watch_is_silent_and_then_goes_on_where_it_was():
    store = Store()
    watcher = Watcher(store, version=store.version, timeout=60, bookmarks=True)
    watcher.stalled = True
    store.create(key("a"), body())
    await asyncio.sleep(30)
    assert not watcher.events
    watcher.stalled = False
    await asyncio.sleep(1)
    assert watcher.told() == [("ADDED", "a")]
    watcher.task.cancel()


async def test_a_mute_watch_does_not_even_end():
    store = Store()
    watcher = Watcher(store, version=store.version, timeout=10)
    watcher.stalled = watcher.mute = True
    await asyncio.sleep(100)
    assert not watcher.task.done()
    watcher.stalled = watcher.mute = False
    await asyncio.wait_for(watcher.task, 1)
    assert not watcher.events


async def test_a_reader_that_falls_too_far_behind_is_cut(monkeypatch):
    monkeypatch.setattr(streams, "MOST_WAITING", 3)
    store = Store()
    watcher = Watcher(store, version=store.version, timeout=60)
    watcher.stalled = True
    for number in range(5):
        store.create(key(f"a{number}"), body())
    with pytest.raises(TooSlow):
        await asyncio.wait_for(watcher.task, 5)


async def test_a_reader_that_takes_nothing_is_cut_soon_after_the_end_of_the_watch():
    store = Store()
    watcher = Watcher(store, version=store.version, timeout=10)
    watcher.takes_nothing = True
    store.create(key("a"), body())
    with pytest.raises(TooSlow):
        await asyncio.wait_for(watcher.task, 16)


async def test_a_closed_watch_costs_the_store_nothing():
    store = Store()
    watcher = Watcher(store, version=store.version, timeout=5)
    await watcher.task
    watcher.stream.close()
    store.create(key("a"), body())
    assert not watcher.events
