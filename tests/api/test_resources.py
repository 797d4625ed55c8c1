"""The dependents of a shoot, live, with ETags; of each caller one read at a time; and ignore-scaling."""

import asyncio
from dataclasses import replace

import httpx2
import pytest

from app.api.limits import PATIENCE, ReadLocks
from app.core.clock import Clock
from app.core.errors import Refused, Throttled, Unreachable, VersionChanged
from app.core.model import workloads
from app.core.model import workloads as ann
from app.core.model.overrides import IgnoreRequest
from app.core.model.policy import DependentPolicy
from app.core.model.workloads import ResourceRef
from tests.api.facts import CA, KCM, MCM, NAMESPACE, POLICY, healthy, protected_workload, workload
from tests.api.fakes import application, type_of

LIST = f"/api/v1/shoots/{NAMESPACE}/resources"
IGNORE = f"{LIST}/Deployment/{KCM.name}/ignore-scaling"
REASON = {"reason": "I look after it myself"}


@pytest.fixture(autouse=True)
def one_shoot(shoots, resources):
    shoots.add(healthy())
    resources.known[NAMESPACE] = {KCM: workload(KCM, 2), MCM: protected_workload(MCM, 3), CA: None}


# The list.


@pytest.mark.parametrize(
    ("error", "seconds", "says"),
    [
        (Throttled("not sent: used up"), "1", "the request budget for the seed is used up"),
        (Throttled("slow down", status=429, retry_after=7.0), "7", "slow down"),
        (Throttled("slow down", status=429), "1", "slow down"),
    ],
)
def test_where_the_seed_has_no_time_for_those_who_probe_they_are_told_when_to_come_back(
    *, client, resources, error, seconds, says
):
    resources.breaks = error
    answer = client.get(LIST)
    assert (answer.status_code, type_of(answer)) == (503, "seed-away")
    assert answer.headers["Retry-After"] == seconds
    problem = answer.json()
    assert says in problem["detail"]
    assert "caller" not in f"{problem['title']} {problem['detail']}", "who did not cause it"


def test_the_etag_of_the_answer_covers_all_of_them_whatever_the_page(client, resources):
    whole = client.get(LIST)
    page = client.get(LIST, params={"limit": 1})
    assert whole.headers["etag"] == page.headers["etag"]
    assert whole.headers["etag"] == workloads.list_etag(resources.known[NAMESPACE])
    resources.known[NAMESPACE][MCM] = workload(MCM)
    assert client.get(LIST, params={"limit": 1}).headers["etag"] != page.headers["etag"]


# Ignore-scaling.


def test_ignore_scaling_is_written_with_who_and_why_and_the_resource_comes_back(client, resources):
    answer = client.put(IGNORE, json=REASON)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["name"], found["ignoreScaling"]) == (KCM.name, True)
    assert found["annotations"] == {ann.IGNORE_SCALING: "true"}
    assert answer.headers["etag"] == found["etag"]
    assert found["etag"] == workloads.resource_etag(resources.known[NAMESPACE][KCM])
    assert resources.asked == [
        IgnoreRequest(NAMESPACE, KCM, ignored=True, author="tester", reason=REASON["reason"])
    ]


def test_the_annotation_is_removed_without_a_reason(client, resources):
    client.put(IGNORE, json=REASON)
    answer = client.delete(IGNORE)
    assert (answer.status_code, answer.json()["ignoreScaling"]) == (200, False)
    assert resources.asked[-1] == IgnoreRequest(NAMESPACE, KCM, ignored=False, author="tester")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([("If-Match", '"a", "b"')], '"a", "b"'),
        ([("If-Match", '"a"'), ("If-Match", "W/*")], '"a", W/*'),
    ],
)
def test_if_match_and_force_are_handed_on(client, resources, method, headers, expected):
    body = {**REASON, "force": True} if method == "PUT" else None
    client.request(method, IGNORE, json=body, headers=headers)
    (order,) = resources.asked
    assert (order.if_match, order.force) == (expected, method == "PUT")


@pytest.mark.parametrize(
    ("place", "query"),
    [
        ("Deployment/etcd-druid", ""),
        ("StatefulSet/kube-controller-manager", ""),
        ("deployment/x", ""),
        (f"Deployment/{KCM.name}", "?apiVersion=apps/v2"),
    ],
)
def test_what_is_no_configured_dependent_is_404(client, resources, place, query):
    url = f"{LIST}/{place}/ignore-scaling{query}"
    for answer in (client.put(url, json=REASON), client.delete(url)):
        assert (answer.status_code, type_of(answer)) == (404, "not-found")
        assert place in answer.json()["detail"]
    assert resources.asked == []


def test_the_audit_has_who_why_before_and_after(client, resources, audit):
    resources.known[NAMESPACE][KCM] = workload(KCM, 1, **{ann.IGNORE_SCALING: "no"})
    client.put(IGNORE, json=REASON)
    (record,) = audit.entries()
    said = record.attempt
    assert (said.action, said.namespace, said.target) == ("ignore", NAMESPACE, str(KCM))
    assert (said.reason, said.caller) == (REASON["reason"], "tester")
    assert (said.before["ignoreScaling"], said.after["ignoreScaling"]) == ("no", "true")
    assert said.before["resourceVersion"] == "7"
    client.delete(IGNORE)
    assert audit.entries()[0].attempt.action == "unignore"


# Two of the same kind and name.

OTHER = ResourceRef("druid.gardener.cloud/v1alpha1", "Deployment", KCM.name)


@pytest.fixture
def twins(given, resources):
    """Puts a second dependent of the same kind and name beside the first."""
    both = replace(POLICY, dependents=(*POLICY.dependents, DependentPolicy(OTHER)))
    object.__setattr__(given, "prober", replace(given.prober, policy=both))
    resources.known[NAMESPACE][OTHER] = workload(OTHER)


@pytest.mark.usefixtures("twins")
@pytest.mark.parametrize("ref", [KCM, OTHER])
def test_of_two_alike_the_api_version_chooses(client, resources, ref):
    answer = client.put(IGNORE, json=REASON, params={"apiVersion": ref.api_version})
    assert answer.json()["apiVersion"] == ref.api_version
    assert resources.asked[0].ref == ref


@pytest.mark.usefixtures("twins")
def test_of_two_alike_none_is_guessed(client, resources):
    for answer in (client.put(IGNORE, json=REASON), client.delete(IGNORE)):
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert error["path"] == "query.apiVersion"
        assert error["message"] == "must be one of apps/v1, druid.gardener.cloud/v1alpha1"
    assert resources.asked == []


# The audit of what was refused.


@pytest.mark.parametrize(
    "error", [Refused("it is at 0"), VersionChanged("it has changed"), Unreachable("away")]
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_refused_attempt_has_what_was_there_as_the_watch_shows_it(
    *, client, shoots, resources, audit, method, error
):
    known = workload(KCM, 0, **{ann.IGNORE_SCALING: "true"})
    shoots.add(replace(healthy(), resources={KCM: known}))
    resources.breaks = error
    client.request(method, IGNORE, json=REASON if method == "PUT" else None)
    said = audit.entries()[0].attempt
    assert not said.performed
    assert said.before == {"ignoreScaling": "true", "replicas": 0, "resourceVersion": "7"}
    assert said.after is None


def test_a_refused_attempt_on_what_does_not_exist_has_nothing_before(client, shoots, audit):
    shoots.add(replace(healthy(), resources={KCM: None}))
    assert client.put(IGNORE.replace(KCM.name, CA.name), json=REASON).status_code == 404
    assert audit.entries()[0].attempt.before is None


# Of each caller one read at a time.


def instant():
    return asyncio.get_running_loop().time()


async def held(locks, who, seconds=1.0):
    """One read that takes so long; returns when it began."""
    async with locks.turn(who):
        began = instant()
        await asyncio.sleep(seconds)
    return began


async def test_the_reads_of_one_caller_wait_for_each_other_and_for_nobody_elses():
    locks, began = ReadLocks(), instant()
    reads = [held(locks, who, 0.5) for who in ("mallory", "mallory", "mallory", "alice")]
    found = await asyncio.gather(*reads)
    assert [each - began for each in found] == pytest.approx([0, 0.5, 1.0, 0])


async def test_whoever_is_in_his_own_way_is_told_that_after_2_s(given):
    transport = httpx2.ASGITransport(application(given, now=Clock.of_loop().now))
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as asking,
        given.prober.looks.turn("caller tester"),
    ):
        began = instant()
        answer = await asking.get(LIST)
        assert instant() - began == pytest.approx(PATIENCE)
    assert (answer.status_code, type_of(answer)) == (429, "too-many-requests")
    assert "by this caller is in progress already" in answer.json()["detail"]
    assert answer.headers["Retry-After"] == "1"


async def test_a_read_that_fails_or_is_cut_short_keeps_nobody_waiting():
    locks = ReadLocks()
    with pytest.raises(ZeroDivisionError):
        async with locks.turn("a"):
            _ = 1 / 0
    cut, waiting = (asyncio.ensure_future(held(locks, "a", seconds)) for seconds in (60, 1))
    await asyncio.sleep(0.1)
    cut.cancel()
    await asyncio.wait([cut])
    await waiting


async def test_nobody_is_remembered_who_waits_for_nothing():
    locks = ReadLocks()
    await asyncio.gather(*(held(locks, f"caller {n}") for n in range(50)))
    assert len(locks) == 0
