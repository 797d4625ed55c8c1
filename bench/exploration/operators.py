"""What operators decide: pauses, scaling runs by hand, holds; through a process, as its API would, or with kubectl."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from app.core.errors import NotFound
from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from app.core.model.overrides import API_PAUSE, IgnoreRequest, Pause, Scope
from app.core.model.scaling_runs import ScaleSpec, Trigger
from app.core.model.workloads import Direction, ResourceRef
from app.prober.controller import Prober
from app.simulation.definitions import Definition, Rejected
from app.simulation.identities import OPERATOR
from app.simulation.store import Object, ObjectKey
from bench.exploration.draws import Hand
from bench.exploration.people import Act, Deed, Free
from bench.exploration.wishes import HOME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.exploration.process import Process

_AUTHOR: Final = "alice"
_NAMES: Final = ("maintenance", "night", "rollout")
MISTAKES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("Pause", {}),
    ("Pause", {"reason": "   "}),
    ("Pause", {"reason": "mine", "scope": "scaledown"}),
    ("Pause", {"reason": "mine", "until": "tomorrow"}),
    ("Pause", {"reason": "mine", "author": ""}),
    ("ScaleRequest", {"reason": "mine"}),
    ("ScaleRequest", {"reason": "mine", "direction": "down"}),
    ("ScaleRequest", {"reason": "mine", "direction": "Down", "hold": "25h"}),
    ("ScaleRequest", {"reason": "mine", "direction": "Down", "hold": "soon"}),
    ("ScaleRequest", {"direction": "Up"}),
)
"""What the API server takes from nobody."""
NEWER: Final = "weeding"
"""A scope that only a newer version knows."""
_LONGEST: Final = 200.0
"""Of what people ask for in the worlds: their ends have to be seen, seconds."""
_LONG_OVER: Final = 7_200.0


# Whom they ask.


def _ask(
    hand: Hand,
    what: str,
    call: "Callable[[Process, Prober], Awaitable[object]]",
    *,
    leader: bool = False,
) -> Deed | None:
    """Asks one of the processes; for what only a leader does, one that takes itself for it."""
    processes = [each for each in hand.processes() if each.leading or not leader]
    if not processes:
        return None
    chosen = hand.rng.choice(processes)
    chosen.asked(what, call)
    return Deed(f"{_AUTHOR} asks {chosen.name}: {what}")


def _place(hand: Hand) -> str:
    return HOME if hand.rng.random() < 0.25 else hand.shoot()


def _of_api(namespace: str) -> str | None:
    """How the API calls it."""
    return None if namespace == HOME else namespace


# With kubectl.


def _served(hand: Hand, kind: str) -> bool:
    """Whether the seed knows such objects now."""
    return kind in hand.world.store.definitions


def _some(hand: Hand, kind: str) -> Object | None:
    """One of those that are there."""
    found = hand.world.store.list(kind)
    return hand.rng.choice(found) if found else None


def _gone(hand: Hand, kind: str, namespace: str, name: str) -> None:
    """Deletes it, where it is."""
    if hand.world.store.find(ObjectKey(kind, namespace, name)) is not None:
        hand.world.people.delete(kind, namespace, name)


def _until(hand: Hand, seconds: float) -> str:
    return rfc3339(hand.world.clock.now() + seconds)


# Pauses.


def pauses(hand: Hand, free: Free) -> Deed | None:
    """Somebody pauses a shoot or all, for a while, or until somebody resumes it."""
    namespace, scope = _place(hand), hand.rng.choice((Scope.ALL, Scope.ALL, Scope.SCALE_DOWN))
    seconds, by_hand = hand.between(1.0, _LONGEST), hand.rng.random() < 0.5
    name = hand.rng.choice(_NAMES) if by_hand else API_PAUSE
    claim = f"pause/{namespace}/{name}"
    if not free(claim):
        return None
    if by_hand:
        deed = _pauses_by_hand(hand, namespace, name, scope, seconds)
    else:
        now = hand.world.clock.now()
        pause = Pause(scope, "hands off", _AUTHOR, now, now + seconds)
        what = f"pause {namespace}, {scope}, for {seconds} s"
        deed = _ask(hand, what, partial(_pause, hand, what, namespace, pause))
    if deed is None:
        return None
    return replace(deed, claims=claim, undo=lambda: _gone(hand, "Pause", namespace, name))


def _pauses_by_hand(
    hand: Hand, namespace: str, name: str, scope: Scope, seconds: float
) -> Deed | None:
    if not _served(hand, "Pause") or _there(hand, "Pause", namespace, name):
        return None
    spec: dict[str, Any] = hand.rng.choice(
        (
            {"reason": "mine"},
            {"reason": "mine", "scope": str(scope)},
            {"reason": "mine", "scope": str(scope), "until": _until(hand, seconds)},
            {"reason": "mine", "until": _until(hand, seconds), "author": "bob"},
            {"reason": "too late", "until": _until(hand, -hand.rng.choice((5.0, _LONG_OVER)))},
        )
    )
    hand.world.people.create("Pause", namespace, name, **spec)
    return Deed(f"kubectl creates Pause {namespace}/{name}: {spec}")


def _there(hand: Hand, kind: str, namespace: str, name: str) -> bool:
    return hand.world.store.find(ObjectKey(kind, namespace, name)) is not None


async def _pause(
    hand: Hand, what: str, namespace: str, pause: Pause, process: "Process", _: Prober
) -> None:
    written = await process.override_service.set_pause(_of_api(namespace), pause)
    hand.acknowledged(what, written.after.id.uid, written.after.id.version)


def resumes(hand: Hand, free: Free) -> Deed | None:
    """Somebody ends a pause, if there is one."""
    del free
    found = _some(hand, "Pause")
    place = (_place(hand), API_PAUSE) if found is None else _names(found)
    if found is not None and hand.rng.random() < 0.4:
        hand.world.people.delete("Pause", *place)
        return Deed(f"kubectl deletes Pause {'/'.join(place)}")
    what = f"resume {'/'.join(place)}"
    hand.asked_to_end(ObjectKey("Pause", *place))

    async def resume(process: "Process", _: Prober) -> None:
        namespace, name = place
        ended = await process.override_service.end_pause(_of_api(namespace), name, by=_AUTHOR)
        if ended is not None:
            hand.acknowledged(what, ended.id.uid, None)

    return _ask(hand, what, resume)


def _names(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def edits_pause(hand: Hand, free: Free) -> Deed | None:
    """Somebody changes a Pause with kubectl."""
    del free
    found = _some(hand, "Pause")
    if found is None or found["spec"]["scope"] == NEWER:
        return None
    spec: dict[str, Any] = hand.rng.choice(
        (
            {"scope": hand.rng.choice(("all", "scaleDown"))},
            {"until": _until(hand, hand.between(-10.0, _LONGEST))},
            {"reason": "still mine", "author": hand.rng.choice((None, "bob"))},
        )
    )
    hand.world.people.edit("Pause", *_names(found), **spec)
    return Deed(f"kubectl edits Pause {'/'.join(_names(found))}: {spec}")


def pauses_for_a_newer_version(hand: Hand, free: Free) -> Deed | None:
    """Somebody has newer definitions for a moment, and pauses in a way that this version does not know."""
    namespace = _place(hand)
    claim = f"newer/{namespace}"
    if not free(claim) or not _served(hand, "Pause") or _there(hand, "Pause", namespace, "newer"):
        return None
    with _newer_definitions(hand):
        hand.world.people.create("Pause", namespace, "newer", reason="mine", scope=NEWER)
    return Deed(
        f"kubectl creates Pause {namespace}/newer with scope {NEWER}",
        claim,
        lambda: _gone(hand, "Pause", namespace, "newer"),
    )


@contextmanager
def _newer_definitions(hand: Hand) -> Iterator[None]:
    store = hand.world.store
    before = store.definitions["Pause"]
    store.define(_with_scope(before, NEWER))
    try:
        yield
    finally:
        store.define(before)


def _with_scope(definition: Definition, scope: str) -> Definition:
    """The definition with one more scope."""
    schema = definition.schema
    spec = schema["properties"]["spec"]
    known = spec["properties"]["scope"]
    scopes = {**known, "enum": [*known["enum"], scope]}
    spec = {**spec, "properties": {**spec["properties"], "scope": scopes}}
    return replace(
        definition, schema={**schema, "properties": {**schema["properties"], "spec": spec}}
    )


# Scaling runs by hand, and their holds.


def scales(hand: Hand, free: Free) -> Deed | None:
    """Somebody scales a shoot down or up, and wants that to stay for a while."""
    del free
    namespace, direction = hand.shoot(), hand.rng.choice(list(Direction))
    hold, force = hand.between(1.0, _LONGEST), hand.rng.random() < 0.5
    spec = ScaleSpec(direction, "as I say", _AUTHOR, hold, force)
    what = f"scale {namespace} {direction}{' with force' if force else ''}, hold {hold} s"
    regrets = hand.between(0.0, 5.0) if hand.rng.random() < 0.3 else None

    async def scale(process: "Process", prober: Prober) -> None:
        began = await prober.scaling_runs.begin(namespace, spec)
        versions = [
            each.id.version for each in process.overrides.requests() if each.id.uid == began.id
        ]
        for version in versions:
            hand.acknowledged(what, began.id, version)
        if regrets is not None:
            process.asked(f"cancel {began.id}", partial(_cancel, hand, regrets))

    return _ask(hand, what, scale, leader=True)


async def _cancel(hand: Hand, after: float, process: "Process", prober: Prober) -> None:
    """Cancels a scaling run by hand that runs then, whoever began it."""
    await hand.world.clock.sleep(after)
    for each in prober.scaling_runs.operations():
        if each.running and each.trigger is Trigger.MANUAL:
            _asked_to_end(hand, process, each.id)
            await prober.scaling_runs.cancel(each.id, by=_AUTHOR)
            hand.acknowledged(f"cancel {each.id}", each.id, None)
            return


def _asked_to_end(hand: Hand, process: "Process", uid: str) -> None:
    for each in process.overrides.requests():
        if each.id.uid == uid:
            hand.asked_to_end(ObjectKey("ScaleRequest", each.id.namespace, each.id.name))


def cancels(hand: Hand, free: Free) -> Deed | None:
    """Somebody cancels a scaling run that he finds running."""
    del free
    return _ask(hand, "cancel what runs", partial(_cancel, hand, 0.0), leader=True)


def scales_with_kubectl(hand: Hand, free: Free) -> Deed | None:
    """Somebody creates ScaleRequests: one, or one right after the other."""
    del free
    if not _served(hand, "ScaleRequest"):
        return None
    namespace, told = hand.shoot(), []
    for _ in range(hand.rng.choice((1, 1, 1, 2))):
        spec: dict[str, Any] = {
            "direction": hand.rng.choice(("Up", "Down")),
            "reason": "by kubectl",
            "hold": hand.rng.choice(("0s", "20s", "1m30s", f"{hand.between(0.1, 100.0)}s")),
            "force": hand.rng.random() < 0.5,
        }
        name = f"mine-{hand.rng.randrange(1 << 32):08x}"
        hand.world.people.create("ScaleRequest", namespace, name, **spec)
        told.append(f"{name} {spec}")
    return Deed(f"kubectl creates in {namespace}: {'; '.join(told)}")


def ends_hold(hand: Hand, free: Free) -> Deed | None:
    """Somebody ends a hold, and so cancels its scaling run."""
    del free
    if (found := _some(hand, "ScaleRequest")) is None:
        return None
    namespace, name = _names(found)
    if hand.rng.random() < 0.5:
        hand.world.people.delete("ScaleRequest", namespace, name)
        return Deed(f"kubectl deletes ScaleRequest {namespace}/{name}")
    what = f"end the hold of {namespace}"

    async def end(process: "Process", _: Prober) -> None:
        hold = process.overrides.effective(namespace).hold
        for each in tuple(process.overrides.requests(namespace)):
            if hold is not None and each.id.uid == hold.operation:
                _asked_to_end(hand, process, hold.operation)
                await process.override_service.delete_request(each, by=_AUTHOR)
                hand.acknowledged(what, hold.operation, None)

    return _ask(hand, what, end)


def edits_status(hand: Hand, free: Free) -> Deed | None:
    """Somebody edits the status of a ScaleRequest, which is nobody's business but ours."""
    del free
    going = [each for each in hand.world.store.list("ScaleRequest") if _goes_on(each)]
    if not going:
        return None
    found = hand.rng.choice(going)
    status = hand.rng.choice(
        (
            {"phase": "Cancelled", "message": "by hand"},
            {"phase": "Cancelled", "message": "by hand", "endedAt": _until(hand, 0.0)},
            {"phase": "Succeeded", "endedAt": _until(hand, 0.0), "holdUntil": _until(hand, 60.0)},
            {"phase": "Failed"},
            {"phase": "Running"},
            {"message": "looks good"},
        )
    )
    key = ObjectKey("ScaleRequest", *_names(found))
    hand.world.write(key, {"status": status}, OPERATOR, status=True)
    return Deed(f"kubectl edits the status of ScaleRequest {key.namespace}/{key.name}: {status}")


def _goes_on(request: Object) -> bool:
    return (request.get("status") or {}).get("phase", "Pending") in {"Pending", "Running"}


# Mistakes.


def errs(hand: Hand, free: Free) -> Deed | None:
    """Somebody asks for what the API server refuses."""
    del free
    kind, spec = hand.rng.choice(MISTAKES)
    found = _some(hand, "ScaleRequest")
    try:
        if found is not None and hand.rng.random() < 0.5:
            kind, spec = "ScaleRequest", {"reason": "I meant something else"}
            hand.world.people.edit("ScaleRequest", *_names(found), **spec)
        else:
            hand.world.people.create(kind, _place(hand), "mistake", **spec)
    except NotFound:
        return None
    except Rejected as error:
        return Deed(f"kubectl is refused {kind} {spec}: {error}")
    raise AssertionError(f"the API server took {kind} {spec}")


def deletes_all(hand: Hand, free: Free) -> Deed | None:
    """Somebody deletes all Pauses, or all ScaleRequests."""
    del free
    kind = hand.rng.choice(("Pause", "ScaleRequest"))
    found = hand.world.store.list(kind)
    if not found:
        return None
    for each in found:
        hand.world.people.delete(kind, *_names(each))
    return Deed(f"kubectl deletes each {kind}: {len(found)}")


# What is no override.


def marks(hand: Hand, free: Free) -> Deed | None:
    """Somebody asks a process to leave a dependent alone, and takes that back later with kubectl."""
    namespace, ref = hand.shoot(), hand.dependent()
    claim = f"dependent/{namespace}/{ref}"
    if not free(claim):
        return None
    force = hand.rng.random() < 0.5
    order = IgnoreRequest(namespace, ref, True, _AUTHOR, "mine", force)  # noqa: FBT003  it is to be ignored
    asked = _ask(
        hand, f"ignore {namespace}/{ref}", lambda _, prober: prober.dependents.set_ignored(order)
    )
    if asked is None:
        return None
    return Deed(asked.what, claim, lambda: heed(hand, namespace, ref))


def heed(hand: Hand, namespace: str, ref: ResourceRef) -> None:
    """Somebody takes ignore-scaling back, where it is."""
    if hand.world.store.find(ObjectKey(ref.kind, namespace, ref.name)) is not None:
        hand.world.patch(namespace, ref, {"metadata": {"annotations": {ann.IGNORE_SCALING: None}}})


def probes(hand: Hand, free: Free) -> Deed | None:
    """Somebody wants a probe now."""
    del free
    namespace = hand.shoot()

    async def probe(_: "Process", prober: Prober) -> None:
        prober.scaling_runs.probe_now(namespace)

    return _ask(hand, f"probe {namespace}", probe, leader=True)


ACTS: Final[dict[str, Act[Hand]]] = {
    "pauses": Act(6, (5.0, 200.0), pauses),
    "resumes": Act(2, (0.0, 0.0), resumes),
    "edits a pause": Act(2, (0.0, 0.0), edits_pause),
    "pauses for a newer version": Act(1, (1.0, 100.0), pauses_for_a_newer_version),
    "scales by hand": Act(6, (0.0, 0.0), scales),
    "cancels a flow": Act(2, (0.0, 0.0), cancels),
    "scales with kubectl": Act(4, (0.0, 0.0), scales_with_kubectl),
    "ends a hold": Act(2, (0.0, 0.0), ends_hold),
    "edits a status": Act(4, (0.0, 0.0), edits_status),
    "is refused": Act(1, (0.0, 0.0), errs),
    "deletes all": Act(1, (0.0, 0.0), deletes_all),
    "has it ignored": Act(2, (10.0, 200.0), marks),
    "asks for a look": Act(2, (0.0, 0.0), probes),
}
