"""docs/metrics.md and docs/api.md say what is there, no more and no less."""

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.metrics_core import GaugeMetricFamily

from app.api.problems import ProblemType
from app.core.metrics import Family, Metrics
from app.core.model.probing import ShootState
from app.core.model.weeding import Cause, DeletionResult, End, KeepReason, Phase
from tests.api.fakes import application

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram|summary) \|(.*?)\| (.+) \|$")


def documented():
    rows = (ROW.match(line) for line in (DOCS / "metrics.md").read_text().splitlines())
    return {
        row[1]: (row[2], set(re.findall(r"`(\w+)`", row[3]))) for row in rows if row is not None
    }


def declared():
    metrics = Metrics()
    app = application(metrics=metrics)
    TestClient(app).get("/")  # the instruments for http_* come with the first request
    instruments: list[Any] = list(metrics.registry._collector_to_names)
    families: list[Any] = [
        made
        for new in vars(metrics).values()
        if callable(new) and isinstance(made := new(), GaugeMetricFamily)
    ]
    found = {
        each.name: (each.kind, set(each.labels))
        for each in vars(metrics).values()
        if isinstance(each, Family)
    }
    for each in instruments:
        found[total(each._name, each._type)] = (each._type, set(each._labelnames))
    for family in families:
        found[total(family.name, family.type)] = (family.type, set(family._labelnames))
    return found


def total(name, kind):
    return f"{name}_total" if kind == "counter" else name


def test_every_metric_is_documented_with_its_type_and_labels():
    assert documented() == declared()


def test_every_problem_is_documented_with_its_status():
    rows = re.findall(r"^\| (\d{3}) \| `([\w-]+)` \|", (DOCS / "api.md").read_text(), re.MULTILINE)
    known = {(str(each.status), each.urn.rpartition(":")[2]) for each in ProblemType}
    assert set(rows) == known


def test_every_state_is_documented_from_worst_to_best():
    text = (DOCS / "api.md").read_text()
    table = text[text.index("| state | means |") : text.index("?state=Protected")]
    assert re.findall(r"`([A-Z]\w+)`(?=.* \| )", table) == list(ShootState)


@pytest.mark.parametrize("words", [Cause, Phase, End], ids=lambda each: each.__name__)
def test_every_word_of_the_weeder_is_documented(words):
    text = (DOCS / "api.md").read_text()
    section = text[text.index("## Which pods were deleted") : text.index("## Is the watchdog")]
    assert {f"`{each}`" for each in words} <= set(re.findall(r"`\w+`", section))


def test_every_reason_why_a_pod_is_left_alone_is_documented():
    page = (DOCS / "weeder.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(map(str, KeepReason))


def test_every_result_of_a_deletion_is_documented():
    lines = (DOCS / "metrics.md").read_text().splitlines()
    (row,) = [line for line in lines if line.startswith("| `dwd_weeder_pod_deletions_total`")]
    told = row.split("`result`: ")[1]
    assert set(re.findall(r"`([\w-]+)`", told)) == set(DeletionResult)
