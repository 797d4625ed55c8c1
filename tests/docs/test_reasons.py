"""docs/api.md has every reason beside the states that it comes with, and no other."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

from app.core.model.overrides import EffectiveOverrides, Hold, Pause, Scope
from app.core.model.policy import ProberPolicy
from app.core.model.probing import (
    Decision,
    Exclusion,
    Failure,
    LeaseCounts,
    PathReading,
    ShootState,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.shoots import ClusterView, LastOperation, ShootView, Undecodable, WorkerPool
from app.core.model.workloads import Direction
from app.prober.rules import lifecycle, state, verdict
from app.prober.rules.lifecycle import LifecycleAction
from app.prober.rules.state import LastDirection, StateInputs
from app.prober.rules.verdict import NO_RESULTS, Preconditions, VerdictOutcome

PAGE: Final = Path(__file__).parents[2] / "docs/api.md"
UNDER_PROTECTION: Final = "protected"
"""In the column of states: only there."""
NOW: Final = 1_800_000_000.0
LIMIT: Final = 0.6

OF_LOOKS: Final = frozenset(VerdictReason) - {
    *("LeasesRenewed", "SomeLeasesExpired", "LeasesExpired", "UnknownLeases"),
    *("NoCandidates", "OneCandidate", "FewCandidates", "NoNodes"),
    *("ExternalReachable", "ExternalUnreachable", "Counting", "Gated", "NotConfirmed"),
    *("InitialDelay", "Held", "Paused", "Ignored", "NotLeader"),
}
"""Of probes that failed: what is left when all that comes of a reading alone is taken away."""
PAUSE: Final = Pause(Scope.ALL, "works", "alice", NOW, NOW + 600)
PAUSED: Final = EffectiveOverrides(pause=PAUSE, pauses=(PAUSE,))
HELD: Final = EffectiveOverrides(
    hold=Hold("works", "alice", NOW, NOW + 600, Direction.DOWN, "an-id")
)
CLEARANCES: Final = (
    Preconditions(),
    Preconditions(synced=False),
    Preconditions(effective=PAUSED),
    Preconditions(effective=PAUSED, closed_by="the canary fails"),
    Preconditions(effective=HELD),
    Preconditions(effective=HELD, closed_by="the canary fails"),
    Preconditions(initial_delay_over=False),
    Preconditions(leading=False),
    Preconditions(closed_by="the canary fails"),
    Preconditions(ignored=True),
)
MACHINES: Final = (None, LeaseCounts(), LeaseCounts(5), LeaseCounts(5, 5))
EXCLUDED: Final[tuple[dict[Exclusion, int], ...]] = ({}, {Exclusion.MACHINE_TERMINATING: 1})
ASKED: Final = (
    None,
    LastDirection(Verdict.SCALE_UP, any_expired=False),
    LastDirection(Verdict.SCALE_UP, any_expired=True),
    LastDirection(Verdict.SCALE_DOWN, any_expired=True),
)


def tallies() -> Iterator[Tally]:
    counts = [
        LeaseCounts(fresh + expired + unknown, expired, unknown)
        for fresh, expired, unknown in product((0, 1, 9), (0, 1, 9), (0, 1))
    ]
    for found, machines, excluded in product(counts, MACHINES, EXCLUDED):
        yield Tally(found, machines, nodes_read=True, judgements=(), excluded=excluded)


def probes() -> Iterator[tuple[Tally | PathReading | Failure, Decision, Preconditions, bool]]:
    """What a probe may see and lead to, under what, and whether the shoot is protected."""
    for reason in OF_LOOKS:
        failure = Failure(reason, "so")
        yield failure, verdict.decide_failure(failure, NO_RESULTS).decision, Preconditions(), False
    for result, protected in product(tallies(), (False, True)):
        for clearance, decision in _judged(verdict.assess(result, LIMIT, protected=protected)):
            yield result, decision, clearance, protected
    failed = Failure(VerdictReason.UNREACHABLE, "no answer")
    for reading in (PathReading(), PathReading(failed), PathReading(counting="1 of 3")):
        for clearance, decision in _judged(verdict.assess_paths(reading)):
            yield reading, decision, clearance, False


def _judged(assessed: Decision) -> Iterator[tuple[Preconditions, Decision]]:
    for clearance, threshold in product(CLEARANCES, (1, 3)):
        policy = ProberPolicy(
            external_secret="external", failure_threshold=threshold, success_threshold=threshold
        )
        outcome = verdict.decide_assessment(
            assessed, policy, clearance, NO_RESULTS, NOW, protected=False
        )
        yield clearance, outcome.decision
        if outcome.decision.verdict is Verdict.SCALE_DOWN:
            again: VerdictOutcome = verdict.unconfirmed(assessed, outcome.decision)
            yield clearance, again.decision


def shown() -> dict[str, set[str]]:
    """By reason the states of a shoot that is probed; those under protection only where there is no other."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for (result, decision, clearance, protected), before in product(probes(), ASKED):
        kept_back = verdict.blocking_override(clearance)
        for failed in (False, True):
            facts = StateInputs(
                decision,
                any_expired=isinstance(result, Tally) and result.candidates.expired > 0,
                last_direction=state.last_direction(before, result, decision),
                vanished=state.vanished(before, result, decision),
                kept_back=kept_back,
                protected=protected,
                scaling_failed=failed,
            )
            word, reason = state.summary(facts)
            found[reason].add(UNDER_PROTECTION if word is ShootState.PROTECTED else word)
    found[state.summary(StateInputs()).reason].add(state.summary(StateInputs()).state)
    return {each: states - {UNDER_PROTECTION} or states for each, states in found.items()}


def not_probed() -> set[str]:
    """The reasons of a shoot that is not probed."""
    workers = (WorkerPool("a"),)

    def of(kind: str | None = "Reconcile", **more: bool) -> ShootView:
        operation = None if kind is None else LastOperation(kind, "Processing", NOW)
        return ShootView(last_operation=operation, workers=workers, **more)

    shoots: list[ShootView | Undecodable] = [
        *(of(each) for each in (None, "Create", "Restore", "Delete", "Migrate", "Reconcile")),
        *(of(deleting=True), of(hibernation_enabled=True), of(is_hibernated=True)),
        of(self_hosted=True),
        *(ShootView(last_operation=None), Undecodable("cut")),
    ]
    decided = [lifecycle.decide(ClusterView("shoot--a--b", "1", each)) for each in shoots]
    return {each.reason for each in decided if each.action is not LifecycleAction.PROBE}


def documented() -> dict[str, set[str]]:
    """By reason what is in the column of states."""
    section = PAGE.read_text().partition("\n## Reasons\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", section, re.MULTILINE)
    words = [
        (re.findall(r"`(\w+)`", reasons), set(re.findall(r"\w+", states)))
        for reasons, states in rows
    ]
    return {reason: states for reasons, states in words for reason in reasons}


def test_every_reason_is_documented_with_the_states_that_it_comes_with():
    nowhere = {each: {str(ShootState.NOT_PROBED)} for each in not_probed()}
    expected = {**shown(), **nowhere}
    assert documented() == {str(each): {str(one) for one in expected[each]} for each in expected}


def test_there_is_a_reason_of_a_look_for_each_word():
    assert {*VerdictReason} <= {*shown()}
