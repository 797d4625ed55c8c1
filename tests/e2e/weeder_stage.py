"""What a scenario of the weeder plays on: an API server that is its seed alone, programs, and oracles.

The weeder acts in a whole seed, on the services that its file names. So its seed is the API server that a scenario
has for itself, which may be stopped and restarted as well.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.e2e import landscape, objects, program
from tests.e2e import weeder_objects as things
from tests.e2e.api import ApiError, all_of
from tests.e2e.audit import Audit, Request, Watch
from tests.e2e.landscape import RBAC
from tests.e2e.objects import Json
from tests.e2e.processes import eventually
from tests.e2e.program import Command, Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Kubelet, Place, Uids

GARDEN = "garden"
WEEDER = things.WEEDER
USER = f"system:serviceaccount:{GARDEN}:{WEEDER}"
SLOWLY = {"max_deletions_per_second": "5"}
"""50 pods take 10 s: time for something to happen meanwhile."""


class WeederSeed:
    """A seed with nothing in it but what the weeder has to do with."""

    def __init__(self, stage: Stage, kubelet: Kubelet) -> None:
        self.stage, self.kubelet = stage, kubelet
        self.plane, self.api = stage.plane, stage.plane.api
        self.audit = Audit(stage.plane.audit.log, start=stage.plane.audit.size)
        self._token = ""
        self._cut_off: dict[str, float] = {}
        """By uid: when a deletion was asked for that was carried out although its connection was cut."""
        self._places = 0

    async def place(self) -> Place:
        """A new control-plane namespace."""
        self._places += 1
        made = Place(self.api, f"shoot--weed--s{self.stage.number:02}-{self._places}")
        await made.create()
        return made

    # Programs.

    async def begin(self) -> None:
        """Gardener's rights for the weeder, and nobody's Lease."""
        await _sweep(self)
        await _ensure(self, "/api/v1/namespaces", {"metadata": {"name": GARDEN}})
        accounts = f"/api/v1/namespaces/{GARDEN}/serviceaccounts"
        await _ensure(self, accounts, {"metadata": {"name": WEEDER}})
        inside = f"{RBAC}/namespaces/{GARDEN}"
        await landscape.furnish_people(self.api)
        await self.grant_inside(objects.garden_rules(things.LEASE))
        await self.grant(things.weeder_rules())
        await self.grant_people(objects.people_rules("pauses"))
        for kind, path in {"Role": inside, "ClusterRole": RBAC}.items():
            bound = objects.binding(f"{kind}Binding", WEEDER, WEEDER, GARDEN, WEEDER)
            await _ensure(self, f"{path}/{kind.lower()}bindings", bound)
        self._token = await self.api.token_of(GARDEN, WEEDER)

    async def grant(self, rules: list[Json]) -> None:
        """These rights in the whole seed, and no others."""
        await _ensure(self, f"{RBAC}/clusterroles", objects.role("ClusterRole", WEEDER, rules))

    async def grant_inside(self, rules: list[Json]) -> None:
        """The same in the watchdog's own namespace."""
        path = f"{RBAC}/namespaces/{GARDEN}/roles"
        await _ensure(self, path, objects.role("Role", WEEDER, rules))

    async def grant_people(self, rules: list[Json]) -> None:
        """These rights to Pauses and ScaleRequests, beside the others."""
        name, path = f"{WEEDER}-people", f"{RBAC}/clusterroles"
        await _ensure(self, path, objects.role("ClusterRole", name, rules))
        bound = objects.binding("ClusterRoleBinding", name, name, GARDEN, WEEDER)
        await _ensure(self, f"{RBAC}/clusterrolebindings", bound)

    async def grant_both_loops(self) -> None:
        """The union of what the two loops need, and the kinds that the prober reads."""
        if await self.api.find("/apis/extensions.gardener.cloud/v1alpha1/clusters") is None:
            await landscape.furnish_seed(self.api)
        await self.grant_inside(objects.garden_rules(objects.LEASE, things.LEASE))
        await self.grant_people(objects.people_rules())
        await self.grant([*objects.prober_rules(), *things.weeder_rules()])

    async def start(self, **flags: str) -> Program:
        """Starts an instance of the weeder; returns when it is ready."""
        made = self.prepare(things.weeder(), **flags)
        await made.start()
        return made

    async def leader(self, **flags: str) -> Program:
        """Starts an instance; returns when it leads."""
        made = await self.start(**flags)
        await eventually(made.leads, f"{made.name} leads", within=20)
        return made

    def prepare(self, command: Command, /, **flags: str) -> Program:
        """An instance that is not yet started; `flags` with underscores."""
        kubeconfig = program.admin_config(self.plane.url, self.plane.authority.pem, self._token)
        ours = {flag.replace("_", "-"): value for flag, value in flags.items()}
        stage = self.stage
        name = f"weeder-s{stage.number:02}-{len(stage.programs)}"
        made = Program(name, stage.folder, command, kubeconfig, ours)
        stage.programs.append(made)
        return made

    # Oracles.

    def requests(self) -> list[Request]:
        """What the programs asked for."""
        return self.audit.requests(user=USER)

    def deletions(self) -> list[Request]:
        """Their requests to delete a pod, those that were refused too."""
        asked = self.requests()
        return [each for each in asked if (each.verb, each.resource) == ("delete", "pods")]

    def deleted(self) -> list[Request]:
        """Those that deleted one; none is deleted twice, and each was judged."""
        done = [
            each
            for each in self.deletions()
            if each.code == 200 or each.at == self._cut_off.get(uid_of(each))
        ]
        for each in done:
            assert each.body["preconditions"]["resourceVersion"], each
        twice = [uid for uid, times in Counter(map(uid_of, done)).items() if times > 1]
        assert not twice, "\n".join(str(each) for each in done if uid_of(each) in twice)
        return done

    async def _find_cut_off(self) -> None:
        """Counts as deletions, too, those that were carried out although their connection was cut meanwhile.

        The server tells of them as of those that it gave up (504): only the pods know.
        """
        asked = self.deletions()
        answered = {uid_of(each) for each in asked if each.code == 200}
        last = {uid_of(each): each for each in asked if each.code == 504 and each.body}
        for uid, each in last.items():
            if uid not in answered and uid not in self._cut_off:
                found = await self.api.find(f"{things.pods(each.namespace)}/{each.name}")
                if found is None or "deletionTimestamp" in found["metadata"]:
                    self._cut_off[uid] = each.at

    def pod_watches(self) -> list[Watch]:
        """The watches of pods that they opened."""
        return self.audit.watches("pods", user=USER)

    async def until_deleted(self, pods: Uids, within: float) -> list[Request]:
        """Waits until these, and no others, were deleted; returns the requests."""
        wanted = set(pods.values())

        async def are() -> bool:
            await self._find_cut_off()
            return wanted <= {uid_of(each) for each in self.deleted()}

        what = f"{len(wanted)} pods are deleted"
        with contextlib.suppress(AssertionError):  # what is missing is told below
            await eventually(are, what, within=within, every=0.25)
        done = self.deleted()
        found = {uid_of(each) for each in done}
        missing = [name for name, uid in pods.items() if uid not in found]
        assert not missing, f"not deleted within {within:g} s: {missing}"
        assert found == wanted, [str(each) for each in done if uid_of(each) not in wanted]
        return done

    async def until_some_deleted(self, number: int, *, within: float = 20) -> None:
        """Waits until so many pods were deleted."""

        async def are() -> bool:
            return len(self.deleted()) >= number

        await eventually(are, f"{number} pods are deleted", within=within)

    def report(self) -> str:
        """What someone who looks at a failure wants to see."""
        asked = [str(each) for each in self.requests() if each.resource != "leases"]
        return "\n".join([f"the weeders' requests to {self.plane.name}:", *asked[-300:]])


def uid_of(request: Request) -> str:
    """The uid that a deletion was for; empty where the connection was cut before the server had read it."""
    return str(request.body["preconditions"]["uid"]) if request.body else ""


async def recoveries(weeder: Program, place: Place) -> list[Json]:
    """The recoveries for which the API server's return was the cause, newest first."""
    shown = await weeder.get(f"/api/v1/weeders/{place.namespace}/{things.APISERVER}")
    found: list[Json] = shown.get("recoveries", [])
    return found


@asynccontextmanager
async def weeding(stage: Stage) -> AsyncIterator[WeederSeed]:
    """The API server of a scenario as a seed for the weeder."""
    async with Kubelet(stage.plane.api) as kubelet:
        seed = WeederSeed(stage, kubelet)
        await seed.begin()
        try:
            yield seed
        except BaseException as error:
            error.add_note(seed.report())
            raise


async def _ensure(seed: WeederSeed, collection: str, body: Json) -> None:
    """Creates an object; where another scenario has left one, it becomes as `body` says."""
    try:
        await seed.api.create(collection, body)
    except ApiError as error:
        if error.status != 409:
            raise
        await seed.api.patch(f"{collection}/{body['metadata']['name']}", body)


async def _sweep(seed: WeederSeed) -> None:
    """Removes what scenarios before this one have left."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{GARDEN}/leases"
    await seed.api.delete(f"{leases}/{things.LEASE}")
    await seed.api.delete(f"{leases}/{objects.LEASE}")
    left = await seed.api.items("/api/v1/pods")
    left += await seed.api.items("/apis/discovery.k8s.io/v1/endpointslices")
    namespaces = {each["metadata"]["namespace"] for each in left}
    await all_of(Place(seed.api, each).clear() for each in namespaces)
