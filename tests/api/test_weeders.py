"""Services and their recoveries: what was deleted, what was not, and why."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import Refused
from app.core.model.policy import Loop
from app.core.model.weeding import Phase, RecoveryStatus, ServiceKey, ServiceStatus
from tests.api.facts import NAMESPACE, NOW, deleted, recovery, service

LIST = "/api/v1/weeders"
API_SERVER = "kube-apiserver"


@pytest.fixture(autouse=True)
def both(process):
    process.loops = tuple(Loop)


def of(namespace=NAMESPACE, name=API_SERVER, *recoveries: RecoveryStatus) -> ServiceStatus:
    key = ServiceKey(namespace, name)
    return service(*(recoveries or (recovery(key),)), key=key)


def at(namespace, began, **more: Any) -> ServiceStatus:
    """A service of this namespace with one recovery."""
    return of(namespace, API_SERVER, recovery(ServiceKey(namespace, API_SERVER), began, **more))


def names(answer):
    assert answer.status_code == 200, answer.text
    return [each["namespace"] for each in answer.json()["items"]]


# One service.


def test_a_service_without_recoveries_is_shown_when_asked_for_and_not_listed(client, weeders):
    weeders.add(service(ready=False, since=None))
    assert client.get(f"{LIST}/{NAMESPACE}/{API_SERVER}").status_code == 200
    assert names(client.get(LIST)) == []


def test_a_service_of_which_nothing_is_known_is_404(client, weeders):
    weeders.add(of())
    for path in (f"{NAMESPACE}/etcd-main-client", f"another/{API_SERVER}"):
        answer = client.get(f"{LIST}/{path}")
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:dependency-watchdog:problem:not-found"
        assert path in answer.json()["detail"]


# The list.


def test_the_newest_recovery_comes_first_running_or_not_and_equals_by_name(client, weeders):
    weeders.add(at("b", NOW - 20), at("d", NOW - 5, over=True), at("c", NOW - 20))
    older = recovery(ServiceKey("a", API_SERVER), NOW - 90, over=True)
    newer = recovery(ServiceKey("a", API_SERVER), NOW - 1)
    weeders.add(of("a", API_SERVER, newer, older))
    assert names(client.get(LIST)) == ["a", "d", "b", "c"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"namespace": "a"}, ["a", "a"]),
        ({"service": "etcd-main-client"}, ["a"]),
        ({"namespace": "b", "service": "etcd-main-client"}, []),
        ({"namespace": "shoot"}, []),
        ({"running": "true"}, ["a", "a"]),
        ({"running": "false"}, ["b"]),
        ({"running": "false", "namespace": "a"}, []),
    ],
)
def test_filters_choose_by_whole_names_and_by_what_runs(client, weeders, query, expected):
    etcd = ServiceKey("a", "etcd-main-client")
    weeders.add(at("a", NOW), at("b", NOW - 1, over=True))
    weeders.add(of("a", etcd.service, recovery(etcd, NOW - 2)))
    answer = client.get(LIST, params=query)
    assert names(answer) == expected
    assert answer.json()["metadata"]["total"] == len(expected)


def test_a_recovery_that_waits_for_its_time_is_one_that_runs(client, weeders):
    waits = replace(recovery(), phase=Phase.WAITING, due=NOW + 20)
    weeders.add(of(NAMESPACE, API_SERVER, waits))
    assert names(client.get(LIST, params={"running": "true"})) == [NAMESPACE]


def pages(client, limit):
    """The namespaces of each page."""
    found, token = [], None
    while True:
        params = {"limit": limit} | ({} if token is None else {"continue": token})
        answer = client.get(LIST, params=params)
        found.append(names(answer))
        token = answer.json()["metadata"]["continue"]
        if token is None:
            return found


def full(namespace, began, number):
    """A service with so many pods that were deleted."""
    pods = tuple(deleted(f"p-{n}") for n in range(number))
    return at(namespace, began, deletions=pods)


def test_a_page_with_very_many_pods_is_shorter_and_loses_none(client, weeders):
    weeders.add(*(full(f"s{n}", NOW - n, 400) for n in range(7)))
    assert pages(client, 500) == [["s0", "s1", "s2", "s3", "s4"], ["s5", "s6"]]


def test_a_service_with_more_pods_than_a_page_may_have_is_a_page_of_its_own(client, weeders):
    weeders.add(full("a", NOW, 3_000), full("b", NOW - 1, 1), full("c", NOW - 2, 3_000))
    assert pages(client, 500) == [["a"], ["b"], ["c"]]


# Weed now.


ONE = f"{LIST}/{NAMESPACE}/{API_SERVER}"


def test_a_recovery_begins_when_somebody_asks_for_it(client, weeders):
    weeders.add(of())
    answer = client.post(ONE, json={"reason": "kube-scheduler\nhangs"})
    assert answer.status_code == 202
    assert answer.headers["location"] == ONE
    found = answer.json()
    assert (found["cause"], found["phase"]) == ("Asked", "Watching")
    assert found["asked"] == {"author": "tester", "reason": "kube-scheduler hangs", "despite": None}


def test_what_the_weeder_refuses_is_409_unless_forced(client, weeders):
    weeders.add(of())
    weeders.refuses = Refused("paused by carol")
    answer = client.post(ONE)
    assert (answer.status_code, answer.json()["detail"]) == (409, "paused by carol")
    assert client.post(ONE, json={"force": True}).status_code == 202


# The audit.


def test_the_audit_has_the_recovery_that_is_replaced(client, weeders, audit):
    weeders.add(of(NAMESPACE, API_SERVER, recovery(over=True), recovery()))
    client.post(ONE)
    weeders.add(of(NAMESPACE, API_SERVER, recovery(over=True)))
    client.post(ONE)
    idle, busy = (each.attempt for each in audit.entries())
    assert (busy.before["recovery"], busy.after["recovery"]) == (7, 1)
    assert (idle.before, idle.after["recovery"]) == (None, 2)
