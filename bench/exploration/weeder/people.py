"""What operators and controllers do to pods, owners, slices and pauses, at the worst moment."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from app.simulation.store import Object, ObjectKey
from bench.exploration.people import Act, Deed
from bench.exploration.weeder.draws import PlaneHand
from bench.exploration.wishes import HOME

if TYPE_CHECKING:
    from app.simulation.faults import Fault

Free = Callable[[str], bool]
_OWNERS: Final = ("ReplicaSet", "StatefulSet")


def _pods(hand: PlaneHand) -> list[Object]:
    """Those of one control plane; of those that wait, if there are any and chance has it."""
    pods = list(hand.world.store.list("Pod", hand.namespace()))
    waiting = [pod for pod in pods if "CrashLoopBackOff" in str(pod.get("status"))]
    return waiting if waiting and hand.rng.random() < 0.7 else pods


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])


def scales_owner(hand: PlaneHand, free: Free) -> Deed | None:
    """Somebody wants more pods of an owner, or fewer, or none, for a while."""
    namespace, store = hand.namespace(), hand.world.store
    owner = hand.rng.choice([each for kind in _OWNERS for each in store.list(kind, namespace)])
    key, before = _key(owner), owner["spec"]["replicas"]
    claim = f"owner/{namespace}/{key.name}"
    if not free(claim):
        return None
    count = hand.rng.choice((0, 1, 2, 4, 7))
    store.patch(key, {"spec": {"replicas": count}})
    return Deed(
        f"{namespace}/{key.name} is scaled to {count}",
        claim,
        lambda: _ignore(store.patch(key, {"spec": {"replicas": before}})),
    )


def deletes_pod(hand: PlaneHand, free: Free) -> Deed | None:
    """Somebody else deletes a pod."""
    del free
    if not (pods := _pods(hand)):
        return None
    key = _key(hand.rng.choice(pods))
    hand.world.delete_pod(key.namespace, key.name)
    return Deed(f"{key.namespace}/{key.name} is deleted")


def touches_pods(hand: PlaneHand, free: Free) -> Deed | None:
    """Somebody writes on all pods of a control plane, so that what was judged is no more."""
    del free
    pods, text = _pods(hand), str(hand.rng.random())
    for pod in pods:
        hand.world.store.patch(_key(pod), {"metadata": {"annotations": {"touched": text}}})
    return Deed(f"{len(pods)} pods are touched")


def relabels_pod(hand: PlaneHand, free: Free) -> Deed | None:
    """Somebody takes a pod out of what is selected."""
    del free
    if not (pods := _pods(hand)):
        return None
    key = _key(hand.rng.choice(pods))
    labels = {"role": "debugged", "gardener.cloud/role": None}
    hand.world.store.patch(key, {"metadata": {"labels": labels}})
    return Deed(f"{key.namespace}/{key.name} is labelled as nothing that is selected")


def crashes_for_long(hand: PlaneHand, free: Free) -> Deed | None:
    """What depends on something in a control plane is as after many crashes, most of it."""
    del free
    plane, crashed = hand.rng.choice(hand.recipe.planes), []
    for workload in plane.workloads:
        if workload.needs is not None and hand.rng.random() < 0.8:
            restarts = hand.rng.randint(1, 9)
            hand.world.crash_looped(plane.namespace, workload.name, restarts)
            crashed.append(f"{workload.name} {restarts}")
    return Deed(f"{plane.namespace} has crashed for long: {', '.join(crashed)} times")


def deletes_slice(hand: PlaneHand, free: Free) -> Deed | None:
    """Somebody deletes a slice; it is written anew soon."""
    del free
    slices = hand.world.store.list("EndpointSlice", hand.namespace())
    if not slices:
        return None
    key = _key(hand.rng.choice(slices))
    hand.world.delete_slice(key.namespace, key.name)
    return Deed(f"slice {key.namespace}/{key.name} is deleted")


def splits_service(hand: PlaneHand, free: Free) -> Deed | None:
    """The endpoints of a service are dealt out to another number of slices."""
    del free
    namespace, number = hand.namespace(), hand.rng.randint(1, 3)
    service = hand.rng.choice(sorted(hand.recipe.policy.services))
    hand.world.split_service(namespace, service, number)
    return Deed(f"{namespace}/{service} has {number} slices")


def pauses(hand: PlaneHand, free: Free) -> Deed | None:
    """Somebody pauses a control plane or all of them, for a while."""
    place = hand.rng.choice((*(3 * (hand.namespace(),)), HOME))
    claim, people = f"pause/{place}", hand.world.people
    if not free(claim) or "Pause" not in hand.world.store.definitions:
        return None
    scope = hand.rng.choice(("all", "all", "all", "scaleDown"))
    name = f"mine-{hand.rng.randrange(1 << 32):08x}"
    people.create("Pause", place, name, reason="mine", author="alice", scope=scope)

    def undo() -> None:
        if hand.world.store.find(ObjectKey("Pause", place, name)) is not None:
            people.delete("Pause", place, name)

    return Deed(f"{place} is paused, {scope}", claim, undo)


def outage(hand: PlaneHand, free: Free) -> Deed | None:
    """All etcds at once, for a while: many come back together."""
    if not free("outage"):
        return None
    planes = [plane.namespace for plane in hand.recipe.planes]
    faults: list[Fault] = [
        hand.world.faults.service_unready(each, "etcd-main-client") for each in planes
    ]

    def undo() -> None:
        for fault in faults:
            fault.lift()

    return Deed(f"the etcds of {len(planes)} control planes are not ready", "outage", undo)


def _ignore(_: object) -> None:
    """What was written is of no interest."""


ACTS: Final[dict[str, Act[PlaneHand]]] = {
    "scales an owner": Act(4, (1.0, 120.0), scales_owner),
    "deletes a pod": Act(4, (0.0, 0.0), deletes_pod),
    "touches pods": Act(4, (0.0, 0.0), touches_pods),
    "relabels a pod": Act(1, (0.0, 0.0), relabels_pod),
    "crashes for long": Act(6, (0.0, 0.0), crashes_for_long),
    "deletes a slice": Act(2, (0.0, 0.0), deletes_slice),
    "splits a service": Act(2, (0.0, 0.0), splits_service),
    "pauses": Act(4, (2.0, 120.0), pauses),
    "outage": Act(4, (20.0, 120.0), outage),
}
