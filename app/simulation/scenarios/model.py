"""The records of a scenario: a sequence of scenes, each of which applies an action to shoots for some time."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field, Strict, ValidationInfo

from app.core.model.keys import KEYS, Complete, PositiveShare, Text, checked, whole
from app.core.model.names import is_label
from app.simulation.builders import ZONES, World
from app.simulation.parts import Fault
from app.simulation.views import ZONE

LEAST_NODES: Final = 2
MOST_NODES: Final = 5000
ALL: Final = "all"
"""Stands for all shoots."""

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


Label = Annotated[Text, checked(is_label, "a name of lower case letters, digits and -")]


@dataclass(frozen=True, slots=True)
class Zone:
    """The share of nodes in one zone; those of a shoot add up to 1."""

    __pydantic_config__: ClassVar = KEYS

    name: Label
    share: PositiveShare


def spread(zones: Sequence[Zone], nodes: int) -> tuple[str, ...]:
    """Returns the zone of each node, so that each zone has its share, rounded to whole nodes."""
    found: list[str] = []
    reach = 0.0
    for zone in zones:
        reach += zone.share
        found += [zone.name] * (round(reach * nodes) - len(found))
    return tuple(found)


def _not_all(name: str) -> str:
    if name == ALL:
        raise Complete(f"{ALL} stands for all shoots")
    return name


def _fit_shares(zones: tuple[Zone, ...], info: ValidationInfo) -> tuple[Zone, ...]:
    nodes, names = info.data.get("nodes", MOST_NODES), [zone.name for zone in zones]
    share = sum(zone.share for zone in zones)
    inhabited = set(spread(zones, nodes))
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise Complete(f"there is a zone {twice[0]} twice")
    if not math.isclose(share, 1.0, abs_tol=1e-6):
        raise Complete(f"the shares must add up to 1, not {share:g}")
    if empty := [name for name in names if name not in inhabited]:
        raise Complete(f"the share of {empty[0]} is less than one of {nodes} nodes")
    return zones


@dataclass(frozen=True, slots=True)
class OwnShoot:
    """A shoot that a scenario defines for the scenes that name it."""

    __pydantic_config__: ClassVar = KEYS

    name: Annotated[Label, AfterValidator(_not_all)]
    nodes: Annotated[int, Strict(), whole(LEAST_NODES, MOST_NODES)] = 10
    zones: Annotated[tuple[Zone, ...], Field(min_length=1), AfterValidator(_fit_shares)] = ()
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


# The shoots of a simulated seed, and the zones of their nodes.


PREFIX: Final = "shoot--demo--"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Part:
    """A shoot that takes part."""

    name: str
    """The short name."""
    nodes: int
    zones: tuple[Zone, ...] = ()
    own: bool = False
    """Whether it takes part only in scenes that name it."""

    @property
    def namespace(self) -> str:
        """Its control-plane namespace."""
        return PREFIX + self.name


def short(namespace: str) -> str:
    """Returns the short name of a shoot."""
    return namespace.removeprefix(PREFIX)


def cast(count: int, nodes: int, own: Sequence[OwnShoot] = ()) -> tuple[Part, ...]:
    """Shoots a to z, s26, s27 and so on with `nodes` nodes each, then the scenario's own.

    Args:
        count: how many there are in all; with fewer than one beside the scenario's own, one is added.
        nodes: of each that is not the scenario's own.
        own: those that the scenario brings along.
    """
    taken = {each.name for each in own}
    numbers = range(len(_LETTERS), count + len(own) + 1)  # after a to z
    free = (name for name in (*_LETTERS, *(f"s{each}" for each in numbers)) if name not in taken)
    ordinary = [Part(next(free), nodes) for _ in range(max(count - len(own), 1))]
    return (*ordinary, *(Part(each.name, each.nodes, each.zones, own=True) for each in own))


def populate(world: World, parts: Sequence[Part], *, health_timeout: float) -> None:
    """Adds the shoots to a world, each with the pods of its control plane.

    Args:
        world: a seed without them.
        parts: the shoots.
        health_timeout: how long machine-controller-manager puts up with a node, seconds.
    """
    for part in parts:
        world.add_shoot(part.namespace, nodes=part.nodes, health_timeout=health_timeout)
        world.add_control_plane(part.namespace)
        for number, zone in enumerate(spread(part.zones, part.nodes)):
            node = f"node-{number}"
            world.patch_node(part.namespace, node, {"metadata": {"labels": {ZONE: zone}}})
            world.shoot(part.namespace).fleet.of(node).zone = zone


def zones_of(own: OwnShoot | None) -> frozenset[str]:
    """Returns the zones of a shoot's nodes: of one that the scenario defines, or of any other (None)."""
    zones = own.zones if own is not None else ()
    return frozenset(zone.name for zone in zones) or frozenset(ZONES)
