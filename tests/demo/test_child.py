"""The program as a process of the demo's: started, ended, and never left behind."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from app.core.config.settings import DemoSettings
from app.core.web.serving import AddressUnavailable
from app.simulation.demo.child import Child, ChildDied, _environment, claim

# processes are started and their logs read before anything else runs
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
FREE = {f"{name}_bind_addr": "127.0.0.1:0" for name in ("api", "metrics", "health")}
ORPHAN = """
import asyncio, os, sys
from pathlib import Path
from app.simulation.demo.child import Child
async def main():
    child = await Child.start(sys.argv[2:], os.environ, Path(sys.argv[1]))
    print(child.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def demo_arguments(directory):
    """A program that runs until it is told to end: a demo, whose own child is another story."""
    return [
        "demo",
        "--shoots=1",
        *(f"--{name.replace('_', '-')}={at}" for name, at in FREE.items()),
        f"--log-file={directory / 'inner.log'}",
        "--scenario=outage",
    ]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return state(pid) != "Z"


def state(pid):
    """The letter of /proc: R and S run, T is stopped, Z has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def until(so, within=20.0):
    end = time.monotonic() + within
    while not so():
        assert time.monotonic() < end, "not in time"
        await asyncio.sleep(0.02)


async def test_a_program_that_ends_by_itself_is_told_of_with_the_end_of_its_log(log):
    child = await Child.start(["prober", "--config-file=/nowhere.yaml"], ENVIRONMENT, log)
    with pytest.raises(ChildDied) as caught:
        await child.died()
    lines = str(caught.value).splitlines()
    assert lines[0] == "the program has ended with exit code 2; its log ends:"
    assert "/nowhere.yaml" in lines[-1]
    await child.stop()


async def test_of_a_long_log_the_last_lines_are_told(log):
    log.write_text("".join(f"before {number}\n" for number in range(100)))
    child = await Child.start(["version"], ENVIRONMENT, log)
    with pytest.raises(ChildDied, match="exit code 0") as caught:
        await child.died()
    lines = str(caught.value).splitlines()
    assert len(lines) == 16
    assert "before 99" in lines[-2], "what was there before stays"
    assert "dependency-watchdog" in lines[-1]


async def test_a_program_that_runs_is_ended_and_has_a_session_of_its_own(log, tmp_path):
    child = await Child.start(demo_arguments(tmp_path), ENVIRONMENT, log)
    assert os.getsid(child.pid) == child.pid, "Ctrl-C does not reach it"
    await until(lambda: "Ctrl-C ends it" in log.read_text())
    began = time.monotonic()
    await child.stop()
    assert time.monotonic() - began < 1.0, "killed after half a second at the latest"
    assert not alive(child.pid)


async def test_a_program_that_does_not_listen_is_killed(log, tmp_path):
    child = await Child.start(demo_arguments(tmp_path), ENVIRONMENT, log)
    os.kill(child.pid, signal.SIGSTOP)
    await until(lambda: state(child.pid) == "T")
    began = time.monotonic()
    await child.stop()
    assert time.monotonic() - began > 0.4, "it was asked first"
    assert not alive(child.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own way, on Linux only")
async def test_a_program_ends_when_its_demo_is_killed(log, tmp_path):
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ORPHAN, str(log), *demo_arguments(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    await parent.communicate()
    await until(lambda: not alive(pid))


async def test_what_cannot_be_started_is_an_error_of_ours(log, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ChildDied, match=r"the program cannot be started: .*No such file"):
        await Child.start([], ENVIRONMENT, log)


def test_its_flags_say_all_and_it_runs_our_own_code():
    found = _environment({"DWD_DRY_RUN": "true", "PATH": "/bin", "PYTHONPATH": "/theirs"})
    root = str(Path(__file__).parents[2])
    assert found == {"PATH": "/bin", "PYTHONPATH": f"{root}{os.pathsep}/theirs"}
    assert _environment({})["PYTHONPATH"] == root


# Its addresses.


def test_addresses_are_held_until_the_program_starts():
    first = claim(DemoSettings.model_validate(FREE))
    taken = DemoSettings.model_validate(FREE | {"metrics_bind_addr": str(first.api)})
    message = f"cannot serve metrics on {first.api}: Address already in use; --metrics-bind-addr takes another"
    with pytest.raises(AddressUnavailable, match=message):
        claim(taken)
    first.release()
    second = claim(taken)
    assert second.flags[1] == f"--metrics-bind-addr={first.api}"
    second.release()
    second.release()


def test_a_claim_that_fails_leaves_nothing_behind():
    with claim(DemoSettings.model_validate(FREE))._held as _:
        pass
    first = claim(DemoSettings.model_validate(FREE))
    free = claim(DemoSettings.model_validate(FREE))
    free.release()
    wanted = FREE | {"api_bind_addr": str(free.api), "health_bind_addr": str(first.api)}
    with pytest.raises(AddressUnavailable, match="--health-bind-addr"):
        claim(DemoSettings.model_validate(wanted))
    first.release()
    again = claim(DemoSettings.model_validate(wanted))
    assert again.api == free.api
    again.release()
