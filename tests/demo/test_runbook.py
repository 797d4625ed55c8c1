"""docs/runbook.md: what it tells people to type at night works against the demo, but for what needs a real cluster."""

import re

import pytest

from tests.demo.test_program import ROOT
from tests.demo.typed import MARKS, typed
from tests.docs.pages import Page

pytestmark = MARKS

PAGE = Page(ROOT / "docs/runbook.md")
OURS = re.compile(r"\b(?:dwd (?!-)|curl |hack/)")
NO_SUCH_OPERATION = "4"
IN_A_CLUSTER = re.compile(r"(?:for role in .*)?\bkubectl\b")


def lines():
    """Each command of the page that needs no cluster, once, in the order of the page.

    Scripts go first, as they wait for the end of scaling runs that other commands begin.
    """
    found = [line.text for line in PAGE.shell_lines if line.text]
    once = dict.fromkeys(line for line in found if not IN_A_CLUSTER.match(line))
    return sorted(once, key=lambda line: not line.startswith("hack/"))


@pytest.mark.timeout(400)
async def test_each_command_of_the_page_is_done(tmp_path):
    codes = await typed(lines(), tmp_path, first="set -o pipefail")
    of_nobody = {"dwd operations ID", "dwd operations ID --cancel"}
    assert dict(codes) == {
        each: NO_SUCH_OPERATION if each in of_nobody else "0" for each in lines()
    }


def test_the_commands_that_need_no_cluster_are_those_of_dwd_curl_and_our_scripts():
    assert [line for line in lines() if not OURS.match(line)] == []
    assert len(lines()) >= 25


def test_no_command_of_ours_is_left_out_because_it_stands_behind_one_that_needs_a_cluster():
    others = [line.text for line in PAGE.shell_lines if IN_A_CLUSTER.match(line.text)]
    assert [line for line in others if OURS.search(line)] == []
