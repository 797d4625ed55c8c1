"""Where objects are in the API: the path of a kind, found by discovery where it is not one that everybody knows."""

from dataclasses import dataclass
from typing import Final

from app.core.errors import NotFound
from app.core.kube import decoding
from app.core.kube.client import Request
from app.core.kube.failures import Asked
from app.core.kube.seed_api import Budget, SeedApi, within
from app.core.model.workloads import ResourceRef


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind as the API serves it."""

    group: str
    version: str
    plural: str
    has_scale: bool = False

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object, of a namespace's objects, or of all of them."""
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
CONFIG_MAPS: Final = ApiResource("", "v1", "configmaps")
TOKEN_REVIEWS: Final = ApiResource("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS: Final = ApiResource("authorization.k8s.io", "v1", "subjectaccessreviews")
_KNOWN: Final = {
    ("apps/v1", "Deployment"): ApiResource("apps", "v1", "deployments", has_scale=True),
    ("apps/v1", "StatefulSet"): ApiResource("apps", "v1", "statefulsets", has_scale=True),
    ("apps/v1", "ReplicaSet"): ApiResource("apps", "v1", "replicasets", has_scale=True),
}


def assumed(ref: ResourceRef) -> ApiResource:
    """How the kind of `ref` is most likely served: a guess by the rules of English, for when nobody can be asked."""
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
    """Finds kinds, and remembers them."""

    def __init__(self, api: SeedApi) -> None:
        self._api = api
        self._found = dict(_KNOWN)

    async def find(self, ref: ResourceRef, *, urgent: bool = False) -> ApiResource:
        """How the API serves the kind of `ref`.

        Raises:
            NotFound: it does not serve it.
            ClusterError: it does not answer.
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
        request = Request(Asked("get", path), path, within(urgent=urgent))
        budget = Budget.URGENT if urgent else Budget.NORMAL
        try:
            listed = await self._api.call(request, decoding.resource_list, budget)
        except NotFound:
            return {}
        return {
            (api_version, kind): ApiResource(group, version, plural, has_scale)
            for kind, plural, has_scale in listed
        }
