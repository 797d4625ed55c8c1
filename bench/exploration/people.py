"""What operators, gardenlet and machine-controller-manager do by hand, at the worst moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic

from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from app.core.model.workloads import ResourceRef
from app.simulation import manifests
from app.simulation.store import Object, ObjectKey
from app.simulation.views import NOT_MANAGED, size_field
from bench.exploration.draws import H, Hand
from bench.exploration.path_draws import WITNESS

Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody has done."""

    what: str
    claims: str = ""
    undo: Undo | None = None
    namespace: str = ""
    """Of the shoot whose candidates are others now."""


@dataclass(frozen=True, slots=True)
class Act(Generic[H]):
    """One kind of deed."""

    weight: int
    lasts: tuple[float, float]
    do: Callable[[H, Callable[[str], bool]], Deed | None]
    """Does it, unless what it claims is taken; None: not now."""


Free = Callable[[str], bool]


def _dependent(hand: Hand, free: Free) -> tuple[str, ResourceRef, str, Object] | None:
    namespace, ref = hand.shoot(), hand.dependent()
    claim = f"dependent/{namespace}/{ref}"
    found = hand.world.store.find(ObjectKey(ref.kind, namespace, ref.name))
    return None if found is None or not free(claim) else (namespace, ref, claim, found)


def sets_replicas(hand: Hand, free: Free) -> Deed | None:
    """Somebody scales a dependent, often to 0."""
    if (chosen := _dependent(hand, free)) is None:
        return None
    namespace, ref, claim, found = chosen
    count = hand.rng.choice((0, 0, 1, 2, 5))
    hand.world.patch(namespace, ref, {"spec": {size_field(found): count}})
    return Deed(f"{namespace}/{ref} is set to {count}", claim)


def spoils_annotations(hand: Hand, free: Free) -> Deed | None:
    """Somebody removes or garbles what we wrote on a dependent."""
    if (chosen := _dependent(hand, free)) is None:
        return None
    namespace, ref, claim, found = chosen
    if not found["metadata"].get("annotations"):
        return None
    spoiled: Mapping[str, str | None] = hand.rng.choice(
        (
            {ann.MELTDOWN: None},
            {ann.SINCE: "yesterday"},
            {ann.REPLICAS: "0"},
            {ann.REPLICAS: "99999999999"},
            {ann.REPLICAS: "two"},
            {ann.REPLICAS: None, ann.MELTDOWN: None, ann.SINCE: None},
        )
    )
    hand.world.patch(namespace, ref, {"metadata": {"annotations": dict(spoiled)}})
    return Deed(f"{namespace}/{ref} gets {spoiled}", claim)


def asks_to_ignore(hand: Hand, free: Free) -> Deed | None:
    """Somebody wants a dependent to be left alone, or says so unclearly, for a while."""
    if (chosen := _dependent(hand, free)) is None:
        return None
    namespace, ref, claim, _ = chosen
    value = hand.rng.choice(("true", "true", "1", "yes please"))

    def say(what: str | None) -> None:
        if hand.world.store.find(ObjectKey(ref.kind, namespace, ref.name)) is not None:
            hand.world.patch(
                namespace, ref, {"metadata": {"annotations": {ann.IGNORE_SCALING: what}}}
            )

    say(value)
    return Deed(f"{namespace}/{ref} has ignore-scaling {value}", claim, lambda: say(None))


def deletes_dependent(hand: Hand, free: Free) -> Deed | None:
    """A dependent is deleted, and made anew later."""
    if (chosen := _dependent(hand, free)) is None:
        return None
    namespace, ref, claim, found = chosen
    hand.world.delete(namespace, ref)
    count = max(found["spec"][size_field(found)], 1)
    return Deed(
        f"{namespace}/{ref} is deleted",
        claim,
        lambda: hand.world.add_dependent(namespace, ref, count),
    )


def changes_node(hand: Hand, free: Free) -> Deed | None:
    """A node becomes one that does not count, for a while."""
    namespace = hand.shoot()
    node = hand.node(namespace)
    claim = f"node/{namespace}/{node}"
    if node is None or not free(claim):
        return None
    key = ObjectKey("Node", "", node)
    extra = hand.rng.choice(
        (
            {"type": "DiskPressure", "status": "True"},
            {"type": "InPlaceUpdate", "status": "True", "reason": "ReadyForUpdate"},
            None,
        )
    )

    def conditions(*more: Object) -> None:
        found = hand.world.shoot(namespace).store.find(key)
        if found is not None:
            kept = [c for c in found["status"]["conditions"] if c["type"] == "Ready"]
            hand.world.patch_node(namespace, node, {"status": {"conditions": [*kept, *more]}})

    def unmanaged(value: str | None) -> None:
        if hand.world.shoot(namespace).store.find(key) is not None:
            hand.world.patch_node(
                namespace, node, {"metadata": {"annotations": {NOT_MANAGED: value}}}
            )

    if extra is None:
        unmanaged("1")
        return Deed(f"{namespace}/{node} is not managed", claim, lambda: unmanaged(None), namespace)
    conditions(extra)
    return Deed(f"{namespace}/{node} has {extra['type']}", claim, conditions, namespace)


def changes_machine(hand: Hand, free: Free) -> Deed | None:
    """A machine fails, or goes, and its node stays."""
    namespace = hand.shoot()
    machines = [m.name for m in hand.world.machines(namespace) if m.phase == "Running"]
    if len(machines) < 3:
        return None
    machine = hand.rng.choice(machines)
    claim = f"machine/{namespace}/{machine}"
    if not free(claim):
        return None
    if hand.rng.random() < 0.5:
        hand.world.delete_machine(namespace, machine)
        return Deed(f"{namespace}/{machine} is deleted", claim)
    hand.world.machine_phase(namespace, machine, "Failed")

    def undo() -> None:
        if hand.world.store.find(ObjectKey("Machine", namespace, machine)) is not None:
            hand.world.machine_phase(namespace, machine, "Running")

    return Deed(f"{namespace}/{machine} has failed", claim, undo)


def leaves_lease(hand: Hand, free: Free) -> Deed | None:
    """The Lease of a node that is gone stays for a while."""
    namespace = hand.shoot()
    claim = f"lease/{namespace}"
    if not free(claim):
        return None
    ago = hand.rng.choice((None, 30.0, 3600.0, -3600.0))
    renewed = None if ago is None else hand.world.clock.now() - ago
    hand.world.add_lease(namespace, "gone", renewed)
    store = hand.world.shoot(namespace).store
    return Deed(
        f"{namespace} has a Lease of a node that is gone",
        claim,
        lambda: _ignore(store.delete(ObjectKey("Lease", manifests.LEASES, "gone"))),
    )


def _ignore(_: object) -> None:
    """What was deleted is of no interest."""


def changes_cluster(hand: Hand, free: Free) -> Deed | None:
    """The Shoot gets another grace period, or is created or restored once more."""
    namespace = hand.shoot()
    claim = f"cluster/{namespace}"
    if not free(claim):
        return None
    at = rfc3339(hand.world.clock.now())

    def operation(kind: str, state: str) -> dict[str, Any]:
        last = {"type": kind, "state": state, "lastUpdateTime": at}
        return {"status": {"lastOperation": last}}

    def grace(value: str | None) -> dict[str, Any]:
        kcm = {"nodeMonitorGracePeriod": value}
        return {"spec": {"kubernetes": {"kubeControllerManager": kcm}}}

    known = hand.world.store.get(ObjectKey("Cluster", "", namespace))["spec"]["shoot"]
    before = known["spec"]["kubernetes"]["kubeControllerManager"].get("nodeMonitorGracePeriod")
    change, back = hand.rng.choice(
        (
            (operation("Create", "Processing"), operation("Reconcile", "Succeeded")),
            (operation("Restore", "Error"), operation("Restore", "Succeeded")),
            (operation("Reconcile", "Failed"), operation("Reconcile", "Processing")),
            (grace("60s"), grace(before)),
            (grace("2m"), grace(before)),
        )
    )
    hand.world.patch_cluster(namespace, change)
    return Deed(
        f"{namespace} gets {change}",
        claim,
        lambda: hand.world.patch_cluster(namespace, back),
        namespace,
    )


def deletes_witness(hand: Hand, free: Free) -> Deed | None:  # noqa: ARG001  it claims nothing
    """Somebody deletes the pod that is a gate, where there is one; its controller makes another one."""
    namespace = hand.shoot()
    pods = [pod for pod in hand.world.pods(namespace, WITNESS) if not pod.terminating]
    if not pods:
        return None
    hand.world.delete_pod(namespace, pods[0].name)
    return Deed(f"{namespace}/{pods[0].name} is deleted")


ACTS: Final[dict[str, Act[Hand]]] = {
    "sets replicas": Act(5, (0.0, 0.0), sets_replicas),
    "spoils annotations": Act(3, (0.0, 0.0), spoils_annotations),
    "asks to ignore": Act(2, (10.0, 200.0), asks_to_ignore),
    "deletes a dependent": Act(2, (5.0, 100.0), deletes_dependent),
    "changes a node": Act(2, (10.0, 200.0), changes_node),
    "changes a machine": Act(2, (10.0, 200.0), changes_machine),
    "leaves a Lease": Act(1, (10.0, 300.0), leaves_lease),
    "changes a Cluster": Act(3, (10.0, 200.0), changes_cluster),
    "deletes a witness": Act(2, (0.0, 0.0), deletes_witness),
}
