"""What the process may not do, and what it finds that is not its own: asked, told, and never in the way."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.core.clock import Clock
from app.core.errors import Forbidden, Unreachable
from app.core.kube.leader_slice import ApiEndpoint, LeaderAddress, LeaderSlice
from app.core.metrics import Metrics
from app.core.ports import Permission
from app.service.parts import Rights
from app.service.selfview import MeltdownScan, PermissionCheck

PATCH = Permission("patch", "apps", "deployments", "kube-controller-manager")
OTHER_PATCH = Permission("patch", "apps", "deployments", "cluster-autoscaler")
EVENTS = Permission("create", "events.k8s.io", "events", feature="events")
UPDATE = Permission("update", "discovery.k8s.io", "endpointslices", feature="leader-address")
NEEDED = (PATCH, OTHER_PATCH, EVENTS, UPDATE)

pytestmark = pytest.mark.usefixtures("lines")


class Seed:
    """Denies what the test wants it to, or does not answer."""

    def __init__(self):
        self.denied = ()
        self.fails = None
        self.found = ()
        self.asked = 0

    async def missing(self, needed):
        denied = await self._answer(self.denied)
        return tuple(each for each in needed if each in denied)

    async def scan(self):
        return await self._answer(self.found)

    async def _answer(self, answer):
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return answer


@pytest.fixture
def begin(tasks):
    """Lets the check or the scan run for so many seconds."""

    async def run(what, seconds):
        _ = tasks.once(what.run, "loop")
        await asyncio.sleep(seconds)

    return run


@pytest.fixture
def seed():
    return Seed()


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
async def check(seed, metrics):
    async def needed():
        return NEEDED

    return PermissionCheck(Rights(seed, needed), Clock.of_loop(), metrics)


async def test_a_missing_right_is_named_in_log_and_metric_and_known(
    seed, metrics, check, begin, lines
):
    seed.denied = (PATCH,)
    await begin(check, 1)
    assert check.missing == (PATCH,)
    labels = {"verb": "patch", "resource": "deployments"}
    assert metrics.registry.get_sample_value("dwd_missing_permissions", labels) == 1
    assert [(each["log_level"], each["right"]) for each in lines] == [
        ("error", "patch deployments")
    ]


async def test_a_right_of_one_feature_switches_that_feature_off_with_a_warning(
    seed, metrics, check, begin, lines
):
    seed.denied = (EVENTS,)
    await begin(check, 1)
    off = {"feature": "events"}
    assert metrics.registry.get_sample_value("dwd_feature_off", off) == 1
    assert [(each["log_level"], each["feature"]) for each in lines] == [("warning", "events")]
    seed.denied = ()
    await asyncio.sleep(3600)
    assert metrics.registry.get_sample_value("dwd_feature_off", off) == 0


class Slices:
    """A seed that lets a standby read the leader's address."""

    def __init__(self, metrics):
        self.clock, self.metrics = Clock.of_loop(), metrics

    async def call(self, _request, _decode):
        return LeaderSlice({}, ApiEndpoint("10.0.0.1", 8080), exact=True)


async def test_a_feature_stays_off_without_its_right_though_what_it_does_now_works(
    seed, metrics, check, begin, tasks
):
    standby = SimpleNamespace(leading=False, subscribe=lambda _: None)
    own = ApiEndpoint("10.0.0.2", 8080)
    address = LeaderAddress(cast("Any", Slices(metrics)), "garden", "dwd", own, standby)
    _ = tasks.shared(address.run, "leader address")
    off = {"feature": "leader-address"}
    for denied, shown in (((UPDATE,), 1), ((), 0)):
        seed.denied = denied
        await begin(check, 60)
        assert address.address() == "10.0.0.1:8080"
        assert metrics.registry.get_sample_value("dwd_feature_off", off) == shown


async def test_rights_are_asked_for_hourly_and_what_is_granted_again_is_no_longer_shown(
    seed, metrics, check, begin
):
    seed.denied = (PATCH, OTHER_PATCH)
    await begin(check, 3599)
    assert seed.asked == 1
    labels = {"verb": "patch", "resource": "deployments"}
    seed.denied = (OTHER_PATCH,)
    await asyncio.sleep(2)
    assert metrics.registry.get_sample_value("dwd_missing_permissions", labels) == 1
    seed.denied = ()
    await asyncio.sleep(3600)
    assert check.missing == ()
    assert metrics.registry.get_sample_value("dwd_missing_permissions", labels) is None


async def test_a_seed_that_does_not_answer_is_asked_again_after_a_minute(seed, check, begin, lines):
    seed.fails = Unreachable("refused")
    await begin(check, 59)
    assert check.checked_at is None
    seed.fails, seed.denied = None, (PATCH,)
    await asyncio.sleep(2)
    assert check.missing == (PATCH,)
    assert lines[0]["log_level"] == "warning"


# The scan at start.


@pytest.fixture
async def scan(seed, metrics):
    return MeltdownScan(seed.scan, Clock.of_loop(), metrics)


async def test_what_carries_the_meltdown_key_unconfigured_is_warned_of_once(
    seed, scan, begin, lines
):
    seed.found = ("shoot--a/Deployment/etcd-druid",)
    await begin(scan, 7200)
    assert scan.found == seed.found
    assert scan.off is None
    assert [(each["log_level"], each["found"]) for each in lines] == [("warning", seed.found[0])]


async def test_without_the_right_to_list_the_feature_is_off_at_once(seed, scan, begin, metrics):
    seed.fails = Forbidden("list deployments")
    await begin(scan, 1)
    assert (seed.asked, scan.off) == (1, "list deployments")
    labels = {"feature": "metadata-scan"}
    assert metrics.registry.get_sample_value("dwd_feature_off", labels) == 1


async def test_a_seed_that_does_not_answer_is_scanned_again_a_few_times_then_hourly(
    seed, scan, begin, metrics
):
    seed.fails = Unreachable("refused")
    await begin(scan, 3600)
    assert (seed.asked, scan.off) == (5, "refused")
    off = partial(metrics.registry.get_sample_value, "dwd_feature_off", {"feature": scan.feature})
    assert off() == 1
    seed.fails = None
    await asyncio.sleep(300)
    assert (seed.asked, scan.off, off()) == (6, None, 0)


async def test_a_scan_that_works_at_last_is_on(seed, scan, begin):
    seed.fails = Unreachable("refused")
    await begin(scan, 61)
    seed.fails = None
    await asyncio.sleep(61)
    assert (seed.asked, scan.off) == (3, None)
