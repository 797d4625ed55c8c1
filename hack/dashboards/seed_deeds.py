"""Of the seed's dashboard: what is done, to controllers and to pods."""

from typing import Final

from hack.dashboards.grafana import Query, Row
from hack.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SECONDS,
    WINDOWS,
    graph,
    table,
)
from hack.dashboards.queries import (
    RANGE,
    SEED,
    events,
    mean,
    of,
    told,
)
from hack.dashboards.variables import runbook

SCALING: Final = Row(
    "Scaling",
    (
        graph(
            "Controllers scaled, by result",
            "skipped: ignore-scaling, or nothing to do; cancelled: by a person, or by a new verdict. "
            f"{WINDOWS} " + runbook("DWDScaleErrors"),
            Query(
                events("dwd_scale_operations_total", by="direction, result"),
                "{{direction}} {{result}}",
            ),
            bars=True,
            width=6,
            height=7,
            colours={
                "down done": ORANGE,
                "up done": GREEN,
                "down failed": RED,
                "up failed": RED,
                "down skipped": BLUE,
                "up skipped": BLUE,
                "down cancelled": GREY,
                "up cancelled": GREY,
            },
            none="nothing was scaled",
        ),
        table(
            "Controllers not scaled",
            "In all of the time that is shown, by what became of it. failed: the Events of the shoot say "
            "why; often a right is missing, or another controller writes at the same time. "
            + runbook("DWDScaleErrors"),
            Query(
                events(
                    "dwd_scale_operations_total",
                    'result!="done"',
                    by="resource, direction, result, trigger",
                    within=RANGE,
                )
            ),
            columns={
                "resource": "Controller",
                "direction": "Direction",
                "result": "Result",
                "trigger": "By",
                "Value": "Times",
            },
            none="all that was to be scaled was",
            width=7,
            height=7,
        ),
        table(
            "Controllers out of reach",
            "1: the seed does not serve the kind of this dependent, or does not let us list it. It fails in "
            "each scaling run, while all others are scaled. " + runbook("DWDDependentUnavailable"),
            Query(told("dwd_dependents_unavailable", by="resource")),
            columns={"resource": "Controller", "Value": "Seeds"},
            none="no prober",
            width=5,
            height=7,
        ),
        graph(
            "How long a scaling run takes",
            "All controllers of one shoot, in their levels: the mean of the runs in the window of each "
            "point. Up waits for each level to be ready, so 30 s and more are normal there; down is to "
            "take a second.",
            Query(mean("dwd_scale_duration_seconds", by="direction"), "{{direction}}"),
            unit=SECONDS,
            points=True,
            colours={"down": ORANGE, "up": GREEN},
            none="nothing was scaled",
            width=6,
            height=7,
        ),
    ),
)

WEEDER: Final = Row(
    "Weeder",
    (
        graph(
            "Recoveries, by service",
            f"A service was ready again, and what depends on it was checked. {WINDOWS} Recoveries without "
            "end: the service itself flaps.",
            Query(events("dwd_weeder_recoveries_total", by="service"), "{{service}}"),
            bars=True,
            none="none in this time",
            width=6,
            height=6,
        ),
        graph(
            "Pods that were to be deleted",
            "What became of it. deleted: its owner makes a new one, which starts at once. capped: as many "
            "of that owner were deleted before, so it crashes for another reason; look at the pod. "
            f"{WINDOWS} " + runbook("DWDWeederDeletionSpike"),
            Query(events("dwd_weeder_pod_deletions_total", by="result"), "{{result}}"),
            bars=True,
            colours={"deleted": GREEN, "capped": ORANGE, "error": RED},
            none="none in this time",
            width=6,
            height=6,
        ),
        graph(
            "Watches of pods",
            "One for each recovery that is under way; 0 while nothing recovers. Each lasts for five "
            "minutes at most.",
            Query(f"sum({of('dwd_weeder_watches_active')})", "open"),
            width=6,
            height=6,
        ),
        table(
            "Selectors",
            "Whether each selector of the configuration (counted from 0) matches a pod in any namespace; "
            "asked once an hour. One that matches nothing weeds nothing: perhaps a label was renamed. "
            + runbook("DWDWeederSelectorMatchesNothing"),
            Query(
                f"min by (service, selector) (max by ({SEED}, service, selector) "
                f"({of('dwd_weeder_selector_matches')}))"
            ),
            columns={"service": "Service", "selector": "Selector", "Value": "Matches"},
            words={"Matches": {0: ("no pod", RED), 1: ("pods", GREEN)}},
            none="not asked yet",
            width=6,
            height=6,
        ),
    ),
)
