"""Starts and stops runners as Clusters come, change and go.

It is level-triggered: an event only puts the shoot's namespace into a queue, and a worker then compares the Cluster as
it is now with what runs. `Prober` puts all parts of the prober together.
"""

import asyncio

from app.core.model.shoots import ShootView
from app.core.ports import Preparation, SeedChange, Watched
from app.prober import messages
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.rules import lifecycle, scaling
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.runner import listed
from app.prober.scaling.manual import Releases, ScaleRequests
from app.prober.scaling.operations import Dependents, ManualScaling


class KeyQueue:
    """A first-in, first-out queue of keys: a key waits only once, and one worker at a time works on it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._working: set[str] = set()
        self._again: set[str] = set()

    def add(self, key: str) -> None:
        """Queues `key`; if a worker has it now, it is queued again when that is done."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    async def take(self) -> str:
        """Waits for the next key and takes it; the caller must call `done` afterwards."""
        key = await self._queue.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: str) -> None:
        """Called when the work on `key` has ended."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)


_POLL = 0.1


class ProberController:
    """Keeps one runner for each shoot that is to be probed (rules 2), and passes events on to it."""

    def __init__(
        self, environment: ProberEnvironment, registry: ShootRegistry, workers: int = 1
    ) -> None:
        self._env = environment
        self._registry = registry
        self._workers = workers
        self._queue = KeyQueue()
        self._first_list: set[str] = set()
        """Clusters of the first list that were not decided on yet: `initialDelay` may not hold them back."""
        self._reported: dict[str, str] = {}

    async def run(self) -> None:
        """Follows the Clusters for ever."""
        self._env.seed.subscribe(self._changed)
        self._env.leadership.subscribe(self._leadership_changed)
        self._env.overrides.subscribe(self._overrides_changed)
        if self._registry.endpoints is not None:
            self._registry.endpoints.subscribe(self._gate_changed)
        while not self._env.seed.watch_state(Watched.CLUSTERS).synced:
            await self._env.clock.sleep(_POLL)
        listed = tuple(self._env.seed.clusters())
        self._first_list = set(listed)
        self._registry.listed = not listed
        for namespace in listed:
            self._queue.add(namespace)
        await asyncio.gather(*(self._work() for _ in range(self._workers)))

    def _leadership_changed(self) -> None:
        for runner in self._registry.runners():
            runner.leadership_changed()

    def _overrides_changed(self, namespace: str | None) -> None:
        if namespace is None:
            for each in self._registry.runners():
                each.overrides_changed()
        elif (runner := self._registry.runner(namespace)) is not None:
            runner.overrides_changed()

    def _gate_changed(self, namespace: str) -> None:
        if (runner := self._registry.runner(namespace)) is not None:
            runner.gate_changed()

    def _changed(self, change: SeedChange) -> None:
        """Tells the runner of a change, and queues the shoot if whether it is probed may depend on the change."""
        runner = self._registry.runner(change.namespace)
        match change.what:
            case Watched.CLUSTERS:
                self._queue.add(change.namespace)
            case Watched.SECRETS if runner is not None:
                runner.secret_changed()
            case Watched.DEPENDENTS if runner is not None:
                runner.dependents_changed()
            case Watched.DEPENDENTS if change.namespace in self._env.seed.clusters():
                self._queue.add(change.namespace)  # protection may be active there
            case _:
                return

    async def _work(self) -> None:
        while True:
            namespace = await self._queue.take()
            try:
                await self._reconcile(namespace)
            finally:
                self._queue.done(namespace)

    async def _reconcile(self, namespace: str) -> None:
        cluster, runner = self._env.seed.clusters().get(namespace), self._registry.runner(namespace)
        if runner is not None and cluster is not None and cluster.uid != runner.uid:
            # A list does not show that the one which is probed was gone.
            await self._registry.stop(namespace, lifecycle.MADE_AGAIN)
            cluster, runner = self._env.seed.clusters().get(namespace), None
        found = lifecycle.decide(cluster)
        undecodable = found.action is lifecycle.LifecycleAction.UNKNOWN
        if cluster is None:
            self._reported.pop(namespace, None)
        elif undecodable and self._reported.get(namespace) != cluster.resource_version:
            # Reported once for each resourceVersion of the Cluster.
            self._reported[namespace] = cluster.resource_version
            messages.lifecycle_changed(self._env, namespace, found.reason, found.message)
        protected = scaling.protection_active(self._env.dependents(namespace).values())
        if not found.runs(running=runner is not None, protected=protected):
            await self._registry.stop(namespace, found)
        elif cluster is not None and isinstance(cluster.shoot, ShootView):
            subject = ProbedShoot.of(cluster, cluster.shoot, self._env.policy)
            if runner is not None:
                runner.cluster_changed(subject)
            else:
                scaling_from = lifecycle.scaling_from(
                    cluster.shoot,
                    initial_delay=self._env.policy.initial_delay,
                    now=self._env.clock.now(),
                    in_first_list=namespace in self._first_list,
                )
                self._registry.start(subject, found, scaling_from)
        self._first_list.discard(namespace)
        self._registry.listed = self._registry.listed or not self._first_list


class Prober:
    """The prober of one process: its parts put together, to be started and stopped."""

    def __init__(self, environment: ProberEnvironment, *, workers: int = 1) -> None:
        self._env = environment
        self.registry = ShootRegistry(environment)
        self.controller = ProberController(environment, self.registry, workers)
        self.dependents = Dependents(environment)
        self.scale_requests = ScaleRequests(environment, self.registry)
        self.scaling_runs = ManualScaling(
            environment, self.registry, self.scale_requests, self.dependents
        )
        self._releases = Releases(environment, self.registry, self.scale_requests)

    def start(self) -> None:
        """Starts the background loops."""
        tasks = self._env.tasks
        _ = tasks.shared(self.controller.run, "prober controller")
        _ = tasks.shared(self.scale_requests.run, "scale requests")
        if self._env.policy.max_protection is not None:
            _ = tasks.shared(self._releases.run, "releases")

    def prepared(self) -> Preparation:
        """How far this process is prepared to lead: everything listed, and each shoot probed at least once."""
        if not self.registry.listed or not listed(self._env):
            return Preparation.NONE
        has_probed = all(each.has_probed for each in self.registry.runners())
        return Preparation.COMPLETE if has_probed else Preparation.LISTED

    async def stop(self, why: str) -> None:
        """Ends all probing; requests of scaling runs that were sent are finished first."""
        # Neither waits for the other: there is less than a second for both.
        await asyncio.gather(self.scale_requests.stopping(), self.registry.stop_all(why))
