"""A scenario: scenes one after the other, each of which does something to some shoots for some time."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from app.simulation.builders import World
from app.simulation.stage import Fault

Begin = Callable[[World, str], Fault | None]
"""Lets it happen to the shoot of a control-plane namespace; returns what ends it, if anything does."""


class ActionScope(StrEnum):
    """What an action happens to."""

    SHOOT = "shoot"
    SEED = "seed"


class Touches(StrEnum):
    """What an action changes that can hold one such change at a time."""

    KUBECONFIG = "kubeconfig"
    CLUSTER = "cluster"
    CONTROLLERS = "controllers"
    NODES = "nodes"
    PODS = "pods"


@dataclass(frozen=True, slots=True)
class Some:
    """The next so many shoots, in turn, that are in no other scene; fewer where there are not so many, but one."""

    count: int


@dataclass(frozen=True, slots=True)
class Named:
    """These shoots, by their short names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Everyone:
    """All shoots."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """No shoot: it happens to the seed."""


Chosen = Some | Named | Everyone | Nobody


class Since(StrEnum):
    """What the pause before a scene counts from."""

    BEGIN = "Begin"
    """The begin of the scene before; of the first scene, the begin of the scenario."""
    END = "End"
    """The end of all scenes before."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When a scene plays; durations in seconds."""

    since: Since
    pause: float
    """Shortened by the speed; nothing else is."""
    lasting: float
    """0: it happens at once and is over."""
    times: int = 1
    every: float = 0.0
    """From one begin to the next, where it happens more than once."""

    @property
    def whole(self) -> float:
        """From the begin of the scene to its end."""
        return (self.times - 1) * self.every + self.lasting


@dataclass(frozen=True, slots=True)
class Scene:
    """Something that happens."""

    action: str
    """Its name."""
    say: str
    """What it is, for people."""
    chosen: Chosen
    timing: Timing
    begin: Begin
    touches: Touches | None = None


@dataclass(frozen=True, slots=True)
class Zone:
    """Where a part of the nodes is."""

    name: str
    share: float
    """Above 0; those of a shoot add up to 1."""


@dataclass(frozen=True, slots=True)
class OwnShoot:
    """A shoot that a scenario brings along, for the scenes that name it."""

    name: str
    nodes: int
    zones: tuple[Zone, ...] = ()
    """Empty: as in every other shoot."""


class DemoMode(StrEnum):
    """How the prober of the demo looks at shoots."""

    LEASE = "lease"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens to a simulated seed."""

    name: str
    about: str
    scenes: tuple[Scene, ...]
    own: tuple[OwnShoot, ...] = ()
    mode: DemoMode = DemoMode.LEASE
    canary: bool = False
    """Whether a host outside of the seed is probed, and closes a gate while it cannot be reached."""
