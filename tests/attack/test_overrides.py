"""A ConfigMap of the overrides that is there to keep the event loop, or to drown what people decided."""

import asyncio
import json
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.core.clock import Clock
from app.core.kube.overrides_store import KubeOverridesStore
from app.core.kube.seed_api import SeedApi
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS, OVERRIDES
from app.core.overrides.cache import OverrideCache
from app.core.overrides.reconciler import OverrideReconciler
from app.core.overrides.rules import MOST_KEYS
from app.core.overrides.writer import OverrideWriter
from app.core.reporting.history import History
from app.core.reporting.metering import Metering
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from tests.attack.test_attack import serving_beside
from tests.attack.test_no_input_holds_the_loop import on_uvloop
from tests.core.kube.test_seed import FakeCredentials
from tests.support.overrides import MemoryStore
from tests.support.watchdog import MOST, watched

pytestmark = pytest.mark.looptime(False)


class Replica:
    """What a replica of the prober that leads does with the overrides."""

    def __init__(self):
        self.clock, self.metrics, self.notice_bus = Clock.system(), Metrics(), NoticeBus()
        self.tasks = Tasks(self.clock)
        self.store = MemoryStore(self.clock)
        self.book = OverrideCache(self.store, self.clock, self.metrics)
        writer = OverrideWriter(self.store, self.book)
        self.upkeep = OverrideReconciler(
            self.book,
            writer,
            self.notice_bus,
            self.clock,
            home="garden",
            leading=lambda: True,
            clusters=lambda: None,
        )
        self.history = History()
        for subscriber in (Metering(self.metrics).note, self.history.note):
            self.notice_bus.subscribe(subscriber)

    async def until_read(self):
        await self.clock.sleep(0.05)
        while self.book._to_read:
            await self.clock.sleep(0.05)
        await self.clock.sleep(0.1)


@asynccontextmanager
async def replica():
    made = Replica()
    for run in (made.book.run, made.upkeep.run):
        _ = made.tasks.shared(run, "overrides")
    await made.clock.sleep(0.05)
    try:
        yield made
    finally:
        await made.tasks.stop()


def text(clock, number=0, **more):
    now = clock.now()
    common = {"reason": f"ticket {number}", "author": "a", "createdAt": rfc3339(now)}
    common["until"] = rfc3339(now + 3_600)
    return json.dumps({"pause": {"scope": "all", **common}, "hold": {**common, **more}})


HOSTILE = {
    "pauses and holds": text,
    "what is left out": lambda clock, number: json.dumps({"pause": {"reason": str(number)}}),
    "nonsense": lambda clock, number: f"nonsense {number}",
    "an empty text": lambda clock, number: "",
    "fields that nobody knows": lambda clock, number: json.dumps({f"a{number}": 1}),
}
LARGE = {
    "names, one of them twice": "{" + ",".join(f'"a{n}":1' for n in range(1_200)) + ',"a9":1}',
    "one name again and again": "{" + ",".join(['"a":1'] * 2_500) + "}",
    "nested": "[" * 16_000,
    "a number without end": '{"pause":{"createdAt":' + "1" * 16_000 + "}}",
    "what looks like secrets": json.dumps({"pause": {"reason": "token=" * 2_600}}),
    "escapes": json.dumps({"pause": {"reason": "\x01" * 2_600}}),
    "an author without end": json.dumps({"pause": {"author": "a b " * 4_000}}),
}


@pytest.mark.parametrize("number", [MOST_KEYS, 20_000])
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
async def test_keys_without_number_do_not_keep_the_loop(number, make):
    worst = []
    async with replica() as made:
        for version in range(3):
            data = {f"shoot--{n}": make(made.clock, n + version) for n in range(number)}
            with watched() as dog:
                made.store.kubectl(data)
                await made.until_read()
            worst.append(dog.worst)
        assert len(made.book.knowledge) == MOST_KEYS
    assert min(hold.seconds for hold in worst) < MOST, worst  # others use the machine, too


class ConfigMaps:
    """A seed that has a ConfigMap near etcd's limit, and watches that bring the next version of it."""

    def __init__(self, versions):
        self._versions = versions

    async def handle(self, asked):
        if "watch" not in asked.query:
            meta = b'{"resourceVersion":"1"}'
            listed = b'{"kind":"ConfigMapList","metadata":%s,"items":[%s]}'
            await asked.answer(listed % (meta, self._versions[0]))
            return
        await asked.begin_stream()
        for version in self._versions[1:]:
            await asyncio.sleep(0.5)
            event = b'{"type":"MODIFIED","object":%s}\n' % version
            for start in range(0, len(event), 16_384):
                await asked.chunk(event[start : start + 16_384])
        await asked.hang()


def config_map(number, version):
    meta = {"uid": "u", "name": OVERRIDES, "namespace": "garden", "resourceVersion": f"{version}"}
    data = {f"{n:x}": f"{version}" for n in range(number)} | {"last": f"{version}"}
    whole = {"kind": "ConfigMap", "metadata": meta, "data": data}
    return json.dumps(whole, separators=(",", ":")).encode()


async def followed(origin, last):
    """What held the loop while the ConfigMap was listed, watched and read, as in the program."""
    clock, metrics = Clock.system(), Metrics()
    server = cast("Any", SimpleNamespace(origin=origin))
    api = SeedApi(FakeCredentials(server), clock, metrics, qps=1000.0, burst=1000)
    tasks = Tasks(clock)
    store = KubeOverridesStore(api, "garden", clock, tasks, metrics, Random(1))
    with watched() as dog:
        book = OverrideCache(store, clock, metrics)
        _ = tasks.shared(book.run, "overrides")
        await store.start()
        async with asyncio.timeout(20):
            while book.document is None or book.document.resource_version != last:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            while book._to_read:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
    await store.close()
    await tasks.stop()
    await api.close()
    await asyncio.sleep(0.1)
    return dog.too_long


@pytest.mark.parametrize("number", [20_000, 60_000, 110_000])
def test_a_config_map_near_the_limit_of_etcd_does_not_keep_the_loop(number):
    versions = [config_map(number, version) for version in (1, 2, 3)]
    with serving_beside(ConfigMaps(versions).handle) as origin:
        assert not on_uvloop(followed(origin, "3"))


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
async def test_long_texts_do_not_keep_the_loop(value):
    async with replica() as made:
        with watched() as dog:
            made.store.kubectl({f"shoot--{n}": value for n in range(60)})
            await made.until_read()
    assert not dog.too_long


async def test_among_twenty_thousand_keys_that_of_all_shoots_is_heeded_and_the_rest_is_one_report():
    async with replica() as made:
        pause = {"pause": {"reason": "storm"}}
        junk = {f"a{n}": "{}" for n in range(20_000)}
        made.store.kubectl(junk | {ALL_SHOOTS: json.dumps(pause)})
        await made.until_read()
        assert made.book.global_pause().reason == "storm"
        assert "more than 2000 keys" in made.book.trouble
