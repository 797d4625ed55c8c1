"""Defects of endpoint mode that are made on purpose, from outside, to see that the exploration finds them."""

from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

from app.core.model.probing import Reading, VerdictReason
from app.core.model.shoots import Route
from app.core.model.workloads import Direction
from app.prober.endpoints.manager import EndpointProbes
from app.prober.rules import paths, verdict
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.verdict import Preconditions
from app.prober.shoot_probe import PathProbe


def names_counted() -> Any:  # noqa: ANN401  a patch
    """A name without an address counts as a failure of the path."""
    original = paths.counts

    def counts(route: Route, reason: VerdictReason) -> bool:
        return reason is VerdictReason.NAME_UNRESOLVED or original(route, reason)

    return patch.object(paths, "counts", counts)


def pages_counted() -> Any:  # noqa: ANN401  a patch
    """An answer on the external path that is no version counts as a failure of the path."""
    original = paths.counts

    def counts(route: Route, reason: VerdictReason) -> bool:
        return reason is VerdictReason.BAD_ANSWER or original(route, reason)

    return patch.object(paths, "counts", counts)


def internal_path_taken_for_granted() -> Any:  # noqa: ANN401  a patch
    """The internal path is not asked once more before a scale-down."""

    async def confirm(self: PathProbe, shoot: ProbedShoot, first: Reading) -> Reading:
        del self, shoot
        return first

    return patch.object(PathProbe, "confirm", confirm)


def gate_unheeded() -> Any:  # noqa: ANN401  a patch
    """A gate keeps nothing from starting."""

    def closed(self: EndpointProbes, namespace: str) -> None:
        del self, namespace

    return patch.object(EndpointProbes, "closed", closed)


def gate_against_everything() -> Any:  # noqa: ANN401  a patch
    """A closed gate holds back what goes up as well."""
    obstacle = verdict._start_obstacle  # noqa: SLF001

    def gated(gates: Preconditions, direction: Direction) -> tuple[VerdictReason, str] | None:
        closed = None if gates.closed_by is None else (VerdictReason.GATED, gates.closed_by)
        return closed or obstacle(gates, direction)

    return patch.object(verdict, "_start_obstacle", gated)


PLANTS: Final[dict[str, Callable[[], Any]]] = {
    "names-counted": names_counted,
    "pages-counted": pages_counted,
    "internal-path-taken-for-granted": internal_path_taken_for_granted,
    "gate-unheeded": gate_unheeded,
    "gate-against-everything": gate_against_everything,
}
