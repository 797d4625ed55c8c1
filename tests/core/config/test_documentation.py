"""docs/configuration.md says what the parser of the prober file does."""

import re
from pathlib import Path

from app.core.config.durations import parse_duration
from app.core.config.proberfile import (
    DEPENDENT_KEYS,
    ENDPOINT_MODE_KEYS,
    PROBER_KEYS,
    REF_KEYS,
    SCALE_KEYS,
)
from app.core.model.policy import ProberPolicy, ScalePolicy

DOCUMENT = (Path(__file__).parents[3] / "docs/configuration.md").read_text()
SECTION = DOCUMENT.split("## The prober file\n", 1)[1].split("\n## Flags", 1)[0]
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for cells in (
        line.strip("|").split("|") for line in SECTION.splitlines() if line.startswith("| `")
    )
}
OUTSIDE = {
    *ENDPOINT_MODE_KEYS,
    "endpointProbes",
    "maxProtectionDuration",
    "internalProbeFailureBackoffDuration",
}
DEFAULT = ProberPolicy("", ())


def default(key):
    return ROWS[key][1]


def test_the_table_has_exactly_the_keys_that_are_read():
    prefix = "dependentResourceInfos[]."
    expected = set(PROBER_KEYS.known) - OUTSIDE
    expected |= {prefix + key for key in DEPENDENT_KEYS.known}
    expected |= {f"{prefix}ref.{key}" for key in REF_KEYS.known}
    expected |= {f"….{key}" for key in SCALE_KEYS.known}
    assert set(ROWS) == expected


def test_every_other_key_is_explained_below_the_table():
    prose = re.sub(r"^\|.*$", "", SECTION, flags=re.MULTILINE)
    obsolete = {*PROBER_KEYS.obsolete, *SCALE_KEYS.obsolete}
    assert {key for key in OUTSIDE | obsolete if key not in prose} == set()


def test_the_defaults_are_those_of_the_policy():
    durations = {
        "probeInterval": DEFAULT.probe_interval,
        "initialDelay": DEFAULT.initial_delay,
        "probeTimeout": DEFAULT.probe_timeout,
        "kcmNodeMonitorGraceDuration": DEFAULT.grace,
        "….initialDelay": ScalePolicy().initial_delay,
        "….timeout": ScalePolicy().timeout,
    }
    assert {key: parse_duration(default(key)) for key in durations} == durations
    numbers = {
        "backoffJitterFactor": DEFAULT.jitter,
        "nodeLeaseFailureFraction": DEFAULT.limit,
        "failureThreshold": DEFAULT.failure_threshold,
        "successThreshold": DEFAULT.success_threshold,
        "….level": ScalePolicy().level,
    }
    assert {key: float(default(key)) for key in numbers} == numbers
    assert default("onScaleDownFailure") == DEFAULT.on_scale_down_failure
    assert default("onScaleUpFailure") == DEFAULT.on_scale_up_failure
    assert default("suspectProbeInterval").startswith("5s, or `probeInterval`")
