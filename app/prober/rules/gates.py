"""Whether an endpoint probe keeps a scale-down from starting (rules 5, Gates).

A gate is a canary for the seed's own network. It is closed only while every target of its probe has a recent, counted
Failure; whenever something is not known, it is open.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.core.model.endpoints import CachedResult, EndpointProbeSpec, GateReason
from app.core.model.instants import rfc3339

PERIODS: Final = 3
"""After how many periods without a result a target no longer counts as failing."""
FOR_EVER: Final = math.inf
_OF_RUNS: Final = frozenset({CachedResult.SUCCESS, CachedResult.FAILURE})
# How many targets a message names; the others are counted.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class GateInputs:
    """What the results cache has for one target."""

    target: str
    """Its name as operators know it."""
    result: CachedResult | None = None
    counted: bool = False
    since: float = 0.0
    result_at: float | None = None
    """When the last run that gave a result ended."""
    message: str = ""
    """The message of that run."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The state of a gate at one instant."""

    reason: GateReason
    message: str
    """Names the probe and its targets, with their messages and since when."""
    until: float = FOR_EVER
    """When a closed gate opens without further results, as those that it was closed on are too old then."""

    @property
    def closed(self) -> bool:
        """Whether the gate keeps a scale-down from starting."""
        return self.reason is GateReason.FAILING


def lifespan(probe: EndpointProbeSpec) -> float:
    """For how many seconds a result is valid: three times the longer of period and timeout.

    A run that takes longer than a period delays the next one: if all runs end by their timeout, there is one result for
    each timeout (docs/decisions/0035).
    """
    return float(PERIODS * max(probe.period, probe.timeout))


def judge(
    probe: EndpointProbeSpec,
    readings: Sequence[GateInputs],
    now: float,
    known_until: float = FOR_EVER,
) -> GateVerdict:
    """Judges the gate of one probe in one namespace.

    Args:
        probe: the probe, which is a gate.
        readings: what is known of each of its targets.
        now: the present instant.
        known_until: the instant after which it is no longer known which targets there are; never for a host.
    """
    if now > known_until:
        return _open(probe, GateReason.TARGETS_UNKNOWN, "the pods are not known")
    if not readings:
        return _open(probe, GateReason.NO_TARGET, "it has no target")
    fresh = [each for each in readings if _says_something(probe, each, now)]
    if well := [each.target for each in fresh if each.result is CachedResult.SUCCESS]:
        return _open(probe, GateReason.PASSING, f"healthy: {_listed(well, len(well))}")
    if silent := [each.target for each in readings if not _says_something(probe, each, now)]:
        text = f"no counted result, or none for {lifespan(probe):.0f} s: {_listed(silent, len(silent))}"
        return _open(probe, GateReason.NO_RESULT, text)
    ends = [each.result_at + lifespan(probe) for each in fresh if each.result_at is not None]
    return GateVerdict(GateReason.FAILING, _why_closed(probe, readings), min(known_until, *ends))


def _open(probe: EndpointProbeSpec, reason: GateReason, why: str) -> GateVerdict:
    return GateVerdict(reason, f"the gate {probe.name} is open: {why}")


def _says_something(probe: EndpointProbeSpec, reading: GateInputs, now: float) -> bool:
    """Whether the target has a counted result of runs that is still valid."""
    if reading.result not in _OF_RUNS or not reading.counted or reading.result_at is None:
        return False
    return now - reading.result_at <= lifespan(probe)


def _why_closed(probe: EndpointProbeSpec, readings: Sequence[GateInputs]) -> str:
    total = len(readings)
    which = "its target fails" if total == 1 else f"all its {total} targets fail"
    texts = [
        f"{each.target} since {rfc3339(each.since)}: {each.message}" for each in readings[:_NAMED]
    ]
    return f"the gate {probe.name} is closed, {which}: {_listed(texts, total)}"


def _listed(texts: Sequence[str], total: int) -> str:
    """Joins the first few of `total` texts; `texts` needs to have only those."""
    more = total - _NAMED
    named = "; ".join(texts[:_NAMED])
    return f"{named}; and {more} more" if more > 0 else named
