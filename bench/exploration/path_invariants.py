"""What must be true where two paths decide, and a gate beside them; each returns what is wrong, or None.

They stand in the place of what `invariants` holds against leases.
"""

from collections.abc import Callable
from typing import Final

from app.core.model.shoots import Route
from app.prober.rules.leases import READING
from app.simulation.traffic import Host, SimulatedRequest
from bench.exploration.ledger import Ledger
from bench.exploration.line import Sending
from bench.exploration.paths import Attempt, Came, streaks

_ATTEMPT: Final = 5.0
_SLACK: Final = 0.5
_ROUNDING: Final = 1e-3
"""Of instants of this size; no request takes so little."""
_JUST_CLOSED: Final = 1.0
"""A gate that has closed within this may have been asked before."""
_NODES: Final = frozenset({"leases", "nodes", "contact"})


def _since(ledger: Ledger) -> float:
    """From when on an attempt may be the last one of a verdict that still counts: a HOLD delays a scaling run.

    To that come the confirming attempt and what is read live of the seed.
    """
    patience = 3 * ledger.policy.suspect_interval
    return ledger.now - patience - _ATTEMPT - READING - _SLACK


def _attempts(ledger: Ledger, sending: Sending) -> list[Attempt]:
    return ledger.paths.ended(sending.process, sending.namespace, ledger.now)


def _asking(
    ledger: Ledger, sending: Sending, came: Came, threshold: int, since: float | None = None
) -> list[Attempt]:
    """The external attempts with which a threshold was reached, and which a verdict may rest on."""
    since = _since(ledger) if since is None else since
    return [
        each
        for each, count in streaks(_attempts(ledger, sending))
        if each.came is came and count >= threshold and each.ended >= since
    ]


def _failing(ledger: Ledger, sending: Sending, since: float | None = None) -> list[Attempt]:
    return _asking(ledger, sending, Came.NOTHING, ledger.policy.failure_threshold, since)


def _confirmed(ledger: Ledger, sending: Sending, since: float | None = None) -> list[float]:
    """When the internal path had answered after one of those."""
    failing = [each.ended for each in _failing(ledger, sending, since)]
    return [
        each.ended
        for each in _attempts(ledger, sending)
        if each.route is Route.INTERNAL
        and each.came is Came.VERSION
        and any(ended <= each.sent + _ROUNDING for ended in failing)
    ]


def no_scale_down_while_the_external_path_leads_there(
    ledger: Ledger, sending: Sending
) -> str | None:
    """Scale-down rests on `failureThreshold` attempts in a row that have truly failed as a path (4.2).

    Unless a person has ordered it (7).
    """
    if not sending.down or ledger.by_hand(sending) is not None or _failing(ledger, sending):
        return None
    return (
        f"{sending.ref} goes down, and the external path has not failed: {_told(ledger, sending)}"
    )


def no_scale_down_without_the_internal_path(ledger: Ledger, sending: Sending) -> str | None:
    """After the last of them the internal path has answered once more: a seed must not blame others (4.2).

    What has begun needs no more than the probe's own internal attempt where a gate is closed meanwhile: it is not asked
    once more then, and a gate ends nothing (5).
    """
    if not sending.down or ledger.by_hand(sending) is not None or _confirmed(ledger, sending):
        return None
    gates = ledger.paths.gates(sending.process, sending.namespace)
    failing = _failing(ledger, sending)
    gated = any(gate.closed_at(each.ended) for gate in gates for each in failing)
    if gated and ledger.protected(sending.namespace):
        return None
    return f"{sending.ref} goes down, and no internal attempt came after: {_told(ledger, sending)}"


def no_scale_down_behind_a_closed_gate(ledger: Ledger, sending: Sending) -> str | None:
    """Nothing begins to be scaled down on a verdict that was found while all targets of a gate failed (5).

    A gate of pods is open while it is not known which pods there are. While the seed refuses connections, a scaling run
    that has begun sends nothing.
    """
    if not sending.down or ledger.by_hand(sending) is not None:
        return None
    begun = ledger.going_down(sending.process, sending.namespace)
    if begun or ledger.protected(sending.namespace):
        return None  # a gate that closes now ends nothing
    since = min(_since(ledger), ledger.turned_away_since(sending.process) - READING)
    found = _confirmed(ledger, sending, since)
    for gate in ledger.paths.gates(sending.process, sending.namespace):
        if gate.of_pods and ledger.pods_unknown():
            continue
        closed = [gate.closed_at(at) and gate.closed_at(at - _JUST_CLOSED) for at in found]
        if closed and all(closed):
            return f"{sending.ref} goes down, and a gate is closed"
    return None


def no_scale_up_while_the_external_path_is_away(ledger: Ledger, sending: Sending) -> str | None:
    """Scale-up rests on `successThreshold` attempts in a row by which a version truly came (4.2).

    Unless a person has ordered it, or it has lasted for `maxProtectionDuration` (7; 1).
    """
    if not sending.up or ledger.by_hand(sending) is not None:
        return None
    if _asking(ledger, sending, Came.VERSION, ledger.policy.success_threshold):
        return None
    return f"{sending.ref} goes up, and the external path is not back: {_told(ledger, sending)}"


def nothing_of_nodes_is_read(request: SimulatedRequest) -> str | None:
    """No Machine, Node or Lease is read: they decide nothing (4.2)."""
    of_nodes = request.host is Host.SHOOT and request.what in _NODES
    if of_nodes or "machines" in request.what:
        return f"{request.host} {request.verb} {request.what} {request.namespace}"
    return None


def _told(ledger: Ledger, sending: Sending) -> str:
    """The last attempts, for whoever reads the violation."""
    last = _attempts(ledger, sending)[-8:]
    texts = (f"{a.route} {ledger.now - a.sent:.1f} s ago {a.outcome or 'no answer'}" for a in last)
    return ", ".join(texts) or "there was no attempt"


ON_SENDING: Final[tuple[Callable[[Ledger, Sending], str | None], ...]] = (
    no_scale_down_while_the_external_path_leads_there,
    no_scale_down_without_the_internal_path,
    no_scale_down_behind_a_closed_gate,
    no_scale_up_while_the_external_path_is_away,
)
