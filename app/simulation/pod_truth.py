"""What one asks a simulated world about its pods, and what somebody else does to them."""

from app.core.model.pods import PodView, SliceView
from app.core.model.weeding import ServiceKey
from app.simulation.pod_kubelet import BecameReady
from app.simulation.pod_views import pod_view, slice_view
from app.simulation.seed_pods import PodDeletion
from app.simulation.stage import Stage
from app.simulation.store import Key


class PodTruth:
    """The pods of a world, as they truly are."""

    _stage: Stage

    def pods(self, namespace: str, workload: str | None = None) -> tuple[PodView, ...]:
        """The pods of a namespace, or of one workload in it, by name."""
        found = (pod_view(obj) for obj in self._stage.store.list("Pod", namespace))
        return tuple(pod for pod in found if workload in (None, pod.labels.get("app")))

    def pod(self, namespace: str, name: str) -> PodView:
        """A pod.

        Raises:
            NotFound: there is none.
        """
        return pod_view(self._stage.store.get(Key("Pod", namespace, name)))

    def slices(self, namespace: str, service: str) -> tuple[SliceView, ...]:
        """The slices of a service, by name."""
        found = (slice_view(obj) for obj in self._stage.store.list("EndpointSlice", namespace))
        return tuple(each for each in found if each.service == service)

    def served(self, namespace: str, service: str) -> bool:
        """Whether a service is ready, as its slices say."""
        return self._stage.pods.serves(ServiceKey(namespace, service))

    def restarts(self, namespace: str, workload: str) -> int:
        """How often the containers of a workload's pods were started again."""
        pods = self.pods(namespace, workload)
        return sum(container.restarts or 0 for pod in pods for container in pod.containers)

    def crash_looping(self, namespace: str) -> tuple[str, ...]:
        """The names of the pods of which a container waits in CrashLoopBackOff and that nobody has deleted."""
        return tuple(
            pod.name
            for pod in self.pods(namespace)
            if not pod.terminating and any(container.crash_loops for container in pod.containers)
        )

    def starts_again(self, namespace: str, pod: str) -> float | None:
        """The very instant at which a waiting container will be started again; None where none waits."""
        found = self._stage.pods.kubelet.find(Key("Pod", namespace, pod))
        return None if found is None else found.active.due

    def became_ready(self, namespace: str) -> tuple[BecameReady, ...]:
        """Which pods became Ready, and when, in that order; not those that were from the first."""
        return tuple(self._stage.pods.kubelet.became_ready.get(namespace, ()))

    @property
    def pod_deletions(self) -> tuple[PodDeletion, ...]:
        """All deletions of pods, by whomever, in their order."""
        return tuple(self._stage.pods.deletions)

    # What somebody else does.

    def delete_pod(self, namespace: str, name: str, by: str = "operator") -> None:
        """A person deletes a pod.

        Raises:
            NotFound: there is none.
        """
        self._stage.pods.delete(Key("Pod", namespace, name), by)

    def delete_slice(self, namespace: str, name: str) -> None:
        """Somebody deletes an EndpointSlice; it is written anew soon.

        Raises:
            NotFound: there is none.
        """
        self._stage.store.delete(Key("EndpointSlice", namespace, name))

    def split_service(self, namespace: str, service: str, slices: int) -> None:
        """The endpoints of a service are dealt out to so many slices from now on."""
        key = ServiceKey(namespace, service)
        self._stage.pods.endpoints.slices[key] = slices
        self._stage.pods.endpoints.sync(key)

    def crash_looped(
        self, namespace: str, workload: str, restarts: int, *, exited: float | None = None
    ) -> None:
        """The pods of a workload are as after a long time of crashes: each that does not end waits for its next start.

        Args:
            namespace: where.
            workload: whose.
            restarts: how often each was started again.
            exited: when each exited last; None: now.
        """
        at = self._stage.clock.now() if exited is None else exited
        for pod in self._stage.pods.kubelet.of((namespace, workload)):
            if not pod.ending:
                self._stage.pods.kubelet.crash_looped(pod, restarts, exited=at)
