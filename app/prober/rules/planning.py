"""Which resources a flow touches, in which order (rules 4.3, levels)."""

from collections.abc import Iterable
from itertools import groupby

from app.core.model.policy import DependentPolicy
from app.core.model.workloads import Direction

Level = tuple[DependentPolicy, ...]


def levels(dependents: Iterable[DependentPolicy], direction: Direction) -> tuple[Level, ...]:
    """The dependents grouped by their level in this direction, ascending; all of one level go at once."""

    def level(dependent: DependentPolicy) -> int:
        return dependent.scale(direction).level

    return tuple(tuple(group) for _, group in groupby(sorted(dependents, key=level), key=level))
