"""The real adapter on a real kube-apiserver, with etcd behind it."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import aiohttp
from yarl import URL

from app.core.clock import Clock
from app.core.kube.reviews import Reviewer
from app.core.model.shoots import SecretView
from app.core.tasks import Tasks
from tests.contract.adapter import Adapter
from tests.contract.arena import KINDS, NODE_LEASES, Json, permissions_of, whole
from tests.contract.served import ServedArena
from tests.e2e import objects
from tests.e2e.api import NODES, Api, all_of
from tests.e2e.controlplane import ADMIN, ControlPlane, Etcd
from tests.e2e.landscape import (
    PROBE,
    RBAC,
    furnish_people,
    furnish_seed,
    furnish_shoot,
    garden,
    grant,
    remove_people,
)
from tests.e2e.processes import eventually

_numbers = count(1)
_ROLES = f"{RBAC}/clusterroles"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
NOBODYS_SHARE = "none"
_HANGING = """POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r
Host: localhost\r
Authorization: Bearer {token}\r
Content-Type: application/json\r
Content-Length: 100\r
\r
"""
_UNCACHED = "secrets#0,pods#0,configmaps#0,endpointslices.discovery.k8s.io#0"


class Plane(ControlPlane):
    """An API server that keeps no cache of some kinds: what its etcd has forgotten of them, it has forgotten too."""

    def _flags(self, own: Path) -> list[str]:
        return [*super()._flags(own), f"--watch-cache-sizes={_UNCACHED}"]


class Landscape:
    """The seed and one shoot, for the whole run."""

    def __init__(self, seed: ControlPlane, shoot: ControlPlane) -> None:
        self.seed, self.shoot = seed, shoot


@asynccontextmanager
async def landscape(assets: Path, folder: Path) -> AsyncIterator[Landscape]:
    """Starts both, each on an etcd of its own."""
    stores = [Etcd(assets / "etcd", folder, f"etcd-{name}") for name in ("seed", "shoot")]
    server = assets / "kube-apiserver"
    seed = Plane(server, folder, "seed", stores[0])
    shoot = ControlPlane(server, folder, "shoot", stores[1])
    try:
        await all_of(each.start() for each in stores)
        await all_of(each.start() for each in (seed, shoot))
        await furnish_seed(seed.api)
        await furnish_people(seed.api)
        await furnish_shoot(shoot.api)
        yield Landscape(seed, shoot)
    finally:
        await all_of(each.stop() for each in (seed, shoot))
        await all_of(each.child.stop(within=5) for each in stores)


class ApiAdmin:
    """An administrator, over HTTPS."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def _path(self, kind: str, name: str, namespace: str | None) -> str:
        return KINDS[kind].path(self._namespace if namespace is None else namespace, name)

    async def create(self, kind: str, body: Json, *, namespace: str | None = None) -> None:
        place = self._namespace if namespace is None else namespace
        await self._api.create(self._path(kind, "", namespace), whole(kind, body, place))
        if "status" in body:
            name = body["metadata"]["name"]
            await self.patch(
                kind, name, {"status": body["status"]}, namespace=namespace, status=True
            )

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Json,
        *,
        namespace: str | None = None,
        status: bool = False,
    ) -> None:
        path = self._path(kind, name, namespace) + ("/status" if status else "")
        await self._api.patch(path, patch)

    async def delete(self, kind: str, name: str, *, namespace: str | None = None) -> None:
        await self._api.delete(self._path(kind, name, namespace))

    async def find(self, kind: str, name: str, *, namespace: str | None = None) -> Json | None:
        return await self._api.find(self._path(kind, name, namespace))


class RealShoot:
    """The shoot, emptied for each test: its administrator, its Secret, and what may be wrong with it."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane, self._namespace = plane, namespace
        self.admin = ApiAdmin(plane.api, NODE_LEASES)

    async def begin(self) -> None:
        self._token = await self._plane.api.token_of("kube-system", PROBE)

    async def end(self) -> None:
        await self._plane.api.delete(NODES)
        await self._plane.api.delete(KINDS["Lease"].path(NODE_LEASES))

    def secret(self, content: bytes | None = None) -> SecretView:
        """The Secret that leads to it, with `content` instead of what is usual."""
        ca, url = self._plane.authority.pem, self._plane.url
        usual = objects.kubeconfig(self._namespace, url, ca, self._token)
        return SecretView(self._namespace, "a1", content or usual.encode())

    @asynccontextmanager
    async def storage_away(self) -> AsyncIterator[None]:
        self._plane.storage.child.pause()
        try:
            yield
        finally:
            await self._plane.recover()


class RealArena:
    """A namespace in the seed, and an account of the watchdog's own."""

    admin_token = ADMIN

    def __init__(self, clock: Clock, tasks: Tasks, land: Landscape) -> None:
        self.clock, self.tasks, self.land = clock, tasks, land
        number = next(_numbers)
        self.namespace, self.garden = f"shoot--contract--{number}", f"garden-{number}"
        self.api = land.seed.api
        self.admin = ApiAdmin(self.api, self.namespace)
        self.port, self.ca = land.seed.port, land.seed.authority.pem.decode()
        self._shoot: RealShoot | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Everything is there within, and the adapter watches."""
        await self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        base = objects.role("ClusterRole", f"{self.garden}-base", objects.prober_rules())
        await self.api.create(_ROLES, base)
        self.token = await garden(self.api, self.garden, base["metadata"]["name"])
        events = objects.rule("events.k8s.io", ["events"], "create patch")
        await grant(self.api, self.garden, "more", [*objects.scaler_rules(), events])
        self.adapter = Adapter(self.clock, self.tasks, self.port, self.ca, self.token)
        self.seed, self.connector = self.adapter.seed, self.adapter.connector
        self.user = self.api.as_user(self.token)
        try:
            async with self.adapter.open():
                yield
        finally:
            await self._close()

    async def _close(self) -> None:
        await self.user.close()
        if self._shoot is not None:
            await self._shoot.end()
        kinds = ("Machine", "Deployment", "Scaler", "Secret", "EndpointSlice", "Pod")
        for kind in (*kinds, "Pause", "ScaleRequest"):
            await self.api.delete(f"{KINDS[kind].path(self.namespace)}?gracePeriodSeconds=0")
        await self.api.delete(KINDS["Cluster"].path("", self.namespace))

    async def shoot(self) -> RealShoot:
        self._shoot = RealShoot(self.land.shoot, self.namespace)
        await self._shoot.begin()
        return self._shoot

    async def forget(self) -> None:
        """The server forgets what happened until now, to kinds of which it has no cache."""
        # The last revision of all is never forgotten: so that what happened is not in it, one more thing happens.
        again = {"metadata": {"annotations": {"contract": str(self.clock.now())}}}
        await self.api.patch(f"/api/v1/namespaces/{self.namespace}", again)
        await compact(self.land.seed.storage)

    @asynccontextmanager
    async def definitions_removed(self) -> AsyncIterator[None]:
        await remove_people(self.api)
        try:
            yield
        finally:
            await furnish_people(self.api)

    def throttled(self):
        return throttling(self.api, self.user, self.token)

    async def grant(self, name: str, rules: list[Json]) -> None:
        await grant(self.api, self.garden, name, rules)
        reviewer, rights = Reviewer(self.adapter.api), permissions_of(rules)

        async def known() -> bool:
            return await reviewer.missing(rights) == ()

        await eventually(known, f"{rights} are known", within=10, every=0.02)


Arena = ServedArena | RealArena
"""One cluster, and a control-plane namespace of the test's own in it."""


async def compact(storage: Etcd) -> None:
    """Lets etcd forget all but what is there now."""
    async with aiohttp.ClientSession(base_url=storage.url) as session:
        key = base64.b64encode(b"/").decode()
        async with session.post("/v3/kv/range", json={"key": key}) as answer:
            revision = (await answer.json())["header"]["revision"]
        body = {"revision": revision, "physical": True}
        async with session.post("/v3/kv/compaction", json=body) as answer:
            assert answer.status == 200, await answer.text()


# 429, by its own Priority and Fairness.


@asynccontextmanager
async def _occupying(api: Api, token: str) -> AsyncIterator[None]:
    """One request is being executed for as long as this lasts: the server waits for its body."""
    context, url = ssl.create_default_context(cadata=api.ca.decode()), URL(api.url)
    _, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
    writer.write(_HANGING.format(token=token).encode())
    await writer.drain()
    try:
        yield
    finally:
        writer.transport.abort()


@asynccontextmanager
async def throttling(api: Api, user: Api, token: str) -> AsyncIterator[None]:
    """The server has no share for anybody but its administrators: 429 for `user`.

    A request that finds its priority level idle is executed, whatever the level's share: so one that never ends comes
    first. One that came before the server knew of the level is on another: the next one is tried.
    """
    nothing = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited = {**nothing, "limitResponse": {"type": "Reject"}}
    level = {"metadata": {"name": NOBODYS_SHARE}, "spec": {"type": "Limited", "limited": limited}}
    everybody = {"kind": "Group", "group": {"name": "system:authenticated"}}
    anything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    rules = {
        "subjects": [everybody],
        "resourceRules": [{**anything, "clusterScope": True}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    schema = {
        "metadata": {"name": NOBODYS_SHARE},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": NOBODYS_SHARE},
            "rules": [rules],
        },
    }

    async def refused() -> bool:
        return await user.refusal("GET", "/version") == 429

    async def refused_while_occupied() -> bool:
        await occupied.enter_async_context(_occupying(api, token))
        # It is on its way; a request that overtook it would have it refused.
        await asyncio.sleep(0.1)
        return all([await refused() for _ in range(5)])

    async def heard() -> bool:
        return not await refused()

    await api.create(f"{FLOWS}/prioritylevelconfigurations", level)
    await api.create(f"{FLOWS}/flowschemas", schema)
    try:
        async with AsyncExitStack() as occupied:
            await eventually(refused_while_occupied, "requests are throttled", within=20, every=0.1)
            yield
    finally:
        await api.delete(f"{FLOWS}/flowschemas/{NOBODYS_SHARE}")
        await api.delete(f"{FLOWS}/prioritylevelconfigurations/{NOBODYS_SHARE}")
        await eventually(heard, "requests are no longer throttled", within=10, every=0.02)
