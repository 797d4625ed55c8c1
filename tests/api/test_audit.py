"""Who tried to change what: newest first, as far as this process knows."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.reporting.audit import Attempt
from tests.api.facts import NAMESPACE, healthy

PATH = "/api/v1/audit"
PAUSE = f"/api/v1/shoots/{NAMESPACE}/pause"
REASON = {"reason": "the load balancer is replaced"}


def attempt(number=0, **more: Any):
    found = Attempt(f"r{number}", "PUT", "/x", "10.0.0.1", 200, caller="alice", namespace="a")
    return replace(found, **more)


def requests(answer):
    assert answer.status_code == 200, answer.text
    return [each["request"] for each in answer.json()["items"]]


def test_a_write_leaves_an_entry_with_who_what_why_before_and_after(client, shoots):
    shoots.add(healthy())
    made = client.put(PAUSE, json=REASON)
    (entry,) = client.get(PATH).json()["items"]
    assert entry == {
        "time": "2027-01-15T08:00:00Z",
        "firstTime": "2027-01-15T08:00:00Z",
        "times": 1,
        "request": made.headers["x-request-id"],
        "method": "PUT",
        "path": PAUSE,
        "peer": "testclient",
        "caller": "tester",
        "claimed": None,
        "action": "pause",
        "namespace": NAMESPACE,
        "target": None,
        "reason": "the load balancer is replaced",
        "status": 200,
        "problem": None,
        "before": None,
        "after": made.json(),
    }


def claimed(client, *said):
    client.put(PAUSE, json=REASON, headers=[("Dwd-Claimed-User", each) for each in said])
    return client.get(PATH).json()["items"][0]["claimed"]


def test_the_person_behind_a_shared_account_is_there_as_claimed(client, shoots):
    shoots.add(healthy())
    assert claimed(client, "alice%40example.org") == "alice@example.org"
    (entry,) = client.get(PATH).json()["items"]
    assert entry["caller"] == "tester", "the account stays what it is"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("", None),
        (" %20 ", None),
        ("x%1b[31mred%0aroot%00", "x [31mred root"),
        ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", "[redacted]"),
        ("%E2%80%AEesrever", "esrever"),
        ("%ff%fe", "\ufffd\ufffd"),
        ("J%C3%BCrgen", "Jürgen"),
    ],
)
def test_a_claim_is_cleaned_as_every_text_of_an_outsider_is(client, shoots, said, kept):
    shoots.add(healthy())
    assert claimed(client, said) == kept


def test_a_claim_is_short_and_there_is_one(client, shoots):
    shoots.add(healthy())
    assert len(claimed(client, "x" * 9_000)) == 300
    assert claimed(client, "alice", "mallory") == "alice"


def test_what_was_refused_is_there_with_its_problem_and_counted_where_it_comes_again(client):
    for _ in range(3):
        client.put(PAUSE, json=REASON)
    (entry,) = client.get(PATH).json()["items"]
    assert (entry["status"], entry["times"]) == (404, 3)
    assert entry["problem"] == "urn:dependency-watchdog:problem:not-found"
    assert (entry["reason"], entry["after"]) == (REASON["reason"], None)


def test_a_call_that_did_not_get_so_far_has_no_action(client):
    client.put(PAUSE, json={})
    (entry,) = client.get(PATH).json()["items"]
    assert (entry["status"], entry["action"], entry["namespace"]) == (422, None, NAMESPACE)


def test_the_newest_comes_first_in_pages_that_lose_none_while_others_come(client, audit):
    for number in range(5):
        audit.note(attempt(number))
    first = client.get(PATH, params={"limit": 3})
    assert requests(first) == ["r4", "r3", "r2"]
    audit.note(attempt(5))
    token = first.json()["metadata"]["continue"]
    second = client.get(PATH, params={"limit": 3, "continue": token})
    assert requests(second) == ["r1", "r0"]
    assert second.json()["metadata"]["continue"] is None
    assert second.json()["metadata"]["total"] == 6


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"caller": "alice"}, ["r2", "r0"]),
        ({"namespace": "b"}, ["r2", "r1"]),
        ({"caller": "alice", "namespace": "b"}, ["r2"]),
        ({"caller": "ali"}, []),
        ({"namespace": "c"}, []),
    ],
)
def test_filters_choose_by_whole_names(client, audit, query, expected):
    audit.note(attempt(0))
    audit.note(attempt(1, caller="bob", namespace="b"))
    audit.note(attempt(2, namespace="b"))
    audit.note(attempt(3, caller=None, namespace=None, status=401))
    answer = client.get(PATH, params=query)
    assert requests(answer) == expected
    assert answer.json()["metadata"]["total"] == len(expected)
