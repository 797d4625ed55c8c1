"""What a page tells people to type, typed into one shell, against a demo in which nothing happens."""

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.demo.test_program import FREE, ROOT, demo
from tests.e2e.processes import free_port

MARKS = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,  # files of other processes are read
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "curl", "jq"))),
        reason="the page is written for bash, curl and jq",
    ),
]
LIMIT_EACH = 6
"""Seconds for each line of a page: each starts a process of its own, on a machine with other work."""
LIMIT_FIRST = 30
"""Seconds for the demo's shoots to be healthy."""
QUIET = """
name: quiet
about: nothing happens while the commands run
scenes:
- {after: 1h, do: api-down, for: 1s}
"""
_PRELUDE = """
states() { command curl -s localhost:8080/api/v1/shoots | jq -c '[.items[].state]'; }
until test "$(states)" = '["Healthy","Healthy"]'; do sleep 0.3; done
curl() { command curl --fail --max-time 5 "$@"; }
dwd() { # `dwd page` goes on until Ctrl-C, which comes here after two seconds; its exit code is 130 then
  if [ "$1" != page ]; then PYTHON -m app "$@"; return; fi
  timeout --preserve-status --signal=INT 2 PYTHON -m app "$@"; [ $? = 130 ]
}
export -f dwd
""".replace("PYTHON", sys.executable)


async def typed(lines: Sequence[str], folder: Path, *, first: str = "") -> list[tuple[str, str]]:
    """Each of the lines with its exit code, as far as the shell came; `first` goes before them.

    NAMESPACE is a shoot of the demo, SERVICE one of its services, and the ports of localhost are its own.
    """
    scenario = folder / "quiet.yaml"
    scenario.write_text(QUIET)
    health, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    flags = [FREE[0], f"--metrics-bind-addr={metrics}", f"--health-bind-addr={health}"]
    numbered = (f'{line}\necho "$? {number}" >>codes' for number, line in enumerate(lines))
    text = "\n".join([first, _PRELUDE, *numbered])
    async with demo(*flags, "--shoots=2", "--nodes=2", f"--scenario={scenario}") as running:
        (api,) = (await running.line(r"http://(\S+)/;")).groups()
        places = {
            "NAMESPACE": "shoot--demo--a",
            "SERVICE": "kube-apiserver",
            "hack/": f"{ROOT}/hack/",
            "localhost:8080": api,
            "localhost:9643": metrics,
            "localhost:9644": health,
        }
        for told, place in places.items():
            text = text.replace(told, place)
        await _run(text, folder, api, LIMIT_FIRST + LIMIT_EACH * len(lines))
    codes = (line.split() for line in (folder / "codes").read_text().splitlines())
    return [(lines[int(number)], code) for code, number in codes]


async def _run(text: str, folder: Path, server: str, limit: float) -> None:
    environ = {**os.environ, "DWD_SERVER": f"http://{server}", "PYTHONPATH": str(ROOT)}
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", text, cwd=folder, env=environ, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(limit):
            await shell.wait()
    finally:
        if shell.returncode is None:
            shell.kill()
            await shell.wait()
