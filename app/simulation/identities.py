"""Who callers of a simulated seed are, and what they may do there; pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.core.model.callers import Access, Caller
from app.core.ports import AUDIENCE, GROUP
from app.simulation.traffic import ApiServer, Host, SimulatedRequest

API_SERVER: Final = "https://kubernetes.default.svc"
"""The audience of the seed's own API server."""
AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"
"""The group that may do everything."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose token it is, and what for."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    audiences: tuple[str, ...] = (AUDIENCE,)


class Right(NamedTuple):
    """What a user or a group may do."""

    who: str
    verb: str
    resource: str
    """With its subresource; a path that begins with `/` is a nonResourceURL."""
    namespace: str = ""
    """Empty: in all of them, and where no namespace is asked for."""
    group: str = GROUP
    """The API group; of no meaning for a path."""


class SimulatedIdentities:
    """Tokens and rights, as the test or the demo says."""

    def __init__(self) -> None:
        self._tokens: dict[str, Identity] = {}
        self._rights: set[Right] = set()

    def add(
        self,
        token: str,
        user: str,
        *groups: str,
        uid: str = "",
        extra: Mapping[str, tuple[str, ...]] | None = None,
        audiences: tuple[str, ...] = (AUDIENCE,),
    ) -> None:
        """A token of a user in these groups, made for these audiences; `system:authenticated` is added."""
        everybody = tuple(dict.fromkeys((*groups, AUTHENTICATED)))
        self._tokens[token] = Identity(user, everybody, uid, extra or {}, audiences)

    def forget(self, token: str) -> None:
        """The token is worth nothing any more."""
        self._tokens.pop(token, None)

    def grant(
        self, who: str, verb: str, resource: str, namespace: str = "", *, group: str = GROUP
    ) -> None:
        """A user or a group may do this from now on."""
        self._rights.add(Right(who, verb, resource, namespace, group))

    def revoke(
        self, who: str, verb: str, resource: str, namespace: str = "", *, group: str = GROUP
    ) -> None:
        """What was granted is granted no more."""
        self._rights.discard(Right(who, verb, resource, namespace, group))

    def review(self, token: str, audiences: Collection[str]) -> Identity | None:
        """Whose token it is, with those of its audiences that were asked for; None: nobody's, or for none of them.

        Args:
            token: whatever a caller sent.
            audiences: what it may be for; none: the API server itself.
        """
        found = self._tokens.get(token)
        if found is None:
            return None
        wanted = tuple(audiences) or (API_SERVER,)
        common = tuple(each for each in wanted if each in found.audiences)
        if not common:
            return None
        return Identity(found.user, found.groups, found.uid, found.extra, common)

    def allows(self, user: str, groups: Collection[str], asked: Right) -> bool:
        """Whether a user in these groups may do what is asked; `who` of that is of no meaning."""
        if MASTERS in groups:
            return True
        places = {"", asked.namespace}
        return any(
            asked._replace(who=who, namespace=place) in self._rights
            for who in (user, *groups)
            for place in places
        )


# Reviews by a simulated seed: the `Reviewer` port on its identities.


REVIEW_LIMIT: Final = 3.0


class SimulatedReviewer:
    """A `Reviewer`."""

    def __init__(self, api: ApiServer, identities: SimulatedIdentities) -> None:
        self._api, self._identities = api, identities

    async def authenticate(self, token: str, *, audience: str | None = AUDIENCE) -> Caller | None:
        """Whose token it is, if it was made for `audience` (None: for the API server itself); None: nobody's."""

        def serve() -> Caller | None:
            found = self._identities.review(token, () if audience is None else (audience,))
            if found is None:
                return None
            return Caller(found.user, uid=found.uid, groups=found.groups, extra=found.extra)

        return await self._api.ask(_request("tokenreviews"), serve, limit=REVIEW_LIMIT)

    async def allowed(self, caller: Caller, access: Access) -> bool:
        """Whether the caller may do this."""

        def serve() -> bool:
            if access.path:
                asked = Right("", access.verb, access.path, group="")
            else:
                asked = Right("", access.verb, access.resource, access.namespace)
            return self._identities.allows(caller.name, caller.groups, asked)

        return await self._api.ask(_request("subjectaccessreviews"), serve, limit=REVIEW_LIMIT)


def _request(what: str) -> SimulatedRequest:
    return SimulatedRequest(Host.SEED, "create", what)
