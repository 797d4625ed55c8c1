"""`--per-shoot-metrics` and `--metrics-auth`, with the process on one side of the sockets and the seed on the other."""

from functools import partial

import pytest

from app.core.model import workloads as ann
from app.simulation.identities import API_SERVER
from tests.e2e.processes import eventually
from tests.service.seeded import SHOOTS, seeded

# a process is started and its files are written before anything else runs
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

FIRST, SECOND = SHOOTS
SINCE = "2026-11-20T14:02:11Z"
STRANDED = {
    "spec": {"replicas": 0},
    "metadata": {"annotations": {ann.MELTDOWN: "", ann.SINCE: SINCE, ann.REPLICAS: "1"}},
}
"""What a scaling run down leaves on a dependent."""


def series(text):
    """Names and namespaces of what is shown of shoots."""
    lines = [line for line in text.splitlines() if 'namespace="' in line and line[0] != "#"]
    return {(line.split("{")[0], line.split('namespace="')[1].split('"')[0]) for line in lines}


async def test_without_series_for_shoots_a_stranded_one_is_still_told_of(tmp_path):
    async with seeded(tmp_path, "--per-shoot-metrics=false") as process:
        process.world.patch(FIRST, "kube-controller-manager", STRANDED)
        wanted = {
            ("dwd_shoot_dependents_at_zero", FIRST),
            ("dwd_shoot_protection_start_timestamp_seconds", FIRST),
        }

        async def told(not_probed):
            found = (await process.metrics()).text
            state = f'dwd_shoots{{state="NotProbed"}} {not_probed}'
            return found if state in found and series(found) == wanted else None

        what = "the stranded shoot alone"
        await eventually(partial(told, 0.0), what, within=10, every=0.3)
        process.world.faults.hibernated(FIRST)
        text = await eventually(partial(told, 1.0), what, within=10, every=0.3)
    assert f'dwd_shoot_dependents_at_zero{{namespace="{FIRST}"}} 1.0' in text
    start = f'dwd_shoot_protection_start_timestamp_seconds{{namespace="{FIRST}"}} '
    assert float(text.split(start)[1].split("\n")[0]) == 1795183331.0


# Who may scrape.


async def test_who_may_scrape_is_asked_of_the_seed(tmp_path):
    """`reader` may get /metrics there; who else may, and when, is tested in tests/api/auth."""
    async with seeded(tmp_path, "--metrics-auth") as process:
        user = "system:serviceaccount:monitoring:reader"
        process.world.identities.add("token-of-reader", user, audiences=(API_SERVER,))
        process.world.identities.grant(user, "get", "/metrics", group="")
        answer = await process.metrics(Authorization="Bearer token-of-reader")
        assert (answer.status, 'dwd_shoots{state="Healthy"}' in answer.text) == (200, True)
        for headers in ({}, {"Authorization": "Bearer made-up"}):
            answer = await process.metrics(**headers)
            assert (answer.status, "dwd_" in answer.text) == (401, False)
        assert (await process.get("health", "/readyz")).status == 200, "health is open"
