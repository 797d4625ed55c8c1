"""The demo for real: two processes, HTTPS between them, lines on standard output, and an end within a second."""

import asyncio
import json
import os
import pty
import re
import signal
import socket
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.service.lives import get, listens

# files of other processes are read
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

ROOT = Path(__file__).parent.parent.parent
FREE = [f"--{name}-bind-addr=127.0.0.1:0" for name in ("api", "metrics", "health")]
SMALL = ["--shoots=2", "--nodes=2", "--speed=50"]
SCENARIO = """
name: quick
about: a test
scenes:
- {after: 1s, do: api-down, for: 2m}
- {after: 1s, do: hibernation, for: 2m}
- {after: 50s, do: seed-slow, for: 1s}
- {after: 50s, do: seed-slow, for: 1s}
"""


class Running:
    """A demo, and what it has said until now."""

    def __init__(self, process):
        self.process = process
        self.lines = []

    async def line(self, pattern, within=25.0):
        """Waits for a line, and gives what of it matches."""
        async with asyncio.timeout(within):
            while True:
                line = (await self.process.stdout.readline()).decode()
                assert line, f"it ended: {self.lines}"
                self.lines.append(line)
                if found := re.search(pattern, line):
                    return found

    def child(self):
        """The process that it has started."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        (number,) = found.split()
        return int(number)

    async def end(self, number=signal.SIGINT):
        """What it says in the end; a second is promised, and a machine that tests is a busy one."""
        began = time.monotonic()
        self.process.send_signal(number)
        out, err = await self.process.communicate()
        assert time.monotonic() - began < 2.0
        return out.decode(), err.decode()


@asynccontextmanager
async def demo(*flags, out=asyncio.subprocess.PIPE, before=(), **environ):
    process = await asyncio.create_subprocess_exec(
        *(*before, sys.executable, "-m", "app", "demo", *flags),
        cwd=ROOT,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | environ,
        stdout=out,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def alive(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "quick.yaml"
    path.write_text(SCENARIO)
    return path


def private(path):
    """Whether only its owner can read it."""
    return path.parent.stat().st_mode & 0o077 == 0


def nothing_was_lost(out):
    nodes, machines = (line.split() for line in out.splitlines()[-2:])
    return (nodes[:3], nodes[-2:], machines[-3:]) == (
        ["all", "together", "nodes"],
        ["0", "0"],
        ["deleted", "0", "0"],
    )


def logged(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_it_plays_a_scenario_shows_it_through_the_program_and_ends_at_ctrl_c(
    scenario, tmp_path
):
    log = tmp_path / "log"
    flags = [f"--scenario={scenario}", f"--log-file={log}", "--log-format=json"]
    async with demo(*FREE, *SMALL, *flags) as running:
        found = await running.line(r"http://(127\.0\.0\.1):(\d+)/;")
        kubeconfig = Path((await running.line(r"--kubeconfig (\S+)"))[1])
        await running.line(r"scene 1 begins: a: The API server refuses connections\. \(for 2m0s\)")
        await running.line(r"b: Healthy → NotProbed \(Hibernated\): ")
        address = (found[1], found[2])
        code, body = await get(address, "/api/v1/shoots/shoot--demo--a")
        assert (code, json.loads(body)["leases"]["candidates"]) == (200, 2)
        assert private(kubeconfig)
        code, body = await get(address, "/api/v1/weeders")
        assert (code, json.loads(body)["items"]) == (200, []), "it weeds, and nothing came back yet"
        child = running.child()
        out, err = await running.end()
        assert running.process.returncode == 0
        assert err == ""
        assert nothing_was_lost(out)
        assert " 1 api-down: a" in out
    assert not alive(child)
    assert not await listens(address)
    assert not kubeconfig.parent.exists()
    assert logged(log)[-1]["message"] == "stopped", "it was asked to end, and did"
    assert not {"error", "critical"} & {line["level"] for line in logged(log)}


async def test_with_its_output_in_a_pipe_it_ends_when_the_story_is_over(tmp_path):
    path = tmp_path / "short.yaml"
    path.write_text("name: short\nabout: a test\nscenes: [{after: 1s, do: api-down, for: 15s}]")
    async with demo(*FREE, *SMALL, f"--scenario={path}") as running:
        await running.line("scene 1 begins: a: ")
        await running.line("a: Healthy → Unreachable")
        await running.line("the scenario is over; this ends when every shoot is back to normal")
        await running.line("a: Unreachable → Healthy")
        out, err = await running.process.communicate()
    assert (running.process.returncode, err) == (0, b"")
    assert nothing_was_lost(out.decode())


async def test_a_canary_is_the_gate_of_the_program():
    async with demo(*FREE, *SMALL, "--scenario=seed-network") as running:
        found = await running.line(r"http://(127\.0\.0\.1):(\d+)/;")
        await running.line(r"scene 1 begins: the seed: ")
        _, body = await get((found[1], found[2]), "/api/v1/shoots/shoot--demo--a")
        _, err = await running.end()
    assert [each["name"] for each in json.loads(body)["gates"]] == ["outside-of-the-seed"]
    assert (running.process.returncode, err) == (0, "")


async def test_the_end_of_the_session_ends_it_too_and_what_an_encoding_lacks_is_a_question_mark(
    scenario,
):
    flags = [*FREE, *SMALL, f"--scenario={scenario}"]
    async with demo(*flags, PYTHONIOENCODING="ascii") as running:
        await running.line(r"b: Healthy \? NotProbed \(Hibernated\): ")
        child = running.child()
        _, err = await running.end(signal.SIGHUP)
    assert (running.process.returncode, err) == (0, "")
    assert not alive(child)


async def test_a_program_that_dies_ends_the_demo_with_the_end_of_its_log(tmp_path):
    log = tmp_path / "log"
    async with demo(*FREE, *SMALL, f"--log-file={log}") as running:
        await running.line("scene 1 begins")
        os.kill(running.child(), signal.SIGKILL)
        _, err = await running.process.communicate()
    assert running.process.returncode == 1
    lines = err.decode().splitlines()
    assert lines[0] == "dwd: the program has ended by signal 9; its log ends:"
    assert lines[-1].strip() == log.read_text().splitlines()[-1]
    assert "Traceback" not in err.decode()


async def test_a_reader_who_goes_away_ends_it_without_an_error(scenario):
    async with demo(*FREE, *SMALL, f"--scenario={scenario}") as running:
        await running.line("scene 1 begins")
        child = running.child()
        running.process._transport.get_pipe_transport(1).close()
        err = await running.process.stderr.read()
        assert await running.process.wait() == 0
    assert err == b""
    assert not alive(child)


async def test_in_a_terminal_it_draws_a_table_and_gives_the_terminal_back():
    master, slave = pty.openpty()
    environment = {"TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    async with demo(*FREE, *SMALL, out=slave, **environment) as running:
        os.close(slave)
        shown = b""
        try:
            async with asyncio.timeout(25):
                while b"path-cut" not in shown:
                    shown += await asyncio.to_thread(os.read, master, 65536)
                running.process.send_signal(signal.SIGINT)
                while b"all together" not in shown:
                    shown += await asyncio.to_thread(os.read, master, 65536)
                assert await running.process.wait() == 0
        finally:
            os.close(master)
    assert shown.index(b"\x1b[?1049h") < shown.index(b"Healthy") < shown.index(b"\x1b[?1049l")
    assert shown.index(b"\x1b[?1049l") < shown.index(b"all together"), "the summary stays"


TAKEN = "cannot serve API on {taken}: Address already in use; --api-bind-addr takes another address"


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--shoots=1001"], 2, " demo: --shoots: must be at most 1000, not 1001"),
        (
            ["--nodes=5000"],
            2,
            " demo: --nodes: must be at most 20000 in all shoots together, not 140200",
        ),
        (["--log-file={pipe}"], 2, " demo: --log-file: is a pipe"),
        (["--api-bind-addr={taken}"], 1, f": {TAKEN}"),
    ],
)
async def test_a_demo_that_cannot_be_is_one_line_before_anything_is_told(
    flags, code, said, tmp_path
):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with socket.create_server(("127.0.0.1", 0)) as server:
        places = {"pipe": pipe, "taken": f"127.0.0.1:{server.getsockname()[1]}"}
        async with demo(*FREE, *(each.format(**places) for each in flags)) as running:
            out, err = await running.process.communicate()
    assert (running.process.returncode, out.decode(), err.decode()) == (
        code,
        "",
        f"dwd{said.format(**places)}\n",
    )


async def test_an_unknown_variable_is_warned_of_before_anything_begins():
    async with demo("--scenario=none-such", DWD_SHOTS="3") as running:
        _, err = await running.process.communicate()
    assert running.process.returncode == 2
    assert "warning: DWD_SHOTS: unknown variable; the nearest is DWD_SHOOTS" in err.decode()


async def test_ctrl_c_is_heard_while_a_large_seed_is_being_built(tmp_path):
    log = tmp_path / "log"  # it is there when the signals are heard
    async with demo(*FREE, "--shoots=1000", f"--log-file={log}") as running:
        async with asyncio.timeout(15):
            while not log.exists():  # noqa: ASYNC110 - nobody tells of a file of another process
                await asyncio.sleep(0.02)
        out, err = await running.end()
    assert (running.process.returncode, out, err) == (0, "", "")


async def test_a_machine_that_has_too_few_files_is_one_line():
    few = ("sh", "-c", 'ulimit -n 60; exec "$0" "$@"')
    async with demo(*FREE, before=few) as running:
        _, err = await running.process.communicate()
    assert running.process.returncode == 1
    assert err.decode() == "dwd: the demo cannot go on: Too many open files\n"
