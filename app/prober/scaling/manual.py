"""Carries out ScaleRequests, in the leader: begins or refuses them, shows their progress, and ends them (rules 7).

One task for each shoot with something to do compares the shoot's requests with the scaling run under way, and takes one
step by `rules.manual.next_step`, until nothing is left. So it does not matter which change it has missed, and the next
leader goes on where this one stopped: levels and resources are idempotent (rules 4.3), and what was shown stays.

Deleting a request cancels its run between two writes. The status follows the run: it is written before the first write
to a dependent if that takes no more than two seconds, and after the end until it is accepted.

`Releases` makes requests itself: for protections that have lasted for `maxProtectionDuration`.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from app.prober import messages, scaling_messages
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.rules import manual
from app.prober.rules.manual import ManualContext, RequestStep
from app.prober.scaling.context import ScalingResult, check_probed, ordered

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
    result: ScalingResult | None = None
    """None while it is under way."""
    end: ScalingRunStatus | None = None
    """How it was shown at its end: later it may be forgotten."""


@dataclass(slots=True)
class _Shoot:
    """What the task of one shoot is woken by, and remembers."""

    woken: asyncio.Event = field(default_factory=asyncio.Event)
    run: _Run | None = None
    trying_since: dict[str, float] = field(default_factory=dict)
    """Since when the status of a request that is to begin is being written, by uid."""
    shown_at: float = float("-inf")
    shown: tuple[str, tuple[RunStep, ...]] | None = None
    """The progress that the status shows; it has less precise times."""
    failures: int = 0
    """Writes of its statuses that have failed in a row."""
    complained: bool = False
    """Whether that was logged."""
    not_before: float = float("-inf")
    """When the next one is due, whatever changes meanwhile."""
    failing: str | None = None
    """The uid of the request that they are of."""
    unbegun: str | None = None
    """The uid of a request whose status `Running` this task has written, or tried to, and which has not begun yet."""

    def written(self) -> None:
        """A status was accepted, or is not to be written any more."""
        self.failures, self.complained = 0, False
        self.failing, self.not_before = None, float("-inf")


class ScaleRequests:
    """The ScaleRequests of all shoots, at most one of each shoot under way."""

    def __init__(self, environment: ProberEnvironment, registry: ShootRegistry) -> None:
        self._env, self._registry = environment, registry
        self._shoots: dict[str, _Shoot] = {}
        self._rehearsed: dict[str, RequestStep] = {}
        """In a dry run: what was said of each open request, by uid."""
        self._creating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held while a request of a shoot is created here, so that a second call finds the first one's."""
        self._changed = asyncio.Event()
        self._stopping = False
        self._writing = asyncio.Semaphore(_WRITES_AT_ONCE)

    # What others ask.

    def open(self, namespace: str) -> ScaleRequest | None:
        """The request of this shoot that is under way, or is next; None if there is none."""
        return next(iter(self._open(namespace)), None)

    def _open(self, namespace: str) -> list[ScaleRequest]:
        """The open requests in the order in which they are carried out: what has begun, then the oldest."""
        found = [each for each in self._env.overrides.requests(namespace) if each.open]
        pending = OperationPhase.PENDING
        found.sort(key=lambda each: (each.phase is pending, each.created_at, each.id.name))
        return found

    def check_may_write(self) -> None:
        """Checks whether this process may begin scaling runs.

        Raises:
            FeatureUnavailable: nothing is written in a dry run, or there are no ScaleRequests.
            LeadershipLost: this instance is not the leader.
        """
        if self._env.dry_run:
            raise errors.FeatureUnavailable("dry-run", "nothing is written in a dry run")
        if not self._env.leadership.leading or self._stopping:
            raise errors.LeadershipLost("this instance is no longer the leader")
        self._env.override_service.check(REQUESTS)

    async def begin(
        self, namespace: str, spec: ScaleSpec, check: Callable[[], None], *, prefix: str = "api"
    ) -> ScaleRequest:
        """Creates a request and begins its scaling run.

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
        service = self._env.override_service
        async with self._creating.setdefault(namespace, asyncio.Lock()):
            return await service.request_scaling(namespace, spec, prefix=prefix, starting=starting)

    def stopping(self) -> None:
        """Called when the process ends: runs under way are left for the next leader to carry on."""
        self._stopping = True

    # Whom there is something to do for.

    async def run(self) -> None:
        """Sees to it that each shoot with something to do has a task, for ever; it is woken by each change."""
        self._env.overrides.subscribe(self._overrides_changed)
        self._env.leadership.subscribe(self._wake)
        self._env.seed.subscribe(self._seed_changed)
        while True:
            self._changed.clear()
            if self._env.dry_run:
                self._rehearse()
            if self._acts():
                self._attend_all()
            # What a rehearsal says depends on the shoots, too, and their changes do not wake this loop.
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETRY if self._rehearsed else None):
                    await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        for shoot in self._shoots.values():
            shoot.woken.set()

    def _overrides_changed(self, namespace: str | None) -> None:
        """Cancels at once what was deleted, without waiting for anything that is being written."""
        acts = self._acts()
        known = self._shoots if namespace is None else {namespace} & self._shoots.keys()
        for each in known:
            shoot = self._shoots[each]
            if acts:
                self._cancel_if_over(each, shoot)
            shoot.woken.set()
        self._changed.set()

    def _seed_changed(self, change: SeedChange) -> None:
        """Wakes the task of a shoot whose Cluster has changed: whether it is probed decides about its requests."""
        if change.what is Watched.CLUSTERS and change.namespace in self._shoots:
            self._shoots[change.namespace].woken.set()

    def _acts(self) -> bool:
        if self._env.dry_run or self._stopping:
            return False
        return self._env.leadership.leading and self._env.overrides.synced

    def _attend_all(self) -> None:
        for request in self._env.overrides.requests():
            namespace = request.id.namespace
            if (request.open or request.unended) and namespace not in self._shoots:
                shoot = self._shoots[namespace] = _Shoot()
                self._attend(namespace, shoot)

    def _attend(self, namespace: str, shoot: _Shoot) -> None:
        async def attend() -> None:
            try:
                while (wait := await self._turn(namespace, shoot)) is not None:
                    try:
                        async with asyncio.timeout(wait):
                            await shoot.woken.wait()
                    except TimeoutError:
                        continue
            finally:
                del self._shoots[namespace]
                if self._registry.runner(namespace) is None:
                    self._registry.scalers.release(namespace)

        _ = self._env.tasks.once(attend, f"scale requests {namespace}")

    def _rehearse(self) -> None:
        """In a dry run: says of each request what would be done, again where that has changed."""
        before, self._rehearsed = self._rehearsed, {}
        for request in self._env.overrides.requests():
            if not request.open:
                continue
            step, why = self._next_step(request)
            self._rehearsed[request.id.uid] = step
            if before.get(request.id.uid) is not step:
                log.info(
                    "a ScaleRequest is not carried out, as this is a dry run",
                    namespace=request.id.namespace,
                    request=request.id.name,
                    step=step.value,
                    why=why,
                )

    # One shoot.

    async def _turn(self, namespace: str, shoot: _Shoot) -> float | None:
        """Takes one step; returns the seconds until the next one if nothing wakes it, or None if nothing is left."""
        shoot.woken.clear()
        if not self._acts():
            return None
        if shoot.failing is not None and self._request(namespace, shoot.failing) is None:
            shoot.written()
        if (early := shoot.not_before - self._env.clock.now()) > 0:
            return early
        if (run := shoot.run) is not None:
            wait = await self._follow(namespace, shoot, run)
            if run.result is None:
                others = [each for each in self._open(namespace) if each.id.uid != run.uid]
                await self._show_waiting(others[:_WAITING_SHOWN], "another one is carried out")
            return wait
        if (request := self.open(namespace)) is not None:
            return await self._step(namespace, shoot, request)
        for each in self._env.overrides.requests(namespace):
            if each.unended:
                return await self._complete(shoot, each)
        return None

    async def _step(self, namespace: str, shoot: _Shoot, request: ScaleRequest) -> float | None:
        """Begins the next request of the shoot, or says why not."""
        scaler = self._registry.scalers.known(namespace)
        if scaler is not None and scaler.manual is not None:
            return _RETRY  # a run that this task no longer follows has not ended yet
        step, why = self._next_step(_judged(shoot, request))
        match step:
            case RequestStep.WAIT:
                await self._show_waiting([request], why)
                return _LOOK_AGAIN
            case RequestStep.REFUSE:
                return await self._conclude(shoot, request, OperationPhase.REFUSED, why)
            case RequestStep.CANCEL:
                return await self._conclude(shoot, request, OperationPhase.CANCELLED, why)
            case RequestStep.BEGIN | RequestStep.CARRY_ON:
                return await self._begin(namespace, shoot, request)
            case _:
                assert_never(step)

    async def _show_waiting(self, requests: Sequence[ScaleRequest], why: str) -> None:
        """Writes that requests wait, and for what, while the budget has room; nothing depends on it."""
        for request in requests:
            wanted = replace(request, message=why, observed_by=self._env.identity)
            if wanted != request and not await self._set_spare(request, wanted):
                return

    def _next_step(self, request: ScaleRequest) -> tuple[RequestStep, str]:
        return manual.next_step(request, self._context(request.id.namespace), self._env.clock.now())

    def _context(self, namespace: str) -> ManualContext | None:
        """What decides about a request; None while it is not known."""
        needed = (Watched.CLUSTERS, Watched.DEPENDENTS)
        if not all(self._env.seed.watch_state(each).synced for each in needed):
            return None
        status = self._registry.status(namespace)
        if status is None:
            # A Cluster that was listed, but on which the controller has not decided yet, is not one that is not probed.
            known = namespace not in self._env.seed.clusters()
            return ManualContext(exists=False, probed=False) if known else None
        probed = status.state is not ShootState.NOT_PROBED
        if status.decision is None:
            return ManualContext(probed=probed, judged=not probed)
        return ManualContext(probed=probed, would_be=status.decision.would_be)

    async def _begin(self, namespace: str, shoot: _Shoot, request: ScaleRequest) -> float | None:
        """Writes the status `Running`, and begins the scaling run, even if that write fails for two seconds."""
        carried_on = _judged(shoot, request).phase is OperationPhase.RUNNING
        try:
            if not request.outlives_probing:
                await check_probed(self._env, namespace)
        except errors.Refused as gone:
            end = OperationPhase.CANCELLED if carried_on else OperationPhase.REFUSED
            text = f"{gone}, and it was not forced"
            return await self._conclude(shoot, request, end, text)
        except errors.ClusterError as error:
            return self._complain(shoot, request, error)
        now = self._env.clock.now()
        since = shoot.trying_since.setdefault(request.id.uid, now)
        running = replace(
            request,
            phase=OperationPhase.RUNNING,
            message="",
            started=now if request.started is None else request.started,
            observed_by=self._env.identity,
        )
        if not carried_on:
            shoot.unbegun = request.id.uid
        try:
            # Even if it changes nothing: it is refused if a watch that lags shows what is over.
            async with asyncio.timeout(max(since + BEGIN_WITHIN - now, 0.0)):
                request = await self._set_status(request, running)
            shoot.written()
        except errors.LeadershipLost:
            return None
        except (*_UNWRITTEN, TimeoutError) as error:
            if self._env.clock.now() < since + BEGIN_WITHIN:
                return _AGAIN
            wait = self._complain(shoot, request, error)
            try:  # what is known must at least be what is there
                await self._env.overrides.refresh(namespace)
            except errors.ClusterError:
                return wait
        shoot.trying_since.pop(request.id.uid, None)
        still = self.open(namespace)
        if not self._acts() or still is None or still.id.uid != request.id.uid:
            return 0.0
        if self._next_step(_judged(shoot, still))[0] not in {
            RequestStep.BEGIN,
            RequestStep.CARRY_ON,
        }:
            return 0.0  # the shoot has changed while the status was written
        shoot.unbegun = None
        scaling_messages.request_began(self._env, request, carried_on=carried_on)
        self._order(namespace, shoot, request, carried_on=carried_on)
        return _SHOWN_EVERY

    def _order(
        self, namespace: str, shoot: _Shoot, request: ScaleRequest, *, carried_on: bool
    ) -> None:
        scaler = self._registry.scalers.of(namespace)
        run = shoot.run = _Run(request.id.uid)
        shoot.shown = None

        def ended(result: ScalingResult) -> None:
            if result.operation == run.uid:
                scaler.unsubscribe(ended)
                run.result, run.end = result, self._env.operations.get(run.uid)
                shoot.woken.set()

        scaler.subscribe(ended)
        scaler.order(ordered(request, carried_on=carried_on))

    def _request(self, namespace: str, uid: str) -> ScaleRequest | None:
        requests = self._env.overrides.requests(namespace)
        return next((each for each in requests if each.id.uid == uid), None)

    def _cancel_if_over(self, namespace: str, shoot: _Shoot) -> None:
        """Cancels the run of a request that was deleted, or that somebody has ended by its status."""
        run = shoot.run
        if run is None or run.result is not None:
            return
        request = self._request(namespace, run.uid)
        if request is not None and (request.open or request.problem is not None):
            return
        by = self._env.override_service.ended_by(run.uid)
        shown = self._env.operations.get(run.uid)
        whose = "it was deleted"
        if request is not None and not request.deleting:
            whose = f"its status says {phase_word(request.phase)}"
        reason = whose if by is None else f"it was cancelled by {by}"
        if self._registry.scalers.of(namespace).cancel(run.uid, reason) and shown is not None:
            scaling_messages.cancelled(self._env, shown, by)

    async def _follow(self, namespace: str, shoot: _Shoot, run: _Run) -> float | None:
        """Shows the progress of the run under way, and its end."""
        self._cancel_if_over(namespace, shoot)
        request = self._request(namespace, run.uid)
        shown = self._env.operations.get(run.uid) if run.end is None else run.end
        wait: float | None = 0.0
        if request is None or not request.open or shown is None:
            if run.result is None:
                return _RETRY
            # Of one that cannot be decoded, or that a finalizer keeps, nothing is written.
            if shown is not None and request is not None and not request.phase.running:
                wait = await self._complete(shoot, request, shown)
        elif run.result is None:
            return await self._show(shoot, request, shown)
        else:
            wait = await self._conclude(
                shoot, request, shown.phase, shown.message, shown, run.result
            )
        if shoot.run is run and wait == 0.0:
            shoot.run = None
        return wait

    async def _complete(
        self, shoot: _Shoot, request: ScaleRequest, shown: ScalingRunStatus | None = None
    ) -> float:
        """Reports an end whose write got no answer; to one that somebody wrote by hand, adds what is missing there."""
        if request.ended is None:
            before, at = request, self._env.clock.now()
            text = f"its status was set to {phase_word(request.phase)}"
            if shown is not None:
                before = manual.shown(request, shown, self._env.identity)
                at = at if shown.ended is None else shown.ended
                text = request.message or shown.message
            before = replace(before, observed_by=self._env.identity)
            wanted = manual.ended(before, request.phase, text, at)
            try:
                request = await self._set_status(request, wanted)
                shoot.written()
            except errors.LeadershipLost:
                return _RETRY
            except _UNWRITTEN as error:
                return self._complain(shoot, request, error)
        if request.observed_by == self._env.identity:
            scaling_messages.request_ended(self._env, request)
        return 0.0

    async def _show(
        self, shoot: _Shoot, request: ScaleRequest, shown: ScalingRunStatus
    ) -> float | None:
        """Writes the steps so far, at most once a second, and only while the budget has room."""
        due = shoot.shown_at + _SHOWN_EVERY - self._env.clock.now()
        if due > 0:
            return due
        wanted = manual.shown(request, shown, self._env.identity)
        progress = (wanted.message, shown.steps)
        if progress == shoot.shown:
            return _SHOWN_EVERY
        shoot.shown_at = self._env.clock.now()
        if await self._set_spare(request, wanted):
            shoot.shown = progress
        return _SHOWN_EVERY

    async def _conclude(
        self,
        shoot: _Shoot,
        request: ScaleRequest,
        phase: OperationPhase,
        message: str,
        shown: ScalingRunStatus | None = None,
        result: ScalingResult | None = None,
    ) -> float | None:
        """Writes how the request has ended, and reports it once that is accepted."""
        before = request if shown is None else manual.shown(request, shown, self._env.identity)
        only_unavailable = (
            phase is OperationPhase.FAILED and result is not None and not result.failed
        )
        # The status may be accepted long after the end.
        at = self._env.clock.now() if shown is None or shown.ended is None else shown.ended
        wanted = manual.ended(before, phase, message, at, only_unavailable=only_unavailable)
        try:
            ended = await self._set_status(request, wanted)
        except errors.LeadershipLost:
            return None
        except _UNWRITTEN as error:
            return self._complain(shoot, request, error)
        shoot.written()
        scaling_messages.request_ended(self._env, ended)
        return 0.0

    async def _set_status(
        self, request: ScaleRequest, wanted: ScaleRequest, *, spare: bool = False
    ) -> ScaleRequest:
        # Never more than a few at once: watches and scale-ups wait for the same budget.
        async with self._writing:
            return await self._env.override_service.set_status(
                request, wanted, starting=self.check_may_write, spare=spare
            )

    async def _set_spare(self, request: ScaleRequest, wanted: ScaleRequest) -> bool:
        """Writes a status on which nothing depends, and does not wait long; returns whether it was accepted."""
        try:
            async with asyncio.timeout(BEGIN_WITHIN):
                await self._set_status(request, wanted, spare=True)
        except (errors.LeadershipLost, TimeoutError, *_UNWRITTEN):
            return False
        return True

    def _complain(self, shoot: _Shoot, request: ScaleRequest, error: Exception) -> float:
        """Logs one of a row of failures, conflicts aside; returns when to try again, later and later."""
        shoot.failures, shoot.failing = shoot.failures + 1, request.id.uid
        conflict = isinstance(error, errors.Conflict)
        if not conflict and not shoot.complained:
            shoot.complained = True
            log.warning(
                "the status of a ScaleRequest could not be written",
                namespace=request.id.namespace,
                request=request.id.name,
                error=str(error) or type(error).__name__,
            )
        wait = (_AFTER_CONFLICTS if conflict else _AFTER_FAILURES).delay(shoot.failures)
        shoot.not_before = self._env.clock.now() + wait
        return wait


def _judged(shoot: _Shoot, request: ScaleRequest) -> ScaleRequest:
    """Returns the request as it is judged: what has not begun is not carried on, though its status says `Running`."""
    return (
        replace(request, phase=OperationPhase.PENDING)
        if request.id.uid == shoot.unbegun and request.open
        else request
    )


# Ends protections that have lasted for `maxProtectionDuration`, by a scale-up with a hold of the same length. A release
# is a ScaleRequest whose author is the watchdog: its hold keeps the next verdict from scaling down again at once.

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
        self._not_before: dict[str, float] = {}

    async def run(self) -> None:
        """Releases protections as they become due, for ever; returns at once if no limit is configured."""
        most = self._env.policy.max_protection
        if most is None:
            return
        while True:
            await self._env.clock.sleep(_TICK)
            if self._env.leadership.leading and not self._env.dry_run:
                for each in self._registry.runners():
                    # Checked for each shoot in its turn, as the releases before it may have taken long.
                    if self._due(each.namespace, most):
                        await self._release(each.namespace, most)
            now = self._env.clock.now()
            self._not_before = {name: at for name, at in self._not_before.items() if at > now}

    def _due(self, namespace: str, most: float) -> bool:
        if self._env.clock.now() < self._not_before.get(namespace, 0.0):
            return False
        return self._lasted(namespace, most) and self._may(namespace)

    def _lasted(self, namespace: str, most: float) -> bool:
        runner = self._registry.runner(namespace)
        since = None if runner is None else runner.protected_since
        return since is not None and self._env.clock.now() - since >= most

    def _may(self, namespace: str) -> bool:
        """Whether a release may start: no hold, no pause of scope `all`, no manual run."""
        if not self._env.overrides.synced or self._paused_or_held(namespace):
            return False
        return self._requests.open(namespace) is None

    def _paused_or_held(self, namespace: str) -> bool:
        """Whether a pause or hold forbids a scale-up."""
        effective = self._env.overrides.effective(namespace)
        return effective.pause_against(Direction.UP) is not None or effective.hold is not None

    async def _release(self, namespace: str, most: float) -> None:
        now = self._env.clock.now()
        reason = f"maxProtectionDuration ({most:g} s) is over"
        spec = ScaleSpec(Direction.UP, reason, OURSELVES, most, force=True)

        def check() -> None:
            if not self._lasted(namespace, most):
                raise errors.Refused("the protection has ended meanwhile")
            if self._paused_or_held(namespace):
                raise errors.Refused("somebody has paused or held the shoot meanwhile")

        try:
            _ = await self._requests.begin(namespace, spec, check, prefix=RELEASE)
        except errors.WatchdogError as error:
            self._not_before[namespace] = now + _RELEASED_AGAIN
            messages.not_released(self._env, namespace, str(error))
        else:
            # However this run ends, a protection that begins again is not released before its time.
            self._not_before[namespace] = now + most
            messages.released(self._env, namespace, spec)
