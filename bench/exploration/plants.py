"""Defects of the prober that are made on purpose, from outside, to see that the exploration finds them."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from app.core.kube import reflector
from app.core.kube.election import LeaseElection
from app.core.kube.reflector import Reflector
from app.core.model import workloads as ann
from app.core.model.overrides import EffectiveOverrides, Hold, Pause
from app.core.model.probing import Decision, Verdict
from app.core.model.workloads import Direction, Patch, WorkloadView
from app.core.overrides import rules as overrides_rules
from app.core.overrides.cache import OverrideCache
from app.core.overrides.rules import KeyKnowledge
from app.core.ports import WatchState
from app.prober.held_runs import HeldRuns
from app.prober.rules import leases, manual, scaling
from app.prober.rules.leases import Contacts
from app.prober.rules.manual import HoldAction
from app.prober.rules.scaling import Case, ScalingStep, Task, Why
from app.prober.rules.timings import Timings
from app.prober.rules.verdict import VerdictOutcome
from app.prober.scaler import Scaler
from app.prober.shoot_session import Reading
from app.prober.verdicts import Judge
from bench.exploration import adapter_plants, path_plants

Plant = Callable[[], Any]


def no_confirmation() -> Any:  # noqa: ANN401  a patch
    """A scale-down goes ahead on its first reading."""

    async def confirm(
        self: Judge, first: Reading, outcome: VerdictOutcome
    ) -> tuple[Reading, VerdictOutcome]:
        del self
        return first, outcome

    return patch.object(Judge, "_confirm", confirm)


def saved_count_overwritten() -> Any:  # noqa: ANN401  a patch
    """What is at 0 already is scaled down once more, and its count becomes 0."""
    original = scaling._down  # noqa: SLF001  a defect in its very midst

    def down(view: WorkloadView, warnings: tuple[str, ...], now: float) -> Task:
        task = original(view, warnings, now)
        if task.step is not ScalingStep.NOTHING or ann.REPLICAS not in view.annotations:
            return task
        again = Patch(view.resource_version, 0, {ann.REPLICAS: "0"})
        return Task(ScalingStep.WRITE, Why.SCALED_DOWN, again, 0, 0, warnings)

    return patch.object(scaling, "_down", down)


def leadership_unheeded() -> Any:  # noqa: ANN401  a patch
    """Who has not renewed goes on as the leader for a minute."""

    def deadline(self: LeaseElection) -> float:
        return (self._renewed_at or 0.0) + 60.0

    return patch.object(LeaseElection, "_deadline", property(deadline))


def no_gap_rule() -> Any:  # noqa: ANN401  a patch
    """After storage was away ages count as if kubelets could have renewed."""

    def contact(
        known: Contacts,
        sent: float,
        received: float,
        timings: Timings,
        *,
        failed_before: bool = False,
    ) -> Contacts:
        del known, received, timings, failed_before
        return Contacts(sent)

    return patch.object(leases, "contact", contact)


def key_left_behind() -> Any:  # noqa: ANN401  a patch
    """The way up leaves the meltdown key where it was, and never takes it for something to do."""
    original = scaling._up  # noqa: SLF001  a defect in its very midst

    def up(view: WorkloadView, warnings: tuple[str, ...], *, found_at_zero: bool) -> Task:
        task = original(view, warnings, found_at_zero=found_at_zero)
        if task.patch is None or task.step is not ScalingStep.WRITE:
            return Task(ScalingStep.NOTHING, Why.ALREADY) if task.patch is not None else task
        kept = {k: v for k, v in task.patch.annotations.items() if k != ann.MELTDOWN}
        return replace(task, patch=replace(task.patch, annotations=kept))

    return patch.object(scaling, "_up", up)


def hold_taken_for_up() -> Any:  # noqa: ANN401  a patch
    """A HOLD is acted on as if it were SCALE UP."""
    original = Scaler.on_verdict

    def on_verdict(self: Scaler, decision: Decision) -> None:
        if decision.verdict is Verdict.HOLD:
            decision = replace(decision, verdict=Verdict.SCALE_UP)
        original(self, decision)

    return patch.object(Scaler, "on_verdict", on_verdict)


def stale_version() -> Any:  # noqa: ANN401  a patch
    """A write does not say on which version it was decided."""
    original = Patch.body

    def body(self: Patch) -> dict[str, object]:
        whole = dict(original(self))
        whole["metadata"] = {k: v for k, v in whole["metadata"].items() if k != "resourceVersion"}  # type: ignore[attr-defined]  # a dict
        return whole

    return patch.object(Patch, "body", body)


def count_not_kept() -> Any:  # noqa: ANN401  a patch
    """A renewed scale-down keeps what there is now, although more was saved."""
    original = scaling.decide

    def decide(case: Case, direction: Direction, now: float) -> Task:
        task = original(case, direction, now)
        if direction is Direction.UP or task.step is not ScalingStep.WRITE or task.patch is None:
            return task
        keys = {**task.patch.annotations, ann.REPLICAS: str(task.before)}
        return replace(task, patch=replace(task.patch, annotations=keys))

    return patch.object(scaling, "decide", decide)


def old_consent() -> Any:  # noqa: ANN401  a patch
    """A process that was stopped goes on with the verdict of before."""
    from app.prober.run_guard import RunGuard  # noqa: PLC0415  only here

    def held(self: RunGuard) -> bool:
        return not self._confirmed

    return patch.object(RunGuard, "held", property(held))


def pause_unheeded() -> Any:  # noqa: ANN401  a patch
    """No pause forbids anything."""

    def against(self: EffectiveOverrides, direction: Direction) -> None:
        del self, direction

    return patch.object(EffectiveOverrides, "pause_against", against)


def garbage_unheeded() -> Any:  # noqa: ANN401  a patch
    """A key that cannot be read pauses nothing."""

    def stand_in(key: str, known: KeyKnowledge) -> Pause:
        return replace(original(key, known), until=0.0)

    original = overrides_rules.stand_in
    return patch.object(overrides_rules, "stand_in", stand_in)


def hold_over_with_its_flow() -> Any:  # noqa: ANN401  a patch
    """A hold ends with its scaling run, and verdicts act again at once."""

    def hold_of(known: KeyKnowledge | None, now: float) -> Hold | None:
        hold = original(known, now)
        return None if hold is None or hold.done else hold

    original = overrides_rules.hold_of
    return patch.object(overrides_rules, "hold_of", hold_of)


def nobody_carries_on() -> Any:  # noqa: ANN401  a patch
    """A scaling run by hand ends with the process that began it."""

    def fate(hold: Hold, *, probed: bool, now: float) -> tuple[HoldAction, str]:
        what, why = original(hold, probed=probed, now=now)
        return (HoldAction.NOTHING, "") if what is HoldAction.CARRY_ON else (what, why)

    original = manual.hold_action
    return patch.object(manual, "hold_action", fate)


def end_of_hold_unheeded() -> Any:  # noqa: ANN401  a patch
    """A scaling run goes on whose hold somebody has removed."""

    def cancel(self: HeldRuns, holds: Mapping[str, Hold]) -> None:
        del self, holds

    return patch.object(HeldRuns, "_cancel_those_without", cancel)


def unsynced_unheeded() -> Any:  # noqa: ANN401  a patch
    """It scales before it has read what is paused."""
    return patch.object(OverrideCache, "synced", property(lambda _: True))


def mute_watch_trusted() -> Any:  # noqa: ANN401  a patch
    """That a watch is open is taken for contact: one that passes nothing on is neither stale nor given up."""
    original = Reflector.state.fget  # type: ignore[attr-defined]  # a property

    def state(self: Reflector[Any]) -> WatchState:
        found: WatchState = original(self)
        return replace(found, last_contact=self._clock.now() if found.synced else None)

    both = ExitStack()
    both.enter_context(patch.object(Reflector, "state", property(state)))
    both.enter_context(patch.object(reflector, "SILENCE", 1e6))
    return both


PLANTS: Final[dict[str, Plant]] = {
    "no-confirmation": no_confirmation,
    "saved-count-overwritten": saved_count_overwritten,
    "leadership-unheeded": leadership_unheeded,
    "no-gap-rule": no_gap_rule,
    "key-left-behind": key_left_behind,
    "hold-taken-for-up": hold_taken_for_up,
    "stale-version": stale_version,
    "count-not-kept": count_not_kept,
    "old-consent": old_consent,
    "pause-unheeded": pause_unheeded,
    "garbage-unheeded": garbage_unheeded,
    "hold-over-with-its-flow": hold_over_with_its_flow,
    "nobody-carries-on": nobody_carries_on,
    "end-of-hold-unheeded": end_of_hold_unheeded,
    "unsynced-unheeded": unsynced_unheeded,
    "mute-watch-trusted": mute_watch_trusted,
    **path_plants.PLANTS,
    **adapter_plants.PLANTS,
}
