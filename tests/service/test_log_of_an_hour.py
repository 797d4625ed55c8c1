"""How much is logged at `info` in production, and whether what happened can be read from it."""

import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.core.log import camel_case
from app.core.model.weeding import Cause, ServiceKey
from tests.service.lives import BOTH, SERVICE, Life, life
from tests.support.harness import SHOOT

HOUR = 3_600.0
SHOOTS = [SHOOT, *(f"shoot--local--b{number}" for number in range(11))]
DOWN = [
    *("LeasesExpired", "FlowStarted", "MeltdownProtectionStarted"),
    *["ScaledDown"] * 3,
    "FlowEnded",
]
UP = [
    *("Counting", "LeasesRenewed", "FlowStarted"),
    *["ScaledUp"] * 3,
    *("MeltdownProtectionEnded", "FlowEnded"),
]
"""What one outage is, and its end: why, what is begun, what was done."""


class Told(Life):
    """A service whose loops run on virtual time, without sockets, and what it has logged."""

    def __init__(self, found, lines):
        super().__init__(found.service, found.core, found.world, found.cluster)
        self._lines = lines
        for name in SHOOTS[1:]:
            self.world.add_shoot(name, nodes=3)

    async def start(self):
        """Both loops, until all is learnt; what that was in the log."""
        await self.cluster.begin()
        self.service.prober.start()
        self.service.weeder.start()
        return await self.run(120)

    async def run(self, seconds):
        """Lets time pass; the lines of it at `info` and above."""
        self._lines.clear()
        await self.core.clock.sleep(seconds)
        return [line for line in self._lines if line["log_level"] != "debug"]


@pytest.fixture
async def told():
    with capture_logs() as lines:
        found = Told(life(loops=BOTH), lines)
        yield found
        await found.core.tasks.stop()
        await found.cluster.close()


def of(lines, namespace):
    return [line for line in lines if line.get("namespace") == namespace]


async def test_in_an_hour_in_which_nothing_happens_there_is_nothing_to_read(told):
    await told.start()
    assert await told.run(HOUR) == []  # a line for each shoot and hour would be allowed


async def test_a_node_that_comes_and_goes_is_in_the_history_alone(told):
    await told.start()
    verdicts: list[str] = []
    told.core.notice_bus.subscribe(
        lambda notice: verdicts.append(notice.reason) if notice.kind == "Verdict" else None
    )
    with told.world.faults.path_cut(SHOOT, nodes=["node-0"]):
        gone = await told.run(120)
    assert gone + await told.run(120) == []
    assert verdicts == ["SomeLeasesExpired", "LeasesRenewed"]


async def test_a_start_is_two_lines_for_each_shoot(told):
    started = await told.start()
    for name in SHOOTS:
        prober = [each for each in of(started, name) if each["type"] != "Weed"]
        assert [each["reason"] for each in prober] == ["ProbingStarted", "LeasesRenewed"]
    assert {each["log_level"] for each in started} == {"info"}


async def outage(told, names):
    """The lines of an outage of these shoots and of their way back."""
    await told.start()
    lines = []
    faults = [told.world.faults.path_cut(name) for name in names]
    lines += await told.run(180)
    for fault in faults:
        fault.lift()
    return lines + await told.run(240)


async def test_an_outage_of_one_shoot_reads_as_a_story(told):
    lines = await outage(told, [SHOOT])
    reasons = [str(line["reason"]) for line in of(lines, SHOOT)]
    assert reasons[: len(DOWN)] == DOWN
    up = reasons[len(DOWN) :]
    assert sorted(up) == sorted(UP)
    assert (*up[:4], up[-1]) == (*UP[:4], UP[-1])
    assert of(lines, SHOOT) == lines, "and nothing of anybody else"
    warned = [line["reason"] for line in lines if line["log_level"] == "warning"]
    assert warned == ["LeasesExpired", "MeltdownProtectionStarted", "MeltdownProtectionEnded"]
    assert {line["log_level"] for line in lines} == {"info", "warning"}


async def test_an_outage_of_all_is_the_same_story_once_for_each(told):
    lines = await outage(told, SHOOTS)
    for name in SHOOTS:
        # and one more where it counted twice
        assert len(of(lines, name)) <= len(DOWN) + len(UP) + 1
    assert {line.get("namespace") for line in lines} == set(SHOOTS)


async def test_an_api_server_that_is_away_is_one_line_and_one_when_it_is_back(told):
    await told.start()
    with told.world.faults.api_down(SHOOT):
        away = await told.run(HOUR / 4)
    assert [(each["reason"], each["log_level"]) for each in away] == [("Unreachable", "warning")]
    back = await told.run(120)
    assert back[-1]["reason"] == "LeasesRenewed"
    assert len(back) <= 3, "leases are not known for a moment"


# Names.

DOCS = Path(__file__).parents[2] / "docs" / "logs.md"
STRUCTLOG = {"event": "message", "log_level": "level"}


def documented():
    """The fields that docs/logs.md has a row for."""
    table = DOCS.read_text().split("## Fields")[1].split("## Levels")[0]
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


async def test_every_field_of_a_line_is_documented(told):
    lines = await outage(told, [SHOOT])
    weeder = told.service.weeder.weeder
    weeder.registry.begin(ServiceKey(SHOOT, SERVICE), Cause.ASKED, 300.0)
    lines += await told.run(400)
    told.world.faults.hibernated(SHOOT)
    lines += await told.run(10)
    assert {line["type"] for line in lines} == {"Verdict", "Scale", "Lifecycle", "Weed"}
    fields = {STRUCTLOG.get(name, camel_case(name)) for line in lines for name in line}
    assert fields - documented() == set()
