"""The kinds of objects in the seed: where they are served, and how each is listed and watched.

The path of a kind that is not well known is found by discovery. There is one watch for each kind, by name if possible,
so that RBAC can restrict it to that name.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from app.core.errors import LimitExceeded, NotFound
from app.core.kube.client import JSON, MERGE_PATCH, ApiRequest, Decode
from app.core.kube.connections import MIB, RequestedRight
from app.core.kube.decoding import envelope, pod_objects, seed_objects
from app.core.kube.decoding.envelope import METADATA_LIST, RawPage, name_if_protected
from app.core.kube.seed_api import WITHIN, Budget, SeedApi
from app.core.model.callers import GROUP
from app.core.model.endpoints import ProbedPod
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.shoots import ClusterView, MachineView, Route, SecretView, Undecodable
from app.core.model.weeding import PodView, SliceView
from app.core.model.workloads import ResourceRef, WorkloadView

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind as the API serves it."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the path of an object, of all objects of a namespace, or of all objects."""
        base = f"{'/apis' if self.group else '/api'}/{self.api_version}"
        parts = [base, f"namespaces/{namespace}" if namespace else "", self.plural]
        return "/".join(part for part in [*parts, name, subresource] if part)

    def named(self, subresource: str) -> str:
        """Returns the resource as RBAC names it, such as `deployments/scale`."""
        return self.plural + (f"/{subresource}" if subresource else "")

    def request(
        self,
        verb: str,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        *,
        within: float = WITHIN,
        **more: Any,  # noqa: ANN401 - the other fields of `ApiRequest`
    ) -> ApiRequest:
        """Returns the request for this verb of RBAC, about an object, or all of a namespace or of the cluster."""
        where = "/".join(part for part in (namespace, name) if part)
        path = self.path(namespace, "" if verb == "create" else name, subresource)
        if verb == "patch":
            more["content_type"] = MERGE_PATCH
        asked = RequestedRight(verb, self.named(subresource), where)
        return ApiRequest(asked, path, within, method=_METHODS[verb], **more)


CLUSTERS: Final = ApiResource("extensions.gardener.cloud", "v1alpha1", "Cluster", "clusters")
MACHINES: Final = ApiResource("machine.sapcloud.io", "v1alpha1", "Machine", "machines")
SECRETS: Final = ApiResource("", "v1", "Secret", "secrets")
LEASES: Final = ApiResource("coordination.k8s.io", "v1", "Lease", "leases")
PODS: Final = ApiResource("", "v1", "Pod", "pods")
ENDPOINT_SLICES: Final = ApiResource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
EVENTS: Final = ApiResource("events.k8s.io", "v1", "Event", "events")
PAUSES: Final = ApiResource(GROUP, "v1alpha1", "Pause", "pauses")
SCALE_REQUESTS: Final = ApiResource(GROUP, "v1alpha1", "ScaleRequest", "scalerequests")
TOKEN_REVIEWS: Final = ApiResource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews")
ACCESS_REVIEWS: Final = ApiResource(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews"
)
SELF_REVIEWS: Final = ApiResource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"
)
_KNOWN: Final = {
    (each.api_version, each.kind): each
    for each in (
        ApiResource("apps", "v1", "Deployment", "deployments"),
        ApiResource("apps", "v1", "StatefulSet", "statefulsets"),
        ApiResource("apps", "v1", "ReplicaSet", "replicasets"),
    )
}


def assumed(ref: ResourceRef) -> ApiResource:
    """Guesses how the kind of `ref` is served, by the plural rules of English, for when discovery is not available."""
    known = _KNOWN.get((ref.api_version, ref.kind))
    if known is not None:
        return known
    group, _, version = ref.api_version.rpartition("/")
    word = ref.kind.lower()
    ending = "es" if word.endswith("s") else "s"
    plural = f"{word[:-1]}ies" if word.endswith("y") else word + ending
    return ApiResource(group, version, ref.kind, plural)


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
        budget = Budget.of(urgent=urgent)
        request = ApiRequest(RequestedRight("get", path), path, budget.within)
        try:
            listed = await self._api.call(request, envelope.resource_list, budget)
        except NotFound:
            return {}
        return {
            (api_version, kind): ApiResource(group, version, kind, plural)
            for kind, plural in listed
        }


T = TypeVar("T")


MOST_PAGE: Final = 4 * MIB
"""Bytes of one page: splitting it blocks the event loop for 35 ms at worst. etcd accepts objects of 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class WatchSource(Generic[T]):
    """Which objects a reflector copies, and how it decodes them."""

    resource: ApiResource
    decode: Callable[[envelope.Raw], T]
    label: str = ""
    """Name of the watch in metrics and log; empty for the plural of the resource."""
    discover: Callable[[], Awaitable[ApiResource]] | None = None
    """Returns how the resource is served, if that is not known; until then messages have its kind for a plural."""
    complaint: Callable[[T], str | None] = lambda _: None
    """Returns which part of a decoded object could not be understood, if any."""
    name: str = ""
    """Restricts the copy to objects of this name, in all namespaces."""
    selector: str = ""
    """Restricts the copy to objects that match this `labelSelector`."""
    where: str = ""
    """The namespace that the copy is limited to; empty for all."""
    page: int = 500
    most: int = MOST_PAGE
    """Maximum size of a page in bytes."""
    may_be_unserved: bool = False
    """Whether a kind that the seed does not serve counts as listed and empty (docs/decisions/0012)."""
    lists_when_stale: bool = False
    """Whether a stale copy is listed anew instead of resuming its watch: the first line of a quiet watch may take a
    minute, and what depends on this copy waits for a contact. For few and small objects only."""
    short_lived: bool = False
    """Whether this is one of many watches that live for minutes: a persistent refusal ends it, and its last contact is
    not exported as a metric."""
    dispensable: bool = False
    """Whether a persistent refusal, or a kind that is not served, only switches off one feature; that is reported
    elsewhere, so it is not logged repeatedly here."""
    goes_with_kind: bool = False
    """Whether the objects are gone once the seed persistently answers that it does not serve their kind."""
    accept: str = JSON
    """The media type that is asked for."""

    async def path(self, namespace: str = "") -> str:
        """Returns the URL path of the objects of a namespace, by default of all that are watched."""
        resource = self.resource if self.discover is None else await self.discover()
        return resource.path(namespace or self.where)

    @property
    def selection(self) -> dict[str, str]:
        """The parameters that restrict lists and watches to these objects."""
        fields = {"fieldSelector": f"metadata.name={self.name}"} if self.name else {}
        return fields | ({"labelSelector": self.selector} if self.selector else {})


Page = RawPage[msgspec.Raw]
"""One page of a list; its objects are not decoded."""
SendPage = Callable[[ApiRequest, Decode[Page]], Awaitable[Page]]
"""Sends the request for one page under some budget."""


async def pages(
    source: WatchSource[T],
    path: str,
    asked: RequestedRight,
    send: SendPage,
    *,
    within: float,
) -> AsyncIterator[tuple[Page, str | None]]:
    """Lists page by page: yields each page, with why only the metadata of its objects was read, if so.

    A page that is too long is requested again with fewer objects, down to one. Of a single object that is too long,
    only the metadata is read.

    Args:
        source: what is listed.
        path: the URL path of the collection.
        asked: names the request in messages.
        send: sends each request.
        within: time limit of each request in seconds.

    Raises:
        ClusterError: a page could not be read.
    """
    limit, alone, continues = source.page, False, ""
    while True:
        params = source.selection | {"limit": str(limit)}
        if continues:
            params |= {"continue": continues}
        accept = METADATA_LIST if alone else source.accept
        request = ApiRequest(asked, path, within, params, most=source.most, accept=accept)
        read = envelope.raw_page("PartialObjectMetadata" if alone else source.resource.kind)
        try:
            page = await send(request, read)
        except LimitExceeded as error:
            if error.limit != "size" or alone:
                raise
            limit, alone = max(limit // 4, 1), limit == 1
            continue
        yield page, f"it has more than {source.most} bytes" if alone else None
        if not page.continues:
            return
        # Grow again, but at most to twice as many objects, because the next ones may be larger, and to no more than
        # would fit if they are not.
        size = sum(map(len, page.items))
        fit = source.most * 3 // 4 * len(page.items) // size if size else limit
        limit, alone, continues = max(min(2 * limit, source.page, fit), 1), False, page.continues


CLUSTER_PAGE: Final = 50
"""A Cluster embeds the whole CloudProfile, about 70 kB."""
POD_PAGE: Final = 100
"""A pod takes about 20 kB; most control planes fit into one page."""
PROBED_POD_PAGE: Final = 250
"""For the pods of all control planes together, which fill many pages."""


def clusters() -> WatchSource[ClusterView]:
    """Returns the source of all Clusters."""
    return WatchSource(
        CLUSTERS,
        seed_objects.cluster,
        complaint=lambda view: view.shoot.reason if isinstance(view.shoot, Undecodable) else None,
        page=CLUSTER_PAGE,
    )


def machines() -> WatchSource[MachineView]:
    """Returns the source of the Machines of all control-plane namespaces."""
    return WatchSource(MACHINES, seed_objects.machine)


def secrets(name: str, route: Route = Route.INTERNAL) -> WatchSource[SecretView]:
    """Returns the source of the Secrets of this name, whose kubeconfigs belong to this route."""
    label = "secrets" if route is Route.INTERNAL else f"{route}-secrets"
    return WatchSource(SECRETS, seed_objects.secret_of(route), label, name=name)


def dependent(
    ref: ResourceRef, resources: Resources, *, optional: bool = False
) -> WatchSource[WorkloadView]:
    """Returns the source of the dependents of this kind and name; its path may have to be discovered."""
    return WatchSource(
        replace(assumed(ref), plural=ref.kind),
        seed_objects.workload(ref),
        str(ref),
        partial(resources.find, ref),
        name=ref.name,
        may_be_unserved=optional,
    )


def slices(services: Collection[str]) -> WatchSource[SliceView]:
    """Returns the source of the EndpointSlices of services with these names, in all namespaces."""
    of_services = Requirement(pod_objects.SERVICE_LABEL, Operator.IN, frozenset(services))
    decode = pod_objects.endpoint_slice
    return WatchSource(ENDPOINT_SLICES, decode, selector=str(of_services), lists_when_stale=True)


def pods(namespace: str, selector: LabelSelector | None) -> WatchSource[PodView]:
    """Returns the source of the pods of a namespace that match `selector` (None: all), for the time of a recovery."""
    return WatchSource(
        PODS,
        pod_objects.pod,
        where=namespace,
        selector=str(selector or ""),
        page=POD_PAGE,
        short_lived=True,
    )


def metadata(resource: ApiResource) -> WatchSource[tuple[str, str] | None]:
    """Returns the source of the metadata of all objects of a kind; of protected ones their namespace and name."""
    listed = replace(resource, kind="PartialObjectMetadata")
    return WatchSource(listed, name_if_protected, accept=METADATA_LIST)


def probed_pods(selector: LabelSelector) -> WatchSource[ProbedPod]:
    """Returns the source of the pods that match `selector` in all namespaces."""
    return WatchSource(
        PODS,
        pod_objects.probed_pod,
        f"pods {selector}".rstrip(),
        selector=str(selector),
        page=PROBED_POD_PAGE,
        dispensable=True,
    )
