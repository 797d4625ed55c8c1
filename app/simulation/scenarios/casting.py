"""The shoots of a simulated seed, and the zones of their nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.simulation.builders import ZONES, World
from app.simulation.scenarios.model import OwnShoot, Zone, spread
from app.simulation.views import ZONE

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
