"""What Prometheus's own tool says of the metrics of a real process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chart.tools import Tool
from tests.service.seeded import SHOOTS, Seeded, seeded

pytestmark = [
    pytest.mark.real,
    pytest.mark.looptime(False),
    pytest.mark.blocking,  # programs are started and waited for
]

COUNTER = "# TYPE dwd_watch_restarts_total counter\n"
HISTOGRAM = '{0}_bucket{{le="+Inf"}} 0\n{0}_sum 0\n{0}_count 0\n'


def filled(text: str) -> str:
    """The same with a sample in every family: promtool says nothing of one that has none."""
    found = []
    for block in text.split("# HELP ")[1:]:
        head, kind, *samples = block.splitlines()
        _, _, name, word = kind.split(" ")
        own = HISTOGRAM.format(name) if word == "histogram" else f"{name} 0\n"
        found.append(f"# HELP {block}{'' if samples else own}")
        assert head.startswith(f"{name} ")
    return "".join(found)


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Seeded]:
    """One that has answered calls of the API."""
    async with seeded(tmp_path) as found:
        for path in ("/api/v1/shoots", f"/api/v1/shoots/{SHOOTS[0]}", "/nowhere"):
            await found.get("api", path)
        yield found


async def test_it_has_nothing_to_say_about_what_a_process_serves(
    process: Seeded, promtool: Tool
) -> None:
    served = await process.metrics("text/plain")
    assert served.status == 200
    assert promtool("check", "metrics", stdin=filled(served.text)) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("# HELP dwd_watch_restarts_total", "# "), "no help text"),
        ((COUNTER, COUNTER.replace("counter", "gauge")), "should not have"),
    ],
)
async def test_it_would_say_so_if_one_were_not_as_it_should_be(
    process: Seeded, promtool: Tool, change: tuple[str, str], said: str
) -> None:
    served = await process.metrics("text/plain")
    assert change[0] in served.text
    changed = filled(served.text).replace(*change)
    assert said in promtool.refusal("check", "metrics", stdin=changed)
