"""Users, tokens and permissions in a simulated seed."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from app.core.model.callers import AUDIENCE, GROUP

OPERATOR: Final = "operator"
WATCHDOG: Final = "dependency-watchdog"
WEEDER: Final = "dependency-watchdog-weeder"
"""Users of the seed, by which the journal tells who wrote what."""
GARDENLET: Final = "gardenlet"
"""Who changes Clusters and Secrets."""
API_SERVER: Final = "https://kubernetes.default.svc"
"""The audience of the seed's own API server."""
AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"
"""The group that has all permissions."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The user of a token, and the audiences it was issued for."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    audiences: tuple[str, ...] = (AUDIENCE,)
    expires: float = math.inf
    """The instant from which on the token is worth nothing."""


class Right(NamedTuple):
    """A permission of a user or a group."""

    who: str
    verb: str
    resource: str
    """The resource with its subresource; a nonResourceURL begins with `/`."""
    namespace: str = ""
    """The namespace; empty for all namespaces and for cluster-wide requests."""
    group: str = GROUP
    """The API group; ignored for a nonResourceURL."""


class SimulatedIdentities:
    """Tokens and permissions that a test or the demo defines."""

    def __init__(self) -> None:
        self._tokens: dict[str, Identity] = {}
        self._rights: set[Right] = set()

    def add(
        self,
        token: str,
        user: str,
        *groups: str,
        uid: str = "",
        audiences: tuple[str, ...] = (AUDIENCE,),
        expires: float = math.inf,
    ) -> None:
        """Issues a token for a user in these groups, plus `system:authenticated`, and for these audiences."""
        everybody = tuple(dict.fromkeys((*groups, AUTHENTICATED)))
        self._tokens[token] = Identity(user, everybody, uid, audiences, expires)

    def of(self, user: str) -> Identity:
        """Returns a user as the newest token names them; one without a token is in no group but that of everybody."""
        known = (each for each in reversed(self._tokens.values()) if each.user == user)
        return next(known, Identity(user, (AUTHENTICATED,)))

    def forget(self, token: str) -> None:
        """Revokes a token."""
        self._tokens.pop(token, None)

    def grant(
        self, who: str, verb: str, resource: str, namespace: str = "", *, group: str = GROUP
    ) -> None:
        """Grants a permission to a user or a group."""
        self._rights.add(Right(who, verb, resource, namespace, group))

    def review(
        self, token: str, audiences: Collection[str], now: float = -math.inf
    ) -> Identity | None:
        """Returns the user of a token, with the requested audiences that it is valid for; None if there are none.

        Args:
            token: whatever a caller sent.
            audiences: what it may be for; none: the API server itself.
            now: the current instant; by default no token has expired.
        """
        found = self._tokens.get(token)
        if found is None or now >= found.expires:
            return None
        wanted = tuple(audiences) or (API_SERVER,)
        common = tuple(each for each in wanted if each in found.audiences)
        if not common:
            return None
        return replace(found, audiences=common)

    def allows(self, user: str, groups: Collection[str], asked: Right) -> bool:
        """Returns whether a user in these groups has a permission; `who` of the request is ignored."""
        if MASTERS in groups:
            return True
        places = {"", asked.namespace}
        return any(
            asked._replace(who=who, namespace=place) in self._rights
            for who in (user, *groups)
            for place in places
        )
