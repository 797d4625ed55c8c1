"""Carries out ScaleRequests, in the leader: begins or refuses them, shows their progress, and ends them (rules 7).

One task for each shoot with something to do compares the shoot's requests with the scaling run under way, and takes one
step by `rules.manual.next_step`, until nothing is left. So it does not matter which change it has missed, and the next
leader goes on where this one stopped: levels and resources are idempotent (rules 4.3), and what was shown stays.

It begins with `ScaleRequests.run`. Deleting a request cancels its run between two writes. The status follows the run:
it is written before the first write to a dependent if that takes no more than two seconds, and after the end until it
is accepted.

`Releases` ends protections that have lasted for `maxProtectionDuration`. A release is a ScaleRequest whose author is
the watchdog: its hold keeps the next verdict from scaling down again at once.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, assert_never
from weakref import WeakValueDictionary

import structlog

from app.core import errors
from app.core.limits import Backoff
from app.core.model.overrides import RELEASE, ScaleRequest, phase_word
from app.core.model.probing import ShootState
from app.core.model.scaling_runs import (
    OURSELVES,
    OperationPhase,
    RunStep,
    ScaleSpec,
    ScalingRunStatus,
)
from app.core.model.workloads import Direction
from app.core.overrides.cache import REQUESTS
from app.core.ports import SeedChange, Watched
from app.core.tasks import wait_until_set
from app.prober import messages
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.rules import manual
from app.prober.rules.manual import ManualContext, RequestStep
from app.prober.scaling.resource import check_still_probed
from app.prober.status import ShootStatus

log = structlog.get_logger(__name__)

BEGIN_WITHIN: Final = 2.0
"""Seconds for which the first write of the status may keep a scaling run from beginning."""
# Seconds after which something that failed is tried again.
_RETRY: Final = 2.0
# How long to wait after writes that have failed in a row, and after writes that met somebody else's.
_AFTER_FAILURES: Final = Backoff(_RETRY, 8.0)
_AFTER_CONFLICTS: Final = Backoff(0.1, 8.0)
# Seconds after which the first write of the status is tried again within `BEGIN_WITHIN`.
_AGAIN: Final = 0.1
# Seconds after which a request that waits until its shoot is known, or judged, is looked at again.
_LOOK_AGAIN: Final = 0.5
# Seconds between two writes of the status while the run goes on.
_SHOWN_EVERY: Final = 1.0
# Writes of statuses at the same time, of all shoots.
_WRITES_AT_ONCE: Final = 4
# So many requests of a shoot that wait are told so; the others are told later.
_WAITING_SHOWN: Final = 5
_UNWRITTEN: Final = (errors.ClusterError, errors.FeatureUnavailable)


@dataclass(slots=True)
class _Run:
    """The scaling run of a request, under way in this process or ended here."""

    uid: str
    end: ScalingRunStatus | None = None
    """How it ended; None while it is under way."""
    shown_at: float = float("-inf")
    shown: tuple[str, tuple[RunStep, ...]] | None = None
    """The progress that the status shows; it has less precise times."""


@dataclass(slots=True)
class _Beginning:
    """A request whose status `Running` this task has written, or tried to, and which has not begun yet."""

    uid: str
    carried_on: bool
    """An earlier leader has begun it."""
    since: float | None = None
    """Since when the status is being written; None once that is over."""


@dataclass(slots=True)
class _Failures:
    """Writes of statuses that have failed in a row."""

    uid: str
    """Of the request that they are of."""
    count: int = 0
    complained: bool = False
    """Whether that was logged."""
    not_before: float = 0.0
    """When the next one is due, whatever changes meanwhile."""


class ShootScaleRequests:
    """The ScaleRequests of one shoot: carries them out one after the other, until nothing is left to do."""

    def __init__(self, requests: "ScaleRequests", namespace: str) -> None:
        self._all, self.namespace = requests, namespace
        self._env, self._registry = requests.env, requests.registry
        self.woken = asyncio.Event()
        """Set when anything has changed that its next step may depend on."""
        self._run: _Run | None = None
        self._beginning: _Beginning | None = None
        self._failures: _Failures | None = None
        """None if the last status was accepted, or is not to be written any more."""

    async def run(self) -> None:
        """Takes one step after the other, as long as there are any to take."""
        while (wait := await self._turn()) is not None:
            await wait_until_set(self.woken, wait)

    async def _turn(self) -> float | None:
        """Takes one step; returns the seconds until the next one if nothing wakes it, or None if nothing is left."""
        self.woken.clear()
        if not self._all.acts():
            return None
        if (failed := self._failures) is not None:
            if self._env.overrides.request(failed.uid, self.namespace) is None:
                self._failures = None
            elif (early := failed.not_before - self._env.clock.now()) > 0:
                return early
        if (run := self._run) is not None:
            wait = await self._follow(run)
            if run.end is None:
                others = [
                    each
                    for each in self._all.open_requests(self.namespace)
                    if each.id.uid != run.uid
                ]
                await self._show_waiting(others[:_WAITING_SHOWN], "another one is carried out")
            return wait
        if (request := self._all.first_open(self.namespace)) is not None:
            return await self._step(request)
        for each in self._env.overrides.requests(self.namespace):
            if each.unended:
                text = f"its status was set to {phase_word(each.phase)}"
                return await self._end(each, each.phase, text)
        return None

    async def _step(self, request: ScaleRequest) -> float | None:
        """Begins the next request of the shoot, or says why not."""
        scaler = self._registry.scaler(self.namespace)
        if scaler is not None and scaler.manual is not None:
            return _RETRY  # a run that this task no longer follows has not ended yet
        step, why = self._all.next_step(self._judged(request))
        match step:
            case RequestStep.WAIT:
                await self._show_waiting([request], why)
                return _LOOK_AGAIN
            case RequestStep.REFUSE:
                return await self._end(request, OperationPhase.REFUSED, why)
            case RequestStep.CANCEL:
                return await self._end(request, OperationPhase.CANCELLED, why)
            case RequestStep.BEGIN | RequestStep.CARRY_ON:
                return await self._begin(request)
            case _:
                assert_never(step)

    async def _show_waiting(self, requests: Sequence[ScaleRequest], why: str) -> None:
        """Writes that requests wait, and for what, while the budget has room; nothing depends on it."""
        for request in requests:
            wanted = replace(request, message=why, observed_by=self._env.identity)
            if wanted != request and not await self._set_spare(request, wanted):
                return

    async def _begin(self, request: ScaleRequest) -> float | None:
        """Writes the status `Running`, and begins the scaling run, even if that write fails for two seconds."""
        uid, beginning = request.id.uid, self._beginning
        if beginning is None or beginning.uid != uid:
            carried_on = request.phase is OperationPhase.RUNNING
            beginning = self._beginning = _Beginning(uid, carried_on)
        try:
            if not request.outlives_probing:
                await check_still_probed(self._env, self.namespace)
        except errors.Refused as gone:
            refused, cancelled = OperationPhase.REFUSED, OperationPhase.CANCELLED
            end = cancelled if beginning.carried_on else refused
            return await self._end(request, end, f"{gone}, and it was not forced")
        except errors.ClusterError as error:
            return self._complain(request, error)
        now = self._env.clock.now()
        since = beginning.since = now if beginning.since is None else beginning.since
        running = replace(
            request,
            phase=OperationPhase.RUNNING,
            message="",
            started=now if request.started is None else request.started,
            observed_by=self._env.identity,
        )
        try:
            # Even if it changes nothing: it is refused if a watch that lags shows what is over.
            async with asyncio.timeout(max(since + BEGIN_WITHIN - now, 0.0)):
                request = await self._set_status(request, running)
            self._failures = None
        except errors.LeadershipLost:
            return None
        except (*_UNWRITTEN, TimeoutError) as error:
            if self._env.clock.now() < since + BEGIN_WITHIN:
                return _AGAIN
            wait = self._complain(request, error)
            try:  # a watch that only lags may not show yet that it is gone, and nothing has refused it
                await self._env.overrides.confirm(request)
            except errors.ClusterError:
                return wait
        beginning.since = None
        still = self._all.first_open(self.namespace)
        if not self._all.acts() or still is None or still.id.uid != uid:
            return 0.0
        step, _ = self._all.next_step(self._judged(still))
        if step not in {RequestStep.BEGIN, RequestStep.CARRY_ON}:
            return 0.0  # the shoot has changed while the status was written
        self._beginning = None
        messages.request_began(self._env, request, carried_on=beginning.carried_on)
        self._order(manual.ordered(request, carried_on=beginning.carried_on))
        return _SHOWN_EVERY

    def _order(self, order: ScalingRunStatus) -> None:
        scaler = self._registry.scaler_of(self.namespace)
        run = self._run = _Run(order.id)

        def ended(end: ScalingRunStatus) -> None:
            if end.id == run.uid:
                scaler.unsubscribe(ended)
                run.end = end
                self.woken.set()

        scaler.subscribe(ended)
        scaler.begin_manual(order)

    def cancel_if_over(self) -> None:
        """Cancels the run of a request that was deleted, or that somebody has ended by its status."""
        run = self._run
        if run is None or run.end is not None:
            return
        request = self._env.overrides.request(run.uid, self.namespace)
        if request is not None and (request.open or request.problem is not None):
            return
        by = self._env.override_service.ended_by(run.uid)
        shown = self._env.operations.get(run.uid)
        whose = "it was deleted"
        if request is not None and not request.deleting:
            whose = f"its status says {phase_word(request.phase)}"
        reason = whose if by is None else f"it was cancelled by {by}"
        if self._registry.scaler_of(self.namespace).cancel(run.uid, reason) and shown is not None:
            messages.cancelled(self._env, shown, by)

    async def _follow(self, run: _Run) -> float | None:
        """Shows the progress of the run under way, and its end.

        | request                                                   | run under way      | run over            |
        |-----------------------------------------------------------|--------------------|---------------------|
        | open                                                      | shows its progress | writes its end      |
        | ended by somebody's hand                                  | waits for its end  | adds what is missing |
        | gone, kept by a finalizer, or it cannot be decoded        | waits for its end  | writes nothing      |
        """
        self.cancel_if_over()
        request = self._env.overrides.request(run.uid, self.namespace)
        if (end := run.end) is None:
            known = self._progress(run)
            return _RETRY if known is None else await self._show(run, *known)
        wait = 0.0
        if request is not None and request.open:
            wait = await self._end(request, end.phase, end.message, end)
        elif request is not None and not request.phase.running:
            wait = await self._end(request, request.phase, request.message or end.message, end)
        if wait == 0.0:
            self._run = None
        return wait

    def show_last(self) -> Awaitable[bool] | None:
        """Returns what writes the steps so far, as of now, of a run under way; None if there is none."""
        run = self._run
        if run is None or run.end is not None or (known := self._progress(run)) is None:
            return None
        request, shown = known
        return self._set_spare(request, manual.shown(request, shown, self._env.identity))

    def _progress(self, run: _Run) -> tuple[ScaleRequest, ScalingRunStatus] | None:
        """The request of a run under way, and how far that is; None if the request shows it no more."""
        request = self._env.overrides.request(run.uid, self.namespace)
        shown = self._env.operations.get(run.uid)
        return None if request is None or not request.open or shown is None else (request, shown)

    async def _show(self, run: _Run, request: ScaleRequest, shown: ScalingRunStatus) -> float:
        """Writes the steps so far, at most once a second, and only while the budget has room."""
        due = run.shown_at + _SHOWN_EVERY - self._env.clock.now()
        if due > 0:
            return due
        wanted = manual.shown(request, shown, self._env.identity)
        progress = (wanted.message, shown.steps)
        if progress != run.shown:
            run.shown_at = self._env.clock.now()
            if await self._set_spare(request, wanted):
                run.shown = progress
        return _SHOWN_EVERY

    async def _end(
        self,
        request: ScaleRequest,
        phase: OperationPhase,
        message: str,
        shown: ScalingRunStatus | None = None,
    ) -> float:
        """Writes how the request has ended, and reports it once that is accepted.

        What somebody has ended by hand is given what is missing there; another process reports what that has ended.
        """
        by_hand = not request.open
        if request.ended is None:
            leader = self._env.identity
            before = request if shown is None else manual.shown(request, shown, leader)
            if by_hand:
                before = replace(before, observed_by=leader)
            # The status may be accepted long after the end.
            at = self._env.clock.now() if shown is None or shown.ended is None else shown.ended
            unavailable = not by_hand and shown is not None and shown.only_unavailable
            wanted = manual.ended(before, phase, message, at, only_unavailable=unavailable)
            try:
                request = await self._set_status(request, wanted)
            except errors.LeadershipLost:
                return _RETRY
            except _UNWRITTEN as error:
                return self._complain(request, error)
            self._failures = None
        if not by_hand or request.observed_by == self._env.identity:
            messages.request_ended(self._env, request)
        return 0.0

    async def _set_status(
        self, request: ScaleRequest, wanted: ScaleRequest, *, spare: bool = False
    ) -> ScaleRequest:
        # As the process ends, what runs have done may still be shown, but nothing may begin.
        starting = self._all.check_leads if spare else self._all.check_may_write
        # Never more than a few at once: watches and scale-ups wait for the same budget.
        async with self._all.writing:
            return await self._env.override_service.set_status(
                request, wanted, starting=starting, spare=spare
            )

    async def _set_spare(self, request: ScaleRequest, wanted: ScaleRequest) -> bool:
        """Writes a status on which nothing depends, and does not wait long; returns whether it was accepted."""
        try:
            async with asyncio.timeout(BEGIN_WITHIN):
                await self._set_status(request, wanted, spare=True)
        except (errors.LeadershipLost, TimeoutError, *_UNWRITTEN):
            return False
        return True

    def _complain(self, request: ScaleRequest, error: Exception) -> float:
        """Logs one of a row of failures, conflicts aside; returns when to try again, later and later."""
        failures = self._failures = self._failures or _Failures(request.id.uid)
        failures.uid, failures.count = request.id.uid, failures.count + 1
        conflict = isinstance(error, errors.Conflict)
        if not conflict and not failures.complained:
            failures.complained = True
            log.warning(
                "the status of a ScaleRequest could not be written",
                namespace=request.id.namespace,
                request=request.id.name,
                error=str(error) or type(error).__name__,
            )
        wait = (_AFTER_CONFLICTS if conflict else _AFTER_FAILURES).delay(failures.count)
        failures.not_before = self._env.clock.now() + wait
        return wait

    def _judged(self, request: ScaleRequest) -> ScaleRequest:
        """The request as it is judged: what has not begun is not carried on, though its status says `Running`."""
        beginning = self._beginning
        if beginning is None or beginning.uid != request.id.uid or beginning.carried_on:
            return request
        return replace(request, phase=OperationPhase.PENDING)


class ScaleRequests:
    """The ScaleRequests of all shoots, at most one of each shoot under way."""

    def __init__(self, environment: ProberEnvironment, registry: ShootRegistry) -> None:
        self.env, self.registry = environment, registry
        self.writing = asyncio.Semaphore(_WRITES_AT_ONCE)
        """Held while the status of a request is written."""
        self._shoots: dict[str, ShootScaleRequests] = {}
        self._rehearsed: dict[str, RequestStep] = {}
        """In a dry run: what was said of each open request, by uid."""
        self._creating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held while a request of a shoot is created here, so that a second call finds the first one's."""
        self._changed = asyncio.Event()
        self._stopping = False

    # What others ask.

    def first_open(self, namespace: str) -> ScaleRequest | None:
        """The request of this shoot that is under way, or is next; None if there is none."""
        return next(iter(self.open_requests(namespace)), None)

    def open_requests(self, namespace: str) -> list[ScaleRequest]:
        """The open requests in the order in which they are carried out: what has begun, then the oldest."""
        found = [each for each in self.env.overrides.requests(namespace) if each.open]
        pending = OperationPhase.PENDING
        found.sort(key=lambda each: (each.phase is pending, each.created_at, each.id.name))
        return found

    def check_may_write(self) -> None:
        """Checks whether this process may begin scaling runs.

        Raises:
            FeatureUnavailable: nothing is written in a dry run, or there are no ScaleRequests.
            LeadershipLost: this instance is not the leader, or ends.
        """
        self.check_leads()
        if self._stopping:
            raise errors.LeadershipLost("this instance ends")

    def check_leads(self) -> None:
        """Checks the same, but for the end of the process.

        Raises:
            FeatureUnavailable: as above.
            LeadershipLost: this instance is not the leader.
        """
        if self.env.dry_run:
            raise errors.FeatureUnavailable("dry-run", "nothing is written in a dry run")
        if not self.env.leadership.leading:
            raise errors.LeadershipLost("this instance is no longer the leader")
        self.env.override_service.check(REQUESTS)

    async def create(
        self, namespace: str, spec: ScaleSpec, check: Callable[[], None], *, prefix: str = "api"
    ) -> ScaleRequest:
        """Creates a request; the shoot's task carries it out, as it does with those that kubectl creates.

        Args:
            namespace: the shoot.
            spec: what is asked for.
            check: called immediately before the request is created; its exceptions propagate.
            prefix: what its name begins with.
        """

        def starting() -> None:
            self.check_may_write()
            check()

        starting()
        service = self.env.override_service
        async with self._creating.setdefault(namespace, asyncio.Lock()):
            return await service.request_scaling(namespace, spec, prefix=prefix, starting=starting)

    def stopping(self) -> Awaitable[object]:
        """Called when the process ends: nothing begins any more, and runs under way are left for the next leader.

        Returns what shows once more how far they are, as of now: the next leader goes on with that.
        """
        self._stopping = True
        shown = [each.show_last() for each in self._shoots.values()]
        return asyncio.gather(*filter(None, shown))

    # Whom there is something to do for.

    async def run(self) -> None:
        """Sees to it that each shoot with something to do has a task, for ever; it is woken by each change."""
        self.env.overrides.subscribe(self._overrides_changed)
        self.env.leadership.subscribe(self._wake)
        self.env.seed.subscribe(self._seed_changed)
        while True:
            self._changed.clear()
            if self.env.dry_run:
                self._rehearse()
            for request in self.env.overrides.requests() if self.acts() else ():
                namespace = request.id.namespace
                if (request.open or request.unended) and namespace not in self._shoots:
                    self._shoots[namespace] = ShootScaleRequests(self, namespace)
                    attend = partial(self._attend, namespace)
                    failed = partial(messages.runner_failed, self.env, namespace)
                    _ = self.env.tasks.kept(attend, f"scale requests {namespace}", failed)
            # What a rehearsal says depends on the shoots, too, and their changes do not wake this loop.
            await wait_until_set(self._changed, _RETRY if self._rehearsed else None)

    async def _attend(self, namespace: str) -> None:
        """Attends to the requests of a shoot until nothing is left; called again after an unexpected error."""
        await self._shoots[namespace].run()
        del self._shoots[namespace]
        if self.registry.runner(namespace) is None:
            self.registry.forget_scaler(namespace)

    def _wake(self) -> None:
        self._changed.set()
        for shoot in self._shoots.values():
            shoot.woken.set()

    def _overrides_changed(self, namespace: str | None) -> None:
        """Cancels at once what was deleted, without waiting for anything that is being written."""
        acts = self.acts()
        known = self._shoots if namespace is None else {namespace} & self._shoots.keys()
        for each in known:
            shoot = self._shoots[each]
            if acts:
                shoot.cancel_if_over()
            shoot.woken.set()
        self._changed.set()

    def _seed_changed(self, change: SeedChange) -> None:
        """Wakes the task of a shoot whose Cluster has changed: whether it is probed decides about its requests."""
        if change.what is Watched.CLUSTERS and change.namespace in self._shoots:
            self._shoots[change.namespace].woken.set()

    def acts(self) -> bool:
        """Whether requests are carried out here and now."""
        if self.env.dry_run or self._stopping:
            return False
        return self.env.leadership.leading and self.env.overrides.synced

    def _rehearse(self) -> None:
        """In a dry run: says of each request what would be done, again where that has changed."""
        before, self._rehearsed = self._rehearsed, {}
        for request in self.env.overrides.requests():
            if not request.open:
                continue
            step, why = self.next_step(request)
            self._rehearsed[request.id.uid] = step
            if before.get(request.id.uid) is not step:
                log.info(
                    "a ScaleRequest is not carried out, as this is a dry run",
                    namespace=request.id.namespace,
                    request=request.id.name,
                    step=step.value,
                    why=why,
                )

    def next_step(self, request: ScaleRequest) -> tuple[RequestStep, str]:
        """What is to be done about an open request by what is known of its shoot, and why not more."""
        return manual.next_step(request, self._context(request.id.namespace), self.env.clock.now())

    def _context(self, namespace: str) -> ManualContext | None:
        """What decides about a request; None while it is not known."""
        needed = (Watched.CLUSTERS, Watched.DEPENDENTS)
        if not all(self.env.seed.watch_state(each).synced for each in needed):
            return None
        status = self.registry.status(namespace)
        if status is None:
            # A Cluster that was listed, but on which the controller has not decided yet, is not one that is not probed.
            known = namespace not in self.env.seed.clusters()
            return ManualContext(exists=False, probed=False) if known else None
        return context_of(status)


def context_of(status: ShootStatus) -> ManualContext:
    """What of a shoot's status decides about a scaling run by hand."""
    probed = status.state is not ShootState.NOT_PROBED
    if status.decision is None:
        return ManualContext(probed=probed, judged=not probed)
    return ManualContext(probed=probed, would_be=status.decision.would_be)


# Seconds between two checks of all shoots.
_TICK: Final = 1.0
# Seconds after which a release that failed is tried, and reported if it fails, again.
_RELEASED_AGAIN: Final = 60.0


class Releases:
    """Releases the protections of all shoots that are probed."""

    def __init__(
        self, environment: ProberEnvironment, registry: ShootRegistry, requests: ScaleRequests
    ) -> None:
        self._env, self._registry, self._requests = environment, registry, requests
        self._most = environment.policy.max_protection or math.inf  # without one, it is not run
        self._not_before: dict[str, float] = {}

    async def run(self) -> None:
        """Releases protections as they become due, for ever."""
        while True:
            await self._env.clock.sleep(_TICK)
            if self._env.leadership.leading and not self._env.dry_run:
                for each in self._registry.runners():
                    # Checked for each shoot in its turn, as the releases before it may have taken long.
                    await self._release_if_due(each.namespace)
            now = self._env.clock.now()
            self._not_before = {name: at for name, at in self._not_before.items() if at > now}

    def _why_not(self, namespace: str) -> str | None:
        """Why the protection of a shoot is not to be released; None if it is."""
        runner = self._registry.runner(namespace)
        since = None if runner is None else runner.protected_since
        if since is None or self._env.clock.now() - since < self._most:
            return "the protection has ended meanwhile"
        effective = self._env.overrides.effective(namespace)
        if effective.pause_against(Direction.UP) is not None or effective.hold is not None:
            return "somebody has paused or held the shoot meanwhile"
        return None

    def _due(self, namespace: str) -> bool:
        free = self._env.overrides.synced and self._requests.first_open(namespace) is None
        return free and self._why_not(namespace) is None

    async def _release_if_due(self, namespace: str) -> None:
        now = self._env.clock.now()
        if now < self._not_before.get(namespace, 0.0) or not self._due(namespace):
            return
        reason = f"maxProtectionDuration ({self._most:g} s) is over"
        spec = ScaleSpec(Direction.UP, reason, OURSELVES, self._most, force=True)

        def check() -> None:
            if (why := self._why_not(namespace)) is not None:
                raise errors.Refused(why)

        try:
            # A stale watch may hide a pause or a hold that somebody has made since.
            await self._env.overrides.refresh(namespace, urgent=False)
            if not self._due(namespace):
                return
            _ = await self._requests.create(namespace, spec, check, prefix=RELEASE)
        except errors.WatchdogError as error:
            self._not_before[namespace] = now + _RELEASED_AGAIN
            messages.not_released(self._env, namespace, str(error))
        else:
            # However this run ends, a protection that begins again is not released before its time.
            self._not_before[namespace] = now + self._most
            messages.released(self._env, namespace, spec)
