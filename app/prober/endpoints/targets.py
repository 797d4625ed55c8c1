"""Who is asked by a probe in one namespace: a host, or containers of the pods that there are."""

import math

from app.core.endpoint_ports import ProbedPods
from app.core.model.endpoints import EndpointProbe, ProbedPod
from app.core.ports import STALE
from app.prober.endpoints.results import Target
from app.prober.rules.gates import FOR_EVER

Targets = dict[Target, ProbedPod | None]
"""With the pod that each is a container of; None for a host."""


def targets(probe: EndpointProbe, namespace: str, pods: ProbedPods) -> Targets:
    """The targets of `probe` in this namespace, as the watch of their pods shows them."""
    if probe.pods is None:
        return {Target(host=host_of(probe, namespace)): None}
    return {
        Target(uid=pod.uid, pod=pod.name, container=container.name): pod
        for pod in pods.pods(namespace, probe.pods)
        for container in pod.containers
        if probe.container in {None, container.name}
    }


def host_of(probe: EndpointProbe, namespace: str) -> str:
    """The host that is asked for this namespace."""
    return (probe.host or "").replace("{namespace}", namespace)


def known_until(probe: EndpointProbe, namespace: str, pods: ProbedPods) -> float:
    """The instant after which it is not known which targets there are: of a host never, without a list always."""
    if probe.pods is None:
        return FOR_EVER
    watch = pods.watch_state(namespace, probe.pods)
    if not watch.synced or watch.last_contact is None:
        return -math.inf
    return watch.last_contact + STALE
