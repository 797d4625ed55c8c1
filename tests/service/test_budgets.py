"""A process keeps the budget of requests that its flags say; virtual time."""

import asyncio

from app.core.kube.seed_api import URGENT_IN_FLIGHT
from tests.service.lives import PROBER, life
from tests.support.harness import SHOOT


async def test_the_flag_says_how_fast_scale_downs_are():
    found = life(loops=PROBER, flags={"scale_down_qps": 10.0})
    assert found.cluster.prober is not None
    seed, now = found.cluster.prober.seed, asyncio.get_running_loop().time
    begun = now()
    reads = (seed.read_cluster(SHOOT, urgent=True) for _ in range(URGENT_IN_FLIGHT + 20))
    assert None not in await asyncio.gather(*reads)
    assert 2.0 <= now() - begun < 2.2
    await found.service.stop("the test is over")
