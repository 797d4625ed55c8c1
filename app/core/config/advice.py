"""What a correct file may still get wrong; pure."""

from collections.abc import Iterator
from typing import Final

from app.core.config.durations import format_duration
from app.core.model.policy import DependentPolicy, ProberPolicy

EXPIRY: Final = 0.75
"""The part of the grace after which a lease counts as expired (spec, words)."""


def late_scale_down(policy: ProberPolicy) -> str | None:
    """Why protection would come after the nodes were marked NotReady; None where it would not.

    A Shoot may have a grace of its own, which no file shows.
    """
    expiry = EXPIRY * policy.grace
    late = [
        f"{each.ref} after {format_duration(wait)}"
        for each, wait in _first_writes(policy.dependents)
        if expiry + wait >= policy.grace
    ]
    if not late:
        return None
    return (
        f"leases expire after {format_duration(expiry)} and nodes are marked NotReady after "
        f"{format_duration(policy.grace)}, but the scaleDown delays let these wait too long: "
        + ", ".join(late)
    )


def _first_writes(
    dependents: tuple[DependentPolicy, ...],
) -> Iterator[tuple[DependentPolicy, float]]:
    """Each dependent with the seconds from the verdict to its write, where every write is accepted at once."""
    start = 0.0
    for level in sorted({each.scale_down.level for each in dependents}):
        members = [each for each in dependents if each.scale_down.level == level]
        yield from ((each, start + each.scale_down.initial_delay) for each in members)
        start += max(each.scale_down.initial_delay for each in members)
