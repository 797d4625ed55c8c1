"""All shoots of the seed: the runners of those that are probed, and why the others are not."""

import asyncio
from dataclasses import dataclass
from functools import partial

from app.core.model import workloads as ann
from app.core.model.probing import ShootState
from app.core.tasks import cancelled
from app.prober import messages
from app.prober.endpoints.manager import EndpointProbes
from app.prober.endpoints.worker import EndpointResultView
from app.prober.environment import ProberEnvironment
from app.prober.rules import scaling
from app.prober.rules.lifecycle import Lifecycle, ProbedShoot
from app.prober.runner import ShootRunner
from app.prober.scaling.run import Scaler
from app.prober.status import ShootStatus, ShootSummary


@dataclass(frozen=True, slots=True)
class NotProbed:
    """Why, and since when, a shoot is not probed."""

    lifecycle: Lifecycle
    since: float


class ShootRegistry:
    """All shoots of the seed, probed or not."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        self._scalers: dict[str, Scaler] = {}
        """Of shoots that are probed or scaled by hand: one outlives the runner while a forced manual run goes on."""
        adapters = environment.endpoints
        self.endpoints = None if adapters is None else EndpointProbes(environment, adapters)
        """The endpoint probes of the shoots that are probed; None if none are configured."""
        self._runners: dict[str, ShootRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The task that each runner runs in."""
        self._not_probed: dict[str, NotProbed] = {}
        self._stopped = False
        self.listed = False
        """The Clusters were listed and each was decided on, so that a shoot that is not known here does not exist."""

    def runner(self, namespace: str) -> ShootRunner | None:
        """The runner of this shoot; None if it is not probed."""
        return self._runners.get(namespace)

    def runners(self) -> tuple[ShootRunner, ...]:
        return tuple(self._runners.values())

    def scaler(self, namespace: str) -> Scaler | None:
        """The scaler of this shoot; None if it is neither probed nor scaled by hand."""
        return self._scalers.get(namespace)

    def scaler_of(self, namespace: str) -> Scaler:
        """The scaler of this shoot, made if there is none yet."""
        if namespace not in self._scalers:
            self._scalers[namespace] = Scaler(self._env, namespace)
        return self._scalers[namespace]

    def forget_scaler(self, namespace: str) -> None:
        """Forgets the scaler of a shoot that is no longer probed, unless a run is under way."""
        if (found := self._scalers.get(namespace)) is not None and found.idle:
            del self._scalers[namespace]

    def start(self, subject: ProbedShoot, lifecycle: Lifecycle, scaling_from: float) -> None:
        """Starts to probe a shoot; does nothing if it is probed already, or everything was stopped."""
        if self._stopped or subject.namespace in self._runners:
            return
        probes, namespace = self.endpoints, subject.namespace
        closed_by = None if probes is None else partial(probes.closed, namespace)
        scaler = self.scaler_of(namespace)
        runner = ShootRunner(self._env, subject, scaler, scaling_from, closed_by)

        def failed(error: Exception) -> None:
            runner.crashed(error)
            messages.runner_failed(self._env, namespace, error)

        self._runners[namespace] = runner
        self._tasks[namespace] = self._env.tasks.kept(runner.run, f"probe {namespace}", failed)
        self._not_probed.pop(namespace, None)
        if probes is not None:
            probes.start(namespace)
        messages.lifecycle_changed(
            self._env, namespace, "ProbingStarted", f"probing starts: {lifecycle.message}"
        )

    async def stop(self, namespace: str, lifecycle: Lifecycle) -> None:
        """Ends the probing of a shoot; nothing is scaled, as hibernation and deletion belong to gardenlet (rules 2)."""
        if (found := self._runners.get(namespace)) is not None:
            # Before anything is awaited: `stop_all` may come meanwhile.
            task = self._tasks[namespace]
            await found.stop(lifecycle.message)
            await cancelled(task)
            self._runners.pop(namespace, None)
            self._tasks.pop(namespace, None)
            if self.endpoints is not None:
                await self.endpoints.stop(namespace)
            self._env.connector.forget(namespace)
            text = f"probing ended: {lifecycle.message}"
            messages.lifecycle_changed(self._env, namespace, "ProbingStopped", text)
        self._note_not_probed(namespace, lifecycle)
        if found is not None:
            # A manual run may have started while the runner was being stopped.
            await self.scaler_of(namespace).stop(lifecycle.message, forced_too=False)
            self.forget_scaler(namespace)

    def _note_not_probed(self, namespace: str, lifecycle: Lifecycle) -> None:
        if namespace not in self._env.seed.clusters():
            self._not_probed.pop(namespace, None)
            messages.forgotten(self._env, namespace)
            return
        known = self._not_probed.get(namespace)
        if known is None or known.lifecycle != lifecycle:
            self._not_probed[namespace] = NotProbed(lifecycle, self._env.clock.now())

    async def stop_all(self, why: str) -> None:
        """Ends all probing and scaling; returns when the last request of the last scaling run has been answered."""
        self._stopped = True
        await asyncio.gather(*(each.stop(why, abandoning=False) for each in self.runners()))
        await cancelled(*self._tasks.values())
        if self.endpoints is not None:
            await asyncio.gather(*(self.endpoints.stop(namespace) for namespace in self._runners))
        self._runners.clear()
        self._tasks.clear()
        await asyncio.gather(*(each.stop(why) for each in tuple(self._scalers.values())))

    def endpoint_views(self, namespace: str) -> tuple[EndpointResultView, ...]:
        """The results of a shoot's endpoint probes, one for each probe and target."""
        return () if self.endpoints is None else self.endpoints.views(namespace)

    def statuses(self) -> list[ShootStatus]:
        """Every shoot, probed or not, in no order."""
        return [
            *(each.status() for each in self._runners.values()),
            *(self._status_of(namespace, each) for namespace, each in self._not_probed.items()),
        ]

    def summaries(self) -> list[ShootSummary]:
        """The summary of every shoot, in no order."""
        now = self._env.clock.now()
        return [
            *(each.summary(now) for each in self._runners.values()),
            *(
                ShootSummary(namespace, ShootState.NOT_PROBED, each.since)
                for namespace, each in self._not_probed.items()
            ),
        ]

    def ignored(self) -> int:
        """How many dependents of all shoots have ignore-scaling."""
        views = (
            view
            for namespace in self._env.seed.clusters()
            for view in self._env.dependents(namespace).values()
        )
        return sum(
            1
            for view in views
            if view is not None and ann.ignore_scaling(view.annotations) is ann.Ignore.YES
        )

    def status(self, namespace: str) -> ShootStatus | None:
        """The status of one shoot; None if the seed has no Cluster of this name."""
        if (found := self._runners.get(namespace)) is not None:
            return found.status()
        known = self._not_probed.get(namespace)
        return None if known is None else self._status_of(namespace, known)

    def _status_of(self, namespace: str, known: NotProbed) -> ShootStatus:
        views = self._env.dependents(namespace)
        active = scaling.protection_active(views.values())
        # The original writes no time beside the meltdown key. Protection then counts from the end of probing, at which
        # it was there.
        began = scaling.protected_since(views.values()) or known.since
        scaler = self._scalers.get(namespace)
        scaling_run = None if scaler is None else scaler.scaling_run
        message = known.lifecycle.message
        if active:
            message += "; protection was active when probing ended, see the resources"
        return ShootStatus(
            namespace,
            ShootState.NOT_PROBED,
            known.lifecycle.reason,
            message,
            known.since,
            resources=views,
            effective=self._env.overrides.effective(namespace),
            running=None if scaling_run is None else scaling_run.direction,
            protected_since=began if active else None,
        )
