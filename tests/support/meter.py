"""Metrics of shoots, with everything that feeds them."""

from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families as parsed

from app.core.metrics import Format, Metrics, Slices
from app.core.model.probing import RequestKind, ShootState, Tally
from app.core.model.scaling_runs import Trigger
from app.core.model.workloads import Direction, ResourceRef
from app.core.reporting.metering import Metering
from app.core.reporting.notices import ScalingRunBegan, ScalingRunEnded
from app.prober.status import ShootSeries, StateCounts
from tests.support.notices import A_PROBE, SCALED_DOWN

NS = "shoot--a"
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")


def at_once(work: Slices) -> str:
    """The whole text of work in slices, done without a rest."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return str(end.value)


def show_shoots(metrics: Metrics, metering: Metering, shoots: Any, **series: Any) -> None:
    """Adds the metrics of these shoots to each scrape, as the service does."""
    metrics.registry.register(StateCounts(metrics, shoots.summaries))
    metrics.sliced.append(ShootSeries(metrics, metering, shoots.summaries, shoots.facts, **series))


@dataclass
class Shoot:
    namespace: str = NS
    state: ShootState = ShootState.HEALTHY
    tally: Tally | None = None
    last_probe: float | None = None
    protected_since: float | None = None
    at_zero: tuple[str, ...] = ()


class Meter:
    """Metrics with everything that feeds them."""

    def __init__(self, *, per_shoot=True, **series: Any) -> None:
        """`series`: the probes and endpoints of `ShootSeries`."""
        self.metrics = Metrics(per_shoot=per_shoot)
        self.metering = Metering(self.metrics)
        self.shoots: list[Shoot] = []
        show_shoots(self.metrics, self.metering, self, **series)

    def summaries(self):
        return self.shoots

    def facts(self, namespace):
        return next((each for each in self.shoots if each.namespace == namespace), None)

    # What is shown.

    def text(self, written=Format.TEXT):
        """What is written in slices."""
        (source,) = self.metrics.sliced
        return at_once(source.render(written))

    def samples(self):
        """All of them, whoever writes them."""
        families = (*self.metrics.registry.collect(), *parsed(self.text()))
        return [each for family in families for each in family.samples]

    def value(self, name, /, **labels):
        found = [s.value for s in self.samples() if (s.name, s.labels) == (name, labels)]
        assert len(found) < 2
        return found[0] if found else None

    def series(self):
        """Names of all series that have a namespace."""
        return {each.name for each in self.samples() if "namespace" in each.labels}

    def look(self, *, failed=False, known_since=None, lease="success", at=100.0):
        self.note(
            A_PROBE,
            at,
            probes={RequestKind.API_SERVER: "success", RequestKind.LEASE: lease},
            durations={RequestKind.API_SERVER: 0.01, RequestKind.LEASE: 0.02},
            lag=0.003,
            failed=failed,
            known_since=known_since,
        )

    def flow(self, direction, flow, at=100.0, **more):
        of = ScalingRunBegan if flow == "started" else ScalingRunEnded
        self.note(of, at, direction=direction, operation="op-1", trigger=Trigger.AUTO, **more)

    def resource(self, direction, requested_at=None, result="done", at=101.0):
        self.note(
            SCALED_DOWN,
            at,
            resource=KCM,
            direction=direction,
            result=result,
            requested_at=requested_at,
        )

    def note(self, of, at=100.0, reason="Reason", **facts):
        self.metering.note(of(NS, at, reason, "", **facts))

    def outage(self, known_since, requests):
        """A scaling run down as the loop tells it: the probe that led to it is told after its beginning."""
        self.flow(Direction.DOWN, "started")
        self.look(known_since=known_since)
        for at in requests:
            self.resource(Direction.DOWN, at)
        self.flow(Direction.DOWN, "ended", seconds=2.0)
