"""A prober on a simulated seed, on virtual time: the harness of its tests."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from app.core.clock import Clock
from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from app.core.model.overrides import API_VERSION
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.probing import Decision, ShootState, VerdictReason
from app.core.model.workloads import ResourceRef
from app.core.ports import Leadership
from app.core.reporting.notices import Notice
from app.core.tasks import Tasks
from app.prober.controller import Prober
from app.prober.environment import EndpointAdapters, ProberEnvironment
from app.prober.status import ShootCondition, ShootStatus
from app.service.loops import OverrideFeature
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.faults import Faults
from app.simulation.identities import WATCHDOG
from app.simulation.process import SimulatedProcess
from app.simulation.traffic import Write
from tests.support.doubles import SetLeadership
from tests.support.seed_lab import PLACE, ProcessHarness, SeedLab

KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")
CA = ResourceRef("apps/v1", "Deployment", "cluster-autoscaler")
SHOOT = PLACE

GARDENER = ProberPolicy(
    kubeconfig_secret=manifests.SECRET_NAME,
    dependents=(
        DependentPolicy(KCM, ScalePolicy(0), ScalePolicy(1)),
        DependentPolicy(MCM, ScalePolicy(1, initial_delay=30.0), ScalePolicy(0)),
        DependentPolicy(CA, ScalePolicy(2), ScalePolicy(0), optional=True),
    ),
)
"""Gardener's dependents and levels, with our defaults for everything else."""


def changed(ref: ResourceRef, **changes: object) -> tuple[DependentPolicy, ...]:
    """Gardener's dependents, one of them changed."""
    return tuple(
        replace(each, **changes) if each.ref == ref else each  # type: ignore[arg-type]  # a test's own words
        for each in GARDENER.dependents
    )


def operation(kind: str, at: float, state: str = "Succeeded") -> dict[str, Any]:
    """What a Cluster is patched with, so that this is the last operation of its Shoot."""
    last = {"type": kind, "state": state, "lastUpdateTime": rfc3339(at)}
    return {"status": {"lastOperation": last}}


SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=60.0))
"""A scaling run downwards waits a minute before it writes KCM."""
ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")
WITH_ETCD = (*GARDENER.dependents, DependentPolicy(ETCD, ScalePolicy(3), ScalePolicy(2)))
"""A fourth dependent, of a kind whose replicas only its `scale` shows."""


@dataclass
class Harness(ProcessHarness):
    """A world, a prober on it, and what it told."""

    world: World
    prober: Prober
    environment: ProberEnvironment
    process: SimulatedProcess
    again: Callable[[], "Harness"]
    """Starts another process of the same configuration on the same world."""
    notices: list[Notice] = field(default_factory=list)

    @property
    def faults(self) -> Faults:
        return self.world.faults

    def status(self, namespace: str = SHOOT) -> ShootStatus:
        status = self.prober.registry.status(namespace)
        assert status is not None
        return status

    def state(self, namespace: str = SHOOT) -> ShootState:
        return self.status(namespace).state

    def decision(self, namespace: str = SHOOT) -> Decision:
        decision = self.status(namespace).decision
        assert decision is not None
        return decision

    def reason(self, namespace: str = SHOOT) -> VerdictReason:
        return self.decision(namespace).reason

    def runs(self, namespace: str = SHOOT) -> bool:
        """Whether the shoot is probed."""
        return self.prober.registry.runner(namespace) is not None

    def annotate(self, ref: ResourceRef, **values: str) -> None:
        """Sets annotations of ours on a dependent, as a person does."""
        keys = {ann.PREFIX + name.replace("_", "-"): value for name, value in values.items()}
        self.world.patch(SHOOT, ref, {"metadata": {"annotations": keys}})

    def condition(self, kind: str) -> ShootCondition:
        (found,) = [each for each in self.status().conditions if each.type == kind]
        return found

    def scaling(self) -> tuple[str, str]:
        """Status and message of ScalingSucceeded."""
        found = self.condition("ScalingSucceeded")
        return found.status, found.message

    def probes(self, namespace: str = SHOOT) -> list[float]:
        """When each probe ended."""
        return [n.at for n in self.notices if n.kind == "Look" and n.namespace == namespace]

    def replicas(self, namespace: str = SHOOT) -> tuple[int | None, ...]:
        return tuple(self.world.replicas(namespace, ref) for ref in (KCM, MCM, CA))

    def writes(self, ref: ResourceRef | None = None, namespace: str = SHOOT) -> tuple[Write, ...]:
        """What probers wrote to dependents, all of them or to one."""
        found = self.world.journal.of(WATCHDOG, namespace, None if ref is None else ref.name)
        return tuple(each for each in found if each.ref.api_version != API_VERSION)

    def notes(self, namespace: str = SHOOT) -> tuple[Write, ...]:
        """What probers wrote of Pauses and ScaleRequests."""
        found = self.world.journal.of(WATCHDOG, namespace)
        return tuple(each for each in found if each.ref.api_version == API_VERSION)

    async def survive_an_outage(self) -> None:
        """The nodes of the shoot lose their path, and get it back when protection is complete."""
        async with self.under_protection():
            pass

    @asynccontextmanager
    async def under_protection(self) -> AsyncIterator[None]:
        """The rest of an outage of the nodes' path, from when protection is complete."""
        with self.faults.path_cut(SHOOT):
            await self.protect()
            yield

    async def protect(self, namespace: str = SHOOT) -> None:
        """Waits until protection is complete, in an outage that somebody else began."""
        await self.until(lambda: self.state(namespace) is ShootState.PROTECTED, within=90)


class Lab(SeedLab):
    """Makes worlds and probers, and ends them."""

    def __init__(self, tasks: Tasks, clock: Clock) -> None:
        super().__init__(tasks, clock)
        self.leadership = SetLeadership()
        """That of probers that are given none of their own."""
        self._harnesses: list[Harness] = []

    def with_shoot(self, **options: Any) -> World:
        """A world with one healthy shoot of ten nodes."""
        world = self.world(**options)
        world.add_shoot(SHOOT)
        return world

    def prober(
        self,
        world: World,
        policy: ProberPolicy = GARDENER,
        *,
        leadership: Leadership | None = None,
        dry_run: bool = False,
        connector: Callable[[Any], Any] = lambda real: real,
        **changes,
    ) -> Harness:
        """Starts a prober on `world`, a process of its own; a second one on the same world is a second instance.

        `connector` makes the one that it uses of the real one.
        """
        core, changed = self.core(), replace(policy, **changes)
        process = self.process(world, core, WATCHDOG, prober=changed, dry_run=dry_run)
        overrides = OverrideFeature(core, process.adapters, dry_run=dry_run)
        overrides.start()
        reached: Any = process.adapters.prober
        environment = ProberEnvironment(
            policy=changed,
            seed=reached.seed,
            connector=connector(reached.connector),
            leadership=leadership or self.leadership,
            clock=self.clock,
            tasks=core.tasks,
            notice_bus=core.notice_bus,
            chance=core.chance,
            dry_run=dry_run,
            overrides=overrides.view,
            override_service=overrides.override_service,
            identity=overrides.identity,
            endpoints=reached.endpoints
            and EndpointAdapters(
                world.handlers, reached.endpoints.pods
            ),  # targets are no API servers
        )

        def again() -> Harness:
            return self.prober(
                world,
                policy,
                leadership=leadership,
                dry_run=dry_run,
                connector=connector,
                **changes,
            )

        harness = Harness(world, Prober(environment), environment, process, again)
        environment.notice_bus.subscribe(harness.notices.append)
        process.start()
        harness.prober.start()
        self._harnesses.append(harness)
        return harness

    async def healthy(
        self,
        world: World | None = None,
        *,
        settle: float = 60.0,
        shoot: Mapping[str, Any] = MappingProxyType({}),
        **options,
    ) -> Harness:
        """A prober that has probed one healthy shoot of ten nodes for a minute.

        `world` is one that differs from the usual; `shoot` and `options` say what of the shoot and the prober does.
        """
        world = world or self.world()
        world.add_shoot(SHOOT, **shoot)
        harness = self.prober(world, **options)
        await harness.run(settle)
        return harness

    async def close(self) -> None:
        """Ends all probers; not gently: virtual time ended with the test, so nothing can be waited for."""
        for harness in self._harnesses:
            await harness.kill()
