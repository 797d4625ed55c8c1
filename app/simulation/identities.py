"""Users, tokens and permissions in a simulated seed, and the reviews that ask for them."""

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

import msgspec

from app.core.errors import Invalid
from app.core.model.callers import AUDIENCE, GROUP
from app.simulation.definitions import Rejected

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
_RESOURCE: Final = "resourceAttributes"


class Identity(NamedTuple):
    """The user of a token, and the audiences it was issued for."""

    user: str
    groups: tuple[str, ...]
    uid: str
    audiences: tuple[str, ...]


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


class _Review(msgspec.Struct):
    """What may be asked for by any review."""

    token: str = ""
    audiences: tuple[str, ...] = ()
    user: str = ""
    groups: tuple[str, ...] = ()
    resource: dict[str, str] = msgspec.field(default_factory=dict, name=_RESOURCE)
    path: dict[str, str] = msgspec.field(default_factory=dict, name="nonResourceAttributes")

    @property
    def right(self) -> Right:
        asked, path = self.resource.get, self.path.get
        if self.path:
            return Right("", path("verb", ""), path("path", ""), group="")
        name = "/".join(filter(None, (asked("resource", ""), asked("subresource", ""))))
        return Right("", asked("verb", ""), name, asked("namespace", ""), asked("group", ""))


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
    ) -> None:
        """Issues a token for a user in these groups, plus `system:authenticated`, and for these audiences."""
        everybody = tuple(dict.fromkeys((*groups, AUTHENTICATED)))
        self._tokens[token] = Identity(user, everybody, uid, audiences)

    def forget(self, token: str) -> None:
        """Revokes a token."""
        self._tokens.pop(token, None)

    def grant(
        self, who: str, verb: str, resource: str, namespace: str = "", *, group: str = GROUP
    ) -> None:
        """Grants a permission to a user or a group."""
        self._rights.add(Right(who, verb, resource, namespace, group))

    def review(self, kind: str, spec: object, may: Callable[[Right], bool]) -> dict[str, Any]:
        """Answers a review with its status.

        Args:
            kind: of the review.
            spec: what it asks for.
            may: whether its sender has a permission.

        Raises:
            Invalid: it asks for nothing, or cannot be read.
        """
        try:
            asked = msgspec.convert(spec, _Review)
        except msgspec.ValidationError as error:
            raise Invalid(f"{kind} cannot be handled as a {kind}: {error}", status=400) from error
        match kind:
            case "TokenReview" if not asked.token:
                raise Invalid("token is required for TokenReview in authentication", status=400)
            case "TokenReview":
                found = self._tokens.get(asked.token)
                wanted = asked.audiences or (API_SERVER,)
                audiences = [each for each in wanted if found and each in found.audiences]
                if found is None or not audiences:
                    return {"user": {}, "error": "invalid bearer token"}
                user = {"username": found.user, "uid": found.uid, "groups": found.groups}
                user = {name: value for name, value in user.items() if value}
                return {"authenticated": True, "user": user, "audiences": audiences}
            case "SelfSubjectAccessReview" if asked.resource or asked.path:
                return {"allowed": may(asked.right)}
            case "SubjectAccessReview" if bool(asked.resource) != bool(asked.path):
                if not (asked.user or asked.groups):
                    problem = "Invalid value: at least one of user or group must be specified"
                    raise Rejected(kind, "", "spec.user", problem)
                return {"allowed": self._allows((asked.user, *asked.groups), asked.right)}
            case _:
                only = "exactly one of nonResourceAttributes or resourceAttributes"
                raise Rejected(kind, "", f"spec.{_RESOURCE}", f"{only} must be specified")

    def _allows(self, names: Collection[str], asked: Right) -> bool:
        places = {"", asked.namespace}
        return MASTERS in names or any(
            asked._replace(who=who, namespace=place) in self._rights
            for who in names
            for place in places
        )
