"""The kinds of worlds: the prober's and the weeder's, each with its plants."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from bench.exploration import boundaries, plants, recipe
from bench.exploration.story import Story
from bench.exploration.strikes import Case
from bench.exploration.weeder import boundaries as weeder_boundaries
from bench.exploration.weeder import plants as weeder_plants
from bench.exploration.weeder import recipe as weeder_recipe
from bench.exploration.weeder.world import Weeding
from bench.exploration.world import Exploration

T = TypeVar("T")


class Kind(StrEnum):
    """Which of the two halves of the watchdog lives in a world."""

    PROBER = "prober"
    WEEDER = "weeder"


PLANTS: Final[Mapping[Kind, Mapping[str, Callable[[], Any]]]] = MappingProxyType(
    {Kind.PROBER: plants.PLANTS, Kind.WEEDER: weeder_plants.PLANTS}
)


def play(kind: Kind, seed: int, number: int) -> Story:
    """Plays one world."""
    match kind:
        case Kind.PROBER:
            return Exploration(recipe.draw(seed, number)).run()
        case Kind.WEEDER:
            return Weeding(weeder_recipe.draw(seed, number)).run()


def cases(kind: Kind) -> tuple[Case, ...]:
    """The boundaries at which its processes are struck."""
    match kind:
        case Kind.PROBER:
            return boundaries.cases()
        case Kind.WEEDER:
            return weeder_boundaries.cases()


def strike(kind: Kind, number: int) -> tuple[Case, Story]:
    """Strikes at one of them."""
    case = cases(kind)[number]
    match kind:
        case Kind.PROBER:
            return case, boundaries.play(case)
        case Kind.WEEDER:
            return case, weeder_boundaries.play(case)


def strikes(kind: Kind, jobs: int, what: Callable[[Case, Story], T]) -> Iterator[T]:
    """`what` comes of a strike at each of them, in their order; so many plays at once."""
    match kind:
        case Kind.PROBER:
            return boundaries.play_all(jobs, what)
        case Kind.WEEDER:
            return weeder_boundaries.play_all(jobs, what)


def kind_of(plant: str) -> Kind:
    """Whose defect it is."""
    return next(kind for kind, known in PLANTS.items() if plant in known)


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """With this defect in the product; None: with none."""
    if name is None:
        yield
        return
    with PLANTS[kind_of(name)][name]():
        yield
