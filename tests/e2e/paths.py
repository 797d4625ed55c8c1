"""The two paths of endpoint mode to one shoot, each through a proxy of its own that a scenario can disturb."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.e2e import objects
from tests.e2e.api import secrets
from tests.e2e.objects import Json
from tests.e2e.program import Program, gardener_dependents, server_pattern
from tests.e2e.proxies import TcpProxy
from tests.e2e.stage import Stage

INTERNAL, EXTERNAL = "dwd-internal-probe", "dwd-external-probe"
NOT_READ: Final = frozenset({"machines", "nodes", "leases"})
"""What endpoint mode has no use for."""


def settings(**more: Any) -> Json:
    """A file for endpoint mode without delays before a scale-down, and with short waits."""
    return {
        "internalKubeConfigSecretName": INTERNAL,
        "externalKubeConfigSecretName": EXTERNAL,
        "probeInterval": "5s",
        "internalProbeFailureBackoffDuration": "2s",
        "dependentResourceInfos": gardener_dependents(mcm_delay="2s"),
        **more,
    }


class Paths:
    """The ways to the shoot of a stage, and the Secrets that name them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.internal, self.external = TcpProxy(stage.plane.port), TcpProxy(stage.plane.port)

    async def build(self, names: tuple[str, str] = (INTERNAL, EXTERNAL)) -> None:
        """The shoot with both Secrets; one node, which nobody looks at."""
        await self.stage.shoot.build(nodes=1)
        self.names = dict(zip((self.internal, self.external), names, strict=True))
        for way in self.names:
            await self.write_secret(way)

    async def write_secret(self, way: TcpProxy, token: str | None = None) -> None:
        """The Secret of this way, with the token of the account or another one."""
        shoot = self.stage.shoot
        ca = self.stage.plane.authority.pem
        config = objects.kubeconfig(shoot.namespace, way.url, ca, token or shoot.token)
        body = objects.secret(config) | {"metadata": {"name": self.names[way]}}
        path = secrets(shoot.namespace)
        if await self.stage.seed.api.find(f"{path}/{self.names[way]}") is None:
            await self.stage.seed.api.create(path, body)
        else:
            await self.stage.seed.api.patch(f"{path}/{self.names[way]}", body)

    async def healthy(self, file: Json | None = None) -> Program:
        """A program that reaches the shoot by both paths, and no shoot of others."""
        flags = {
            "shoot_server_pattern": server_pattern(self.internal.port),
            "external_server_pattern": server_pattern(self.external.port),
        }
        return await self.stage.healthy(file or settings(), **flags)

    def assert_only_versions_were_asked_for(self) -> None:
        """Of the shoot; and of the seed, no Machine and no Lease of a node."""
        of_shoot = {each.resource for each in self.stage.requests_to_shoot()}
        assert of_shoot == {"/version"}
        asked = self.stage.requests_to_seed()
        wrong = [each for each in asked if each.resource in NOT_READ and each.name != objects.LEASE]
        assert not wrong, "\n".join(str(each) for each in wrong)
        assert {each.name for each in asked if each.resource == "secrets"} == {*self.names.values()}


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
