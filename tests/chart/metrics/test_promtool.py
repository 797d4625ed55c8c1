"""What Prometheus's own tool says of the metrics of a real process."""

from pathlib import Path

import pytest

from tests.chart.tools import Tool
from tests.service.seeded import SHOOTS, seeded

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


async def test_it_has_nothing_to_say_about_what_a_process_serves_and_would_if_it_were_otherwise(
    tmp_path: Path, promtool: Tool
) -> None:
    """Of a process that has answered calls of the API."""
    async with seeded(tmp_path) as process:
        for path in ("/api/v1/shoots", f"/api/v1/shoots/{SHOOTS[0]}", "/nowhere"):
            await process.get("api", path)
        served = await process.metrics("text/plain")
    assert served.status == 200
    text = filled(served.text)
    assert promtool("check", "metrics", stdin=text) == ""
    for there, instead, said in (
        ("# HELP dwd_watch_restarts_total", "# ", "no help text"),
        (COUNTER, COUNTER.replace("counter", "gauge"), "should not have"),
    ):
        assert there in text
        assert said in promtool.refusal("check", "metrics", stdin=text.replace(there, instead))
