"""docs/runbook.md: what it tells people to type at night works against the demo, but for what needs a real cluster."""

import re

import pytest

from tests.demo.test_program import ROOT
from tests.demo.typed import LIMIT, MARKS, typed
from tests.docs.pages import Page

pytestmark = MARKS

PAGE = Page(ROOT / "docs/runbook.md")
OURS = r"(dwd|curl|api|metrics)\b"


def lines():
    """Each command of the blocks that need no cluster, once, in the order of the page."""
    blocks = [block.text for language, block in PAGE.blocks if language == "sh"]
    return list(dict.fromkeys(line for block in blocks for line in block.splitlines() if line))


@pytest.mark.timeout(LIMIT + 20)
async def test_each_command_of_the_page_is_done(tmp_path):
    codes = await typed(lines(), tmp_path, first="set -o pipefail")
    assert dict(codes) == dict.fromkeys(lines(), "0")


def test_a_block_of_commands_that_need_no_cluster_has_no_others():
    assert [line for line in lines() if not re.match(OURS, line)] == []
    assert len(lines()) >= 25


def test_every_command_that_needs_no_cluster_is_in_a_block_that_is_tried():
    others = [block.text for language, block in PAGE.blocks if language == ""]
    assert [
        each for each in others if re.search(rf"^(?!(api|metrics)\(\)){OURS}", each, re.MULTILINE)
    ] == []
