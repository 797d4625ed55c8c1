"""docs/migrate.md: the alerts for Gardener's own Deployments, made by the command of the page."""

import re
import shlex

import pytest
import yaml

from tests.chart.rendering import CHART
from tests.chart.tools import Tool
from tests.docs.pages import DOCS, ROOT, Page

pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

PAGE = Page(DOCS / "migrate.md")
(MONITOR,) = (
    each
    for language, block in PAGE.blocks
    if language == "yaml"
    for each in yaml.safe_load_all(block.text)
    if each.get("kind") == "PodMonitor"
)
(LINE,) = (line.text for line in PAGE.shell_lines if line.text.startswith("helm template"))


def test_the_command_of_the_page_makes_the_alerts_that_ask_for_the_jobs_of_its_monitor(
    helm: Tool,
) -> None:
    command, _, applied = LINE.partition(" | ")
    words = shlex.split(command)[1:]
    assert applied == "kubectl apply -f -"
    rule = yaml.safe_load(helm(*(str(CHART) if ROOT / each == CHART else each for each in words)))
    assert rule["kind"] == "PrometheusRule"
    assert rule["metadata"]["namespace"] == "garden"
    # Of a seed's Prometheus servers this one alone has an Alertmanager, which mails what has such a label.
    assert rule["metadata"]["labels"]["prometheus"] == "aggregate"
    assert MONITOR["metadata"]["labels"] == {"prometheus": "aggregate"}
    alerts = {each["alert"]: each for group in rule["spec"]["groups"] for each in group["rules"]}
    assert {each["labels"]["visibility"] for each in alerts.values()} == {"operator"}
    asked = set(re.findall(r'up\{job=~"([^"]+)"\}', alerts["DWDDown"]["expr"]))
    (chosen,) = MONITOR["spec"]["selector"]["matchExpressions"]
    assert MONITOR["spec"]["jobLabel"] == chosen["key"]
    assert asked == set(chosen["values"])
    lacking = "events|pauses.*|scalerequests.*|tokenreviews|subjectaccessreviews"
    assert f'resource!~"{lacking}"' in alerts["DWDPermissionsMissing"]["expr"]
