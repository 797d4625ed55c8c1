"""One watch: what it says, and when."""

import asyncio
import json

import pytest

from app.core.clock import Clock
from app.simulation.server import rendering, streams
from app.simulation.server.catalog import SEED_RESOURCES
from app.simulation.server.options import ListOptions, RequestedObject
from app.simulation.server.streams import StoreWatch, Watching
from app.simulation.store import ObjectKey, Store

DEPLOYMENTS = next(each for each in SEED_RESOURCES if each.kind == "Deployment")
EVERYWHERE = RequestedObject("apps", "v1", "deployments")


def key(name, namespace="ns"):
    return ObjectKey("Deployment", namespace, name)


def body(replicas=1, **labels):
    return {"apiVersion": "apps/v1", "metadata": {"labels": labels}, "spec": {"replicas": replicas}}


class Watcher:
    """A watch that is followed."""

    def __init__(self, store, **options):
        self.events = []
        self.stalled = self.mute = self.takes_nothing = False
        chosen = ListOptions(watch=True, **options)
        watching = Watching(DEPLOYMENTS, EVERYWHERE, chosen, rendering.shown)
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
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(watcher.task, 5)


async def test_a_reader_that_takes_nothing_is_cut_soon_after_the_end_of_the_watch():
    store = Store()
    watcher = Watcher(store, version=store.version, timeout=10)
    watcher.takes_nothing = True
    store.create(key("a"), body())
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(watcher.task, 16)
