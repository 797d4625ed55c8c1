"""Callers on both clusters: their tokens, their rights, and our port that asks about them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.core.kube.reviews import Reviewer
from app.core.model.callers import AUDIENCE, GROUP, Access, Caller
from app.simulation.identities import API_SERVER
from tests.contract.arena import Json
from tests.contract.real import RealArena
from tests.contract.served import ServedArena
from tests.e2e import objects
from tests.e2e.landscape import RBAC
from tests.e2e.processes import eventually

ACCOUNT = "jane"
OTHER = "somebody-else"
"""An audience that is not ours."""
REVIEWS = {"tokenreviews": "authentication.k8s.io", "subjectaccessreviews": "authorization.k8s.io"}


class ServedReviewing:
    """The adapter on the simulation's servers."""

    reviewer: Reviewer
    user = f"system:serviceaccount:garden:{ACCOUNT}"

    def __init__(self, arena: ServedArena) -> None:
        self._world = arena.world
        self.namespace = arena.namespace
        self.reviewer = Reviewer(arena.adapter.api)
        self._tokens: list[str] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        yield

    async def token(self, audience: str | None = AUDIENCE) -> str:
        """A token of hers for this audience; None: for the API server."""
        self._tokens.append(f"token-{len(self._tokens)}")
        self._world.identities.add(
            self._tokens[-1],
            self.user,
            "system:serviceaccounts",
            "system:serviceaccounts:garden",
            uid="0001",
            audiences=(audience or API_SERVER,),
        )
        return self._tokens[-1]

    async def revoke(self) -> None:
        """All her tokens are worth nothing from now on."""
        for each in self._tokens:
            self._world.identities.forget(each)

    async def grant(self, verb: str, resource: str, namespace: str = "") -> None:
        """She may do this: in one namespace, or in all; a resource that begins with `/` is a path."""
        group = "" if resource.startswith("/") else GROUP
        self._world.identities.grant(self.user, verb, resource, namespace, group=group)


class RealReviewing:
    """The adapter on a real API server: ServiceAccounts, the TokenRequest API, RBAC."""

    reviewer: Reviewer

    def __init__(self, arena: RealArena) -> None:
        self._arena, self._api = arena, arena.api
        self.namespace = arena.namespace
        self.user = f"system:serviceaccount:{arena.garden}:{ACCOUNT}"
        self.reviewer = Reviewer(arena.adapter.api)
        self._accounts = f"/api/v1/namespaces/{arena.garden}/serviceaccounts"
        self._granted = 0
        self._tokens: list[str] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        await self._api.create(self._accounts, {"metadata": {"name": ACCOUNT}})
        rules = [objects.rule(group, [name], "create") for name, group in REVIEWS.items()]
        await self._arena.grant("reviews", rules)
        yield

    async def token(self, audience: str | None = AUDIENCE) -> str:
        made = await self._api.token_of(self._arena.garden, ACCOUNT, audience=audience)
        self._tokens.append(made)
        return made

    async def revoke(self) -> None:
        await self._api.delete(f"{self._accounts}/{ACCOUNT}")

        async def refused() -> bool:
            found = [await self.reviewer.authenticate(each) for each in self._tokens]
            return found == [None] * len(found)

        # an API server remembers for some ten seconds each token that it has accepted
        await eventually(refused, "her tokens are refused", within=30, every=0.2)

    async def grant(self, verb: str, resource: str, namespace: str = "") -> None:
        asked = Access(verb, resource, namespace)
        rule = {"verbs": [verb], "apiGroups": [GROUP], "resources": [resource]}
        if resource.startswith("/"):
            asked = Access(verb, "", path=resource)
            rule = {"verbs": [verb], "nonResourceURLs": [resource]}
        await self.bind([rule], namespace)

        async def known() -> bool:
            return await self.reviewer.allowed(Caller(self.user), asked)

        await eventually(known, "the right is known", within=10, every=0.1)

    async def bind(self, rules: list[Json], namespace: str = "") -> None:
        """Binds a role of these rules to her: in one namespace, or in all."""
        self._granted += 1
        name = f"{self._arena.garden}-jane-{self._granted}"
        kind, place = (
            ("Role", f"{RBAC}/namespaces/{namespace}") if namespace else ("ClusterRole", RBAC)
        )
        await self._api.create(f"{place}/{kind.lower()}s", objects.role(kind, name, rules))
        bound = objects.binding(f"{kind}Binding", name, name, self._arena.garden, ACCOUNT)
        await self._api.create(f"{place}/{kind.lower()}bindings", bound)


Reviewing = ServedReviewing | RealReviewing
"""One caller, a ServiceAccount, and who asks about her."""
