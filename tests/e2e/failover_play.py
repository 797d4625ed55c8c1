"""One outage with something else in the middle of it."""

import asyncio
import time

from tests.e2e.failover_judge import Moments, Result, judged
from tests.e2e.failover_kinds import COUNTS, Cast, Kind
from tests.e2e.pair import CHANCE, RETRY, seed_is_back

LIMIT = 420.0
"""Seconds within which a run has ended, beside those that its fault lasts."""
_DOWN_WITHIN = 120.0


async def play(cast: Cast, kind: Kind) -> Result:
    """Plays it; all is well again afterwards."""
    stage = cast.stage
    shoot, path = stage.shoot, stage.shoot.kubelets.path
    cast.leader = await cast.both.leader(within=120)
    await stage.until_state(cast.leader, "Healthy")
    await asyncio.sleep(CHANCE.uniform(2 * RETRY, 3 * RETRY))  # the other one has seen renewals
    began = time.time()
    if kind.known_after is not None:
        path.cut()
        await asyncio.sleep(0.5)  # renewals that were under way
        await _until(shoot.known_at() - CHANCE.uniform(*kind.known_after))
    fault = time.time()
    await kind.go(cast)
    if kind.known_after is None:
        await _until(fault + kind.cut_after)
        path.cut()
    await _until(fault + CHANCE.uniform(*kind.lasts))
    await kind.back(cast)
    returned = await seed_is_back(stage)
    await stage.until_down(within=_DOWN_WITHIN)
    known, restored = shoot.known_at(), path.restore()
    await stage.until_up()
    moments = Moments(began, fault, returned, known, restored)
    result = judged(cast, kind, moments)
    now = await shoot.replicas()
    if now != COUNTS:
        result.troubles.append(f"at the end: {now}")
    return result


async def _until(instant: float) -> None:
    await asyncio.sleep(max(instant - time.time(), 0))
