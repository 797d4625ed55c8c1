"""Scaling runs with a hold of their own (manual runs and releases), which a new leader carries on under the same id.

The hold is written to the ConfigMap of the overrides before the run starts, with `done: false`, and gets `done: true`
when the run has ended. So a new leader knows what was asked for, and carries it on. Deleting the hold cancels the
run. `HeldRuns.run` reconciles the two: it carries on the runs of holds that say `done: false`, cancels runs whose hold
is gone, and closes the holds of runs that have ended (rules 7, a hold).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, assert_never

import structlog

from app.core import errors
from app.core.model.overrides import Hold
from app.core.model.probing import ShootState
from app.core.model.scaling_runs import OperationPhase, ScalingRunStatus
from app.core.model.workloads import Direction
from app.core.ports import SeedChange, Watched
from app.prober import messages, scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.rules import manual
from app.prober.rules.manual import HoldAction
from app.prober.scaling_context import (
    ScalingOrder,
    ScalingResult,
    check_probed,
    one_line_each,
)

log = structlog.get_logger(__name__)

# Seconds after which a hold that could not be written, or decided on, is tried again.
_RETRY: Final = 2.0
_UNWRITTEN: Final = (
    errors.ClusterError,
    errors.Refused,
    errors.FeatureUnavailable,
    errors.StoreFull,
    errors.LeadershipLost,
)


class HeldRuns:
    """The scaling runs with holds, at most one for each shoot."""

    def __init__(self, environment: ProberEnvironment, registry: ShootRegistry) -> None:
        self._env, self._registry = environment, registry
        self._beginning: dict[str, ScalingOrder] = {}
        """Runs by namespace that are about to start: their hold is being written."""
        self._void: dict[str, str] = {}
        """Operations by namespace that did not start, but whose hold may have been written all the same."""
        self._running: dict[str, str] = {}
        """Operations by namespace whose hold says `done: false`, and which this process has to close."""
        self._ended: dict[str, ScalingResult] = {}
        """The results of those in `_running` that have ended, and whose hold is not closed yet."""
        self._told: set[str] = set()
        """Namespaces for which it was reported that the hold could not be written."""
        self._changed = asyncio.Event()
        self._stopping = False

    def running(self, namespace: str) -> str | None:
        """The operation that is under way or about to start for this shoot, or that this leader has yet to carry on."""
        if (beginning := self._beginning.get(namespace)) is not None:
            return beginning.operation
        if (ours := self._running.get(namespace)) is not None:
            return None if namespace in self._ended else ours
        hold = self._env.overrides.holds().get(namespace)
        return None if hold is None or hold.done else hold.operation

    def pending(self) -> tuple[ScalingRunStatus, ...]:
        """The runs that are about to start, and those of an earlier leader that are to be carried on."""
        if not self._env.leadership.leading:
            return ()
        holds = self._env.overrides.holds()
        left = {
            namespace: order
            for namespace, hold in holds.items()
            if not hold.done and self._running.get(namespace) != hold.operation
            if self._registry.status(namespace) is not None
            if (order := ScalingOrder.of(hold)) is not None
        }
        return tuple(
            order.shown(namespace, OperationPhase.PENDING, "it is about to begin")
            for namespace, order in {**left, **self._beginning}.items()
        )

    def is_left(self, operation: str) -> bool:
        """Whether a hold says that this operation is not done."""
        holds = self._env.overrides.holds().values()
        return any(hold.operation == operation and not hold.done for hold in holds)

    @contextmanager
    def reserved(self, namespace: str, order: ScalingOrder) -> Iterator[None]:
        """Keeps other runs with holds from starting for this shoot within the `with` block.

        Raises:
            RunInProgress: another one is about to start.
        """
        if (other := self._beginning.get(namespace)) is not None:
            name = other.operation
            raise errors.RunInProgress(name, f"operation {name} is about to begin for {namespace}")
        self._beginning[namespace] = order
        try:
            yield
        finally:
            del self._beginning[namespace]
            self._changed.set()  # `_turn` has skipped this shoot meanwhile

    def check_may_write(self) -> None:
        """Checks whether this process may write holds and scale.

        Raises:
            FeatureOff: nothing is written in a dry run.
            LeadershipLost: this instance is not the leader.
        """
        if self._env.dry_run:
            raise errors.FeatureUnavailable("dry-run", "nothing is written in a dry run")
        if not self._env.leadership.leading or self._stopping:
            raise errors.LeadershipLost("this instance is no longer the leader")

    async def begin(self, namespace: str, order: ScalingOrder, check: Callable[[], None]) -> None:
        """Writes the hold of a scaling run, then starts the run; the caller has `reserved` the shoot.

        Args:
            namespace: the shoot.
            order: the run to start.
            check: raises a WatchdogError if the run may not start as things are; called right before the hold is
                written, and once more after that.

        Raises:
            WatchdogError: the run may not start, or the hold could not be written. It will not start later, either: a
                hold that was written although its answer was lost is ended.
        """
        self._void.pop(namespace, None)
        if not order.forced:
            await check_probed(self._env, namespace)
        try:
            await self._write(namespace, order, check)
            check()
        except (errors.WatchdogError, asyncio.CancelledError):
            self._void[namespace] = order.operation
            self._env.override_service.note_done(namespace, order.operation)
            raise
        self._order(namespace, order)
        self._changed.set()  # somebody may have ended the hold before the answer to its write arrived

    async def _write(self, namespace: str, order: ScalingOrder, check: Callable[[], None]) -> None:
        def starting() -> None:
            self.check_may_write()
            check()

        starting()
        await self._env.override_service.set_hold(namespace, order.hold(), starting=starting)

    def _order(self, namespace: str, order: ScalingOrder) -> None:
        scaler = self._registry.scalers.of(namespace)

        def ended(result: ScalingResult) -> None:
            if result.operation == order.operation:
                scaler.unsubscribe(ended)
                self._run_ended(namespace, result)

        self._running[namespace] = order.operation
        self._ended.pop(namespace, None)
        scaler.subscribe(ended)
        scaler.order(order)

    def _run_ended(self, namespace: str, result: ScalingResult) -> None:
        if self._stopping or not self._env.leadership.leading:
            self._running.pop(namespace, None)
            return  # the next leader finds `done: false`, and carries the run on
        self._ended[namespace] = result
        self._env.override_service.note_done(namespace, result.operation)
        self._changed.set()

    def stopping(self) -> None:
        """Called when the process ends: runs under way are left for the next leader to carry on."""
        self._stopping = True

    # Reconciling holds and scaling runs.

    async def run(self) -> None:
        """Reconciles holds and scaling runs, for ever; it is woken by each change."""
        self._env.overrides.subscribe(self._overrides_changed)
        self._env.leadership.subscribe(self._changed.set)
        self._env.seed.subscribe(self._seed_changed)
        self._changed.set()
        wait: float | None = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            self._changed.clear()
            wait = await self._turn()

    def _overrides_changed(self) -> None:
        """Cancels runs whose hold has ended at once, without waiting until other shoots' holds have been written."""
        if self._acts():
            self._cancel_those_without(self._env.overrides.holds())
        self._changed.set()

    def _acts(self) -> bool:
        if self._env.dry_run or self._stopping:
            return False
        return self._env.leadership.leading and self._env.overrides.synced

    def _seed_changed(self, change: SeedChange) -> None:
        """Wakes `run` if a Cluster with a hold has changed: whether it is probed decides what becomes of the hold."""
        if change.what is Watched.CLUSTERS and change.namespace in self._env.overrides.holds():
            self._changed.set()

    async def _turn(self) -> float | None:
        """Reconciles all holds once; returns the seconds until the next time, or None if that waits for a change."""
        if not self._acts():
            return None
        self._cancel_those_without(self._env.overrides.holds())
        waits = [await self._close(namespace) for namespace in tuple(self._ended)]
        waits += [await self._revoke(namespace) for namespace in tuple(self._void)]
        for namespace, hold in dict(self._env.overrides.holds()).items():
            if namespace not in self._running and namespace not in self._beginning:
                waits.append(await self._adopt(namespace, hold))
        return min((each for each in waits if each is not None), default=None)

    def _cancel_those_without(self, holds: Mapping[str, Hold]) -> None:
        """Cancels the runs whose hold was deleted (rules 7, a hold)."""
        for namespace, operation in tuple(self._running.items()):
            hold = holds.get(namespace)
            gone = hold is None or hold.operation != operation
            if gone and namespace not in self._ended:
                self._cancel(namespace, operation)

    def _cancel(self, namespace: str, operation: str) -> None:
        """Cancels a run whose hold was ended by another replica or with kubectl."""
        shown = self._env.operations.get(operation)
        scaler = self._registry.scalers.of(namespace)
        if scaler.cancel(operation, "its hold was ended") and shown is not None:
            scaling_messages.cancelled(self._env, shown, None)

    async def _close(self, namespace: str) -> float | None:
        """Writes `done: true`; ends the hold of a scale-up that failed, so that verdicts act again (rules 7)."""
        result = self._ended[namespace]
        failed_up = result.direction is Direction.UP and result.failed and result.cancelled is None
        try:
            if failed_up:
                await self._env.override_service.end_hold(namespace, operation=result.operation)
                why = f"scaling up failed for {'; '.join(one_line_each(result.failed))}"
                messages.hold_ended(self._env, namespace, why)
            else:
                await self._env.override_service.finish_hold(namespace, result.operation)
        except _UNWRITTEN as error:
            self._could_not(namespace, "closed", error)
            return _RETRY
        self._told.discard(namespace)
        if self._ended.get(namespace) is not result:
            return None  # another run has started meanwhile
        self._ended.pop(namespace, None)
        self._running.pop(namespace, None)
        if self._registry.runner(namespace) is None:
            self._registry.scalers.release(namespace)
        return None

    async def _revoke(self, namespace: str) -> float | None:
        """Ends the hold of a run that did not start, if it was written all the same."""
        hold = self._env.overrides.holds().get(namespace)
        if hold is None or hold.operation != self._void[namespace]:
            return None  # it may never be written; or a request that is still under way may yet write it
        wait = await self._end(namespace, hold, "its scaling run could not begin")
        if wait is None and self._void.get(namespace) == hold.operation:
            del self._void[namespace]
        return wait

    def _could_not(self, namespace: str, what: str, error: Exception) -> None:
        """Logs the first of a row of failures only, as it is tried again every 2 s."""
        if namespace not in self._told:
            self._told.add(namespace)
            log.warning(f"a hold could not be {what}", namespace=namespace, error=str(error))

    async def _adopt(self, namespace: str, hold: Hold) -> float | None:
        """Decides about a hold whose run is not under way here: carries the run on, or ends the hold."""
        if hold.done:
            return None
        status = self._registry.status(namespace)
        if status is None or not self._listed():
            # The shoot was not decided on yet; or its Cluster is gone, and the entry will be removed.
            return _RETRY
        probed = status.state is not ShootState.NOT_PROBED
        what, why = manual.hold_action(hold, probed=probed, now=self._env.clock.now())
        match what:
            case HoldAction.NOTHING:
                return None
            case HoldAction.OVER:
                return await self._end(namespace, hold, why)
            case HoldAction.CARRY_ON:
                return await self._carry_on(namespace, hold)
            case _:
                assert_never(what)

    async def _carry_on(self, namespace: str, hold: Hold) -> float | None:
        try:
            if not await self._env.override_service.still_there(namespace, hold):
                return _RETRY
            if not hold.force:
                await check_probed(self._env, namespace)
        except errors.Refused as gone:
            return await self._end(namespace, hold, f"{gone}, and its scaling run was not forced")
        except errors.ClusterError as error:
            self._could_not(namespace, "carried on", error)
            return _RETRY
        still = self._env.overrides.holds().get(namespace)
        if self._acts() and still == hold and (order := ScalingOrder.of(hold)) is not None:
            self._order(namespace, order)
        return None

    def _listed(self) -> bool:
        needed = (Watched.CLUSTERS, Watched.DEPENDENTS)
        return all(self._env.seed.watch_state(each).synced for each in needed)

    async def _end(self, namespace: str, hold: Hold, why: str) -> float | None:
        try:
            await self._env.override_service.end_hold(namespace, operation=hold.operation)
        except _UNWRITTEN as error:
            self._could_not(namespace, "ended", error)
            return _RETRY
        self._told.discard(namespace)
        messages.hold_ended(self._env, namespace, why)
        return None
