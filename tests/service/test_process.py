"""The program as the system starts and ends it: signals, exit codes, and what it leaves to read."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app import __main__ as program
from app import commands
from app import main as composition
from app.core.errors import WatchdogError
from app.core.runtime.tasks import SharedLoopDied
from tests.service.lives import life

pytestmark = pytest.mark.looptime(False)

ROOT = Path(__file__).parent.parent.parent
DEMO = [
    "demo",
    "--shoots=1",
    "--log-format=json",
    "--metrics-bind-addr=127.0.0.1:0",
    "--health-bind-addr=127.0.0.1:0",
]
PROBER_FILE = str(ROOT / "config" / "prober.yaml")


async def started(*argv):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "app",
        *argv,
        cwd=ROOT,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
async def test_a_signal_ends_the_demo_within_two_seconds_and_with_0(number):
    process = await started(*DEMO, "--api-bind-addr=127.0.0.1:0")
    told = [(await process.stdout.readline()).decode() for _ in range(5)]
    assert "/api/v1/shoots/shoot--demo--a" in told[4], "it is up"
    began = time.monotonic()
    process.send_signal(number)
    _, err = await process.communicate()
    assert time.monotonic() - began < 2.0
    assert process.returncode == 0
    logged = [json.loads(line) for line in err.decode().splitlines()]
    assert logged[-1]["event"] == "stopped"
    assert {line["level"] for line in logged} == {"info"}


async def test_an_address_in_use_is_one_line_and_exit_code_1():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = await started(*DEMO, f"--api-bind-addr={address}")
        out, err = await process.communicate()
    assert process.returncode == 1
    assert out == b"", "nothing is told of a demo that cannot be"
    last = err.decode().splitlines()[-1]
    assert last.startswith(f"dwd: cannot serve API on {address}: Address already in use")
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["version"], 0, "dependency-watchdog "),
        (["--help"], 0, "Exit codes: 0 done; 2 no command"),
        (["prober", "--help"], 0, "--config-file"),
        (["check-config", PROBER_FILE], 0, "the prober file is valid"),
        ([], 2, "command"),
        (["prob"], 2, "the nearest is prober"),
        (["weeder"], 2, "not part of this version"),
        (["prober"], 2, "config-file"),
        (["prober", "--config-file=/nowhere/at/all.yaml"], 2, "/nowhere/at/all.yaml"),
        (["demo", "--nodes=1"], 2, "--nodes"),
        (["check-config", "/nowhere/at/all.yaml"], 2, "/nowhere/at/all.yaml"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_exit_codes_and_what_is_said(argv, code, said, capsys, monkeypatch):
    for name in [name for name in os.environ if name.startswith("DWD_")]:
        monkeypatch.delenv(name)
    assert program.run(argv) == code
    read = capsys.readouterr()
    assert said in (read.err if code else read.out)
    assert "Traceback" not in read.err


def test_the_exit_code_is_that_of_the_process(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["dwd", "prober"])
    with pytest.raises(SystemExit) as end:
        program.main()
    assert end.value.code == commands.EXIT_WRONG


def test_a_shared_loop_that_dies_ends_the_process_with_1(capsys):
    async def breaks():
        raise ValueError("a bug")

    async def work():
        found = life()

        async def begin():
            _ = found.core.tasks.shared(breaks, "doomed")

        object.__setattr__(found.service._cluster, "begin", begin)
        await composition._run(found.service)

    with capture_logs():
        assert program._run(work()) == program.EXIT_DIED
    assert capsys.readouterr().err == "dwd: the doomed loop ended: a bug\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SharedLoopDied("the events loop ended"), "the events loop ended: it returned"),
        (WatchdogError("cannot run"), "cannot run"),
    ],
    ids=["a loop", "anything else"],
)
def test_what_can_be_foreseen_is_one_line_and_1(error, said, capsys):
    async def work():
        raise error

    assert program._run(work()) == program.EXIT_DIED
    assert capsys.readouterr().err == f"dwd: {said}\n"


def test_what_cannot_be_foreseen_keeps_its_traceback():
    async def work():
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        program._run(work())


def test_an_interrupt_before_the_signals_are_ours_is_a_clean_end():
    async def work():
        raise KeyboardInterrupt

    assert program._run(work()) == commands.EXIT_DONE
