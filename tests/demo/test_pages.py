"""What docs/operate.md and docs/runbook.md tell people to type works against the demo, but for what needs a cluster."""

import re
import shutil

import pytest

from tests.demo.test_program import ROOT
from tests.demo.typed import MARKS, typed
from tests.docs.pages import Page

pytestmark = MARKS

OPERATE, RUNBOOK = (Page(ROOT / f"docs/{name}.md") for name in ("operate", "runbook"))
IN_A_CLUSTER = {
    OPERATE: re.compile(r"^((NAME=\$\()?kubectl\b|helm\b|export DWD_)"),
    RUNBOOK: re.compile(r"(?:for role in .*)?\bkubectl\b"),
}
OURS = re.compile(r"\b(?:dwd (?!-)|curl |hack/)")
OF_NOBODY = {"dwd operations ID", "dwd operations ID --cancel"}
NO_SUCH_OPERATION = "4"


def lines(page):
    """Each command of the page that needs no cluster, in the order of the page.

    Scripts go first, as they wait for the end of scaling runs that other commands begin.
    """
    found = [line.text for line in page.shell_lines if line.text]
    alone = [line for line in found if not IN_A_CLUSTER[page].match(line)]
    return sorted(alone, key=lambda line: not line.startswith("hack/"))


@pytest.mark.timeout(400)
async def test_each_command_of_the_operators_page_is_done(tmp_path):
    for kind in ("prober", "weeder"):
        shutil.copy(ROOT / f"config/{kind}.yaml", tmp_path)
    codes = await typed(lines(OPERATE), tmp_path)
    assert {line: code for line, code in codes if code != "0"} == {}
    assert (tmp_path / "history.json").read_text().startswith("{")


@pytest.mark.timeout(400)
async def test_each_command_of_the_runbook_is_done(tmp_path):
    once = list(dict.fromkeys(lines(RUNBOOK)))
    codes = await typed(once, tmp_path, first="set -o pipefail")
    expected = {each: NO_SUCH_OPERATION if each in OF_NOBODY else "0" for each in once}
    assert dict(codes) == expected


def test_the_commands_of_the_runbook_that_need_no_cluster_are_ours_and_none_of_ours_is_left_out():
    assert [line for line in lines(RUNBOOK) if not OURS.match(line)] == []
    others = [line.text for line in RUNBOOK.shell_lines if IN_A_CLUSTER[RUNBOOK].match(line.text)]
    assert [line for line in others if OURS.search(line)] == []


def test_most_of_the_pages_is_tried():
    assert len([line for line in lines(OPERATE) if line.startswith("dwd ")]) >= 17
    assert len([line for line in lines(OPERATE) if line.startswith("curl ")]) >= 2
    assert len(set(lines(RUNBOOK))) >= 25
