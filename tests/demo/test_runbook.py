"""docs/runbook.md: what it tells people to type at night works against the demo, but for what needs a real cluster."""

import re
import shutil
import sys

import pytest

from tests.demo.test_docs_commands import QUIET
from tests.demo.test_operating import PRELUDE, run
from tests.demo.test_program import FREE, ROOT, demo
from tests.docs.pages import Page
from tests.e2e.processes import free_port

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,  # files of other processes are read
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "curl", "jq"))),
        reason="the page is written for bash, curl and jq",
    ),
]

LIMIT = 80  # seconds for all of them: each starts a process of its own
PAGE = Page(ROOT / "docs/runbook.md")
OURS = r"(dwd|curl|api|metrics)\b"


def lines():
    """Each command of the blocks that need no cluster, once, in the order of the page."""
    blocks = [block.text for language, block in PAGE.blocks if language == "sh"]
    return list(dict.fromkeys(line for block in blocks for line in block.splitlines() if line))


def script(places):
    """All of them, each with its exit code told; NAMESPACE is a shoot of the demo."""
    text = "\n".join(f'{line}\necho "$? {number}" >>codes' for number, line in enumerate(lines()))
    for told, place in places.items():
        text = text.replace(told, place)
    return text


@pytest.mark.timeout(LIMIT + 20)
async def test_each_command_of_the_page_is_done(tmp_path):
    scenario = tmp_path / "quiet.yaml"
    scenario.write_text(QUIET)
    health, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    flags = [FREE[0], f"--metrics-bind-addr={metrics}", f"--health-bind-addr={health}"]
    async with demo(*flags, "--shoots=2", "--nodes=2", f"--scenario={scenario}") as running:
        (api,) = (await running.line(r"http://(\S+)/api/v1/shoots;")).groups()
        places = {
            "NAMESPACE": "shoot--demo--a",
            "localhost:8080": api,
            "localhost:9643": metrics,
            "localhost:9644": health,
        }
        prelude = PRELUDE.replace("localhost:8080", api).replace("PYTHON", sys.executable)
        await run(f"set -o pipefail\n{prelude}\n{script(places)}", tmp_path, api)
    codes = (line.split() for line in (tmp_path / "codes").read_text().splitlines())
    found = {lines()[int(number)]: code for code, number in codes}
    assert found == dict.fromkeys(lines(), "0")


def test_a_block_of_commands_that_need_no_cluster_has_no_others():
    assert [line for line in lines() if not re.match(OURS, line)] == []
    assert len(lines()) >= 25


def test_every_command_that_needs_no_cluster_is_in_a_block_that_is_tried():
    others = [block.text for language, block in PAGE.blocks if language == ""]
    assert [
        each for each in others if re.search(rf"^(?!(api|metrics)\(\)){OURS}", each, re.MULTILINE)
    ] == []
