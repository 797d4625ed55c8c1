"""What the seed's first row counts as trouble, asked of promtool: not hibernated shoots, nor features that are off."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.chart.dashboards.reading import SEED, filled, query_of
from tests.chart.tools import Tool

pytestmark = [pytest.mark.real, pytest.mark.blocking]  # files are written, a program is called

VALUES: Final = {"seed_label": "seed", "seed": ".*", "job": ".*", "namespace": ""}
DEFAULT: Final = (
    'dwd_build_info{seed="one"}',
    'dwd_probers_active{seed="one"}',
    'dwd_feature_off{seed="one", feature="metadata-scan"}',
    'dwd_feature_off{seed="one", feature="api"}',
    'dwd_feature_off{seed="one", feature="leader-address"}',
)
"""A healthy seed after an installation with the chart's defaults; each series is 1."""


def at_zero(shoot: str, seed: str = "one") -> str:
    """One of its controllers is."""
    return f'dwd_shoot_dependents_at_zero{{seed="{seed}", namespace="{shoot}"}}'


def state(shoot: str, word: str, seed: str = "one") -> str:
    """The state it is in."""
    return f'dwd_shoot_state{{seed="{seed}", namespace="{shoot}", state="{word}"}}'


def protected(shoot: str) -> str:
    """Its protection is active."""
    return f'dwd_shoot_protection_start_timestamp_seconds{{seed="one", namespace="{shoot}"}}'


ASLEEP: Final = (at_zero("asleep"), state("asleep", "NotProbed"))
CASES: Final = {
    "a hibernated shoot": (ASLEEP, {}),
    "a hibernated shoot, without series for each shoot": ((at_zero("asleep"),), {}),
    "a probed shoot, scaled by hand": (
        (*ASLEEP, at_zero("probed"), state("probed", "Healthy")),
        {"probed": 1},
    ),
    "a shoot of this name is probed in another seed": (
        (*ASLEEP, state("asleep", "Healthy", "two")),
        {},
    ),
    "left while protected, not probed any more": (
        (*ASLEEP, at_zero("left"), state("left", "NotProbed"), protected("left")),
        {"left": 1},
    ),
    "protected, without series for each shoot": (
        (at_zero("asleep"), at_zero("cut"), protected("cut")),
        {"cut": 1},
    ),
}


def promised(
    promtool: Tool, folder: Path, series: Sequence[str], panels: dict[tuple[str, str], Any]
) -> None:
    """Promtool is content: where these series are there, the panels show this."""
    tests = [
        {
            "expr": filled(query_of(SEED, *panel).expression, VALUES),
            "eval_time": "0s",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in shown.items()],
        }
        for panel, shown in panels.items()
    ]
    made = [{"series": each, "values": "1"} for each in (*DEFAULT, *series)]
    case = {"interval": "1m", "input_series": made, "promql_expr_test": tests}
    path = folder / "case.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [], "tests": [case]}))
    promtool("test", "rules", path)


@pytest.mark.parametrize(("series", "shown"), CASES.values(), ids=CASES)
def test_controllers_at_0_are_those_of_shoots_that_are_probed_or_were_left_while_protected(
    promtool, tmp_path, series, shown
):
    rows = {f'{{namespace="{shoot}"}}': number for shoot, number in shown.items()}
    panels = {
        ("Controllers at 0", "A"): {"{}": sum(shown.values())},
        ("Protected over time", "B"): {"{}": sum(shown.values())},
        ("Protected, and since when", "B"): rows,
    }
    promised(promtool, tmp_path, series, panels)


def test_features_that_are_off_by_design_are_in_a_table_and_not_in_red(promtool, tmp_path):
    off = {f'{{feature="{each}"}}': 1 for each in ("metadata-scan", "api", "leader-address")}
    panels = {("Rights missing", "A"): {"{}": 0}, ("Features that are off", "A"): off}
    promised(promtool, tmp_path, (), panels)


def test_a_right_that_is_missing_is_counted_once_for_two_replicas(promtool, tmp_path):
    missing = 'dwd_missing_permissions{seed="one", verb="patch", resource="deployments", instance='
    series = (f'{missing}"a"}}', f'{missing}"b"}}')
    promised(promtool, tmp_path, series, {("Rights missing", "A"): {"{}": 1}})
