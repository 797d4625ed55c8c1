"""The watch of a namespace's pods: what it shows, what it survives, what ends it; on virtual time, against a script."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from app.core.errors import BadAnswer, Forbidden, ServerFault, Throttled, Unauthorized, Unreachable
from app.core.kube.seed_api import Budget
from app.core.model.names import LabelSelector, Operator, Requirement
from tests.core.kube.test_reflector import EXPIRED_EVENT, FOREVER, Script
from tests.core.kube.weeding import NS, listed, pod, seed_on

SELECTOR = LabelSelector(
    (
        Requirement("gardener.cloud/role", Operator.IN, frozenset({"controlplane"})),
        Requirement("role", Operator.NOT_IN, frozenset({"main", "apiserver"})),
    )
)
ALL = LabelSelector()


def watched(*watches, lists=None):
    return Script(lists or [listed("Pod", pod("a", 1), pod("b", 2))], watches)


@asynccontextmanager
async def pods_on(script, selector: LabelSelector | None = SELECTOR):
    async with seed_on(script, started=False) as seed:
        changes: list[str] = []
        admissions: list[int] = []

        async def admitted():
            admissions.append(len(script.asked))
            await asyncio.sleep(0.01)

        watch = seed.watch_pods(NS, selector, changes.append, admitted)
        watch.changes, watch.admissions, watch.metrics = changes, admissions, seed.metrics
        watch.task = asyncio.ensure_future(watch.run())
        try:
            yield watch
        finally:
            watch.task.cancel()
            await asyncio.gather(watch.task, return_exceptions=True)


@pytest.mark.parametrize(
    ("selector", "chosen"), [(SELECTOR, {"labelSelector": str(SELECTOR)}), (ALL, {}), (None, {})]
)
async def test_the_server_selects_the_pods_of_this_namespace_alone(selector, chosen):
    script = watched([FOREVER])
    async with pods_on(script, selector):
        await asyncio.sleep(1)
        listing, watching = script.asked
        assert listing.params == chosen | {"limit": "100"}
        assert watching.params.get("labelSelector") == chosen.get("labelSelector")
        assert listing.path == watching.path == f"/api/v1/namespaces/{NS}/pods"


async def test_each_request_is_admitted_before_it_is_made_and_none_counts_against_the_seeds_budget():
    lists = [listed("Pod", pod("a", 1), more="x"), listed("Pod", pod("b", 2))]
    script = watched([5], [5, EXPIRED_EVENT], [FOREVER], lists=lists)
    async with pods_on(script) as watch:
        await asyncio.sleep(30)
        assert script.verbs() == ["list", "list", "watch", "watch", "list", "watch"]
        assert watch.admissions == [0, 1, 2, 3, 4, 5]
        assert set(script.budgets) == {Budget.PACED}


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize("refusal", [Forbidden("pods: 403"), Unauthorized("401")])
async def test_a_refusal_that_goes_on_ends_it_within_seconds(refusal, verb, lines):
    script = watched([FOREVER], lists=[refusal]) if verb == "list" else watched(refusal)
    async with pods_on(script) as watch:
        with pytest.raises(Forbidden, match=str(refusal)):
            await asyncio.wait_for(watch.task, 10)
        assert script.verbs().count(verb) == 3
        assert watch.state.synced is (verb == "watch")
    assert {entry["log_level"] for entry in lines} == {"error"}


async def test_no_other_failure_ends_it():
    always = [ServerFault("500"), Unreachable("refused"), Throttled("429"), BadAnswer("html")]
    async with pods_on(watched([FOREVER], lists=always * 20)) as watch:
        await asyncio.sleep(1000)
        assert not watch.task.done()


async def test_no_metric_has_a_series_for_each_of_them():
    async with pods_on(watched([5, Unreachable("cut")], [FOREVER])) as watch:
        await asyncio.sleep(10)
        sample = watch.metrics.registry.get_sample_value
        labels = {"kind": "pods"}
        assert sample("dwd_watch_restarts_total", labels | {"reason": "Unreachable"}) == 1
        assert sample("dwd_watch_last_contact_timestamp_seconds", labels) is None


async def test_what_goes_wrong_names_the_namespace(lines):
    async with pods_on(watched([b"<html>"], [FOREVER])):
        await asyncio.sleep(1)
    assert f"watch pods in {NS}" in lines[0]["error"]
