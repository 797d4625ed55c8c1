"""Answers reviews of tokens and permissions, and requests for tokens, none of which are stored."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.core.errors import Forbidden, Invalid
from app.core.model.instants import rfc3339
from app.simulation.identities import API_SERVER, Identity, Right
from app.simulation.server import checks
from app.simulation.server.catalog import ServedResource
from app.simulation.server.premise import Premise
from app.simulation.store import Object, ObjectKey
from app.simulation.validation import Rejected, WrongType

TOKEN: Final = "TokenReview"  # noqa: S105  a kind, no secret
SUBJECT: Final = "SubjectAccessReview"
SELF: Final = "SelfSubjectAccessReview"
WHOAMI: Final = "SelfSubjectReview"
MINTED: Final = "TokenRequest"
_LIFETIME: Final = 3_600
_SHORTEST: Final = 600
_LONGEST: Final = 1 << 32
_RESOURCE: Final = "resourceAttributes"
_PATH: Final = "nonResourceAttributes"


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
        checks.check_shape(resource.kind, "", body)
        spec = body.get("spec") or {}
        match resource.kind:
            case kind if kind == WHOAMI:
                status = self._of_user(user)
            case kind if kind == TOKEN:
                status = self._of_token(spec)
            case kind:
                status = self._of_access(kind, user, spec)
        return lambda: {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {},
            "spec": spec,
            "status": status(),
        }

    def minted(self, account: ObjectKey, user: str, body: Object) -> Callable[[], dict[str, Any]]:
        """Returns the function that answers a TokenRequest of `user` for a ServiceAccount.

        Raises:
            Invalid: the request cannot be read, or the token would be too short or too long.
        """
        checks.check_shape(MINTED, "", body)
        spec = body.get("spec") or {}
        audiences = _texts(MINTED, spec, "audiences") or (API_SERVER,)
        seconds = spec.get("expirationSeconds", _LIFETIME)
        if not isinstance(seconds, int):
            raise WrongType(MINTED, "", "spec.expirationSeconds", "it as a number")
        if not _SHORTEST <= seconds <= _LONGEST:
            least = "may not specify a duration less than 10 minutes"
            most = "may not specify a duration larger than 2^32 seconds"
            problem = f"Invalid value: {seconds}: {least if seconds < _SHORTEST else most}"
            raise Rejected(MINTED, "", "spec.expirationSeconds", problem)

        def answer() -> dict[str, Any]:
            premise, place = self._premise, f"{account.namespace}/{account.name}"
            asked = Right("", "create", "serviceaccounts/token", account.namespace, group="")
            if not premise.identities.allows(user, premise.identities.of(user).groups, asked):
                raise Forbidden(
                    f'serviceaccounts "{account.name}" is forbidden: User "{user}" cannot create resource '
                    f'"serviceaccounts/token" in API group "" in the namespace "{account.namespace}"',
                    status=403,
                )
            owner = premise.store.get(account)
            now = premise.clock.now()
            self._minted += 1
            token = f"minted-{self._minted}.{account.namespace}.{account.name}"
            premise.identities.add(
                token,
                f"system:serviceaccount:{account.namespace}:{account.name}",
                "system:serviceaccounts",
                f"system:serviceaccounts:{account.namespace}",
                uid=str(owner["metadata"].get("uid", place)),
                audiences=audiences,
                expires=now + seconds,
            )
            return {
                "kind": MINTED,
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"name": account.name, "namespace": account.namespace},
                "spec": {**spec, "audiences": list(audiences), "expirationSeconds": seconds},
                "status": {"token": token, "expirationTimestamp": rfc3339(now + seconds)},
            }

        return answer

    def _of_user(self, user: str) -> Callable[[], dict[str, Any]]:
        return lambda: {"userInfo": _user(self._premise.identities.of(user))}

    def _of_token(self, spec: Object) -> Callable[[], dict[str, Any]]:
        token = _text(TOKEN, spec, "token")
        audiences = _texts(TOKEN, spec, "audiences")
        if not token:
            raise Invalid("token is required for TokenReview in authentication", status=400)

        def status() -> dict[str, Any]:
            found = self._premise.identities.review(token, audiences, self._premise.clock.now())
            if found is None:
                return {"user": {}, "error": "invalid bearer token"}
            return {"authenticated": True, "user": _user(found), "audiences": found.audiences}

        return status

    def _of_access(self, kind: str, user: str, spec: Object) -> Callable[[], dict[str, Any]]:
        resource, path = _attributes(kind, spec, _RESOURCE), _attributes(kind, spec, _PATH)
        if kind == SELF:
            if not resource and not path:
                raise _nothing_asked(kind)
            return lambda: {"allowed": self._premise.allowed(user, resource)}
        who, groups = _text(kind, spec, "user"), _texts(kind, spec, "groups")
        if bool(resource) == bool(path):
            raise _nothing_asked(kind)
        if not who and not groups:
            problem = "Invalid value: at least one of user or group must be specified"
            raise Rejected(kind, "", "spec.user", problem)
        right = _right(resource, path)
        return lambda: {"allowed": self._premise.identities.allows(who, groups, right)}


def _nothing_asked(kind: str) -> Rejected:
    problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    return Rejected(kind, "", f"spec.{_RESOURCE}", problem)


def _right(resource: Mapping[str, str], path: Mapping[str, str]) -> Right:
    if path:
        return Right("", path.get("verb", ""), path.get("path", ""), group="")
    name = resource.get("resource", "")
    if resource.get("subresource"):
        name += f"/{resource['subresource']}"
    verb, namespace = resource.get("verb", ""), resource.get("namespace", "")
    return Right("", verb, name, namespace, resource.get("group", ""))


def _user(found: Identity) -> dict[str, Any]:
    user = {
        "username": found.user,
        "uid": found.uid,
        "groups": found.groups,
        "extra": found.extra,
    }
    return {name: value for name, value in user.items() if value}


def _attributes(kind: str, spec: Object, name: str) -> Mapping[str, str]:
    found = spec.get(name) or {}
    if not isinstance(found, dict):
        raise WrongType(kind, "", f"spec.{name}", "it as an object")
    return found


def _text(kind: str, spec: Object, name: str) -> str:
    found = spec.get(name) or ""
    if not isinstance(found, str):
        raise WrongType(kind, "", f"spec.{name}", "it as text")
    return found


def _texts(kind: str, spec: Object, name: str) -> tuple[str, ...]:
    found = spec.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise WrongType(kind, "", f"spec.{name}", "it as a list of texts")
    return tuple(found)
