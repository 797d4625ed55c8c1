"""Answers reviews of tokens and permissions, which are not stored."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.core.errors import Invalid
from app.simulation.identities import Identity, Right
from app.simulation.server import checks
from app.simulation.server.catalog import ServedResource
from app.simulation.server.premise import Premise
from app.simulation.store import Object
from app.simulation.validation import Rejected, WrongType

TOKEN: Final = "TokenReview"  # noqa: S105  a kind, no secret
SUBJECT: Final = "SubjectAccessReview"
SELF: Final = "SelfSubjectAccessReview"
_RESOURCE: Final = "resourceAttributes"
_PATH: Final = "nonResourceAttributes"


class ServerReviews:
    """Answers the reviews of one API server."""

    def __init__(self, premise: Premise) -> None:
        self._premise = premise

    def prepared(
        self, resource: ServedResource, user: str, body: Object
    ) -> Callable[[], dict[str, Any]]:
        """Returns the function that answers a review requested by `user`.

        Raises:
            Invalid: it asks for nothing, or cannot be read.
        """
        checks.check_shape(resource.kind, "", body)
        spec = body.get("spec") or {}
        of_token = resource.kind == TOKEN
        status = self._of_token(spec) if of_token else self._of_access(resource.kind, user, spec)
        return lambda: {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {},
            "spec": spec,
            "status": status(),
        }

    def _of_token(self, spec: Object) -> Callable[[], dict[str, Any]]:
        token = _text(TOKEN, spec, "token")
        audiences = _texts(TOKEN, spec, "audiences")
        if not token:
            raise Invalid("token is required for TokenReview in authentication", status=400)

        def status() -> dict[str, Any]:
            found = self._premise.identities.review(token, audiences)
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
