"""docs/operate.md: what it tells people to type works against the demo, but for what needs a real cluster."""

import re
import shutil

import pytest

from tests.demo.test_program import ROOT
from tests.demo.typed import MARKS, typed
from tests.docs.pages import Page

pytestmark = MARKS

PAGE = Page(ROOT / "docs/operate.md")
PRESENT_IN_A_CLUSTER_ONLY = re.compile(r"^((NAME=\$\()?kubectl\b|helm\b|export DWD_)")


def lines():
    """The commands of the page, in its order."""
    found = [line.text for line in PAGE.shell_lines if line.text]
    return [line for line in found if not PRESENT_IN_A_CLUSTER_ONLY.match(line)]


@pytest.mark.timeout(400)
async def test_each_command_of_the_page_is_done(tmp_path):
    for kind in ("prober", "weeder"):
        shutil.copy(ROOT / f"config/{kind}.yaml", tmp_path)
    codes = await typed(lines(), tmp_path)
    failed = {line: code for line, code in codes if code != "0"}
    assert failed == {}
    assert (tmp_path / "history.json").read_text().startswith("{")


def test_most_of_the_page_is_tried():
    assert len([line for line in lines() if line.startswith("dwd ")]) >= 17
    assert len([line for line in lines() if line.startswith("curl ")]) >= 2
