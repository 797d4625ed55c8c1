"""What must be true in every world, whatever happens in it; each returns what is wrong, or None.

They are held against the ledger, that is, against what truly happened, and never against the watchdog's own words.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from app.core.model import workloads as ann
from app.prober.rules.leases import READING
from bench.exploration.facts import (
    Change,
    Dependent,
    OverrideChange,
    Reading,
    StatusSending,
    key,
)
from bench.exploration.ledger import Ledger
from bench.exploration.line import Sending
from bench.exploration.wishes import Wish, read

LIVE_READS: Final = READING
"""What reading live may add between a reading and its verdict, seconds."""
_SLACK: Final = 0.5
_OVER: Final = 3_600.0
"""A Pause stays so long after its end, seconds."""
_OPEN: Final = frozenset({"Pending", "Running"})
_IN_TURN: Final = 10.0
"""Seconds for which what a process begins may have been decided before it was told of something older."""


def _recent(ledger: Ledger, sending: Sending) -> list[Reading]:
    """The readings that a verdict which still counts may rest on: a HOLD holds a scaling run back, and then ends it."""
    patience = 3 * ledger.policy.suspect_interval
    since = ledger.now - patience - READING - LIVE_READS - _SLACK
    known = ledger.knowledge(sending.process, sending.namespace)
    return [each for each in known.readings if each.sent >= since]


# When a process sends a write.


def no_scale_down_without_an_outage(ledger: Ledger, sending: Sending) -> str | None:
    """Scale-down rests on a complete, consistent, fresh reading at which enough kubelets were truly late (4.1).

    Unless a person has ordered it (7).
    """
    if not sending.down or ledger.by_hand(sending) is not None:
        return None
    recent = _recent(ledger, sending)
    if any(each.late for each in recent):
        return None
    last = recent[-1].detail if recent else "there was no reading"
    return f"{sending.ref} goes down without an outage that could be known: {last}"


def no_scale_down_without_confirmation(ledger: Ledger, sending: Sending) -> str | None:
    """A scale-down that writes is confirmed by a consistent reading of Nodes and Leases (4.1, Confirm; 3, step 3)."""
    if not sending.down or ledger.by_hand(sending) is not None:
        return None
    nodes = ledger.knowledge(sending.process, sending.namespace).nodes
    recent = [each.sent for each in _recent(ledger, sending) if each.late]
    if any(answered <= sent for sent in recent for answered in nodes[-5:]):
        return None
    return f"{sending.ref} goes down without a second, consistent reading"


def no_scale_up_in_an_outage(ledger: Ledger, sending: Sending) -> str | None:
    """Scale-up rests on a reading, and no protection ends while its outage lasts (4.1; 3.1, Simulated).

    Unless a person has ordered it, or it has lasted for `maxProtectionDuration` (7; 1).
    """
    if not sending.up or ledger.by_hand(sending) is not None:
        return None
    recent = _recent(ledger, sending)
    if not recent:
        return f"{sending.ref} goes up, and no reading says so"
    if ledger.protected(sending.namespace) and all(each.lost for each in recent):
        return f"{sending.ref} goes up in an outage: {recent[-1].detail}"
    return None


def no_write_while_not_leader(ledger: Ledger, sending: Sending) -> str | None:
    """Who has not renewed within the renew deadline starts no write any more (8); one already sent may land.

    Any replica takes ignore-scaling (7).
    """
    if sending.marks or ledger.leads(sending.process):
        return None
    return f"{sending.process} writes {sending.ref} and does not lead"


def no_write_to_a_shoot_that_is_not_probed(ledger: Ledger, sending: Sending) -> str | None:
    """Stopping never scales anything: hibernation, deletion and migration belong to gardenlet (2).

    Unless a person has forced it (7).
    """
    since, order = ledger.standing(sending.namespace).not_probed_since, ledger.by_hand(sending)
    if sending.marks or (order is not None and order.force):
        return None
    if since is None or ledger.now - since <= ledger.lag() or ledger.just_woken(sending.process):
        return None
    return (
        f"{sending.ref} is written {ledger.now - since:.1f} s after its shoot was to be left alone"
    )


def no_automatic_write_under_a_pause(ledger: Ledger, sending: Sending) -> str | None:
    """From when a process was told of a pause until its end it scales nothing that way by itself (7; 4.3).

    Not even a write more of a scaling run that runs: only a request that was sent before is finished.
    """
    if sending.marks or ledger.by_hand(sending) is not None:
        return None
    told = ledger.told(sending.process)
    pause = told.pause(sending.namespace, ledger.now, down=sending.down)
    return None if pause is None else f"{sending.ref} is written under the Pause {pause}"


def no_automatic_write_under_a_hold(ledger: Ledger, sending: Sending) -> str | None:
    """From the creation of a ScaleRequest until its hold has ended no verdict scales anything (7; 4.3)."""
    if sending.marks or ledger.by_hand(sending) is not None:
        return None
    held = ledger.told(sending.process).held(sending.namespace, ledger.now)
    if held is None or ledger.wakes_now(sending.process):
        return None
    return f"{sending.ref} is written under the hold of {held}"


def no_automatic_write_before_the_overrides_are_known(
    ledger: Ledger, sending: Sending
) -> str | None:
    """Nothing is scaled by a verdict before the overrides were read, or may count as none (4.1, Synced; 7)."""
    if sending.marks or ledger.by_hand(sending) is not None:
        return None
    if ledger.told(sending.process).known(ledger.now):
        return None
    return f"{sending.ref} is written before it is known what is paused"


# When a process sends the status of an override, and when an override has changed.


def no_status_while_not_leader(ledger: Ledger, sending: StatusSending) -> str | None:
    """Only the leader carries out ScaleRequests, and shows when Pauses end (7; 8)."""
    if ledger.leads(sending.process):
        return None
    return f"{sending.process} writes the status of {_place(sending.key)} and does not lead"


def what_has_ended_stays_so(ledger: Ledger, change: OverrideChange) -> str | None:
    """Nothing of ours is written over an end, whoever wrote that; and nothing that has begun waits again (7).

    To an end that somebody wrote by hand a leader adds what is missing.
    """
    del ledger
    if change.key.kind != "ScaleRequest" or change.before is None or change.after is None:
        return None
    before, after = change.phases
    completed = before == after and not (change.before.get("status") or {}).get("endedAt")
    if change.process is None or (before not in _OPEN and completed):
        return None
    if before in _OPEN and not (before == "Running" and after == "Pending"):
        return None
    return f"{change.process} took {_place(change.key)} from {before} to {after}"


def what_the_first_leader_saw_stays(ledger: Ledger, change: OverrideChange) -> str | None:
    """When a run began, and the replicas before it, are those that were written first (7)."""
    del ledger
    if change.key.kind != "ScaleRequest" or change.process is None or change.after is None:
        return None
    before, after = (dict(_first_seen(each)) for each in (change.before, change.after))
    for what, value in before.items():
        if after.get(what) != value:
            return (
                f"{change.process} took {what} of {_place(change.key)} from {value} to "
                f"{after.get(what)}"
            )
    return None


def _first_seen(obj: Mapping[str, Any] | None) -> Iterator[tuple[str, object]]:
    status = (obj or {}).get("status") or {}
    found = {"startedAt": status.get("startedAt")}
    for step in status.get("steps") or ():
        found |= {f"{step['resource']} {what}": step.get(what) for what in ("before", "startedAt")}
    return ((what, value) for what, value in found.items() if value is not None)


def requests_are_carried_out_one_by_one_and_in_their_order(
    ledger: Ledger, change: OverrideChange
) -> str | None:
    """A shoot's ScaleRequests run one at a time, the oldest first (7)."""
    if change.key.kind != "ScaleRequest" or change.process is None or change.after is None:
        return None
    if change.phases != ("Pending", "Running"):
        return None
    mine = read(change.before or change.after, ledger.now)
    begun = ledger.begun[change.process, change.key]
    there = {each.uid for each in ledger.wishes()} - {mine.uid}
    for other in ledger.told(change.process).orders(change.key.namespace, ledger.now):
        told = other.uid in there and other.seen < begun - _IN_TURN
        if told and _first(other) < _first(mine):
            return f"{change.process} begins {_place(mine.key)} before {_place(other.key)}"
    return None


def _first(wish: Wish) -> tuple[bool, float, str]:
    waits = wish.order is not None and wish.order.phase == "Pending"
    return waits, wish.created, wish.key.name


def nothing_is_deleted_that_people_want(ledger: Ledger, change: OverrideChange) -> str | None:
    """A process deletes what people asked it to, and Pauses that ended an hour ago (7)."""
    if change.process is None or change.after is not None or change.before is None:
        return None
    pausing = read(change.before, ledger.now).pausing
    if pausing is not None and pausing.until + _OVER <= ledger.now:
        return None
    if change.key in ledger.asked_to_end:
        return None
    return f"{change.process} deletes {_place(change.key)}, and nobody asked for that"


def _place(where: tuple[str, str, str]) -> str:
    kind, namespace, name = where
    return f"{kind} {namespace}/{name}"


# When a dependent has changed.


def nothing_is_scaled_that_is_not_configured(ledger: Ledger, change: Change) -> str | None:
    """Only configured dependents of probed shoots are ever written (1; 4.3)."""
    configured = {each.ref for each in ledger.policy.dependents}
    touched = change.after or change.before
    if change.process is None or touched is None:
        return None
    if change.key.namespace in ledger.world.shoots and touched.ref in configured:
        return None
    return f"{change.process} wrote {change.key.namespace}/{touched.ref}, which is not configured"


def nothing_is_scaled_that_is_to_be_ignored(ledger: Ledger, change: Change) -> str | None:
    """What has ignore-scaling keeps its replicas and its saved count (4.3, step 1)."""
    del ledger
    before, after = change.before, change.after
    if change.process is None or before is None or after is None or not before.ignored:
        return None
    kept = before.annotations.get(ann.REPLICAS) == after.annotations.get(ann.REPLICAS)
    if before.replicas == after.replicas and kept:
        return None
    return f"{change.process} scaled {change.key.namespace}/{before.ref}, which is to be ignored"


def a_saved_count_is_never_lost(ledger: Ledger, change: Change) -> str | None:
    """What we take to 0 knows its count in the same instant, and comes back with it (4.3, steps 3 and 4)."""
    del ledger
    before, after = change.before, change.after
    if change.process is None or before is None or after is None:
        return None
    if (wrong := _wrong_count(before, after)) is None:
        return None
    return (
        f"{change.process} took {change.key.namespace}/{before.ref} from {_shown(before)} to "
        f"{_shown(after)}: {wrong}"
    )


def _wrong_count(before: Dependent, after: Dependent) -> str | None:
    if before.replicas and not after.replicas:
        known = before.saved if before.protected else None
        expected = max(before.replicas, known or 0)
        if after.saved != expected or not after.protected:
            return f"it must know that it was {expected}, and carry the meltdown key"
    elif after.replicas and not before.replicas:
        if after.replicas != (before.saved or 1):
            return f"it must come back with {before.saved or 1}"
    elif not after.replicas and after.annotations.get(ann.REPLICAS) != before.annotations.get(
        ann.REPLICAS
    ):
        return "its saved count has changed while it is at 0"
    return None


def what_is_at_zero_by_our_hand_says_so(ledger: Ledger, change: Change) -> str | None:
    """While something is at 0 by our hand it has its count and its key, at every instant (4.3, step 3)."""
    after = change.after
    if after is None or after.replicas or change.process is None:
        return None
    if change.before is not None and only_marked(change.before, after):
        return None  # what was to be ignored has lost its key for that; the next scaling run sees to it
    ours = after.ref in ledger.standing(change.key.namespace).ours
    if ours and not after.ignored and (after.saved is None or not after.protected):
        return f"{change.key.namespace}/{after.ref} is at 0 by our hand with {_shown(after)}"
    return None


def only_marked(before: Dependent, after: Dependent) -> bool:
    """Whether the change was one of ignore-scaling alone."""
    mark = {ann.IGNORE_SCALING: ""}
    same = {**before.annotations, **mark} == {**after.annotations, **mark}
    return same and before.replicas == after.replicas


def _shown(each: Dependent) -> str:
    keys = {key.removeprefix(ann.PREFIX): value for key, value in sorted(each.annotations.items())}
    return f"{each.replicas} {keys}"


# When everything has been right for long enough.


def every_shoot_is_as_it_should_be(
    ledger: Ledger, namespace: str, state: str, *, few: bool
) -> str | None:
    """60 s, the configured delays and the flapping time after the last fault nothing is left of it (4.1, 4.3).

    `few`: it had fewer than two candidates, so what somebody else took to 0 may stay there.
    """
    vanished = not ledger.policy.endpoint_mode and not ledger.world.candidates(namespace)
    if state != "Healthy" and not (vanished and state == "Suspect"):  # it stays what it was (4.5)
        return f"{namespace} is {state}"
    for each in ledger.policy.dependents:
        found = ledger.world.store.find(key(namespace, each.ref))
        if found is None:
            return f"{namespace}/{each.ref} is gone"
        if (wrong := _left(Dependent.of(found), few=few)) is not None:
            return f"{namespace}/{each.ref} {wrong}"
    return None


def what_was_begun_by_hand_is_finished(
    waiting: Mapping[str, tuple[frozenset[str], float]], latest: float
) -> str | None:
    """Each ScaleRequest ends, in its turn, whichever leader began it, and its status says so (7).

    `waiting`: the ScaleRequests of each shoot that have not ended, and since when these are the ones; `latest`: the
    first of those of before had time enough.
    """
    for namespace, (names, since) in waiting.items():
        if names and since < latest:
            return f"of {', '.join(sorted(names))} in {namespace} none has ended"
    return None


def _left(each: Dependent, *, few: bool) -> str | None:
    """What is left of the faults on a dependent."""
    if (
        each.ignored
    ):  # somebody was late to ask for that: it keeps what it has, but for the meltdown key
        return "is to be ignored, and still has the meltdown key" if each.protected else None
    if not each.annotations.keys() <= {ann.IGNORE_SCALING}:
        return f"still has {_shown(each)}"
    # Without our keys it was somebody else's 0; where only `scale` shows a size, nobody asks for nothing.
    may_stay = few or not each.ref.has_replicas
    return None if each.replicas or may_stay else f"is still at 0 with {_shown(each)}"


ON_SENDING: Final[tuple[Callable[[Ledger, Sending], str | None], ...]] = (
    no_write_while_not_leader,
    no_write_to_a_shoot_that_is_not_probed,
    no_automatic_write_under_a_pause,
    no_automatic_write_under_a_hold,
    no_automatic_write_before_the_overrides_are_known,
)
ON_STATUS: Final[tuple[Callable[[Ledger, StatusSending], str | None], ...]] = (
    no_status_while_not_leader,
)
ON_OVERRIDE: Final[tuple[Callable[[Ledger, OverrideChange], str | None], ...]] = (
    what_has_ended_stays_so,
    what_the_first_leader_saw_stays,
    requests_are_carried_out_one_by_one_and_in_their_order,
    nothing_is_deleted_that_people_want,
)
BY_LEASES: Final[tuple[Callable[[Ledger, Sending], str | None], ...]] = (
    no_scale_down_without_an_outage,
    no_scale_down_without_confirmation,
    no_scale_up_in_an_outage,
)
"""In lease mode, besides; `path_invariants` has those of endpoint mode."""
ON_CHANGE: Final[tuple[Callable[[Ledger, Change], str | None], ...]] = (
    nothing_is_scaled_that_is_not_configured,
    nothing_is_scaled_that_is_to_be_ignored,
    a_saved_count_is_never_lost,
    what_is_at_zero_by_our_hand_says_so,
)
