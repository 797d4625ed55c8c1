"""Reviews by a simulated seed: the `Reviewer` port on its identities."""

from typing import Final

from app.core.model.callers import Access, Caller
from app.core.review_ports import AUDIENCE
from app.simulation.identities import Right, SimulatedIdentities
from app.simulation.traffic import ApiServer, Host, Request

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


def _request(what: str) -> Request:
    return Request(Host.SEED, "create", what)
