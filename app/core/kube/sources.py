"""The sources of all reflectors: one watch each, by name if possible, so that RBAC can restrict it to that name."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from app.core.kube import decoding
from app.core.kube.reflector import WatchSource
from app.core.kube.resources import (
    CLUSTERS,
    ENDPOINT_SLICES,
    MACHINES,
    PAUSES,
    PODS,
    SCALE_REQUESTS,
    SECRETS,
    ApiResource,
    Resources,
)
from app.core.model.endpoints import ProbedPod
from app.core.model.nodes import MachineView
from app.core.model.overrides import Pause, ScaleRequest
from app.core.model.pods import PodView, SliceView
from app.core.model.selectors import LabelSelector, Operator, Requirement
from app.core.model.shoots import ClusterView, Route, SecretView, Undecodable
from app.core.model.workloads import ResourceRef, WorkloadView

CLUSTER_PAGE: Final = 50
"""A Cluster embeds the whole CloudProfile, about 70 kB."""
POD_PAGE: Final = 100
"""A pod takes about 20 kB; most control planes fit into one page."""
PROBED_POD_PAGE: Final = 250
"""For the pods of all control planes together, which fill many pages."""

DECIDED_PAGE: Final = 100
"""For Pauses and ScaleRequests: a seed may have kept thousands that are over."""


def clusters() -> WatchSource[ClusterView]:
    """Returns the source of all Clusters."""
    return WatchSource(
        label="clusters",
        kind="Cluster",
        resource=CLUSTERS.plural,
        path=_at(CLUSTERS),
        decode=decoding.cluster,
        complaint=_complaint,
        page=CLUSTER_PAGE,
    )


def _complaint(view: ClusterView) -> str | None:
    return view.shoot.reason if isinstance(view.shoot, Undecodable) else None


def machines() -> WatchSource[MachineView]:
    """Returns the source of the Machines of all control-plane namespaces."""
    return WatchSource("machines", "Machine", MACHINES.plural, _at(MACHINES), decoding.machine)


def secrets(name: str, route: Route = Route.INTERNAL) -> WatchSource[SecretView]:
    """Returns the source of the Secrets of this name, whose kubeconfigs belong to this route."""
    return WatchSource(
        secrets_label(route),
        "Secret",
        SECRETS.plural,
        _at(SECRETS),
        decoding.secret_of(route),
        name=name,
    )


def secrets_label(route: Route) -> str:
    """Returns the name of that watch in metrics, log and status."""
    return "secrets" if route is Route.INTERNAL else f"{route}-secrets"


def dependent(
    ref: ResourceRef, resources: Resources, *, optional: bool = False
) -> WatchSource[WorkloadView]:
    """Returns the source of the dependents of this kind and name; its path may have to be discovered."""

    async def path() -> str:
        return (await resources.find(ref)).path()

    return WatchSource(
        str(ref),
        ref.kind,
        ref.kind,
        path,
        decoding.workload(ref),
        name=ref.name,
        may_be_unserved=optional,
    )


def slices(services: Collection[str]) -> WatchSource[SliceView]:
    """Returns the source of the EndpointSlices of services with these names, in all namespaces."""
    of_services = Requirement(decoding.SERVICE_LABEL, Operator.IN, frozenset(services))
    return WatchSource(
        "endpointslices",
        "EndpointSlice",
        ENDPOINT_SLICES.plural,
        _at(ENDPOINT_SLICES),
        decoding.endpoint_slice,
        selector=str(of_services),
        lists_when_stale=True,
    )


def pods(namespace: str, selector: LabelSelector | None) -> WatchSource[PodView]:
    """Returns the source of the pods of a namespace that match `selector` (None: all), for the time of a recovery."""
    return WatchSource(
        "pods",
        "Pod",
        PODS.plural,
        _at(PODS, namespace),
        decoding.pod,
        selector=str(selector or ""),
        where=namespace,
        page=POD_PAGE,
        short_lived=True,
    )


def probed_pods(selector: LabelSelector) -> WatchSource[ProbedPod]:
    """Returns the source of the pods that match `selector` in all namespaces; the replica keeps some of them."""
    return WatchSource(
        f"pods {selector}".rstrip(),
        "Pod",
        PODS.plural,
        _at(PODS),
        decoding.probed_pod,
        selector=str(selector),
        page=PROBED_POD_PAGE,
        dispensable=True,
    )


def pauses() -> WatchSource[Pause]:
    """Returns the source of the Pauses of all namespaces."""
    return WatchSource(
        PAUSES.plural,
        "Pause",
        PAUSES.plural,
        _at(PAUSES),
        decoding.pause,
        complaint=lambda found: found.problem,
        page=DECIDED_PAGE,
        dispensable=True,
        goes_with_kind=True,
    )


def scale_requests() -> WatchSource[ScaleRequest]:
    """Returns the source of the ScaleRequests of all namespaces."""
    return WatchSource(
        SCALE_REQUESTS.plural,
        "ScaleRequest",
        SCALE_REQUESTS.plural,
        _at(SCALE_REQUESTS),
        decoding.scale_request,
        complaint=lambda found: found.problem,
        page=DECIDED_PAGE,
        dispensable=True,
        goes_with_kind=True,
    )


def _at(resource: ApiResource, namespace: str = "") -> Callable[[], Awaitable[str]]:
    async def path() -> str:
        return resource.path(namespace)

    return path
