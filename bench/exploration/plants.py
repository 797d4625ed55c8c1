"""Defects of the prober that are made on purpose, from outside, to see that the exploration finds them."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from app.core.kube import custom_objects, reflector
from app.core.kube.custom_objects import CustomObjects
from app.core.kube.election import LeaseElection
from app.core.kube.reflector import Reflector
from app.core.model import overrides as overrides_rules
from app.core.model import workloads as ann
from app.core.model.overrides import EffectiveOverrides, Hold, Pause, ScaleRequest
from app.core.model.probing import Decision, Verdict
from app.core.model.scaling_runs import OperationPhase, ScalingStep
from app.core.model.workloads import Direction, Patch, WorkloadView
from app.core.overrides import reconciler
from app.core.overrides.cache import OverrideCache
from app.core.ports import WatchState
from app.prober.rules import leases, manual, scaling, verdict
from app.prober.rules.leases import Contacts, Timings
from app.prober.rules.manual import ManualContext, RequestStep
from app.prober.rules.scaling import Plan, Task, Why
from app.prober.scaling.manual import ScaleRequests, ShootScaleRequests
from app.prober.scaling.run import Scaler
from bench.exploration import adapter_plants, path_plants

Plant = Callable[[], Any]


def no_confirmation() -> Any:  # noqa: ANN401  a patch
    """A scale-down goes ahead on its first reading."""
    return patch.object(verdict, "needs_confirmation", lambda *_: False)


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

    def on_verdict(self: Scaler, decision: Decision, plan: Plan, as_of: float) -> None:
        if decision.verdict is Verdict.HOLD:
            decision = replace(decision, verdict=Verdict.SCALE_UP)
            plan = self.pending().plans[Direction.UP]
        original(self, decision, plan, as_of)

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

    def decide(view: WorkloadView | None, direction: Direction, now: float, **more: bool) -> Task:
        task = original(view, direction, now, **more)
        if direction is Direction.UP or task.step is not ScalingStep.WRITE or task.patch is None:
            return task
        keys = {**task.patch.annotations, ann.REPLICAS: str(task.before)}
        return replace(task, patch=replace(task.patch, annotations=keys))

    return patch.object(scaling, "decide", decide)


def old_consent() -> Any:  # noqa: ANN401  a patch
    """A process that was stopped goes on with the verdict of before."""
    from app.prober.scaling.run import RunGuard  # noqa: PLC0415  only here

    def held(self: RunGuard) -> bool:
        return not self._confirmed

    return patch.object(RunGuard, "held", property(held))


def pause_unheeded() -> Any:  # noqa: ANN401  a patch
    """No pause forbids anything."""

    def against(self: EffectiveOverrides, direction: Direction) -> None:
        del self, direction

    return patch.object(EffectiveOverrides, "pause_against", against)


def newer_version_unheeded() -> Any:  # noqa: ANN401  a patch
    """A Pause that cannot be decoded pauses nothing."""

    def ordered(pauses: Iterable[Pause], now: float) -> tuple[Pause, ...]:
        return tuple(each for each in original(pauses, now) if each.problem is None)

    original = overrides_rules.ordered
    return patch.object(overrides_rules, "ordered", ordered)


def acknowledged_pause_forgotten() -> Any:  # noqa: ANN401  a patch
    """What was written is not in force before the watch shows it."""

    def learn(self: CustomObjects[Any], known: Any, *, gone: bool = False) -> Any:  # noqa: ANN401  of either kind
        del self, gone
        return known

    return patch.object(CustomObjects, "_learn", learn)


def pause_of_all_unheeded() -> Any:  # noqa: ANN401  a patch
    """A Pause of all shoots pauses none."""

    def effective(
        own: Iterable[Pause],
        everywhere: Iterable[Pause],
        requests: Iterable[ScaleRequest],
        now: float,
    ) -> EffectiveOverrides:
        del everywhere
        return original(own, (), requests, now)

    original = overrides_rules.effective
    return patch.object(overrides_rules, "effective", effective)


def hold_over_with_its_run() -> Any:  # noqa: ANN401  a patch
    """A hold ends with its scaling run, and verdicts act again at once."""

    def hold_of(request: ScaleRequest, now: float) -> Hold | None:
        return original(request, now) if request.open else None

    original = overrides_rules.hold_of
    return patch.object(overrides_rules, "hold_of", hold_of)


def nobody_carries_on() -> Any:  # noqa: ANN401  a patch
    """A scaling run by hand ends with the process that began it."""

    def step(
        request: ScaleRequest, context: ManualContext | None, now: float
    ) -> tuple[RequestStep, str]:
        what, why = original(request, context, now)
        return (RequestStep.WAIT, "") if what is RequestStep.CARRY_ON else (what, why)

    original = manual.next_step
    return patch.object(manual, "next_step", step)


def deletion_unheeded() -> Any:  # noqa: ANN401  a patch
    """The scaling run of a ScaleRequest goes on that somebody has deleted."""
    return patch.object(ShootScaleRequests, "cancel_if_over", lambda *_: None)


def carried_out_twice() -> Any:  # noqa: ANN401  a patch
    """A ScaleRequest that has succeeded is begun once more."""
    original = ScaleRequests.open_requests

    def still_open(self: ScaleRequests, namespace: str) -> list[ScaleRequest]:
        done = (
            each
            for each in self.env.overrides.requests(namespace)
            if each.phase is OperationPhase.DONE
        )
        return [*original(self, namespace), *done]

    return patch.object(ScaleRequests, "open_requests", still_open)


def begun_by_a_standby() -> Any:  # noqa: ANN401  a patch
    """Whoever sees a ScaleRequest carries it out, whether it leads or not."""
    both = ExitStack()
    both.enter_context(patch.object(ScaleRequests, "acts", lambda self: self.env.overrides.synced))
    both.enter_context(patch.object(ScaleRequests, "check_may_write", lambda _: None))
    return both


def newest_first() -> Any:  # noqa: ANN401  a patch
    """Of several ScaleRequests the youngest is carried out first."""
    original = ScaleRequests.open_requests
    return patch.object(ScaleRequests, "open_requests", lambda *args: original(*args)[::-1])


def status_without_version() -> Any:  # noqa: ANN401  a patch
    """A status is written over whatever has happened to the object."""
    return patch.object(custom_objects, "_precondition", lambda known: {"uid": known.id.uid})


def first_leader_forgotten() -> Any:  # noqa: ANN401  a patch
    """Who takes over writes its own instants and counts over those of the leader before."""
    return patch.object(manual, "_joined", lambda _, now: now)


def swept_away() -> Any:  # noqa: ANN401  a patch
    """A Pause is deleted as soon as it has ended."""
    return patch.object(reconciler, "PAUSE_KEPT", 0.0)


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
    "newer-version-unheeded": newer_version_unheeded,
    "acknowledged-pause-forgotten": acknowledged_pause_forgotten,
    "pause-of-all-unheeded": pause_of_all_unheeded,
    "hold-over-with-its-run": hold_over_with_its_run,
    "nobody-carries-on": nobody_carries_on,
    "deletion-unheeded": deletion_unheeded,
    "carried-out-twice": carried_out_twice,
    "begun-by-a-standby": begun_by_a_standby,
    "newest-first": newest_first,
    "status-without-version": status_without_version,
    "first-leader-forgotten": first_leader_forgotten,
    "swept-away": swept_away,
    "unsynced-unheeded": unsynced_unheeded,
    "mute-watch-trusted": mute_watch_trusted,
    **path_plants.PLANTS,
    **adapter_plants.PLANTS,
}
