"""docs/operate.md: what it tells people to type works against the demo, but for what needs a real cluster."""

import asyncio
import os
import re
import shutil
import sys

import pytest

from tests.demo.test_docs_commands import QUIET
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
PAGE = Page(ROOT / "docs/operate.md")
PRELUDE = """
states() { command curl -s localhost:8080/api/v1/shoots | jq -c '[.items[].state]'; }
until test "$(states)" = '["Healthy","Healthy"]'; do sleep 0.3; done
curl() { command curl --fail --max-time 5 "$@"; }
dwd() { PYTHON -m app "$@"; }
"""
ASKING = re.compile(r"^```sh\n((?:api|metrics)\(\).*?)^```$", re.DOTALL | re.MULTILINE)
"""How the runbook says to ask without TLS and tokens; the commands of this page rely on it."""
PRESENT_IN_A_CLUSTER_ONLY = re.compile(r"^(kubectl|helm|export DWD_PORT_FORWARD)\b")


def lines():
    """The commands of the page, in its order."""
    found = [line.text for line in PAGE.shell_lines if line.text]
    return [line for line in found if not PRESENT_IN_A_CLUSTER_ONLY.match(line)]


def script(places):
    """All of them, each with its exit code told; NAMESPACE is a shoot of the demo."""
    asking = ASKING.search(Page(ROOT / "docs/runbook.md").text)
    assert asking
    program = PRELUDE.replace("PYTHON", sys.executable) + asking[1]
    text = program + "\n".join(
        f'{line}\necho "$? {number}" >>codes' for number, line in enumerate(lines())
    )
    for told, place in places.items():
        text = text.replace(told, place)
    return text


async def run(text, folder, server):
    environ = {**os.environ, "DWD_SERVER": f"http://{server}", "PYTHONPATH": str(ROOT)}
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", text, cwd=folder, env=environ, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(LIMIT):
            await shell.wait()
    finally:
        if shell.returncode is None:
            shell.kill()
            await shell.wait()


@pytest.mark.timeout(LIMIT + 20)
async def test_each_command_of_the_page_is_done(tmp_path):
    scenario = tmp_path / "quiet.yaml"
    scenario.write_text(QUIET)
    for kind in ("prober", "weeder"):
        shutil.copy(ROOT / f"config/{kind}.yaml", tmp_path)
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
        await run(script(places), tmp_path, api)
    codes = (line.split() for line in (tmp_path / "codes").read_text().splitlines())
    failed = {lines()[int(number)]: code for code, number in codes if code != "0"}
    assert failed == {}
    assert (tmp_path / "history.json").read_text().startswith("{")


def test_most_of_the_page_is_tried():
    assert len([line for line in lines() if line.startswith("dwd ")]) >= 13
    assert len([line for line in lines() if re.match(r"(api|metrics|curl)\b", line)]) >= 5
