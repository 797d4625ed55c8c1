"""What a world of the weeder is made of: its control planes, its policy, its processes; drawn from its seed."""

import random
from dataclasses import dataclass, field
from typing import Final

from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.weeding import WeederPolicy
from app.simulation.workloads import (
    API_SERVER,
    ETCD_SERVICE,
    PodTimes,
    Workload,
    control_plane,
)

MINUTES: Final = 10.0
STRAY: Final = "shoot--world--stray"
"""Pods with the labels of a control plane, that wait, and no service that could come back."""


def _requires(key: str, operator: Operator, *values: str) -> Requirement:
    return Requirement(key, operator, frozenset(values))


_PLANE: Final = _requires("gardener.cloud/role", Operator.IN, "controlplane")
_SERVERS: Final = LabelSelector((_PLANE, _requires("role", Operator.IN, "apiserver")))
_OTHERS: Final = LabelSelector((_PLANE, _requires("role", Operator.NOT_IN, "main", "apiserver")))
_SOME: Final = LabelSelector((_requires("role", Operator.IN, "scheduler", "vpa", "check", "csi"),))
GARDENER: Final = {ETCD_SERVICE: (_SERVERS,), API_SERVER: (_OTHERS,)}
"""Gardener's weeder file."""
_SERVICES: Final = (
    GARDENER,
    GARDENER,
    {ETCD_SERVICE: (_SERVERS, _SOME), API_SERVER: (_SOME, _OTHERS)},
    {ETCD_SERVICE: (LabelSelector((_PLANE,)),), API_SERVER: (_OTHERS,)},
)


@dataclass(frozen=True, slots=True)
class PlaneRecipe:
    """One control plane."""

    namespace: str
    api_servers: int = 2
    bare: bool = False
    independent: bool = False
    times: PodTimes = field(default_factory=PodTimes)

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """What runs in it."""
        return control_plane(
            self.namespace,
            api_servers=self.api_servers,
            bare=self.bare,
            independent=self.independent,
            times=self.times,
        )


@dataclass(frozen=True, slots=True)
class WeederRecipe:
    """One world of the weeder."""

    seed: str
    policy: WeederPolicy
    planes: tuple[PlaneRecipe, ...]
    instances: int = 1
    latency: float = 0.02
    watch_delay: float = 0.05
    page: int = 100
    """Objects of one page of a list."""
    deletions_a_second: int = 20
    fault_every: float = 10.0
    """Seconds between two faults, on average."""
    people_every: float = 30.0
    strike_every: float = 100.0
    chaos: float = 60 * MINUTES
    """Seconds in which things go wrong."""

    @property
    def elected(self) -> bool:
        """Whether there is an election."""
        return self.instances > 1


def draw(seed: int, number: int) -> WeederRecipe:
    """The recipe of one world."""
    name = f"weeder/{seed}/{number}"
    rng = random.Random(f"{name}/recipe")
    planes = tuple(_plane(rng, which) for which in range(rng.choice((3, 3, 4, 5, 8, 12))))
    return WeederRecipe(
        name,
        _policy(rng),
        planes,
        instances=rng.choice((2, 2, 3)) if number % 3 == 0 else 1,
        latency=rng.choice((0.002, 0.02, 0.05)),
        watch_delay=rng.choice((0.01, 0.05, 0.05, 0.5, 3.0)),
        page=rng.choice((100, 100, 3)),
        deletions_a_second=rng.choice((20, 20, 100, 3, 1)),
        fault_every=rng.choice((2.0, 4.0, 8.0, 15.0)),
        people_every=rng.choice((5.0, 10.0, 20.0, 40.0)),
        strike_every=rng.choice((40.0, 100.0, 200.0, 1e6)),
    )


def _policy(rng: random.Random) -> WeederPolicy:
    if rng.random() < 0.4:
        return WeederPolicy(services=GARDENER)
    return WeederPolicy(
        services=rng.choice(_SERVICES),
        watch_duration=rng.choice((30.0, 60.0, 120.0, 300.0)),
        max_deletions_per_workload=rng.choice((1, 1, 2, 5)),
        min_backoff_remaining=rng.choice((0.0, 2.0, 10.0, 60.0)),
        weed_bare_pods=rng.random() < 0.3,
    )


def _plane(rng: random.Random, which: int) -> PlaneRecipe:
    times = PodTimes(
        crash_after=rng.choice((0.5, 1.0, 2.0, 5.0)),
        ready_after=rng.choice((1.0, 3.0, 8.0)),
        lost_after=rng.choice((1.0, 5.0)),
        grace=rng.choice((0.1, 1.0, 20.0)),
        jitter=rng.choice((0.0, 0.1, 0.5)),
    )
    return PlaneRecipe(
        f"shoot--world--{'abcdefghijkl'[which]}",
        api_servers=rng.choice((1, 2, 3)),
        bare=rng.random() < 0.4,
        independent=rng.random() < 0.4,
        times=times,
    )
