"""What of the seed is reflected: one watch each, by name wherever there is one, so that RBAC can name it too."""

from collections.abc import Awaitable, Callable
from typing import Final

from app.core.kube import translate
from app.core.kube.reflector import Source
from app.core.kube.resources import CLUSTERS, MACHINES, SECRETS, ApiResource, Resources
from app.core.model.nodes import MachineView
from app.core.model.shoots import ClusterView, SecretView, Undecodable
from app.core.model.workloads import ResourceRef, WorkloadView

CLUSTER_PAGE: Final = 50
"""A Cluster embeds the whole CloudProfile, some 70 kB."""


def clusters() -> Source[ClusterView]:
    """All Clusters."""
    return Source(
        label="clusters",
        kind="Cluster",
        resource=CLUSTERS.plural,
        path=_at(CLUSTERS),
        decode=translate.cluster,
        complaint=_complaint,
        page=CLUSTER_PAGE,
    )


def _complaint(view: ClusterView) -> str | None:
    return view.shoot.reason if isinstance(view.shoot, Undecodable) else None


def machines() -> Source[MachineView]:
    """The Machines of all control-plane namespaces."""
    return Source("machines", "Machine", MACHINES.plural, _at(MACHINES), translate.machine)


def secrets(name: str) -> Source[SecretView]:
    """The Secrets of this name."""
    return Source("secrets", "Secret", SECRETS.plural, _at(SECRETS), translate.secret, name=name)


def dependent(
    ref: ResourceRef, resources: Resources, *, optional: bool = False
) -> Source[WorkloadView]:
    """The dependents of this kind and name; where they are may have to be discovered."""

    async def path() -> str:
        return (await resources.find(ref)).path()

    return Source(
        str(ref),
        ref.kind,
        ref.kind,
        path,
        translate.workload(ref),
        name=ref.name,
        may_be_unserved=optional,
    )


def _at(resource: ApiResource) -> Callable[[], Awaitable[str]]:
    async def path() -> str:
        return resource.path()

    return path
