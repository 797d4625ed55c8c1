"""`dryRun` of the calls that change something: what would change, checked as the call itself, and nothing written."""

from dataclasses import replace

import pytest

from app.core.errors import Refused
from app.core.model.policy import Loop
from tests.api.facts import (
    HOME,
    KCM,
    MCM,
    NAMESPACE,
    healthy,
    pause,
    request,
    run,
    service,
    workload,
)

SHOOT = f"/api/v1/shoots/{NAMESPACE}"
IGNORE = f"{SHOOT}/resources/Deployment/kube-controller-manager/ignore-scaling"
WEED = f"/api/v1/weeders/{NAMESPACE}/kube-apiserver"
REASON = {"reason": "maintenance"}


@pytest.fixture(autouse=True)
def one_shoot(shoots, resources, process, weeders):
    shoots.add(healthy())
    resources.known[NAMESPACE] = {KCM: workload(KCM), MCM: workload(MCM)}
    process.loops = (Loop.PROBER, Loop.WEEDER)
    weeders.add(service())


def changes(answer):
    assert answer.status_code == 200
    return answer.json()["changes"]


@pytest.mark.parametrize(("url", "where"), [(f"{SHOOT}/pause", NAMESPACE), ("/api/v1/pause", HOME)])
def test_a_pause_says_which_object_it_would_write_and_writes_nothing(client, overrides, url, where):
    (found,) = changes(client.put(url, json={**REASON, "duration": "30m", "dryRun": True}))
    assert found["object"] == f"Pause {where}/api"
    assert found["before"] is None
    assert found["after"]["reason"] == "maintenance"
    assert overrides.objects == {}


@pytest.mark.parametrize(
    ("url", "named"),
    [
        (f"{SHOOT}/pause", f"Pause {NAMESPACE}/api"),
        (f"{SHOOT}/pauses/night", f"Pause {NAMESPACE}/night"),
        (f"{SHOOT}/hold", f"ScaleRequest {NAMESPACE}/api-op-1"),
        ("/api/v1/pause", f"Pause {HOME}/api"),
        ("/api/v1/pauses/night", f"Pause {HOME}/night"),
    ],
)
def test_what_ends_a_pause_or_hold_says_what_it_would_end(client, overrides, url, named):
    overrides.add(
        request(), *(pause(of=of, name=n) for of in (NAMESPACE, HOME) for n in ("api", "night"))
    )
    (found,) = changes(client.delete(url, params={"dryRun": "true"}))
    assert found["object"] == named
    assert found["before"]["author"]
    assert found["after"] is None
    assert (len(overrides.objects), len(overrides.orders)) == (4, 1)


def test_a_pause_that_would_replace_another_shows_both(client, overrides):
    overrides.add(pause())
    (found,) = changes(client.put(f"{SHOOT}/pause", json={**REASON, "dryRun": True}))
    assert (found["before"]["author"], found["after"]["author"]) == ("alice", "tester")
    assert found["after"]["createdAt"] == found["before"]["createdAt"], "of the object, which stays"
    assert client.put(f"{SHOOT}/pause", json=REASON).json() == found["after"]


def test_a_pause_that_is_being_deleted_would_not_be_replaced(client, overrides):
    overrides.add(replace(pause(), deleting=True))
    for dry_run in (True, False):
        answer = client.put(f"{SHOOT}/pause", json={**REASON, "dryRun": dry_run})
        assert (answer.status_code, "being deleted" in answer.json()["detail"]) == (409, True)


@pytest.mark.parametrize("what", ["pause", "hold"])
def test_nothing_to_end_is_no_change(client, what):
    assert changes(client.delete(f"{SHOOT}/{what}", params={"dryRun": "true"})) == []


def test_where_there_are_no_overrides_the_dry_run_says_so_too(client, process, scaling_runs):
    scaling_runs.add(run("op-1"))
    scale = {**REASON, "direction": "up", "dryRun": True}
    process.off = {
        "pauses": "the right to list pauses is missing",
        "scalerequests": "the right to list scalerequests is missing",
    }
    for answer, missing in (
        (client.put(f"{SHOOT}/pause", json={**REASON, "dryRun": True}), "pauses"),
        (client.delete(f"{SHOOT}/pause", params={"dryRun": "true"}), "pauses"),
        (client.delete(f"{SHOOT}/pauses/x", params={"dryRun": "true"}), "pauses"),
        (client.delete(f"{SHOOT}/hold", params={"dryRun": "true"}), "scalerequests"),
        (client.post(f"{SHOOT}/scale", json=scale), "scalerequests"),
        (client.delete("/api/v1/operations/op-1", params={"dryRun": "true"}), "scalerequests"),
    ):
        assert answer.status_code == 503
        assert f"list {missing}" in answer.json()["detail"]
        assert answer.json()["feature"] == missing


def test_ignore_scaling_shows_the_annotation_as_it_is_and_would_be(client, resources):
    (found,) = changes(client.put(IGNORE, json={**REASON, "dryRun": True}))
    annotation = "dependency-watchdog.gardener.cloud/ignore-scaling"
    assert found["object"].endswith(f"Deployment/kube-controller-manager, annotation {annotation}")
    assert (found["before"], found["after"]) == (None, "true")
    assert annotation not in resources.known[NAMESPACE][KCM].annotations
    client.put(IGNORE, json=REASON)
    (back,) = changes(client.delete(IGNORE, params={"dryRun": "true"}))
    assert (back["before"], back["after"]) == ("true", None)
    assert annotation in resources.known[NAMESPACE][KCM].annotations


def test_weed_now_says_what_would_begin_and_begins_nothing(client, weeders):
    (found,) = changes(client.post(WEED, json={"dryRun": True}))
    assert found["object"] == f"recovery of {NAMESPACE}/kube-apiserver"
    assert found["after"]["cause"] == "Asked"
    assert weeders.begun == []


def test_weed_now_that_would_be_refused_is_refused_in_the_dry_run(client, weeders):
    weeders.refuses = Refused("kube-apiserver is not ready")
    answer = client.post(WEED, json={"dryRun": True})
    assert answer.status_code == 409
    assert "not ready" in answer.json()["detail"]


def test_a_process_in_dry_run_plans_too(client, process):
    process.dry_run = True
    assert changes(client.put(f"{SHOOT}/pause", json={**REASON, "dryRun": True}))
    assert changes(client.put(IGNORE, json={**REASON, "dryRun": True}))
    assert changes(client.post(WEED, json={"dryRun": True}))
    assert client.put(f"{SHOOT}/pause", json=REASON).status_code == 503


def test_the_audit_calls_all_of_them_plans(client, audit):
    client.put(f"{SHOOT}/pause", json={**REASON, "dryRun": True})
    client.delete(f"{SHOOT}/pause", params={"dryRun": "true"})
    client.put(IGNORE, json={**REASON, "dryRun": True})
    client.post(WEED, json={"dryRun": True})
    assert {each.attempt.action for each in audit.entries()} == {"plan"}


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("DELETE", f"{SHOOT}/pause"),
        ("DELETE", f"{SHOOT}/hold"),
        ("DELETE", "/api/v1/pause"),
        ("DELETE", IGNORE),
        ("POST", f"{SHOOT}/probe"),
    ],
)
def test_a_call_without_a_body_takes_its_reason_in_the_query(client, audit, method, url):
    answer = client.request(method, url, params={"reason": "it is\nover"})
    assert answer.status_code < 300
    (entry,) = audit.entries()
    assert entry.attempt.reason == "it is over"
    assert client.request(method, url, params={"reason": "x" * 301}).status_code == 422
