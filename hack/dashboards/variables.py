"""What can be chosen at the top of the dashboards, and where they lead."""

from typing import Final

from hack.dashboards.grafana import Json, constant, data_source, variable
from hack.dashboards.queries import CHOSEN, SEED

SEED_UID: Final = "dependency-watchdog-seed"
SHOOT_UID: Final = "dependency-watchdog-shoot"
SEED_LABEL: Final = "seed"
API: Final = "http://localhost:8080"
RUNBOOK: Final = "docs/runbook.md"
_OF_SHOOTS: Final = (
    "dwd_shoot_state|dwd_shoot_dependents_at_zero|dwd_shoot_protection_start_timestamp_seconds"
)
"""What tells of a shoot, with and without `--per-shoot-metrics`."""


def variables_of_seed() -> list[Json]:
    """Of a dashboard for all shoots."""
    return [
        data_source(),
        variable(
            "seed",
            "Seed",
            f"label_values(dwd_build_info, {SEED})",
            everything=True,
            all_is=".*",
        ),
        variable(
            "job",
            "Job",
            f'label_values(dwd_build_info{{{SEED}=~"$seed"}}, job)',
            multi=True,
            everything=True,
        ),
        constant("seed_label", SEED_LABEL, "The label by which Prometheus tells seeds apart."),
        constant("runbook", RUNBOOK, "Where the runbook is."),
    ]


def variables_of_shoot() -> list[Json]:
    """Of a dashboard for one shoot."""
    found = f'label_values({{__name__=~"{_OF_SHOOTS}", {CHOSEN}}}, namespace)'
    return [
        *variables_of_seed(),
        variable("namespace", "Shoot", found),
        constant("api", API, "Where your browser reaches the REST API."),
    ]


def runbook(alert: str) -> str:
    """Where the runbook says more, as Markdown."""
    return f"[Runbook: {alert}](${{runbook}}#{alert.lower()})"


def to_shoot() -> Json:
    """From a cell with the namespace of a shoot to its dashboard."""
    chosen = "var-namespace=${__value.raw}&${seed:queryparam}&${datasource:queryparam}"
    return {
        "title": "Open this shoot",
        "url": f"/d/{SHOOT_UID}?{chosen}&${{__url_time_range}}",
    }
