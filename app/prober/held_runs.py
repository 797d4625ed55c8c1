"""Scaling runs with a hold of their own, which the next leader carries on under the same id.

The hold is written before the scaling run begins, with `done: false`, and says `done: true` after its end: so whoever
leads next knows what was asked for.  `run` keeps the two together: it carries on what nobody runs, cancels what has no
hold any more, and closes the holds of scaling runs that have ended.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, assert_never

import structlog

from app.core import errors
from app.core.model.operations import Operation, OperationPhase
from app.core.model.overrides import Hold
from app.core.model.probing import ShootState
from app.core.model.workloads import Direction
from app.core.ports import SeedChange, Watched
from app.prober import messages, scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.rules import lifecycle, manual
from app.prober.rules.manual import HoldAction
from app.prober.scaling_context import ScalingOrder, ScalingResult

log = structlog.get_logger(__name__)

_RETRY: Final = 2.0
"""Seconds until a hold that could not be written is tried again."""
_UNWRITTEN: Final = (
    errors.ClusterError,
    errors.Refused,
    errors.FeatureOff,
    errors.StoreFull,
    errors.LeadershipLost,
)


class HeldRuns:
    """The scaling runs that have holds, at most one for each shoot."""

    def __init__(self, environment: ProberEnvironment, registry: ShootRegistry) -> None:
        self._env, self._registry = environment, registry
        self._beginning: dict[str, ScalingOrder] = {}
        """Scaling runs by namespace whose hold is being written."""
        self._void: dict[str, str] = {}
        """Operations by namespace that did not begin, and whose hold may have been written all the same."""
        self._running: dict[str, str] = {}
        """Operations by namespace whose hold says `done: false`, and is ours to close."""
        self._ended: dict[str, ScalingResult] = {}
        """Of these, the scaling runs that have ended."""
        self._told: set[str] = set()
        """Shoots whose hold could not be written, and that has been told."""
        self._changed = asyncio.Event()
        self._stopping = False

    def running(self, namespace: str) -> str | None:
        """The operation that runs for this shoot, or is about to; or that this leader has yet to carry on."""
        if (beginning := self._beginning.get(namespace)) is not None:
            return beginning.operation
        if (ours := self._running.get(namespace)) is not None:
            return None if namespace in self._ended else ours
        hold = self._env.overrides.holds().get(namespace)
        return None if hold is None or hold.done else hold.operation

    def pending(self) -> tuple[Operation, ...]:
        """What is about to begin, and what an earlier leader began and this one has not taken up yet."""
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
        """Whether there is a hold that says that the scaling run of this operation is not done."""
        holds = self._env.overrides.holds().values()
        return any(hold.operation == operation and not hold.done for hold in holds)

    @contextmanager
    def reserved(self, namespace: str, order: ScalingOrder) -> Iterator[None]:
        """Nobody else begins a scaling run for this shoot meanwhile.

        Raises:
            RunInProgress: somebody is about to.
        """
        if (other := self._beginning.get(namespace)) is not None:
            name = other.operation
            raise errors.RunInProgress(name, f"operation {name} is about to begin for {namespace}")
        self._beginning[namespace] = order
        try:
            yield
        finally:
            del self._beginning[namespace]
            self._changed.set()  # what was seen of this shoot meanwhile was left for now

    def check_may_write(self) -> None:
        """Returns where a scaling run may begin.

        Raises:
            FeatureOff: nothing is written in a dry run.
            LeadershipLost: this instance does not lead.
        """
        if self._env.dry_run:
            raise errors.FeatureOff("dry-run", "nothing is written in a dry run")
        if not self._env.leadership.leading or self._stopping:
            raise errors.LeadershipLost("this instance does not lead any more")

    async def begin(self, namespace: str, order: ScalingOrder, check: Callable[[], None]) -> None:
        """Writes the hold of a scaling run, then begins it; who calls has reserved the shoot.

        Args:
            namespace: the shoot.
            order: what to begin.
            check: raises a WatchdogError where it may not begin as things are: asked right before the hold is written,
                and when it is.

        Raises:
            WatchdogError: it may not begin, or the hold could not be written.  Nothing was begun, nor will be: a hold
                that was written all the same, as its answer was lost, is ended.
        """
        self._void.pop(namespace, None)
        if not order.forced:
            await self._check_probed(namespace)
        try:
            await self._write(namespace, order, check)
            check()
        except (errors.WatchdogError, asyncio.CancelledError):
            self._void[namespace] = order.operation
            self._env.override_service.note_done(namespace, order.operation)
            raise
        self._order(namespace, order)
        self._changed.set()  # somebody may have ended the hold before the answer of its write was here

    async def _check_probed(self, namespace: str) -> None:
        """Returns where the shoot is probed, as far as a watch tells that is not stale, or the seed itself.

        Raises:
            Refused: it is not any more.
            ClusterError: the watch is stale, and the seed does not tell.
        """
        state = self._env.seed.watch_state(Watched.CLUSTERS)
        if not state.stale(self._env.clock.now()):
            return
        found = lifecycle.decide(await self._env.seed.read_cluster(namespace))
        if not found.runs(running=True, protected=True):
            raise errors.Refused(f"the shoot is not probed: {found.message}")

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
            return  # the next leader finds `done: false`, and carries it on
        self._ended[namespace] = result
        self._env.override_service.note_done(namespace, result.operation)
        self._changed.set()

    def stopping(self) -> None:
        """The process ends: what runs is left for the next leader."""
        self._stopping = True

    # What keeps scaling runs and holds together.

    async def run(self) -> None:
        """Carries on, cancels and closes, for ever."""
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
        """Whoever ends a hold means now: a scaling run does not wait until other shoots' holds have been written."""
        if self._acts():
            self._cancel_those_without(self._env.overrides.holds())
        self._changed.set()

    def _acts(self) -> bool:
        if self._env.dry_run or self._stopping:
            return False
        return self._env.leadership.leading and self._env.overrides.synced

    def _seed_changed(self, change: SeedChange) -> None:
        """A shoot came, or began to be probed: that may decide over its hold."""
        if change.what is Watched.CLUSTERS and change.namespace in self._env.overrides.holds():
            self._changed.set()

    async def _turn(self) -> float | None:
        """Looks at all holds once; returns the seconds until the next time, None: when something changes."""
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
        """Whoever deletes a hold cancels its scaling run."""
        for namespace, operation in tuple(self._running.items()):
            hold = holds.get(namespace)
            gone = hold is None or hold.operation != operation
            if gone and namespace not in self._ended:
                self._cancel(namespace, operation)

    def _cancel(self, namespace: str, operation: str) -> None:
        """As somebody ended the hold of a scaling run, through another replica or with kubectl."""
        shown = self._env.operations.get(operation)
        scaler = self._registry.scalers.of(namespace)
        if scaler.cancel(operation, "its hold was ended") and shown is not None:
            scaling_messages.cancelled(self._env, shown, None)

    async def _close(self, namespace: str) -> float | None:
        """Writes `done: true`; of a scale-up that failed, ends the hold, so that the verdicts act again."""
        result = self._ended[namespace]
        failed_up = result.direction is Direction.UP and result.failed and result.cancelled is None
        try:
            if failed_up:
                await self._env.override_service.end_hold(namespace, operation=result.operation)
                why = f"scaling up failed for {'; '.join(result.failed)}"
                messages.hold_ended(self._env, namespace, why)
            else:
                await self._env.override_service.finish_hold(namespace, result.operation)
        except _UNWRITTEN as error:
            self._could_not(namespace, "closed", error)
            return _RETRY
        self._told.discard(namespace)
        if self._ended.get(namespace) is not result:
            return None  # another scaling run has begun meanwhile
        self._ended.pop(namespace, None)
        self._running.pop(namespace, None)
        if self._registry.runner(namespace) is None:
            self._registry.scalers.release(namespace)
        return None

    async def _revoke(self, namespace: str) -> float | None:
        """Ends the hold of a scaling run that did not begin, where it was written all the same."""
        hold = self._env.overrides.holds().get(namespace)
        if hold is None or hold.operation != self._void[namespace]:
            return None  # nor may it ever be; a write that is under way yet may still do it
        wait = await self._end(namespace, hold, "its scaling run could not begin")
        if wait is None and self._void.get(namespace) == hold.operation:
            del self._void[namespace]
        return wait

    def _could_not(self, namespace: str, what: str, error: Exception) -> None:
        """Told once for each row of failures: it is tried again every 2 s."""
        if namespace not in self._told:
            self._told.add(namespace)
            log.warning(f"a hold could not be {what}", namespace=namespace, error=str(error))

    async def _adopt(self, namespace: str, hold: Hold) -> float | None:
        """A hold whose scaling run we do not run."""
        if hold.done:
            return None
        status = self._registry.status(namespace)
        if status is None or not self._listed():
            # Not decided on yet; or the Cluster is gone, and the entry will be.
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
            if not hold.force:
                await self._check_probed(namespace)
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
