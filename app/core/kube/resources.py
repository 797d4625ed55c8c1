"""URL paths of objects; the path of a kind that is not well known is found by discovery."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from app.core.clock import Clock
from app.core.errors import LimitExceeded, NotFound
from app.core.kube import decoding
from app.core.kube.client import ApiRequest
from app.core.kube.decoding.envelope import METADATA_LIST, name_if_protected, raw_page
from app.core.kube.failures import RequestedRight
from app.core.kube.reflector import DECODED_AT_ONCE, MOST_PAGE
from app.core.kube.seed_api import WITHIN, Budget, SeedApi, within
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import ResourceRef


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind as the API serves it."""

    group: str
    version: str
    plural: str
    has_scale: bool = False

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the path of an object, of all objects of a namespace, or of all objects."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [base, f"namespaces/{namespace}" if namespace else "", self.plural]
        return "/".join(part for part in [*parts, name, subresource] if part)


CLUSTERS: Final = ApiResource("extensions.gardener.cloud", "v1alpha1", "clusters")
MACHINES: Final = ApiResource("machine.sapcloud.io", "v1alpha1", "machines")
SECRETS: Final = ApiResource("", "v1", "secrets")
LEASES: Final = ApiResource("coordination.k8s.io", "v1", "leases")
PODS: Final = ApiResource("", "v1", "pods")
ENDPOINT_SLICES: Final = ApiResource("discovery.k8s.io", "v1", "endpointslices")
EVENTS: Final = ApiResource("events.k8s.io", "v1", "events")
PAUSES: Final = ApiResource("dependency-watchdog.gardener.cloud", "v1alpha1", "pauses")
SCALE_REQUESTS: Final = ApiResource(
    "dependency-watchdog.gardener.cloud", "v1alpha1", "scalerequests"
)
TOKEN_REVIEWS: Final = ApiResource("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS: Final = ApiResource("authorization.k8s.io", "v1", "subjectaccessreviews")
_KNOWN: Final = {
    ("apps/v1", "Deployment"): ApiResource("apps", "v1", "deployments", has_scale=True),
    ("apps/v1", "StatefulSet"): ApiResource("apps", "v1", "statefulsets", has_scale=True),
    ("apps/v1", "ReplicaSet"): ApiResource("apps", "v1", "replicasets", has_scale=True),
}


def assumed(ref: ResourceRef) -> ApiResource:
    """Guesses how the kind of `ref` is served, by the plural rules of English, for when discovery is not available."""
    known = _KNOWN.get((ref.api_version, ref.kind))
    if known is not None:
        return known
    group, _, version = ref.api_version.rpartition("/")
    return ApiResource(group, version, _plural(ref.kind.lower()), has_scale=True)


def _plural(word: str) -> str:
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + "es" if word.endswith("s") else word + "s"


class Resources:
    """Discovers kinds and caches them."""

    def __init__(self, api: SeedApi) -> None:
        self._api = api
        self._found = dict(_KNOWN)

    async def find(self, ref: ResourceRef, *, urgent: bool = False) -> ApiResource:
        """Returns how the API serves the kind of `ref`.

        Raises:
            NotFound: the API does not serve it.
            ClusterError: discovery failed.
        """
        key = (ref.api_version, ref.kind)
        if key not in self._found:
            self._found |= await self._discover(ref.api_version, urgent=urgent)
        if key not in self._found:
            raise NotFound(f"the seed serves no {ref.kind} of {ref.api_version}", status=404)
        return self._found[key]

    async def _discover(
        self, api_version: str, *, urgent: bool
    ) -> dict[tuple[str, str], ApiResource]:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        request = ApiRequest(RequestedRight("get", path), path, within(urgent=urgent))
        budget = Budget.URGENT if urgent else Budget.NORMAL
        try:
            listed = await self._api.call(request, decoding.resource_list, budget)
        except NotFound:
            return {}
        return {
            (api_version, kind): ApiResource(group, version, plural, has_scale)
            for kind, plural, has_scale in listed
        }


# Finds objects that have the meltdown key but are not configured: one metadata list for each kind.


_PAGE: Final = 500


class UnconfiguredScan:
    """Scans the kinds of the configured dependents."""

    def __init__(
        self, api: SeedApi, resources: Resources, policy: ProberPolicy, clock: Clock
    ) -> None:
        self._api, self._resources, self._policy, self._clock = api, resources, policy, clock

    async def __call__(self) -> tuple[str, ...]:
        """Returns the objects as `namespace/Kind/name`.

        Raises:
            Forbidden: a kind may not be listed.
            ClusterError: the seed did not answer.
        """
        kinds = {
            (each.ref.api_version, each.ref.kind): each.ref for each in self._policy.dependents
        }
        found: list[str] = []
        for ref in kinds.values():
            found += await self._of_kind(ref)
        return tuple(sorted(found))

    async def _of_kind(self, ref: ResourceRef) -> list[str]:
        try:
            resource = await self._resources.find(ref)
        except NotFound:  # the seed does not serve it
            return []
        configured = {
            each.ref.name
            for each in self._policy.dependents
            if (each.ref.api_version, each.ref.kind) == (ref.api_version, ref.kind)
        }
        return [
            f"{namespace}/{ref.kind}/{name}"
            for namespace, name in await self._protected(resource)
            if name not in configured
        ]

    async def _protected(self, resource: ApiResource) -> list[tuple[str, str]]:
        """Lists the metadata of all objects, decoded one by one with turns of the loop in between (threat T18).

        A page that is too long is requested again with fewer objects, as metadata may be as long as objects are.
        """
        asked = RequestedRight("list", resource.plural)
        found: list[tuple[str, str]] = []
        limit, continues, read = _PAGE, "", raw_page("PartialObjectMetadata")
        while True:
            params = {"limit": str(limit)} | ({"continue": continues} if continues else {})
            request = ApiRequest(
                asked, resource.path(), WITHIN, params, most=MOST_PAGE, accept=METADATA_LIST
            )
            try:
                page = await self._api.call(request, read)
            except LimitExceeded as error:
                if error.limit != "size" or limit == 1:
                    raise
                limit = max(limit // 4, 1)
                continue
            size = 0
            for item in page.items:
                # what cannot be decoded must not hide the others
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    if (protected := name_if_protected(item)) is not None:
                        found.append(protected)
                if (size := size + len(item)) >= DECODED_AT_ONCE:
                    size = 0
                    await self._clock.sleep(0)
            if not page.continues:
                return found
            limit, continues = min(2 * limit, _PAGE), page.continues
