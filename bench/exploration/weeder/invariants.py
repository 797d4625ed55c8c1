"""What must be true in every world of the weeder; each returns what is wrong, or None.

They are held against what truly happened and what the process was told, never against the weeder's own words.
"""

from collections.abc import Callable
from itertools import takewhile
from typing import Final

from bench.exploration.weeder.facts import Accepted, Sending, backoff_left, ends, owner_of
from bench.exploration.weeder.ledger import WeederLedger
from bench.exploration.weeder.process import WeederProcess

_WOKEN: Final = 1.0
"""For so long after it stood still a process may send what it had been given a turn for, seconds."""
_SLIP: Final = 1e-6


# When a process sends a deletion.


def no_deletion_while_not_leader(
    ledger: WeederLedger, process: WeederProcess, sending: Sending
) -> str | None:
    """Who has not renewed within the renew deadline starts no deletion any more (8)."""
    if ledger.leads(process.name):
        return None
    return f"{process.name} deletes {sending.name} and does not lead"


def no_deletion_under_a_pause(
    ledger: WeederLedger, process: WeederProcess, sending: Sending
) -> str | None:
    """Nothing is deleted where it is paused, nor before it is known what is (6, Start, Pause)."""
    now = ledger.now
    if not process.told.known(now):
        return f"{sending.name} is deleted before it is known what is paused"
    why = process.told.pause(sending.namespace, now, down=False)
    return None if why is None else f"{sending.name} is deleted, and {why} is paused"


def nothing_is_deleted_where_nothing_recovers(
    ledger: WeederLedger, process: WeederProcess, sending: Sending
) -> str | None:
    """A service of the namespace came back before, as the process was told, and its time is not over (6)."""
    if sending.services or ledger.wakes_now(process.name):
        return None
    return (
        f"{sending.namespace}/{sending.name} is deleted, and no service of its namespace recovers"
    )


def never_more_than_the_budget(
    ledger: WeederLedger, process: WeederProcess, sending: Sending
) -> str | None:
    """All deletions of a process together are within `--max-deletions-per-second` in any second (6, Budgets)."""
    recent = takewhile(
        lambda each: each.at > sending.at - 1.0 + _SLIP, reversed(ledger.sent[process.name])
    )
    number, most = sum(1 for _ in recent), ledger.recipe.deletions_a_second
    if sending.at - ledger.woke.get(process.name, float("-inf")) <= _WOKEN:
        most *= 2  # its turns were given out before
    return None if number <= most else f"{number} deletions within a second, {most} are allowed"


# When a deletion is accepted.


def no_pod_is_deleted_twice(ledger: WeederLedger, accepted: Accepted) -> str | None:
    """One accepted deletion per uid (6, Caps)."""
    sending = accepted.sending
    if (before := ledger.gone.get(sending.uid)) is None:
        return None
    return f"{sending.process} deletes {sending.name}, which {before} has deleted"


def only_what_waits_is_deleted(ledger: WeederLedger, accepted: Accepted) -> str | None:
    """At the time of its deletion it waits in CrashLoopBackOff, for long, and is not terminating (6)."""
    sending, pod = accepted.sending, accepted.pod
    if pod["metadata"]["uid"] != sending.uid:
        return f"{sending.name} is another pod than the one that was judged"
    if ends(pod):
        return f"{sending.name} is terminating already"
    left, least = backoff_left(pod, sending.at), ledger.policy.min_backoff_remaining
    if left is None:
        return f"no container of {sending.name} waits in CrashLoopBackOff"
    return None if left > least else f"{sending.name} waits only {left:.3f} s more"


def only_what_depends_is_deleted(ledger: WeederLedger, accepted: Accepted) -> str | None:
    """A selector of a service that recovers matches it (6, Recovery)."""
    sending, services = accepted.sending, ledger.selecting(accepted.pod)
    if services & sending.services:
        return None
    if not sending.services and sending.at == ledger.woke.get(sending.process):
        return None  # it was sent in the instant in which the process went on
    named = [", ".join(sorted(each)) or "none" for each in (services, sending.services)]
    return f"{sending.name} depends on {named[0]}; {named[1]} recovers"


def bare_pods_are_left_alone(ledger: WeederLedger, accepted: Accepted) -> str | None:
    """Nobody would make them anew; unless `weedBarePods` (6)."""
    if ledger.policy.weed_bare_pods or owner_of(accepted.pod) is not None:
        return None
    return f"{accepted.sending.name} is bare"


def never_more_than_the_cap(ledger: WeederLedger, accepted: Accepted) -> str | None:
    """Of one owner no more within `watchDuration`, by the times of sending, than it had pods or the policy allows (6).

    Of one process: after a restart the count begins anew, as the weeder keeps nothing.
    """
    sending, owner = accepted.sending, owner_of(accepted.pod)
    if owner is None:
        return None  # its uid is its own
    since = sending.at - ledger.policy.watch_duration + _SLIP
    mine = ledger.accepted[sending.process]
    number = 1 + sum(each.sending.at > since and owner_of(each.pod) == owner for each in mine)
    most = max(ledger.policy.max_deletions_per_workload, ledger.most_pods(owner))
    return (
        None if number <= most else f"{number} deletions of pods like {sending.name}, {most} may be"
    )


# From time to time.


def no_watch_outlasts_its_recovery(ledger: WeederLedger, process: WeederProcess) -> str | None:
    """Pods are watched only while a service recovers, and once for each (6, Recovery)."""
    if process.sight is None or process.machine.paused:
        return None
    if ledger.now - ledger.woke.get(process.name, float("-inf")) <= _WOKEN:
        return None
    watches = process.line.open_watches("pods")
    for namespace in (plane.namespace for plane in ledger.recipe.planes):
        if not (number := watches[namespace]):
            continue
        recovering = process.sight.recovering(namespace)
        if number > len(recovering):
            text = ", ".join(sorted(recovering)) or "nothing"
            return f"{number} watches of pods in {namespace}, where {text} recovers"
    return None


OnSending = Callable[[WeederLedger, WeederProcess, Sending], str | None]
OnAccepted = Callable[[WeederLedger, Accepted], str | None]
ON_SENDING: Final[tuple[OnSending, ...]] = (
    no_deletion_while_not_leader,
    no_deletion_under_a_pause,
    nothing_is_deleted_where_nothing_recovers,
    never_more_than_the_budget,
)
ON_ACCEPTED: Final[tuple[OnAccepted, ...]] = (
    no_pod_is_deleted_twice,
    only_what_waits_is_deleted,
    only_what_depends_is_deleted,
    bare_pods_are_left_alone,
    never_more_than_the_cap,
)
