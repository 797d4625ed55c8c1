"""Whether a probe keeps a scale-down from starting (rules 5, `effect`): only what is known for sure closes it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.model.endpoints import EndpointProbe
from app.core.model.instants import rfc3339
from app.prober.rules.endpoints import CachedResult

PERIODS: Final = 3
"""A target that has had no result for so many periods says nothing any more."""
FOR_EVER: Final = math.inf
_OF_RUNS: Final = frozenset({CachedResult.SUCCESS, CachedResult.FAILURE})
_NAMED: Final = 3
"""So many targets are named; of the others, how many there are."""


class GateReason(StrEnum):
    """Why a gate is closed or open."""

    FAILING = "Failing"
    """Every target has a counted Failure: the only reason to be closed."""
    PASSING = "Passing"
    """Some target is well."""
    NO_TARGET = "NoTarget"
    NO_RESULT = "NoResult"
    """No target is known to be well, and some have no counted result, or none for three periods."""
    TARGETS_UNKNOWN = "TargetsUnknown"
    """Which pods there are is not known: their watch has not listed them, or is stale."""

    @property
    def blind(self) -> bool:
        """Whether it is open only for want of knowledge."""
        return self not in {GateReason.FAILING, GateReason.PASSING}


@dataclass(frozen=True, slots=True)
class GateInputs:
    """What the results cache says of one target."""

    target: str
    """As an operator knows it."""
    result: CachedResult | None = None
    counted: bool = False
    since: float = 0.0
    result_at: float | None = None
    """When the last run that gave a result ended."""
    message: str = ""
    """What that run brought."""


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate at one instant."""

    reason: GateReason
    message: str
    """It names the probe and the targets, what they said, and since when."""
    until: float = FOR_EVER
    """When it opens by itself, if nothing else comes: what it was closed on is too old then."""

    @property
    def closed(self) -> bool:
        """Whether it keeps a scale-down from starting."""
        return self.reason is GateReason.FAILING


def lifespan(probe: EndpointProbe) -> float:
    """For how long a result says something, in seconds.

    A run that takes longer than a period makes the next one as late: where all end by their timeout, that is how often
    there are any (docs/decisions/0035).
    """
    return float(PERIODS * max(probe.period, probe.timeout))


def judge(
    probe: EndpointProbe, readings: Sequence[GateInputs], now: float, known_until: float = FOR_EVER
) -> GateState:
    """The gate of one probe, of its targets in one namespace.

    `known_until` is the instant after which it is no longer known which targets there are; for ever, where it is a
    host.
    """
    if now > known_until:
        return _open(probe, GateReason.TARGETS_UNKNOWN, "which pods there are is not known")
    if not readings:
        return _open(probe, GateReason.NO_TARGET, "it has no target")
    fresh = [each for each in readings if _says_something(probe, each, now)]
    if well := [each.target for each in fresh if each.result is CachedResult.SUCCESS]:
        return _open(probe, GateReason.PASSING, f"well: {_listed(well, len(well))}")
    if silent := [each.target for each in readings if not _says_something(probe, each, now)]:
        text = f"no counted result, or none for {lifespan(probe):.0f} s: {_listed(silent, len(silent))}"
        return _open(probe, GateReason.NO_RESULT, text)
    ends = [each.result_at + lifespan(probe) for each in fresh if each.result_at is not None]
    return GateState(GateReason.FAILING, _why_closed(probe, readings), min(known_until, *ends))


def _open(probe: EndpointProbe, reason: GateReason, why: str) -> GateState:
    return GateState(reason, f"the gate {probe.name} is open: {why}")


def _says_something(probe: EndpointProbe, reading: GateInputs, now: float) -> bool:
    """Whether runs said so, as often as it takes, and the last of them in the last three periods."""
    if reading.result not in _OF_RUNS or not reading.counted or reading.result_at is None:
        return False
    return now - reading.result_at <= lifespan(probe)


def _why_closed(probe: EndpointProbe, readings: Sequence[GateInputs]) -> str:
    total = len(readings)
    which = "its target fails" if total == 1 else f"all its {total} targets fail"
    texts = [
        f"{each.target} since {rfc3339(each.since)}: {each.message}" for each in readings[:_NAMED]
    ]
    return f"the gate {probe.name} is closed, {which}: {_listed(texts, total)}"


def _listed(texts: Sequence[str], total: int) -> str:
    """The first of `texts`, of which there are `total`; no more of them than are named have to be there."""
    more = total - _NAMED
    named = "; ".join(texts[:_NAMED])
    return f"{named}; and {more} more" if more > 0 else named
