"""Answers reviews of tokens and permissions, and requests for tokens, none of which are stored."""

from typing import Any, Final

import msgspec

from app.core.errors import Forbidden, Invalid
from app.core.model.instants import rfc3339
from app.simulation.definitions import Rejected
from app.simulation.identities import API_SERVER, Identity, Right
from app.simulation.server.catalog import ServedResource
from app.simulation.server.premise import Premise
from app.simulation.store import Object, ObjectKey

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

    def answer(self, resource: ServedResource, user: str, body: Object) -> dict[str, Any]:
        """Answers a review requested by `user`.

        Raises:
            Invalid: it asks for nothing, or cannot be read.
        """
        return {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {},
            "spec": body.get("spec") or {},
            "status": self._status(resource.kind, user, _spec(resource.kind, body)),
        }

    def _status(self, kind: str, user: str, spec: _Spec) -> dict[str, Any]:
        premise = self._premise
        match kind:
            case "SelfSubjectReview":
                return {"userInfo": _user(premise.identities.of(user))}
            case "TokenReview" if not spec.token:
                raise Invalid("token is required for TokenReview in authentication", status=400)
            case "TokenReview":
                now = premise.clock.now()
                found = premise.identities.review(spec.token, spec.audiences, now)
                if found is None:
                    return {"user": {}, "error": "invalid bearer token"}
                audiences = found.audiences
                return {"authenticated": True, "user": _user(found), "audiences": audiences}
            case "SelfSubjectAccessReview" if spec.resource or spec.path:
                return {"allowed": premise.allowed(user, spec.resource)}
            case "SubjectAccessReview" if bool(spec.resource) != bool(spec.path):
                if not (spec.user or spec.groups):
                    problem = "Invalid value: at least one of user or group must be specified"
                    raise Rejected(kind, "", "spec.user", problem)
                allowed = premise.identities.allows(spec.user, spec.groups, spec.right)
                return {"allowed": allowed}
            case _:
                only = "exactly one of nonResourceAttributes or resourceAttributes"
                raise Rejected(kind, "", f"spec.{_RESOURCE}", f"{only} must be specified")

    def minted(self, account: ObjectKey, user: str, body: Object) -> dict[str, Any]:
        """Answers a TokenRequest of `user` for a ServiceAccount.

        Raises:
            Invalid: the request cannot be read, or the token would be too short or too long.
            Forbidden: the user may not have one.
            NotFound: there is no such account.
        """
        spec, premise = _spec("TokenRequest", body), self._premise
        if not _SHORTEST <= spec.seconds <= _LONGEST:
            least = "may not specify a duration less than 10 minutes"
            most = "may not specify a duration larger than 2^32 seconds"
            problem = (
                f"Invalid value: {spec.seconds}: {least if spec.seconds < _SHORTEST else most}"
            )
            raise Rejected("TokenRequest", "", "spec.expirationSeconds", problem)
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


def _user(found: Identity) -> dict[str, Any]:
    user = {"username": found.user, "uid": found.uid, "groups": found.groups}
    return {name: value for name, value in user.items() if value}
