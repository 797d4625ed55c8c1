"""A shoot that stops being probed while it is protected belongs to gardenlet; the watchdog lets go and says so."""

import asyncio
import time
from typing import Any

from app.core.model.instants import rfc3339
from tests.e2e.api import CLUSTERS
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage


async def protected(stage: Stage) -> Program:
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    await stage.outage(within=40)
    await stage.until_state(prober, "Protected", within=10)
    return prober


async def let_go(stage: Stage, prober: Program, **change: Any) -> None:
    """After this change of the Shoot nothing is written any more, path or no path."""
    await stage.shoot.patch_shoot(**change)
    await stage.until_state(prober, "NotProbed", within=10)
    since = time.time()
    stage.shoot.kubelets.path.restore()
    await asyncio.sleep(25)
    stage.assert_nothing_was_scaled(since)
    assert set((await stage.shoot.replicas()).values()) == {0}
    history = await prober.history(stage.shoot.namespace)
    assert "ProtectionAbandoned" in {each["reason"] for each in history}


@scenario()
async def test_hibernation_ends_the_watch_over_a_protected_shoot(stage: Stage) -> None:
    prober = await protected(stage)
    await let_go(stage, prober, spec={"hibernation": {"enabled": True}})
    await stage.shoot.patch_shoot(spec={"hibernation": {"enabled": False}})
    await stage.until_up(within=60)


@scenario()
async def test_deletion_ends_the_watch_over_a_protected_shoot(stage: Stage) -> None:
    prober = await protected(stage)
    await let_go(stage, prober, metadata={"deletionTimestamp": rfc3339(time.time())})
    await stage.seed.api.delete(f"{CLUSTERS}/{stage.shoot.namespace}")

    async def unknown() -> bool:
        return (await prober.shoot(stage.shoot.namespace)).get("status") == 404

    await eventually(unknown, "the shoot is forgotten", within=10)
