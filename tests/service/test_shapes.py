"""The three shapes of a process, on real sockets: the prober, the weeder, and both."""

import asyncio
import json

import pytest

from app.core.model.weeding import Cause, ServiceKey
from tests.core.kube.server import until
from tests.service.lives import BOTH, PROBER, SERVERS, SERVICE, WEEDER, listens, living
from tests.support.harness import SHOOT

pytestmark = [pytest.mark.looptime(False), pytest.mark.usefixtures("lines")]

SHAPES = pytest.mark.parametrize("loops", [PROBER, WEEDER, BOTH], ids=" and ".join)
KEY = ServiceKey(SHOOT, SERVICE)


async def ready(found):
    """Waits until the loops that run know the seed; the answer that names each check."""

    async def asked():
        return await found.get("health", "/readyz?verbose")

    code, text = await asked()
    async with asyncio.timeout(5):
        while code != 200:
            await asyncio.sleep(0.02)
            code, text = await asked()
    return text


async def status(found):
    return json.loads((await found.get("API", "/api/v1/status"))[1])


@SHAPES
async def test_it_starts_serves_what_it_runs_and_leaves_nothing_behind(loops):
    async with living(loops=loops) as found:
        assert await found.get("health", "/livez") == (200, "ok")
        text = await ready(found)
        assert ("clusters-synced" in text) == (loops != WEEDER)
        assert ("endpointslices-synced" in text) == (loops != PROBER)
        assert ("[+]selectors ok" in text) == (loops != PROBER)
        _, text = await found.get("metrics", "/metrics")
        for name in ("recoveries_total", "pod_deletions_total", "watches_active"):
            assert f"# TYPE dwd_weeder_{name} " in text
        assert ("# TYPE dwd_shoots " in text) == (loops != WEEDER)
        told = await status(found)
        assert (told["version"], told["role"]) == ("1.2.3", "leader")
        assert told["leaders"] == {loop: {"identity": "me", "address": None} for loop in loops}
        assert (told["counts"] is None) == (loops == WEEDER)
        assert (await found.get("API", "/"))[0] == 200
        addresses = [found.service.address(name) for name in SERVERS]
        before = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - before < 2
    assert [each for each in addresses if await listens(each)] == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_recovery_is_seen_through_the_api():
    async with living(loops=BOTH) as found:
        await ready(found)
        assert json.loads((await found.get("API", "/api/v1/weeders"))[1])["items"] == []
        weeder = found.service.weeder.weeder
        recovery = weeder.registry.begin(KEY, Cause.ASKED, 300.0)
        await until(lambda: recovery.status().spared)
        _, text = await found.get("API", "/api/v1/weeders?running=true")
        (listed,) = json.loads(text)["items"]
        assert (listed["namespace"], listed["service"], listed["ready"]) == (*KEY, True)
        assert (await found.get("API", f"/api/v1/weeders/{SHOOT}/{SERVICE}"))[0] == 200
        assert (await found.get("API", f"/api/v1/weeders/{SHOOT}/another"))[0] == 404
        _, metrics = await found.get("metrics", "/metrics")
    assert f'dwd_weeder_recoveries_total{{service="{SERVICE}"}} 1.0' in metrics
    assert "dwd_weeder_watches_active 1.0" in metrics
    (shown,) = listed["recoveries"]
    assert (shown["cause"], shown["phase"]) == ("Asked", "Watching")
    assert {each["reason"] for each in shown["spared"]} == {"NotWaiting"}
    assert len(shown["spared"]) == 7, "the dependants, and neither etcd nor kube-apiserver"


async def test_selectors_that_match_nothing_are_shown_and_it_stays_ready():
    trouble = f"{SERVICE}, selector 0: no pod matches"
    async with living(loops=WEEDER) as found:
        labels = {"service": SERVICE, "selector": "0"}
        registry = found.core.metrics.registry
        await until(lambda: registry.get_sample_value("dwd_weeder_selector_matches", labels))
        found.service.weeder.weeder.selectors._reported.add((SERVICE, 0))  # else it takes an hour
        told = await status(found)
        text = await ready(found)
    assert told["selectorsWithoutPods"] == [trouble]
    assert f"[!]selectors warning: {trouble}" in text
