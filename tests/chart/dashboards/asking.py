"""What Grafana asks for a panel: its queries, with the variables and macros filled in."""

from tests.chart.dashboards.programs import PROBER_JOB, WEEDER_JOB
from tests.chart.dashboards.reading import Asked, filled
from tests.chart.dashboards.recording import PROTECTED, Recording
from tests.chart.dashboards.server import ONE, Series


def values(recording: Recording, *, seed: str = ONE, shoot: str = PROTECTED) -> dict[str, str]:
    """What Grafana puts in for its variables and macros."""
    return {
        "seed_label": "seed",
        "seed": seed,
        "job": f"{PROBER_JOB}|{WEEDER_JOB}",
        "namespace": shoot,
        "__rate_interval": "8s",
        "__range": f"{recording.seconds}s",
    }


async def answer(recording: Recording, asked: Asked, **chosen: str) -> list[Series]:
    """What a panel would draw."""
    expression = filled(asked.expression, values(recording, **chosen))
    if asked.instant:
        return await recording.prometheus.at(expression, recording.ended)
    return await recording.prometheus.over(expression, recording.begun, recording.ended, 1)
