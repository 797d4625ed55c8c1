"""docs/configuration.md says what the parsers of the two files do."""

import re
from pathlib import Path

from app.core.config.durations import parse_duration
from app.core.config.labelselector import REQUIREMENT_KEYS, SELECTOR_KEYS
from app.core.config.proberfile import (
    DEPENDENT_KEYS,
    ENDPOINT_MODE_KEYS,
    PROBER_KEYS,
    REF_KEYS,
    SCALE_KEYS,
)
from app.core.config.weederfile import SERVICE_KEYS, WEEDER_KEYS
from app.core.model.policy import ProberPolicy, ScalePolicy
from app.core.model.selectors import Operator
from app.core.model.weeding import WeederPolicy

DOCUMENT = (Path(__file__).parents[3] / "docs/configuration.md").read_text()
SECTION = DOCUMENT.split("## The prober file\n", 1)[1].split("\n## ", 1)[0]
WEEDER_SECTION = DOCUMENT.split("## The weeder file\n", 1)[1].split("\n## ", 1)[0]


def rows_of(section):
    """The cells of its table, by key."""
    lines = (line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `"))
    return {cells[0].strip("` "): [cell.strip() for cell in cells[1:]] for cells in lines}


ROWS = rows_of(SECTION)
WEEDER_ROWS = rows_of(WEEDER_SECTION)
OUTSIDE = {
    *ENDPOINT_MODE_KEYS,
    "endpointProbes",
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
    assert default("maxProtectionDuration") == "none"
    assert DEFAULT.max_protection is None
    assert default("suspectProbeInterval").startswith("5s, or `probeInterval`")


def test_the_table_of_the_weeder_has_exactly_the_keys_that_are_read():
    expected = set(WEEDER_KEYS.known)
    expected |= {f"servicesAndDependantSelectors.*.{key}" for key in SERVICE_KEYS.known}
    expected |= {f"….{key}" for key in SELECTOR_KEYS.known}
    expected |= {f"….matchExpressions[].{key}" for key in REQUIREMENT_KEYS.known}
    assert set(WEEDER_ROWS) == expected
    common = DOCUMENT.split("## What both files have in common\n", 1)[1].split("\n## ", 1)[0]
    assert all(f"`{key}`" in common for key in WEEDER_KEYS.obsolete)


def test_the_defaults_of_the_weeder_are_those_of_its_policy():
    policy = WeederPolicy()
    defaults = {key: cells[1] for key, cells in WEEDER_ROWS.items()}
    assert parse_duration(defaults["watchDuration"]) == policy.watch_duration
    assert parse_duration(defaults["minBackoffRemaining"]) == policy.min_backoff_remaining
    assert defaults["maxDeletionsPerWorkload"] == str(policy.max_deletions_per_workload)
    assert defaults["weedBarePods"] == str(policy.weed_bare_pods).lower()
    assert defaults["servicesAndDependantSelectors"] == "required"


def test_the_operators_of_a_requirement_are_named():
    operators = WEEDER_ROWS["….matchExpressions[].operator"][0]
    assert all(f"`{each}`" in operators for each in Operator)
