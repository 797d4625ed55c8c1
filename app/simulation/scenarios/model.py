"""The records of a scenario: a sequence of scenes, each of which applies an action to shoots for some time."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from app.simulation.builders import World
from app.simulation.parts import Fault

Begin = Callable[[World, str], Fault | None]
"""Lets it happen to the shoot of a control-plane namespace; returns what ends it, if anything does."""


class ActionScope(StrEnum):
    """The target of an action."""

    SHOOT = "shoot"
    SEED = "seed"


class Touches(StrEnum):
    """A property that only one action can change at a time."""

    KUBECONFIG = "kubeconfig"
    CLUSTER = "cluster"
    CONTROLLERS = "controllers"
    NODES = "nodes"
    PODS = "pods"


@dataclass(frozen=True, slots=True)
class Some:
    """The next `count` shoots in turn that are in no other scene; fewer, but at least one, if there are not enough."""

    count: int


@dataclass(frozen=True, slots=True)
class Named:
    """Shoots chosen by their short names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Everyone:
    """All shoots."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """No shoot: the action affects the seed."""


Chosen = Some | Named | Everyone | Nobody


class Since(StrEnum):
    """The instant from which the pause before a scene counts."""

    BEGIN = "Begin"
    """The begin of the previous scene; for the first one, that of the scenario."""
    END = "End"
    """The end of all previous scenes."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The timing of a scene; durations in seconds."""

    since: Since
    pause: float
    """The pause before the scene, the only duration that the demo's speed shortens."""
    lasting: float
    """The duration of the effect; 0 for an instantaneous action."""
    times: int = 1
    every: float = 0.0
    """The period from one repetition to the next."""

    @property
    def whole(self) -> float:
        """The total duration of the scene."""
        return (self.times - 1) * self.every + self.lasting


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene: an action, its target and its timing."""

    action: str
    """The name of the action."""
    say: str
    """A description for people."""
    chosen: Chosen
    timing: Timing
    begin: Begin
    touches: Touches | None = None


@dataclass(frozen=True, slots=True)
class Zone:
    """The share of nodes in one zone."""

    name: str
    share: float
    """Above 0; those of a shoot add up to 1."""


@dataclass(frozen=True, slots=True)
class OwnShoot:
    """A shoot that a scenario defines for the scenes that name it."""

    name: str
    nodes: int
    zones: tuple[Zone, ...] = ()
    """The distribution over zones; empty for the usual one."""


class DemoMode(StrEnum):
    """The mode of the demo's prober."""

    LEASE = "lease"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A complete scenario."""

    name: str
    about: str
    scenes: tuple[Scene, ...]
    own: tuple[OwnShoot, ...] = ()
    mode: DemoMode = DemoMode.LEASE
    canary: bool = False
    """Whether a host outside the seed is probed, whose failure closes a gate."""
