"""What a world is made of: its shoots, its policy, how many instances of the watchdog; drawn from its seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.workloads import Direction, ResourceRef
from app.prober.rules import scaling
from app.simulation import manifests
from app.simulation.workloads import PodPace
from bench.exploration import path_draws

KCM: Final = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM: Final = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")
CA: Final = ResourceRef("apps/v1", "Deployment", "cluster-autoscaler")
ETCD: Final = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")
STRAY: Final = ResourceRef("apps/v1", "Deployment", "kube-scheduler")
"""Not configured, whatever it carries."""

MINUTES: Final = 30.0
_EVERY: Final = 4
"""One world in so many is in endpoint mode."""
_SETTLE: Final = 60.0
_LOOKS: Final = 3
"""How many good probes in a row it takes by default."""
_POD: Final = 5.0
"""What a level's pods take within the time to settle."""


@dataclass(frozen=True, slots=True)
class ShootRecipe:
    """One shoot."""

    name: str
    nodes: int = 10
    unmanaged: int = 0
    grace: str | None = None
    lease_duration: int = 40
    counts: Mapping[str | ResourceRef, int] = field(
        default_factory=lambda: MappingProxyType({KCM: 1, MCM: 1, CA: 1})
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """One world."""

    seed: str
    policy: ProberPolicy
    shoots: tuple[ShootRecipe, ...]
    instances: int = 1
    latency: float = 0.02
    watch_delay: float = 0.05
    page: int = 500
    """Objects of one page of a list."""
    pace: PodPace = field(default_factory=PodPace)
    fault_every: float = 25.0
    """Seconds between two faults, on average."""
    people_every: float = 120.0
    strike_every: float = 300.0
    """Seconds between two strikes against a process."""

    @property
    def elected(self) -> bool:
        """Whether the instances elect a leader."""
        return self.instances > 1

    @property
    def endpoint_mode(self) -> bool:
        """Whether two paths decide, and no lease is read."""
        return self.policy.endpoint_mode

    @property
    def delays(self) -> float:
        """What the configuration asks to wait on the way up, all levels together, and before anything is scaled."""
        policy = self.policy
        levels = scaling.levels(policy.dependents, Direction.UP)
        looks = max(policy.success_threshold - _LOOKS, 0) * policy.suspect_interval
        delays = (max(each.scale_up.initial_delay for each in level) for level in levels)
        return policy.initial_delay + looks + sum(delays) + self._paths

    @property
    def _paths(self) -> float:
        """What the internal path takes before the external one is counted: it failed last, and must be healthy."""
        policy = self.policy
        if not policy.endpoint_mode:
            return 0.0
        return (
            policy.internal_failure_backoff or 0.0
        ) + policy.success_threshold * policy.suspect_interval

    @property
    def chaos(self) -> float:
        """For how long things go wrong, in seconds: then there is time left for everything to become right."""
        return MINUTES * 60 - self.settled_after(0.0)

    @property
    def slowness(self) -> float:
        """What pods and watches of this world take on the way up, beyond a few seconds for each level."""
        levels = scaling.levels(self.policy.dependents, Direction.UP)
        return len(levels) * max(self.pace.ready + self.watch_delay - _POD, 0.0)

    def settled_after(self, flapping: float) -> float:
        """Seconds after the last fault after which everything is right again."""
        return _SETTLE + self.delays + self.slowness + flapping


def draw(seed: int, number: int) -> Recipe:
    """The recipe of one world."""
    name = f"{seed}/{number}"
    rng = random.Random(f"{name}/recipe")
    policy = _policy(rng)
    if number % _EVERY == _EVERY - 1:
        policy = path_draws.policy(random.Random(f"{name}/paths"), policy)
    shoots = tuple(_shoot(rng, policy, which) for which in range(rng.randint(1, 5)))
    return Recipe(
        name,
        policy,
        shoots,
        instances=rng.choice((2, 2, 3)) if number % 3 == 0 else 1,
        latency=rng.choice((0.002, 0.02, 0.05)),
        watch_delay=rng.choice((0.01, 0.05, 0.05, 0.5, 3.0)),
        page=rng.choice((500, 500, 3)),
        pace=PodPace(ready=rng.choice((1.0, 5.0, 10.0))),
        fault_every=rng.choice((6.0, 20.0, 40.0, 60.0)),
        people_every=rng.choice((15.0, 30.0, 60.0, 1e6)),
        strike_every=rng.choice((60.0, 150.0, 300.0, 1e6)),
    )


def _policy(rng: random.Random) -> ProberPolicy:
    interval = rng.choice((10.0, 10.0, 30.0))
    return ProberPolicy(
        kubeconfig_secret=manifests.SECRET_NAME,
        dependents=_dependents(rng),
        probe_interval=interval,
        initial_delay=rng.choice((0.0, 30.0)),
        jitter=rng.choice((0.0, 0.2)),
        limit=rng.choice((0.6, 0.6, 0.5, 0.8, 1.0)),
        failure_threshold=rng.choice((1, 1, 2)),
        success_threshold=rng.choice((3, 3, 1, 5)),
        suspect_interval=rng.choice((5.0, 5.0, 2.0)),
        max_protection=rng.choice((None, None, 60.0, 120.0, 300.0)),
    )


def _dependents(rng: random.Random) -> tuple[DependentPolicy, ...]:
    found = [
        DependentPolicy(KCM, ScalePolicy(0), ScalePolicy(1)),
        DependentPolicy(MCM, ScalePolicy(1, rng.choice((0.0, 30.0))), ScalePolicy(0)),
        DependentPolicy(CA, ScalePolicy(2), ScalePolicy(0), optional=True),
    ]
    if rng.random() < 0.3:
        down = ScalePolicy(rng.choice((0, 2)), rng.choice((0.0, 5.0)))
        found.append(DependentPolicy(ETCD, ScalePolicy(rng.choice((0, 3))), down))
    return tuple(found)


def _shoot(rng: random.Random, policy: ProberPolicy, which: int) -> ShootRecipe:
    nodes = rng.choice((1, 2, 3, 5, 8, 12))
    return ShootRecipe(
        f"shoot--world--{'abcde'[which]}",
        nodes,
        unmanaged=rng.choice((0, 0, 0, min(1, nodes - 1))),
        grace=rng.choice((None, None, "40s", "60s", "2m")),
        lease_duration=rng.choice((40, 40, 40, 20)),
        counts=MappingProxyType({each.ref: rng.randint(1, 3) for each in policy.dependents}),
    )
