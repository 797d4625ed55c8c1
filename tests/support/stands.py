"""A prober on a simulated seed, on virtual time: what the tests of the loop stand on."""

import random
from dataclasses import dataclass, field, replace

from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.probing import ShootState
from app.core.model.workloads import ResourceRef
from app.core.records.notices import Notice, NoticeBoard
from app.core.runtime.clock import Clock
from app.core.runtime.tasks import Tasks
from app.core.simulation import manifests
from app.core.simulation.builders import World
from app.prober.environment import Environment
from app.prober.pacing import ProbeSlots, ScaleUpPace
from app.prober.prober import Prober

KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")
CA = ResourceRef("apps/v1", "Deployment", "cluster-autoscaler")
SHOOT = "shoot--local--a"

GARDENER = ProberPolicy(
    kubeconfig_secret=manifests.SECRET_NAME,
    dependents=(
        DependentPolicy(KCM, ScalePolicy(0), ScalePolicy(1)),
        DependentPolicy(MCM, ScalePolicy(1, initial_delay=30.0), ScalePolicy(0)),
        DependentPolicy(CA, ScalePolicy(2), ScalePolicy(0), optional=True),
    ),
)
"""Gardener's dependents and levels, with our defaults for everything else."""


@dataclass
class Stand:
    """A world, a prober on it, and what it told."""

    world: World
    prober: Prober
    environment: Environment
    notices: list[Notice] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return self.world.clock

    async def run(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    def state(self, namespace: str = SHOOT) -> ShootState:
        status = self.prober.registry.status(namespace)
        assert status is not None
        return status.state

    def reasons(self, namespace: str = SHOOT) -> list[str]:
        return [notice.reason for notice in self.notices if notice.namespace == namespace]

    def replicas(self, namespace: str = SHOOT) -> tuple[int | None, ...]:
        return tuple(self.world.replicas(namespace, ref) for ref in (KCM, MCM, CA))


class Stage:
    """Makes worlds and probers, and ends them."""

    def __init__(self, tasks: Tasks, clock: Clock) -> None:
        self.tasks = tasks
        self.clock = clock
        self._stands: list[Stand] = []

    def world(self, *, seed: int = 1, **options) -> World:
        return World(self.clock, self.tasks, seed=seed, **options)

    def prober(
        self, world: World, policy: ProberPolicy = GARDENER, *, dry_run: bool = False, **changes
    ) -> Stand:
        """Starts a prober on `world`; a second one on the same world is a second instance."""
        board = NoticeBoard()
        environment = Environment(
            policy=replace(policy, **changes),
            seed=world.seed,
            connector=world.connector,
            ownership=world.ownership,
            clock=self.clock,
            tasks=self.tasks,
            board=board,
            chance=random.Random(7),
            slots=ProbeSlots(),
            scale_ups=ScaleUpPace(),
            dry_run=dry_run,
        )
        stand = Stand(world, Prober(environment), environment)
        board.subscribe(stand.notices.append)
        stand.prober.start()
        self._stands.append(stand)
        return stand

    async def close(self) -> None:
        for stand in self._stands:
            await stand.prober.stop("the test is over")
