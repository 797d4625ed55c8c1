"""What operators decide: pauses, scaling runs by hand, holds; through a process, as its API would, or with kubectl."""

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS, IgnoreRequest, Pause, Scope
from app.core.model.scaling_runs import ScaleRequest, Trigger
from app.core.model.workloads import Direction, ResourceRef
from app.prober.controller import Prober
from app.simulation.store import ObjectKey
from bench.exploration.draws import Hand
from bench.exploration.people import Act, Deed, Free
from bench.exploration.wishes import read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.exploration.process import Process

_AUTHOR: Final = "alice"
GARBAGE: Final = (
    "{",
    "[]",
    '"paused"',
    '{"pause": "please"}',
    '{"paused": {}}',
    '{"pause": {"scope": "scaledown"}}',
    '{"pause": {"until": "tomorrow"}}',
    '{"pause": {"for": "1h"}}',
    '{"hold": {"direction": "sideways"}}',
)
"""What no key may say."""
_LONGEST: Final = 200.0
"""Of what people ask for in the worlds: their ends have to be seen, seconds."""


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


def _key(hand: Hand) -> str:
    return ALL_SHOOTS if hand.rng.random() < 0.25 else hand.shoot()


# With kubectl.


def _edit(hand: Hand, key: str, kind: str, entry: dict[str, Any] | None) -> None:
    """Writes one entry, or removes it, beside what can be read there; what cannot be read goes."""
    found = _entries(hand, key)
    kept = {name: each for name, each in found.items() if name != kind}
    whole = kept if entry is None else {**kept, kind: entry}
    if entry is None and key not in hand.world.overrides_editor.data():
        return
    hand.world.overrides_editor.edit({key: json.dumps(whole) if whole else None})


def _entries(hand: Hand, key: str) -> dict[str, Any]:
    """What is there, where it can be read."""
    text = hand.world.overrides_editor.data().get(key, "{}")
    found: dict[str, Any] = json.loads(text) if read(text, hand.world.clock.now()).readable else {}
    return found


def _until(hand: Hand, seconds: float) -> str:
    return rfc3339(hand.world.clock.now() + seconds)


# Pauses.


def pauses(hand: Hand, free: Free) -> Deed | None:
    """Somebody pauses a shoot or all, for a while, or until somebody resumes it."""
    key, scope = _key(hand), hand.rng.choice((Scope.ALL, Scope.ALL, Scope.SCALE_DOWN))
    claim, seconds = f"pause/{key}", hand.between(1.0, _LONGEST)
    if not free(claim):
        return None
    if hand.rng.random() < 0.4:
        entry: dict[str, Any] = hand.rng.choice(
            (
                {},
                {"reason": "hands off", "scope": str(scope)},
                {"scope": str(scope), "until": _until(hand, seconds)},
            )
        )
        _edit(hand, key, "pause", entry)
        what = f"kubectl pauses {key}: {entry}"
    else:
        now = hand.world.clock.now()
        pause = Pause(scope, "hands off", _AUTHOR, now, now + seconds)
        asked = _ask(
            hand,
            f"pause {key}, {scope}, for {seconds} s",
            lambda process, _: process.override_service.set_pause(key, pause),
        )
        if asked is None:
            return None
        what = asked.what
    return Deed(what, claim, lambda: _edit(hand, key, "pause", None))


def resumes(hand: Hand, free: Free) -> Deed | None:
    """Somebody ends a pause, if there is one."""
    del free
    key = _key(hand)
    return _ask(
        hand,
        f"resume {key}",
        lambda process, _: process.override_service.end_pause(key, by=_AUTHOR),
    )


# Scaling runs by hand, and their holds.


def scales(hand: Hand, free: Free) -> Deed | None:
    """Somebody scales a shoot down or up, and wants that to stay for a while."""
    del free
    order = ScaleRequest(
        hand.shoot(),
        hand.rng.choice(list(Direction)),
        "as I say",
        _AUTHOR,
        hold=hand.between(1.0, _LONGEST),
        force=hand.rng.random() < 0.5,
    )
    force = " with force" if order.force else ""
    what = f"scale {order.namespace} {order.direction}{force}, hold {order.hold} s"
    regrets = hand.between(0.0, 5.0) if hand.rng.random() < 0.3 else None

    async def scale(process: "Process", prober: Prober) -> None:
        began = await prober.scaling_runs.begin(order)
        if regrets is not None:
            process.asked(f"cancel {began.id}", partial(_cancel, hand, regrets))

    return _ask(hand, what, scale, leader=True)


async def _cancel(hand: Hand, after: float, _: "Process", prober: Prober) -> None:
    """Cancels a scaling run by hand that runs then, whoever began it."""
    await hand.world.clock.sleep(after)
    for each in prober.scaling_runs.operations():
        if each.running and each.trigger is Trigger.MANUAL:
            await prober.scaling_runs.cancel(each.id, by=_AUTHOR)
            return


def cancels(hand: Hand, free: Free) -> Deed | None:
    """Somebody cancels a scaling run that he finds running."""
    del free
    return _ask(hand, "cancel what runs", partial(_cancel, hand, 0.0), leader=True)


def orders_with_kubectl(hand: Hand, free: Free) -> Deed | None:
    """Somebody writes a hold himself: one that is just to stay, or one whose scaling run the leader has to carry on."""
    del free
    namespace, direction = hand.shoot(), hand.rng.choice(list(Direction))
    entry: dict[str, Any] = {"reason": "by kubectl", "until": _until(hand, hand.between(5, 100))}
    if hand.rng.random() < 0.7:
        number = hand.rng.randrange(1 << 32)
        order = {"direction": str(direction), "operation": f"{number:08x}-1", "done": False}
        entry |= {**order, "force": hand.rng.random() < 0.5}
    _edit(hand, namespace, "hold", entry)
    return Deed(f"kubectl holds {namespace}: {entry}")


def ends_hold(hand: Hand, free: Free) -> Deed | None:
    """Somebody ends a hold, and so cancels its scaling run."""
    del free
    namespace = hand.shoot()
    if "hold" not in _entries(hand, namespace):
        return None
    if hand.rng.random() < 0.5:
        _edit(hand, namespace, "hold", None)
        return Deed(f"kubectl ends the hold of {namespace}")
    return _ask(
        hand,
        f"end the hold of {namespace}",
        lambda process, _: process.override_service.end_hold(namespace, by=_AUTHOR),
    )


# Mistakes.


def spoils_overrides(hand: Hand, free: Free) -> Deed | None:
    """Somebody writes what cannot be read, and removes it later."""
    key, text = _key(hand), hand.rng.choice(GARBAGE)
    claim = f"garbage/{key}"
    if not free(claim):
        return None
    editor = hand.world.overrides_editor
    editor.edit({key: text})

    def undo() -> None:
        if editor.data().get(key) == text:
            editor.edit({key: None})

    return Deed(f"kubectl writes {text} under {key}", claim, undo)


def deletes_overrides(hand: Hand, free: Free) -> Deed | None:
    """Somebody deletes the whole ConfigMap."""
    del free
    if not hand.world.overrides_editor.data():
        return None
    hand.world.overrides_editor.delete()
    return Deed("kubectl deletes the overrides")


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
    "pauses": Act(5, (5.0, 200.0), pauses),
    "resumes": Act(2, (0.0, 0.0), resumes),
    "scales by hand": Act(6, (0.0, 0.0), scales),
    "cancels a flow": Act(2, (0.0, 0.0), cancels),
    "holds with kubectl": Act(2, (0.0, 0.0), orders_with_kubectl),
    "ends a hold": Act(2, (0.0, 0.0), ends_hold),
    "spoils the overrides": Act(2, (1.0, 100.0), spoils_overrides),
    "deletes the overrides": Act(1, (0.0, 0.0), deletes_overrides),
    "has it ignored": Act(2, (10.0, 200.0), marks),
    "asks for a look": Act(2, (0.0, 0.0), probes),
}
