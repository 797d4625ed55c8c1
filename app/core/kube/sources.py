"""What of the seed is reflected: one watch each, by name wherever there is one, so that RBAC can name it too."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from app.core.kube import decoding
from app.core.kube.byte_budget import MIB
from app.core.kube.reflector import WatchSource
from app.core.kube.resources import (
    CLUSTERS,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    MACHINES,
    PODS,
    SECRETS,
    ApiResource,
    Resources,
)
from app.core.model.endpoints import ProbedPod
from app.core.model.nodes import MachineView
from app.core.model.overrides import OVERRIDES
from app.core.model.pods import PodView, SliceView
from app.core.model.selectors import LabelSelector, Operator, Requirement
from app.core.model.shoots import ClusterView, Route, SecretView, Undecodable
from app.core.model.workloads import ResourceRef, WorkloadView
from app.core.ports import OverridesDocument

CLUSTER_PAGE: Final = 50
"""A Cluster embeds the whole CloudProfile, some 70 kB."""
POD_PAGE: Final = 100
"""A pod has some 20 kB; most control planes fit in one page."""
PROBED_POD_PAGE: Final = 250
"""Of all control planes at once, of which there are many pages."""
CONFIG_MAP_BYTES: Final = 8 * MIB
"""Bytes of an answer that is one ConfigMap: it has up to 1 MiB of text, and JSON may write a byte as six."""


def clusters() -> WatchSource[ClusterView]:
    """All Clusters."""
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
    """The Machines of all control-plane namespaces."""
    return WatchSource("machines", "Machine", MACHINES.plural, _at(MACHINES), decoding.machine)


def secrets(name: str, route: Route = Route.INTERNAL) -> WatchSource[SecretView]:
    """The Secrets of this name, whose kubeconfigs lead this way."""
    return WatchSource(
        secrets_label(route),
        "Secret",
        SECRETS.plural,
        _at(SECRETS),
        decoding.secret_of(route),
        name=name,
    )


def secrets_label(route: Route) -> str:
    """The name of their watch in metrics, log and troubles."""
    return "secrets" if route is Route.INTERNAL else f"{route}-secrets"


def dependent(
    ref: ResourceRef, resources: Resources, *, optional: bool = False
) -> WatchSource[WorkloadView]:
    """The dependents of this kind and name; where they are may have to be discovered."""

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
    """The EndpointSlices of the services of these names, in all namespaces."""
    of_services = Requirement(decoding.SERVICE_LABEL, Operator.IN, frozenset(services))
    return WatchSource(
        "endpointslices",
        "EndpointSlice",
        ENDPOINT_SLICES.plural,
        _at(ENDPOINT_SLICES),
        decoding.endpoint_slice,
        selector=str(of_services),
    )


def pods(namespace: str, selector: LabelSelector | None) -> WatchSource[PodView]:
    """The pods of a namespace, all or those that `selector` matches: for as long as a recovery lasts."""
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
    """The pods of all namespaces that `selector` matches; which of them are kept is said to the copy."""
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


def overrides(namespace: str) -> WatchSource[OverridesDocument]:
    """The ConfigMap of the overrides, in the namespace of the watchdog."""
    return WatchSource(
        CONFIG_MAPS.plural,
        "ConfigMap",
        CONFIG_MAPS.plural,
        _at(CONFIG_MAPS, namespace),
        decoding.overrides,
        name=OVERRIDES,
        where=namespace,
        most=CONFIG_MAP_BYTES,
        dispensable=True,
    )


def _at(resource: ApiResource, namespace: str = "") -> Callable[[], Awaitable[str]]:
    async def path() -> str:
        return resource.path(namespace)

    return path
