"""A ConfigMap of the overrides that is there to keep the event loop, or to drown what people decided."""

import json
from contextlib import asynccontextmanager

import pytest

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS
from app.core.overrides.cache import OverrideCache
from app.core.overrides.reconciler import OverrideReconciler
from app.core.overrides.rules import MOST_KEYS
from app.core.overrides.writer import OverrideWriter
from app.core.reporting.history import History
from app.core.reporting.metering import Metering
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
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
