"""Which permissions the configuration needs in the seed, and which of them are missing (threat T16)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from app.core.errors import BadAnswer
from app.core.kube.client import ApiRequest
from app.core.kube.decoding import Raw
from app.core.kube.failures import RequestedRight
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
    TOKEN_REVIEWS,
    ApiResource,
    assumed,
)
from app.core.kube.seed_api import WITHIN, SeedApi
from app.core.model.endpoints import EndpointProbeSpec, Exec
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import Permission

_READ: Final = ("get", "list", "watch")
_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
EVENTS_FEATURE: Final = "events"
"""The feature that is off without the right to write Events."""
REVIEW_FEATURE: Final = "token-review"
"""The feature that is off without the right to have callers reviewed."""
ADDRESS_FEATURE: Final = "leader-address"
"""The feature that is off without the rights to the leader's EndpointSlice."""

PODS_FEATURE: Final = "endpoint-pods"
"""The feature that is off without the rights to watch the pods of endpoint probes."""
EXEC_FEATURE: Final = "endpoint-exec"
"""The feature that is off without the rights to run commands in containers."""


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
    needed = [*_of(CLUSTERS, _READ)]
    if policy.endpoint_mode is None:
        needed += _of(MACHINES, _READ)
    for name in policy.secret_names.values():
        needed += _of(SECRETS, _READ, name=name)
    for each in policy.dependents:
        resource = resources.get(each.ref) or assumed(each.ref)
        needed += _of_dependent(each.ref, resource, dry_run=dry_run)
    needed += _of_probes(policy.endpoint_probes, allow_exec=allow_exec)
    needed += _of_custom(SCALE_REQUESTS, ("create", "delete"), dry_run=dry_run)
    if not dry_run:
        for resource in (PAUSES, SCALE_REQUESTS):  # in the leader
            needed += _of(resource, ("patch",), subresource="status", feature=resource.plural)
    needed += _of_process(lease, dry_run=dry_run)
    return tuple(dict.fromkeys(needed))


def _of_probes(probes: Iterable[EndpointProbeSpec], *, allow_exec: bool) -> Iterator[Permission]:
    """Permissions of endpoint probes; protection works without them, because a gate that cannot be judged is open."""
    of_pods = [each for each in probes if each.pods is not None]
    if of_pods:
        yield from _of(PODS, ("list", "watch"), feature=PODS_FEATURE)
    if allow_exec and any(isinstance(each.handler, Exec) for each in of_pods):
        yield from _of(PODS, ("get", "create"), subresource="exec", feature=EXEC_FEATURE)


def weeder_permissions(
    *, lease: tuple[str, str] | None = None, dry_run: bool = False
) -> tuple[Permission, ...]:
    """Returns the permissions that the weeder needs (threat T16).

    Args:
        lease: namespace and name of the Lease, if there is an election.
        dry_run: whether nothing is written.
    """
    verbs = _READ if dry_run else (*_READ, "delete")
    needed = [*_of(PODS, verbs), *_of(ENDPOINT_SLICES, _READ)]
    return (*needed, *_of_process(lease, dry_run=dry_run))


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
    needed = [*_of_custom(PAUSES, ("create", "patch", "delete"), dry_run=dry_run)]
    if reviews:
        needed += _of(TOKEN_REVIEWS, ("create",), feature=REVIEW_FEATURE)
        needed += _of(ACCESS_REVIEWS, ("create",), feature=REVIEW_FEATURE)
    if leader_slice is not None and not dry_run:
        verbs, feature = ("get", "update"), ADDRESS_FEATURE
        needed += _of(
            ENDPOINT_SLICES, verbs, name=leader_slice, namespace=namespace, feature=feature
        )
    return tuple(needed)


def _of_custom(
    resource: ApiResource, writes: Iterable[str], *, dry_run: bool
) -> Iterator[Permission]:
    verbs = _READ if dry_run else (*_READ, *writes)
    yield from _of(resource, verbs, feature=resource.plural)


def _of_process(lease: tuple[str, str] | None, *, dry_run: bool) -> Iterator[Permission]:
    if dry_run:
        return
    if lease is not None:
        yield from _of_lease(*lease)
    yield from _of(EVENTS, ("create", "patch"), feature=EVENTS_FEATURE)


def _of_dependent(
    ref: ResourceRef, resource: ApiResource, *, dry_run: bool
) -> Iterator[Permission]:
    yield from _of(resource, _READ, name=ref.name)
    if not dry_run:
        yield from _of(resource, ("patch",), name=ref.name)
    if not ref.has_replicas:
        verbs = ("get",) if dry_run else ("get", "patch")
        yield from _of(resource, verbs, name=ref.name, subresource="scale")


def _of_lease(namespace: str, name: str) -> Iterator[Permission]:
    yield from _of(LEASES, ("create",), namespace=namespace)
    yield from _of(LEASES, ("get", "update"), name=name, namespace=namespace)


def _of(
    resource: ApiResource,
    verbs: Iterable[str],
    *,
    name: str = "",
    namespace: str = "",
    subresource: str = "",
    feature: str = "",
) -> Iterator[Permission]:
    plural = resource.plural + (f"/{subresource}" if subresource else "")
    for verb in verbs:
        yield Permission(verb, resource.group, plural, name, namespace, feature)


class KubeAccessReviewer:
    """Sends a SelfSubjectAccessReview for each permission (`ports.AccessReviewer`)."""

    def __init__(self, api: SeedApi) -> None:
        self._api = api

    async def missing(self, needed: Iterable[Permission]) -> tuple[Permission, ...]:
        """Returns the permissions that are denied.

        Raises:
            ClusterError: the seed could not be asked, so nothing is known.
        """
        return tuple([each for each in needed if not await self._allowed(each)])

    async def _allowed(self, permission: Permission) -> bool:
        resource, _, subresource = permission.resource.partition("/")
        attributes = {
            "verb": permission.verb,
            "group": permission.group,
            "resource": resource,
            "subresource": subresource,
            "name": permission.name,
            "namespace": permission.namespace,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {key: value for key, value in attributes.items() if value}
            },
        }
        asked = RequestedRight("create", "selfsubjectaccessreviews")
        request = ApiRequest(asked, _PATH, WITHIN, method="POST", body=body)
        return await self._api.call(request, _verdict)


class _ReviewStatus(msgspec.Struct):
    allowed: bool


class _AccessReviewBody(msgspec.Struct):
    kind: str
    status: _ReviewStatus


_decoder: Final = msgspec.json.Decoder(_AccessReviewBody)


def _verdict(raw: Raw) -> bool:
    review = _decoder.decode(raw)
    if review.kind != "SelfSubjectAccessReview":
        raise BadAnswer("the answer is not a SelfSubjectAccessReview")
    return review.status.allowed
