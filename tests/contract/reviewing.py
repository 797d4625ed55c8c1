"""A caller of a real API server: her tokens, her rights, and our port that asks about them."""

from app.core.kube.reviews import Reviewer
from app.core.model.callers import AUDIENCE
from tests.contract.arena import Json
from tests.contract.real import RealArena
from tests.e2e import objects
from tests.e2e.landscape import RBAC
from tests.e2e.processes import eventually

ACCOUNT = "jane"
REVIEWS = {"tokenreviews": "authentication.k8s.io", "subjectaccessreviews": "authorization.k8s.io"}


class Reviewing:
    """ServiceAccounts, the TokenRequest API, RBAC."""

    def __init__(self, arena: RealArena) -> None:
        self._arena, self._api = arena, arena.api
        self.user = f"system:serviceaccount:{arena.garden}:{ACCOUNT}"
        self.reviewer = Reviewer(arena.adapter.api)
        self._accounts = f"/api/v1/namespaces/{arena.garden}/serviceaccounts"
        self._tokens: list[str] = []

    async def begin(self) -> None:
        """She is there, and we may ask about her."""
        await self._api.create(self._accounts, {"metadata": {"name": ACCOUNT}})
        rules = [objects.rule(group, [name], "create") for name, group in REVIEWS.items()]
        await self._arena.grant("reviews", rules)

    async def token(self, audience: str | None = AUDIENCE) -> str:
        """A token of hers for this audience; None: for the API server."""
        made = await self._api.token_of(self._arena.garden, ACCOUNT, audience=audience)
        self._tokens.append(made)
        return made

    async def revoke(self) -> None:
        """All her tokens are worth nothing from now on."""
        await self._api.delete(f"{self._accounts}/{ACCOUNT}")

        async def refused() -> bool:
            found = [await self.reviewer.authenticate(each) for each in self._tokens]
            return found == [None] * len(found)

        # an API server remembers for some ten seconds each token that it has accepted
        await eventually(refused, "her tokens are refused", within=30, every=0.2)

    async def bind(self, rules: list[Json], namespace: str = "") -> None:
        """Binds a role of these rules to her: in one namespace, or in all."""
        name = f"{self._arena.garden}-jane"
        kind, place = (
            ("Role", f"{RBAC}/namespaces/{namespace}") if namespace else ("ClusterRole", RBAC)
        )
        await self._api.create(f"{place}/{kind.lower()}s", objects.role(kind, name, rules))
        bound = objects.binding(f"{kind}Binding", name, name, self._arena.garden, ACCOUNT)
        await self._api.create(f"{place}/{kind.lower()}bindings", bound)
