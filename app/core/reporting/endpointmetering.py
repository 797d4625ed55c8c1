"""Runs of endpoint probes as counts and durations; there may be hundreds a second, so each costs a few microseconds."""

from typing import Final

from app.core.model.endpoints import Outcome
from app.core.model.probing import Probe, ProbeResult
from app.core.reporting.metering import ShootCounts
from app.core.metrics import Metrics

_RESULTS: Final = {
    Outcome.SUCCESS: ProbeResult.SUCCESS,
    Outcome.FAILURE: ProbeResult.FAILURE,
    Outcome.ERROR: ProbeResult.ERROR,
}


class EndpointMetering:
    """Counts the runs; an `EndpointMeter`.

    Args:
        metrics: where they are counted; `per_shoot` says whether for each shoot, too.
        shoots: the counts by shoot (`Metering.shoots`), which forget those that are gone.
    """

    def __init__(self, metrics: Metrics, shoots: ShootCounts) -> None:
        self._shoots = shoots if metrics.per_shoot else None
        self._runs = {
            outcome: metrics.probes.labels(Probe.ENDPOINT, result)
            for outcome, result in _RESULTS.items()
        }
        self._seconds = metrics.probe_duration.labels(Probe.ENDPOINT)

    def ran(self, namespace: str, name: str, outcome: Outcome, seconds: float) -> None:  # noqa: ARG002 - the protocol's signature: no series has the name of a probe and counts
        """One run of the probe `name` on a target of this control plane has ended after so many seconds."""
        self._runs[outcome].inc()
        self._seconds.observe(seconds)
        if outcome is not Outcome.SUCCESS and self._shoots is not None:
            self._shoots.probe_failures[namespace, Probe.ENDPOINT] += 1
