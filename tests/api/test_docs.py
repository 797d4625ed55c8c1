"""The pages of docs name what the API and the weeder say, no more and no less."""

import re
from pathlib import Path

import pytest

from app.api.problems import ProblemType
from app.core.model.probing import ShootState
from app.core.model.weeding import Cause, DeletionResult, End, KeepReason, Phase

DOCS = Path(__file__).parents[2] / "docs"


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
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "weeder.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(map(str, KeepReason))


def test_every_result_of_a_deletion_is_documented():
    lines = (DOCS / "metrics.md").read_text().splitlines()
    (row,) = [line for line in lines if line.startswith("| `dwd_weeder_pod_deletions_total`")]
    told = row.split("`result`: ")[1]
    assert set(re.findall(r"`([\w-]+)`", told)) == set(DeletionResult)
