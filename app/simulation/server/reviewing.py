"""Answers reviews of tokens and permissions, and requests for tokens, none of which are stored."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from app.core.errors import Forbidden, Invalid
from app.core.model.instants import rfc3339
from app.simulation.identities import API_SERVER, Identity, Right
from app.simulation.server.catalog import ServedResource
from app.simulation.server.premise import Premise
from app.simulation.store import Object, ObjectKey
from app.simulation.validation import Rejected

_SHORTEST: Final = 600
_LONGEST: Final = 1 << 32
_RESOURCE: Final = "resourceAttributes"


class _Spec(msgspec.Struct):
    """What may be asked for by any of them."""

    token: str = ""
    audiences: tuple[str, ...] = ()
    seconds: int = msgspec.field(default=3_600, name="expirationSeconds")
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


def _spec(kind: str, body: Object) -> _Spec:
    try:
        return msgspec.convert(body.get("spec") or {}, _Spec)
    except msgspec.ValidationError as error:
        raise Invalid(f"{kind} cannot be handled as a {kind}: {error}", status=400) from error


class ServerReviews:
    """Answers the reviews of one API server."""

    def __init__(self, premise: Premise) -> None:
        self._premise = premise
        self._minted = 0

    def prepared(
        self, resource: ServedResource, user: str, body: Object
    ) -> Callable[[], dict[str, Any]]:
        """Returns the function that answers a review requested by `user`.

        Raises:
            Invalid: it asks for nothing, or cannot be read.
        """
        spec, identities = _spec(resource.kind, body), self._premise.identities
        status: Callable[[], dict[str, Any]]
        match resource.kind:
            case "SelfSubjectReview":
                status = lambda: {"userInfo": _user(identities.of(user))}  # noqa: E731
            case "TokenReview" if not spec.token:
                raise Invalid("token is required for TokenReview in authentication", status=400)
            case "TokenReview":
                status = lambda: self._of_token(spec)  # noqa: E731
            case "SelfSubjectAccessReview" if spec.resource or spec.path:
                status = lambda: {"allowed": self._premise.allowed(user, spec.resource)}  # noqa: E731
            case "SubjectAccessReview" if bool(spec.resource) != bool(spec.path):
                if not (spec.user or spec.groups):
                    problem = "Invalid value: at least one of user or group must be specified"
                    raise Rejected(resource.kind, "", "spec.user", problem)
                status = lambda: {"allowed": identities.allows(spec.user, spec.groups, spec.right)}  # noqa: E731
            case kind:
                problem = (
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified"
                )
                raise Rejected(kind, "", f"spec.{_RESOURCE}", problem)
        return lambda: {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {},
            "spec": body.get("spec") or {},
            "status": status(),
        }

    def _of_token(self, spec: _Spec) -> dict[str, Any]:
        now = self._premise.clock.now()
        found = self._premise.identities.review(spec.token, spec.audiences, now)
        if found is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user(found), "audiences": found.audiences}

    def minted(self, account: ObjectKey, user: str, body: Object) -> Callable[[], dict[str, Any]]:
        """Returns the function that answers a TokenRequest of `user` for a ServiceAccount.

        Raises:
            Invalid: the request cannot be read, or the token would be too short or too long.
        """
        spec, premise = _spec("TokenRequest", body), self._premise
        if not _SHORTEST <= spec.seconds <= _LONGEST:
            least = "may not specify a duration less than 10 minutes"
            most = "may not specify a duration larger than 2^32 seconds"
            problem = (
                f"Invalid value: {spec.seconds}: {least if spec.seconds < _SHORTEST else most}"
            )
            raise Rejected("TokenRequest", "", "spec.expirationSeconds", problem)

        def answer() -> dict[str, Any]:
            asked = Right("", "create", "serviceaccounts/token", account.namespace, group="")
            if not premise.identities.allows(user, premise.identities.of(user).groups, asked):
                raise Forbidden(
                    f'serviceaccounts "{account.name}" is forbidden: User "{user}" cannot create resource '
                    f'"serviceaccounts/token" in API group "" in the namespace "{account.namespace}"',
                    status=403,
                )
            owner, ends = premise.store.get(account), premise.clock.now() + spec.seconds
            audiences = spec.audiences or (API_SERVER,)
            self._minted += 1
            token = f"minted-{self._minted}.{account.namespace}.{account.name}"
            premise.identities.add(
                token,
                f"system:serviceaccount:{account.namespace}:{account.name}",
                "system:serviceaccounts",
                f"system:serviceaccounts:{account.namespace}",
                uid=str(owner["metadata"]["uid"]),
                audiences=audiences,
                expires=ends,
            )
            return {
                "kind": "TokenRequest",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"name": account.name, "namespace": account.namespace},
                "spec": {"audiences": audiences, "expirationSeconds": spec.seconds},
                "status": {"token": token, "expirationTimestamp": rfc3339(ends)},
            }

        return answer


def _user(found: Identity) -> dict[str, Any]:
    user = {
        "username": found.user,
        "uid": found.uid,
        "groups": found.groups,
        "extra": found.extra,
    }
    return {name: value for name, value in user.items() if value}
