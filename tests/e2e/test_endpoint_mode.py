"""Endpoint mode on the real kube-apiserver: a load balancer before it that is dead, and back.

No Machine, Node or Lease is read in any of it: the audit logs of both API servers say so.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.e2e import objects
from tests.e2e.api import secrets
from tests.e2e.objects import Json
from tests.e2e.parallel import scenario
from tests.e2e.program import Program, gardener_dependents, server_pattern
from tests.e2e.proxies import TcpProxy
from tests.e2e.stage import Stage

FIRST_WRITE = 0.5
"""Seconds from the third failure in a row to the first write."""
ATTEMPT, SPARE = 5.0, 0.1
"""Seconds of an attempt that is not answered, and how much earlier its request ends."""
INTERNAL, EXTERNAL = "dwd-internal-probe", "dwd-external-probe"
NOT_READ: Final = frozenset({"machines", "nodes", "leases"})
"""What endpoint mode has no use for."""


def settings() -> Json:
    """A file for endpoint mode without delays before a scale-down, and with short waits."""
    return {
        "internalKubeConfigSecretName": INTERNAL,
        "externalKubeConfigSecretName": EXTERNAL,
        "probeInterval": "5s",
        "internalProbeFailureBackoffDuration": "2s",
        "dependentResourceInfos": gardener_dependents(mcm_delay="2s"),
    }


class Paths:
    """The ways to the shoot of a stage, and the Secrets that name them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.internal, self.external = TcpProxy(stage.plane.port), TcpProxy(stage.plane.port)

    async def build(self) -> None:
        """The shoot with both Secrets; one node, which nobody looks at."""
        shoot, ca = self.stage.shoot, self.stage.plane.authority.pem
        await shoot.build(nodes=1)
        for name, way in {INTERNAL: self.internal, EXTERNAL: self.external}.items():
            config = objects.kubeconfig(shoot.namespace, way.url, ca, shoot.token)
            body = objects.secret(config) | {"metadata": {"name": name}}
            await self.stage.seed.api.create(secrets(shoot.namespace), body)

    async def healthy(self) -> Program:
        """A program that reaches the shoot by both paths, and no shoot of others."""
        flags = {
            "shoot_server_pattern": server_pattern(self.internal.port),
            "external_server_pattern": server_pattern(self.external.port),
        }
        return await self.stage.healthy(settings(), **flags)

    def assert_only_versions_were_asked_for(self) -> None:
        """Of the shoot; and of the seed, no Machine and no Lease of a node."""
        of_shoot = {each.resource for each in self.stage.requests_to_shoot()}
        assert of_shoot == {"/version"}
        asked = self.stage.requests_to_seed()
        wrong = [each for each in asked if each.resource in NOT_READ and each.name != objects.LEASE]
        assert not wrong, "\n".join(str(each) for each in wrong)
        assert {each.name for each in asked if each.resource == "secrets"} == {INTERNAL, EXTERNAL}


@asynccontextmanager
async def two_paths(stage: Stage) -> AsyncIterator[Paths]:
    """Both are there within, and well."""
    made = Paths(stage)
    ways = (made.internal, made.external)
    try:
        for way in ways:
            await way.start()
        yield made
    finally:
        for way in ways:
            await way.stop()


async def a_probe_is_two_requests(stage: Stage, paths: Paths) -> None:
    """The internal connection stays, the external one is new each time."""
    inner, outer = len(paths.internal.opened), len(paths.external.opened)
    began = time.time()
    await asyncio.sleep(20)
    asked = [each for each in stage.requests_to_shoot(began) if each.resource == "/version"]
    looks = len(paths.external.opened) - outer
    stage.figure(f"{len(asked)} requests in {looks} probes of 20 s")
    assert looks >= 3
    assert len(paths.internal.opened) == inner
    assert abs(len(asked) - 2 * looks) <= 1


async def is_protected_in_time(stage: Stage, paths: Paths) -> None:
    """The external path has just begun to swallow everything."""
    began = time.time()
    await stage.until_down(within=60)
    third = [at for at in paths.external.opened if at >= began][2]
    first = stage.writes(began)[0].at
    late = first - (third + ATTEMPT - SPARE)
    stage.figure(f"first write {late:.2f} s after the third failure in a row")
    stage.figure(f"first write {first - began:.1f} s after the external path was cut")
    assert -0.3 < late <= FIRST_WRITE
    shoot = await stage.until_state(stage.programs[0], "Protected", within=15)
    assert shoot["reason"] == "ExternalUnreachable"


@scenario()
async def test_a_load_balancer_that_swallows_everything_is_an_outage_while_the_internal_path_is_well(
    stage: Stage,
) -> None:
    """While the internal path is dead, nothing is scaled, down or up, whatever the external one would say."""
    async with two_paths(stage) as paths:
        await paths.build()
        prober = await paths.healthy()
        await asyncio.sleep(5)
        await a_probe_is_two_requests(stage, paths)
        await paths.internal.cut()
        await stage.until_state(prober, "Unreachable", within=25)
        await asyncio.sleep(6)
        seen = len(paths.external.opened)
        paths.external.stall(new=True)
        await asyncio.sleep(10)
        assert len(paths.external.opened) == seen, "it is not even asked"
        stage.assert_nothing_was_scaled()
        await paths.internal.heal()  # now it is known which of the two is dead
        await is_protected_in_time(stage, paths)
        await paths.internal.cut()
        await asyncio.sleep(15)
        assert set((await stage.shoot.replicas()).values()) == {0}, "nothing is known any more"
        await paths.internal.heal()
        healed = time.time()
        await paths.external.heal()
        await stage.until_up(within=60)
        stage.figure(f"all back {time.time() - healed:.1f} s after the external path")
        await stage.until_state(prober, "Healthy", within=20)
        paths.assert_only_versions_were_asked_for()
