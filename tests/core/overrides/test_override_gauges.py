"""The overrides as metrics."""

import asyncio
import json

import pytest

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS
from app.core.overrides.cache import OverrideCache
from app.core.overrides.notices import OverrideGauges
from app.core.overrides.rules import MOST_KEYS
from tests.support.overrides import MemoryStore

ACTIVE = "dwd_overrides_active"
EXPIRY = "dwd_override_expiry_timestamp_seconds"
START = 1_800_000_000.0


class Harness:
    def __init__(self, *, per_shoot=True):
        self.now = START
        self.clock = Clock(START, lambda: self.now - START)
        self.metrics = Metrics(per_shoot=per_shoot)
        self.store = MemoryStore(self.clock)
        self.leads = True
        self.cache = OverrideCache(self.store, self.clock, self.metrics)
        OverrideGauges(
            self.metrics,
            self.cache,
            self.clock,
            leading=lambda: self.leads,
            ignored=lambda: 3,
        )

    def write(self, key, **entries):
        def whole(seconds):
            return {"createdAt": rfc3339(self.now), "until": rfc3339(self.now + seconds)}

        parts = {kind: whole(seconds) for kind, seconds in entries.items()}
        self.store.kubectl_set(key, json.dumps(parts))

    def samples(self, name):
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == name
        }


@pytest.fixture
async def harness():
    return Harness()


def kinds(**counts):
    base = {"pause": 0, "global-pause": 0, "hold": 0, "ignore-scaling": 3, "invalid": 0}
    return {(kind,): number for kind, number in {**base, **counts}.items()}


async def test_without_overrides_every_kind_is_zero_and_nothing_expires(harness):
    assert harness.samples(ACTIVE) == kinds()
    assert harness.samples(EXPIRY) == {}


async def test_each_kind_is_counted_and_says_when_it_ends(harness):
    harness.write("shoot--a", pause=60, hold=90)
    harness.write("shoot--b", pause=70)
    harness.write(ALL_SHOOTS, pause=80)
    assert harness.samples(ACTIVE) == kinds(**{"pause": 2, "hold": 1, "global-pause": 1})
    assert harness.samples(EXPIRY) == {
        ("shoot--a", "pause"): START + 60,
        ("shoot--a", "hold"): START + 90,
        ("shoot--b", "pause"): START + 70,
        (ALL_SHOOTS, "global-pause"): START + 80,
    }


async def test_what_has_ended_is_not_counted(harness):
    harness.write("shoot--a", pause=60, hold=90)
    harness.now += 60
    assert harness.samples(ACTIVE) == kinds(hold=1)
    assert set(harness.samples(EXPIRY)) == {("shoot--a", "hold")}


async def test_a_key_that_cannot_be_read_is_invalid_and_no_pause_until_it_is_mended(harness):
    harness.store.kubectl_set("shoot--a", "{")
    assert harness.samples(ACTIVE) == kinds(invalid=1)
    assert harness.samples(EXPIRY) == {("shoot--a", "invalid"): START + 3_600}
    harness.now += 4_000
    assert harness.samples(ACTIVE) == kinds(invalid=1)
    assert harness.samples(EXPIRY) == {}


async def test_a_standby_tells_nothing(harness):
    harness.write("shoot--a", pause=60)
    harness.leads = False
    assert harness.samples(ACTIVE) == harness.samples(EXPIRY) == {}


async def test_without_series_for_shoots_only_the_end_of_what_is_for_all_is_told():
    harness = Harness(per_shoot=False)
    harness.write("shoot--a", pause=60)
    harness.write(ALL_SHOOTS, pause=80)
    assert set(harness.samples(EXPIRY)) == {(ALL_SHOOTS, "global-pause")}
    assert harness.samples(ACTIVE)[("pause",)] == 1


async def test_keys_without_number_do_not_make_series_without_number(harness):
    keys = [*(f"k{number}" for number in range(5_000)), ALL_SHOOTS]
    harness.store.kubectl(dict.fromkeys(keys, "{"))
    following = asyncio.ensure_future(harness.cache.run())
    await asyncio.sleep(1)
    following.cancel()
    found = harness.samples(EXPIRY)
    assert len(found) == MOST_KEYS
    assert (ALL_SHOOTS, "invalid") in found
    assert harness.samples(ACTIVE)[("invalid",)] == 5_001
