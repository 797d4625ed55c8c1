"""Who callers of a simulated seed are, and what they may do there; pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.core.review_ports import AUDIENCE, GROUP

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
