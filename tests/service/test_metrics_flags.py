"""`--per-shoot-metrics` and `--metrics-auth`, with the process on one side of the sockets and the seed on the other."""

import asyncio
import re
from functools import partial

import pytest

from app.core.model import workloads as ann
from app.simulation.identities import API_SERVER
from tests.e2e.processes import eventually
from tests.service.seeded import SHOOTS, seeded

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,  # a process is started and its files are written before anything else runs
]

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

REFUSED = {
    None: (401, "unauthenticated"),
    "made-up": (401, "unauthenticated"),
    "for-another-audience": (401, "unauthenticated"),
    "token-of-caller": (403, "forbidden"),
}


async def test_who_may_scrape_is_asked_of_the_seed_and_a_known_scraper_outlasts_its_absence(
    tmp_path,
):
    """`reader` may get /metrics there, `caller` may not."""
    async with seeded(tmp_path, "--metrics-auth") as process:
        identities = process.world.identities
        for name in ("reader", "caller", "other-reader"):
            user = f"system:serviceaccount:monitoring:{name}"
            identities.add(f"token-of-{name}", user, audiences=(API_SERVER,))
        identities.add("for-another-audience", "system:serviceaccount:monitoring:reader")
        for name in ("reader", "other-reader"):
            user = f"system:serviceaccount:monitoring:{name}"
            identities.grant(user, "get", "/metrics", group="")
        with process.world.faults.reviews_forbidden():
            answer = await scrape(process, "token-of-reader")
            assert (answer.status, "token-review" in answer.text) == (503, True)
            ready = await process.get("health", "/readyz?verbose")
            assert (ready.status, "token-review" in ready.text) == (200, True)
        answer = await eventually(partial(allowed, process), "it is asked again", within=30)
        assert 'dwd_shoots{state="Healthy"}' in answer.text
        await those_who_may_not_are_told_why_and_counted(process)
        with process.world.faults.reviews_away():
            assert (await scrape(process, "token-of-reader")).status == 200
            answer = await scrape(process, "token-of-other-reader")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert (await scrape(process, "token-of-other-reader")).status == 200


async def scrape(process, token):
    """The answer; one that says "too many at once" is waited out."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answer = await process.metrics(**headers)
    if answer.status != 429:
        return answer
    await asyncio.sleep(float(answer.headers["Retry-After"]))
    return await scrape(process, token)


async def allowed(process):
    answer = await scrape(process, "token-of-reader")
    return answer if answer.status == 200 else None


async def those_who_may_not_are_told_why_and_counted(process):
    before = counted((await scrape(process, "token-of-reader")).text)
    for token, (status, kind) in REFUSED.items():
        answer = await scrape(process, token)
        assert (answer.status, f":{kind}" in answer.text) == (status, True)
        assert "dwd_" not in answer.text
        assert ("WWW-Authenticate" in answer.headers) == (status == 401)
    after = counted((await scrape(process, "token-of-reader")).text)
    assert after["unauthenticated"] - before["unauthenticated"] == 3
    assert after["denied"] - before["denied"] == 1
    assert (await process.get("health", "/readyz")).status == 200, "health is open"


def counted(text):
    """What was decided about callers, and how often."""
    found = re.findall(r'dwd_auth_decisions_total\{decision="([\w-]+)"\} (\S+)', text)
    return {decision: float(count) for decision, count in found}
