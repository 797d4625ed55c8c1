"""exec: what the frames of a command mean. The way to the container is tested in tests/core/kube/test_pod_exec.py."""

import asyncio
import json
import tracemalloc
from contextlib import asynccontextmanager

import pytest

from app.core.clock import Clock
from app.core.errors import Forbidden, Unreachable
from app.core.handlers.handlers import NetworkHandlers
from app.core.handlers.runs import MOST_READ
from app.core.model.endpoints import Exec, ProbeOutcome
from app.core.ports import Frame
from tests.core.handlers.targets import at, probe

SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR
KUBELET_READS = 10 * 1024
"""maxReadLength of pkg/kubelet/prober."""
WELL_OVER = Frame(1, b"x" * (KUBELET_READS + 1))
WELL = Frame(3, b'{"metadata":{},"status":"Success"}')


def ended(code="1", *, reason="NonZeroExitCode", cause="ExitCode", message="it said so"):
    causes = [{"reason": "Other", "message": "7"}, {"reason": cause, "message": code}]
    status = {"status": "Failure", "reason": reason, "message": message}
    return Frame(3, json.dumps(status | {"details": {"causes": causes}}).encode())


class Door:
    """Plays frames; a number is a wait, an exception is raised."""

    def __init__(self, *script, before=0.0, refusal=None):
        self._script, self._before, self._refusal = script, before, refusal
        self.opened = []
        self.open_now = self.most = 0

    @asynccontextmanager
    async def open(self, *what):
        await asyncio.sleep(self._before)
        if self._refusal is not None:
            raise self._refusal
        self.opened.append((asyncio.get_running_loop().time(), what))
        self.open_now += 1
        self.most = max(self.most, self.open_now)
        try:
            yield self._frames()
        finally:
            self.open_now -= 1

    async def _frames(self):
        for each in self._script:
            match each:
                case Frame():
                    yield each
                case Exception():
                    raise each
                case _:
                    await asyncio.sleep(each)


def made(door, **limits):
    return NetworkHandlers(Clock.of_loop(), door, **limits)


async def run(*script, timeout=2, **more):
    door = Door(*script, **more)
    handlers = made(door)
    found = await handlers.run(probe(Exec(("check", "-v")), timeout), at(pod="a", container="c"))
    await handlers.close()
    assert door.open_now == 0
    return found


async def test_it_runs_the_command_in_the_container_of_its_address():
    door = Door(WELL)
    handlers = made(door)
    await handlers.run(probe(Exec(("check", "-v"))), at(pod="a", container="c"))
    await handlers.close()
    assert door.opened[0][1] == ("shoot--foo--bar", "a", "c", ("check", "-v"))


WAS_REFUSED = Forbidden("create pods/exec in a: 403 (Forbidden)", status=403)
SAYS_WHY = ended(reason="InternalError", message="no such file: /check\nat all")
UNKNOWN = "the stream ended without the command's exit status"
RUNS = {
    "exit code 0": ([Frame(1, b"words"), WELL], {}, SUCCESS, "exit code 0"),
    "a failure with 0, as with the kubelet": ([ended("0")], {}, SUCCESS, "exit code 0"),
    **{
        f"exit code {code}": ([ended(code)], {}, FAILURE, f"exit code {code}")
        for code in ("1", "137")
    },
    "the beginning of both outputs, on one line": (
        [Frame(1, b"no\x07 db\n"), Frame(2, "schrödinger".encode()), ended("3")],
        {},
        FAILURE,
        "exit code 3: no db schrödinger",
    ),
    "other channels": (
        [Frame(0, b"x"), Frame(4, b"x"), Frame(255, b"\x01"), ended("3")],
        {},
        FAILURE,
        "exit code 3",
    ),
    "why it was not run": ([SAYS_WHY], {}, ERROR, "not run: no such file: /check at all"),
    "a refusal": ([], {"refusal": WAS_REFUSED}, ERROR, str(WAS_REFUSED)),
    "no end": ([Frame(1, b"x"), 60.0, WELL], {}, FAILURE, "the command did not end within 2 s"),
    "no beginning": ([WELL], {"before": 60.0}, ERROR, "the API server did not start it within 2 s"),
    "no status": ([], {}, ERROR, UNKNOWN),
    "output without a status": ([Frame(1, b"x")], {}, ERROR, UNKNOWN),
    "a stream that breaks": ([Frame(1, b"x"), Unreachable("it broke")], {}, ERROR, "it broke"),
}


@pytest.mark.parametrize(("script", "given", "outcome", "message"), RUNS.values(), ids=RUNS)
async def test_what_a_run_of_a_command_means(script, given, outcome, message):
    found = await run(*script, **given)
    assert (found.outcome, found.message) == (outcome, message)


async def test_output_that_is_no_text_and_without_end_stays_short():
    found = await run(*[Frame(1, b"\xff" * 100_000)] * 50, ended("3"))
    assert len(found.message) < 100


async def test_of_a_command_s_output_no_more_is_kept_than_the_kubelet_keeps():
    assert MOST_READ == KUBELET_READS
    flood = [Frame(1, b"x" * 100_000)] * 400
    await run(WELL_OVER, ended("3"))
    tracemalloc.start()
    try:
        found = await run(*flood, ended("3"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.outcome is FAILURE
    assert most < 128 * 1024


@pytest.mark.parametrize(
    "status",
    [
        ended(reason="InternalError"),
        ended(reason="Unauthorized"),
        ended(cause="Other"),
        ended("many"),
        ended("-1"),
        ended("9" * 100),
        ended(""),
        Frame(3, b'{"status":"Failure","reason":"NonZeroExitCode"}'),
        Frame(3, b'{"status":"Failure"}'),
        Frame(3, b"{}"),
        Frame(3, b"[]"),
        Frame(3, b""),
        Frame(3, b"\xff"),
        Frame(3, b'{"status":1}'),
        Frame(3, b"[" * 60_000),
        Frame(3, b'{"status":"Success","x":"' + b"x" * 1_000_000 + b'"}'),
    ],
    ids=range(16),
)
async def test_a_status_that_tells_no_exit_code_is_an_error(status):
    found = await run(status)
    assert found.outcome is ERROR
    assert len(found.message) <= 300


async def test_without_a_door_no_command_is_run():
    handlers = NetworkHandlers(Clock.of_loop())
    found = await handlers.run(probe(Exec(("x",))), at(pod="a", container="c"))
    await handlers.close()
    assert found.outcome is ERROR
    assert "--allow-exec" in found.message


async def many(handlers, number, timeout=60, namespace="a"):
    runs = [
        handlers.run(probe(Exec(("x",)), timeout), at(pod="p", container="c", namespace=namespace))
        for _ in range(number)
    ]
    return await asyncio.gather(*runs)


async def test_in_no_second_more_than_ten_commands_begin_after_the_first():
    door = Door(WELL)
    handlers = made(door)
    found = await many(handlers, 100)
    await handlers.close()
    assert {each.outcome for each in found} == {SUCCESS}
    begun = [when for when, _ in door.opened]
    first = begun[0]
    assert sum(when <= first for when in begun) == 10
    for second in range(9):
        assert sum(first + second < when <= first + second + 1 for when in begun) <= 11


async def test_commands_that_hang_leave_places_to_other_namespaces():
    door = Door(3600.0)
    handlers = made(door, commands=8)
    hanging = asyncio.ensure_future(many(handlers, 20, timeout=30))
    await asyncio.sleep(1)
    assert door.open_now == 6
    other = await many(handlers, 1, timeout=2, namespace="b")
    assert other[0].message == "the command did not end within 2 s"
    found = await hanging
    assert {each.outcome for each in found} == {FAILURE, ERROR}
    await handlers.close()


async def test_a_command_that_waited_long_for_its_turn_and_is_late_has_not_failed():
    handlers = made(Door(3600.0), commands=100)
    found = await many(handlers, 14, timeout=1)
    await handlers.close()
    assert [each.outcome for each in found[:10]] == [FAILURE] * 10
    assert [each.outcome for each in found[11:]] == [ERROR] * 3


async def test_more_than_there_is_a_pace_for_are_not_run_and_take_no_turn():
    handlers = made(Door(WELL), commands=100)
    found = await many(handlers, 60, timeout=1.05)
    assert sum(each.outcome is ERROR for each in found) == 40
    assert "10 commands a second" in found[-1].message
    await asyncio.sleep(1)
    assert [each.outcome for each in await many(handlers, 10, timeout=1)] == [SUCCESS] * 10
    await handlers.close()
