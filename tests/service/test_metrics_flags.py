"""`--per-shoot-metrics` and `--metrics-auth`, with the process on one side of the sockets and the seed on the other."""

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


@pytest.mark.parametrize("hibernated", [False, True], ids=["probed", "no longer probed"])
async def test_without_series_for_shoots_a_stranded_one_is_still_told_of(tmp_path, hibernated):
    async with seeded(tmp_path, "--per-shoot-metrics=false") as process:
        if hibernated:
            process.world.faults.hibernated(FIRST)
        process.world.patch(FIRST, "kube-controller-manager", STRANDED)
        wanted = {
            ("dwd_shoot_dependents_at_zero", FIRST),
            ("dwd_shoot_protection_start_timestamp_seconds", FIRST),
        }

        state = f'dwd_shoots{{state="NotProbed"}} {float(hibernated)}'

        async def told():
            found = (await process.metrics()).text
            return found if state in found and series(found) == wanted else None

        text = await eventually(told, "the stranded shoot alone", within=10, every=0.3)
    assert f'dwd_shoot_dependents_at_zero{{namespace="{FIRST}"}} 1.0' in text
    start = f'dwd_shoot_protection_start_timestamp_seconds{{namespace="{FIRST}"}} '
    assert float(text.split(start)[1].split("\n")[0]) == 1795183331.0


# Who may scrape.


@pytest.fixture
async def guarded(tmp_path):
    """A process that asks the seed; `reader` may get /metrics there, `caller` may not."""
    async with seeded(tmp_path, "--metrics-auth") as process:
        identities = process.world.identities
        for name in ("reader", "caller", "other-reader"):
            user = f"system:serviceaccount:monitoring:{name}"
            identities.add(f"token-of-{name}", user, audiences=(API_SERVER,))
        identities.add("for-another-audience", "system:serviceaccount:monitoring:reader")
        for name in ("reader", "other-reader"):
            user = f"system:serviceaccount:monitoring:{name}"
            identities.grant(user, "get", "/metrics", group="")
        yield process


async def scrape(process, token):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return await process.metrics(**headers)


async def test_a_scraper_shows_the_token_of_its_service_account_as_prometheus_does(guarded):
    answer = await scrape(guarded, "token-of-reader")
    assert answer.status == 200
    assert 'dwd_shoots{state="Healthy"}' in answer.text
    assert 'dwd_auth_decisions_total{decision="allowed"} 1.0' in answer.text


REFUSED = {
    None: (401, "unauthenticated"),
    "made-up": (401, "unauthenticated"),
    "for-another-audience": (401, "unauthenticated"),
    "token-of-caller": (403, "forbidden"),
}


async def test_who_may_not_is_told_why_and_counted(guarded):
    for token, (status, kind) in REFUSED.items():
        answer = await scrape(guarded, token)
        assert (answer.status, f":{kind}" in answer.text) == (status, True)
        assert "dwd_" not in answer.text
        assert ("WWW-Authenticate" in answer.headers) == (status == 401)
    counted = (await scrape(guarded, "token-of-reader")).text
    assert 'dwd_auth_decisions_total{decision="unauthenticated"} 3.0' in counted
    assert 'dwd_auth_decisions_total{decision="denied"} 1.0' in counted
    assert (await guarded.get("health", "/readyz")).status == 200, "health is open"


async def test_while_the_seed_is_away_a_known_scraper_goes_on_and_an_unknown_one_waits(guarded):
    assert (await scrape(guarded, "token-of-reader")).status == 200
    with guarded.world.faults.reviews_away():
        assert (await scrape(guarded, "token-of-reader")).status == 200
        answer = await scrape(guarded, "token-of-other-reader")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert (await scrape(guarded, "token-of-other-reader")).status == 200


async def test_where_nobody_may_be_asked_about_nobody_scrapes_and_the_feature_is_named(guarded):
    with guarded.world.faults.reviews_forbidden():
        answer = await scrape(guarded, "token-of-reader")
        assert (answer.status, "token-review" in answer.text) == (503, True)
        ready = await guarded.get("health", "/readyz?verbose")
    assert (ready.status, "token-review" in ready.text) == (200, True)
