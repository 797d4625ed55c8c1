"""What can happen to the seed, and to what it says of a shoot."""

from app.core.errors import ClusterError
from app.core.model.instants import rfc3339
from app.core.model.workloads import ResourceRef
from app.core.ports import Watched
from app.simulation.reflection import SILENCE
from app.simulation.stage import GARDENLET, Fault, Stage
from app.simulation.store import Key, Object
from app.simulation.traffic import Trouble


class SeedFaults:
    """What can happen to the seed and to what it says of a shoot."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def seed_trouble(self, trouble: Trouble) -> Fault:
        """Anything that a `Trouble` can say of the seed's API server."""
        self._stage.api.begin(trouble)
        return Fault(lambda: self._stage.api.end(trouble))

    def seed_down(self) -> Fault:
        """The seed's API server refuses connections; watches are a fault of their own."""
        return self.seed_trouble(Trouble(refused=True))

    def seed_errors(self, rate: float = 1.0) -> Fault:
        """Requests to the seed fail by chance, with 500."""
        return self.seed_trouble(Trouble(error_rate=rate))

    def patch_forbidden(self, *what: str) -> Fault:
        """403 for patches: of these resources (`deployments`, `deployments/scale`), or of all."""
        verbs = frozenset({"patch"})
        return self.seed_trouble(Trouble(forbidden=True, verbs=verbs, what=frozenset(what)))

    def watch_stalled(self, what: Watched, *, contact_ago: float = 0.0) -> Fault:
        """A watch delivers nothing more; its last contact was `contact_ago` seconds before now."""
        self._stage.caches.freeze(what, self._stage.clock.now() - contact_ago)
        return Fault(lambda: self._stage.caches.thaw(what))

    def watch_mute(self, what: Watched) -> Fault:
        """A watch opens and passes nothing on, while requests get through: after each silence it is listed anew."""
        caches, timers, mute = self._stage.caches, self._stage.pods.timers, True

        def silent() -> None:
            if mute:
                caches.give_up(what)
                timers.after(SILENCE, silent)

        def undo() -> None:
            nonlocal mute
            mute = False
            caches.thaw(what)

        caches.freeze(what, self._stage.clock.now())
        timers.after(SILENCE, silent)
        return Fault(undo)

    def watch_not_synced(self, what: Watched) -> Fault:
        """A watch has never listed."""
        self._stage.caches.unsync(what)
        return Fault(lambda: self._stage.caches.sync(what))

    def dependent_unavailable(self, ref: ResourceRef, error: ClusterError) -> Fault:
        """The seed does not serve the kind of a dependent, or lets nobody list or read it: `error` is what it says."""
        self._stage.unavailable[ref] = error

        def undo() -> None:
            del self._stage.unavailable[ref]
            self._stage.caches.sync(Watched.DEPENDENTS)

        return Fault(undo)

    def pods_stuck(self, namespace: str, ref: ResourceRef) -> Fault:
        """New pods of a dependent do not become ready."""
        key = Key(ref.kind, namespace, ref.name)
        self._stage.deployments.stuck.add(key)

        def undo() -> None:
            self._stage.deployments.stuck.discard(key)
            self._stage.deployments.recheck(key)

        return Fault(undo)

    def hibernated(self, namespace: str) -> Fault:
        """`spec.hibernation.enabled`; at the end the shoot is awake."""
        return self._shoot(
            namespace,
            {"spec": {"hibernation": {"enabled": True}}},
            {"spec": {"hibernation": {"enabled": False}}},
        )

    def migrating(self, namespace: str) -> Fault:
        """The last operation is Migrate; at the end a Reconcile that succeeded."""
        return self._shoot(
            namespace,
            self._operation("Migrate", "Processing"),
            self._operation("Reconcile", "Succeeded"),
        )

    def deleted(self, namespace: str) -> Fault:
        """The Cluster has a deletionTimestamp."""
        now = rfc3339(self._stage.clock.now())
        self._cluster(namespace, {"metadata": {"deletionTimestamp": now}})
        return Fault(lambda: self._cluster(namespace, {"metadata": {"deletionTimestamp": None}}))

    def cluster_gone(self, namespace: str) -> Fault:
        """The Cluster is gone; at the end it is there again, as it was."""
        key = Key("Cluster", "", namespace)
        before = self._stage.store.delete(key)
        return Fault(lambda: self._stage.store.create(key, before))

    def undecodable(self, namespace: str) -> Fault:
        """The Shoot in the Cluster cannot be read."""
        shoot = self._stage.store.get(Key("Cluster", "", namespace))["spec"]["shoot"]
        self._cluster(namespace, {"spec": {"shoot": "garbage"}})
        return Fault(lambda: self._cluster(namespace, {"spec": {"shoot": shoot}}))

    def _operation(self, kind: str, state: str) -> Object:
        at = rfc3339(self._stage.clock.now())
        return {"status": {"lastOperation": {"type": kind, "state": state, "lastUpdateTime": at}}}

    def _shoot(self, namespace: str, patch: Object, undo: Object) -> Fault:
        self._cluster(namespace, {"spec": {"shoot": patch}})
        return Fault(lambda: self._cluster(namespace, {"spec": {"shoot": undo}}))

    def _cluster(self, namespace: str, patch: Object) -> None:
        self._stage.write(Key("Cluster", "", namespace), patch, GARDENLET)
