"""What the seed says about rights: ours (threat T16), and those of callers (threats T12 and T14).

No message contains a caller's token, whatever goes wrong: it is only in the body of a request, and what a server says
when it refuses a review is left out, because it may repeat the token.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from app.core.errors import BadAnswer, Unreachable
from app.core.kube.client import ApiRequest, Decode
from app.core.kube.decoding.envelope import Raw
from app.core.kube.resources import (
    ACCESS_REVIEWS,
    CLUSTERS,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    MACHINES,
    PAUSES,
    PODS,
    SCALE_REQUESTS,
    SECRETS,
    SELF_REVIEWS,
    TOKEN_REVIEWS,
    ApiResource,
    assumed,
)
from app.core.kube.seed_api import WITHIN, Budget, SeedApi
from app.core.model.callers import AUDIENCE, GROUP, Access, Caller
from app.core.model.endpoints import Exec
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import (
    ADDRESS_FEATURE,
    EVENTS_FEATURE,
    EXEC_FEATURE,
    PODS_FEATURE,
    REVIEW_FEATURE,
    Permission,
)

_READ: Final = ("get", "list", "watch")
T = TypeVar("T")


def permissions_needed(
    policy: ProberPolicy,
    resources: Mapping[ResourceRef, ApiResource],
    *,
    lease: tuple[str, str] | None = None,
    dry_run: bool = False,
    allow_exec: bool = False,
) -> tuple[Permission, ...]:
    """Returns the permissions that the prober needs (threat T16).

    Args:
        policy: names the Secrets, the dependents and the endpoint probes.
        resources: how the API serves the kinds of the dependents; missing ones are guessed.
        lease: namespace and name of the Lease, if there is an election.
        dry_run: whether nothing is written; running a probe command is not a write.
        allow_exec: whether commands may be run in containers.
    """
    needed = [*_of(CLUSTERS)]
    if not policy.endpoint_mode:
        needed += _of(MACHINES)
    for name in policy.secret_names.values():
        needed += _of(SECRETS, name=name)
    for each in policy.dependents:
        resource, name = resources.get(each.ref) or assumed(each.ref), each.ref.name
        needed += _of(resource, *_READ, "patch", name=name)
        if not each.ref.has_replicas:
            needed += _of(resource, "get", "patch", name=name, subresource="scale")
    # protection works without these: a gate that cannot be judged is open
    of_pods = [each for each in policy.endpoint_probes if each.pods is not None]
    if of_pods:
        needed += _of(PODS, "list", "watch", feature=PODS_FEATURE)
    if allow_exec and any(isinstance(each.handler, Exec) for each in of_pods):
        needed += _of(PODS, "get", "create", subresource="exec", feature=EXEC_FEATURE)
    requests = SCALE_REQUESTS.plural
    needed += _of(SCALE_REQUESTS, *_READ, "create", "delete", feature=requests)
    for resource in (PAUSES, SCALE_REQUESTS):  # in the leader
        needed += _of(resource, "patch", subresource="status", feature=resource.plural)
    return _permissions([*needed, *_of_loop(lease)], dry_run=dry_run)


def weeder_permissions(
    *, lease: tuple[str, str] | None = None, dry_run: bool = False
) -> tuple[Permission, ...]:
    """Returns the permissions that the weeder needs (threat T16).

    Args:
        lease: namespace and name of the Lease, if there is an election.
        dry_run: whether nothing is written.
    """
    needed = [*_of(PODS, *_READ, "delete"), *_of(ENDPOINT_SLICES), *_of_loop(lease)]
    return _permissions(needed, dry_run=dry_run)


def process_permissions(
    namespace: str, *, reviews: bool = False, leader_slice: str | None = None, dry_run: bool = False
) -> tuple[Permission, ...]:
    """Returns the permissions that a process needs besides those of its loops (threat T16), each with its feature.

    Args:
        namespace: the watchdog's own namespace.
        reviews: whether callers are reviewed by the seed.
        leader_slice: the EndpointSlice that the leader writes its address into, if one is configured.
        dry_run: whether nothing is written; a review of a caller is not a write.
    """
    needed = [*_of(PAUSES, *_READ, "create", "patch", "delete", feature=PAUSES.plural)]
    if reviews:
        needed += _of(TOKEN_REVIEWS, "create", feature=REVIEW_FEATURE)
        needed += _of(ACCESS_REVIEWS, "create", feature=REVIEW_FEATURE)
    if leader_slice is not None:
        place = {"name": leader_slice, "namespace": namespace}
        needed += _of(ENDPOINT_SLICES, "get", "update", feature=ADDRESS_FEATURE, **place)
    return _permissions(needed, dry_run=dry_run)


def _of_loop(lease: tuple[str, str] | None) -> Iterator[Permission]:
    """The permissions of a loop that leads by this Lease, and writes Events."""
    if lease is not None:
        namespace, name = lease
        yield from _of(LEASES, "create", namespace=namespace)
        yield from _of(LEASES, "get", "update", name=name, namespace=namespace)
    yield from _of(EVENTS, "create", "patch", feature=EVENTS_FEATURE)


def _of(
    resource: ApiResource,
    *verbs: str,
    name: str = "",
    namespace: str = "",
    subresource: str = "",
    feature: str = "",
) -> Iterator[Permission]:
    named = resource.named(subresource)
    for verb in verbs or _READ:
        yield Permission(verb, resource.group, named, name, namespace, feature)


def _permissions(needed: Iterable[Permission], *, dry_run: bool) -> tuple[Permission, ...]:
    """Each once; a dry run neither leads nor writes, but it reviews callers and runs the commands of probes."""

    def leads(each: Permission) -> bool:
        return each.feature == ADDRESS_FEATURE or each.resource == LEASES.plural

    return tuple(
        each
        for each in dict.fromkeys(needed)
        if not dry_run
        or each.feature in (REVIEW_FEATURE, EXEC_FEATURE)
        or (each.verb in _READ and not leads(each))
    )


REVIEWED_WITHIN: Final = 3.0
"""Time limit of a review in seconds, including a second attempt; after that the seed counts as unavailable."""
# Maximum bytes of an answer, which repeats the question; a user may have many groups.
_MOST: Final = 256 * 1024


class Reviewer:
    """Asks the seed about our rights, and about tokens and rights of callers, whose rate is the caller's to limit."""

    def __init__(self, api: SeedApi) -> None:
        self._api = api

    async def missing(self, needed: Iterable[Permission]) -> tuple[Permission, ...]:
        """Returns the permissions that we are denied.

        Raises:
            ClusterError: the seed could not be asked, so nothing is known.
        """
        found = []
        for each in needed:
            spec = _on_resource(each.verb, each.group, each.resource, each.namespace, each.name)
            request = _request(SELF_REVIEWS, spec, WITHIN)
            if not (await self._api.call(request, _self_review)).allowed:
                found.append(each)
        return tuple(found)

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
        request = _request(TOKEN_REVIEWS, spec, REVIEWED_WITHIN)
        status = await self._review(request, _token_review)
        # a server without support for audiences omits them, so what it says of a token is of no use
        made_for = audience is None or audience in (status.audiences or ())
        if not status.authenticated or not made_for:
            return None
        user = status.user
        if user is None or not user.username or not user.username.strip():
            raise BadAnswer("the TokenReview names no user")
        return Caller(
            user.username, uid=user.uid or "", groups=user.groups or (), extra=user.extra or {}
        )

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
        about = (
            {"nonResourceAttributes": {"path": access.path, "verb": access.verb}}
            if access.path
            else _on_resource(access.verb, GROUP, access.resource, access.namespace)
        )
        spec = _without_empty(user) | about
        request = _request(ACCESS_REVIEWS, spec, REVIEWED_WITHIN)
        status = await self._review(request, _access_review)
        return status.allowed and not status.denied

    async def _review(self, request: ApiRequest, decode: Decode[T]) -> T:
        """Sends a review; repeats it on a new connection if the kept-alive one is dead: a review changes nothing."""
        try:
            async with asyncio.timeout(REVIEWED_WITHIN):
                try:
                    return await self._api.call(request, decode, Budget.PACED)
                except Unreachable:
                    return await self._api.call(request, decode, Budget.PACED, new_connection=True)
        except TimeoutError as late:
            text = f"{request.asked}: no answer within {REVIEWED_WITHIN:g} s"
            raise Unreachable(text) from late


def _request(resource: ApiResource, spec: Mapping[str, Any], within: float) -> ApiRequest:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    secret = resource is TOKEN_REVIEWS
    return resource.request("create", within=within, body=body, secret=secret, most=_MOST)


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _on_resource(
    verb: str, group: str, resource: str, namespace: str, name: str = ""
) -> dict[str, Any]:
    plural, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "name": name,
        "namespace": namespace,
    }
    return {"resourceAttributes": _without_empty(attributes)}


class _User(msgspec.Struct):
    username: str | None = None
    uid: str | None = None
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None
    audiences: tuple[str, ...] | None = None


class _AccessStatus(msgspec.Struct):
    allowed: bool
    denied: bool = False


class _Review(msgspec.Struct, Generic[T]):
    kind: str
    status: T


def _status_of(resource: ApiResource, review: type[_Review[T]]) -> Decode[T]:
    """Returns the decoder of the status of a review."""
    decoder = msgspec.json.Decoder(review)

    def status(raw: Raw) -> T:
        found = decoder.decode(raw)
        if found.kind != resource.kind:
            raise BadAnswer(f"the answer is not a {resource.kind}")
        return found.status

    return status


_token_review: Final = _status_of(TOKEN_REVIEWS, _Review[_TokenStatus])
_access_review: Final = _status_of(ACCESS_REVIEWS, _Review[_AccessStatus])
_self_review: Final = _status_of(SELF_REVIEWS, _Review[_AccessStatus])
