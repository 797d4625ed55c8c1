"""Authenticates and authorizes callers by reviews of the seed (`ports.Reviewer`; threats T12 and T14).

No message contains the caller's token, whatever goes wrong: it is only in the body of a request, and what a server says
when it refuses a review is left out, because it may repeat the token.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from app.core.errors import BadAnswer, Unreachable
from app.core.kube.client import ApiRequest, Decode
from app.core.kube.decoding import Raw
from app.core.kube.failures import RequestedRight
from app.core.kube.resources import ACCESS_REVIEWS, TOKEN_REVIEWS, ApiResource
from app.core.kube.seed_api import Budget, SeedApi
from app.core.model.callers import AUDIENCE, GROUP, Access, Caller

T = TypeVar("T")

REVIEWED_WITHIN: Final = 3.0
"""Time limit of a review in seconds, including a second attempt; after that the seed counts as unavailable."""
# Maximum bytes of an answer, which repeats the question; a user may have many groups.
_MOST: Final = 256 * 1024


class KubeReviewer:
    """Sends TokenReviews and SubjectAccessReviews to the seed; limiting their rate is left to the caller."""

    def __init__(self, api: SeedApi) -> None:
        self._api = api

    async def authenticate(self, token: str, *, audience: str | None = AUDIENCE) -> Caller | None:
        """Returns the owner of the token; None if it is not valid for `audience` (None: the API server itself).

        Raises:
            Throttled: the seed asks for a pause.
            Forbidden: the right to review tokens is missing.
            ClusterError: there was no answer, or an invalid one.
        """
        if not token:
            return None  # a server would answer 400
        spec = {"token": token} | ({} if audience is None else {"audiences": [audience]})
        status = await self._review(TOKEN_REVIEWS, "TokenReview", spec, _token_review)
        if not status.authenticated or not _made_for(audience, status.audiences):
            return None
        return _caller(status.user)

    async def allowed(self, caller: Caller, access: Access) -> bool:
        """Returns whether the caller has this access.

        Raises:
            Throttled: the seed asks for a pause.
            Forbidden: the right to review access is missing.
            ClusterError: there was no answer, or an invalid one.
        """
        user = {
            "user": caller.name,
            "uid": caller.uid,
            "groups": caller.groups,
            "extra": caller.extra,
        }
        spec = {key: value for key, value in user.items() if value} | _attributes(access)
        status = await self._review(ACCESS_REVIEWS, "SubjectAccessReview", spec, _access_review)
        return status.allowed and not status.denied

    async def _review(
        self, resource: ApiResource, kind: str, spec: Mapping[str, Any], decode: Decode[T]
    ) -> T:
        body = {"apiVersion": f"{resource.group}/{resource.version}", "kind": kind, "spec": spec}
        asked = RequestedRight("create", resource.plural)
        request = ApiRequest(
            asked,
            resource.path(),
            REVIEWED_WITHIN,
            method="POST",
            body=body,
            secret=resource is TOKEN_REVIEWS,
            most=_MOST,
        )
        try:
            async with asyncio.timeout(REVIEWED_WITHIN):
                return await self._ask(request, decode)
        except TimeoutError as late:
            raise Unreachable(f"{asked}: no answer within {REVIEWED_WITHIN:g} s") from late

    async def _ask(self, request: ApiRequest, decode: Decode[T]) -> T:
        """Sends a review; repeats it on a new connection if the kept-alive one is dead: a review changes nothing."""
        try:
            return await self._api.call(request, decode, Budget.PACED)
        except Unreachable:
            return await self._api.call(request, decode, Budget.PACED, new_connection=True)


def _made_for(audience: str | None, audiences: tuple[str, ...]) -> bool:
    """Whether the token is meant for `audience`.

    A server without support for audiences omits them, so what it says of a token is of no use.
    """
    return audience is None or audience in audiences


def _attributes(access: Access) -> dict[str, Any]:
    if access.path:
        return {"nonResourceAttributes": {"path": access.path, "verb": access.verb}}
    resource, _, subresource = access.resource.partition("/")
    attributes = {
        "group": GROUP,
        "resource": resource,
        "subresource": subresource,
        "verb": access.verb,
        "namespace": access.namespace,
    }
    return {"resourceAttributes": {key: value for key, value in attributes.items() if value}}


class _User(msgspec.Struct):
    username: str | None = None
    uid: str | None = None
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None
    audiences_or_null: tuple[str, ...] | None = msgspec.field(default=None, name="audiences")

    @property
    def audiences(self) -> tuple[str, ...]:
        return self.audiences_or_null or ()


class _TokenReview(msgspec.Struct):
    kind: str
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool
    denied: bool = False


class _AccessReview(msgspec.Struct):
    kind: str
    status: _AccessStatus


_token_decoder: Final = msgspec.json.Decoder(_TokenReview)
_access_decoder: Final = msgspec.json.Decoder(_AccessReview)


def _token_review(raw: Raw) -> _TokenStatus:
    review = _token_decoder.decode(raw)
    if review.kind != "TokenReview":
        raise BadAnswer("the answer is not a TokenReview")
    return review.status


def _access_review(raw: Raw) -> _AccessStatus:
    review = _access_decoder.decode(raw)
    if review.kind != "SubjectAccessReview":
        raise BadAnswer("the answer is not a SubjectAccessReview")
    return review.status


def _caller(user: _User | None) -> Caller:
    if user is None or not user.username or not user.username.strip():
        raise BadAnswer("the TokenReview names no user")
    return Caller(
        user.username, uid=user.uid or "", groups=user.groups or (), extra=user.extra or {}
    )
