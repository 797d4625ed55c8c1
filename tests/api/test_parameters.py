"""A query parameter or a body that a call does not have is refused, by every call."""

from typing import Any

import pytest

from app.core.errors import Refused
from app.core.model.policy import Loop
from tests.api.facts import NAMESPACE, healthy
from tests.api.openapi import document

CALLS = [
    (method.upper(), path)
    for path, methods in document()["paths"].items()
    for method in methods
    if path.startswith("/api/")
    and path != "/api/v1/events"  # that needs streams: tests.api.streaming
]
_NAMES = {"namespace": NAMESPACE, "id": "op-1", "service": "kube-apiserver", "kind": "Deployment",
          "name": "kube-controller-manager"}  # fmt: skip
_BODIES = {"pause": {"reason": "x"}, "ignore-scaling": {"reason": "x"}, "log-level": {"level": "info"},
           "scale": {"direction": "up", "reason": "x"}}  # fmt: skip
"""Without a mistake, of those calls that take no empty one."""


@pytest.fixture(autouse=True)
def both(process, shoots):
    process.loops = tuple(Loop)
    shoots.add(healthy())


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_parameter_that_a_call_does_not_have_is_422_and_named(
    *, client, overrides, scaling_runs, method, path
):
    body: Any = _BODIES.get(path.rpartition("/")[2], {}) if method in {"PUT", "POST"} else None
    answer = client.request(method, path.format(**_NAMES), params={"dryrun": "1"}, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"path": "query.dryrun", "message": "Extra inputs are not permitted"}
    ]
    assert (overrides.objects, scaling_runs.orders, scaling_runs.probed) == ({}, [], [])


IGNORED = f"{NAMESPACE}/resources/Deployment/kube-controller-manager/ignore-scaling"


def test_all_unknown_ones_are_named_and_the_known_ones_are_not(client):
    path = f"/api/v1/shoots/{IGNORED}"
    params = {"apiVersion": "apps/v1", "apiversion": "v1", "x": ""}
    answer = client.delete(path, params=params)
    assert [each["path"] for each in answer.json()["errors"]] == ["query.apiversion", "query.x"]


PAUSE = f"/api/v1/shoots/{NAMESPACE}/pause"


def places(answer):
    assert answer.status_code == 422, answer.text
    found = answer.json()
    assert all(each["message"] in found["detail"] for each in found["errors"])
    return [each["path"] for each in found["errors"]]


def test_unknown_parameters_and_wrong_fields_are_in_one_list(client, overrides):
    body = {"duration": "99h", "scope": "no", "until": "noon"}
    both = client.put(PAUSE, params={"x": "1"}, json=body)
    fields = client.put(PAUSE, json=body)
    assert places(both) == ["query.x", "reason", "duration", "scope", "until"]
    assert both.json()["errors"][1:] == fields.json()["errors"], "in the same words"
    assert "Value error" not in both.text, "a rule of ours in our words"
    assert overrides.objects == {}


@pytest.mark.parametrize("body", [None, [], "x"])
def test_so_is_a_body_that_is_missing_or_no_object(client, body):
    sent = {} if body is None else {"json": body}
    answer = client.put(PAUSE, params={"x": "1"}, **sent)
    assert places(answer) == ["query.x", "body"]
    assert answer.json()["errors"][1:] == client.put(PAUSE, **sent).json()["errors"]


def test_a_body_that_may_be_missing_is_not_missed(client):
    path = f"/api/v1/weeders/{NAMESPACE}/kube-apiserver"
    assert places(client.post(path, params={"x": "1"})) == ["query.x"]
    assert places(client.post(path, params={"x": "1"}, json={"y": 1})) == ["query.x", "y"]


def test_a_body_that_nobody_would_read_is_named_beside_an_unknown_parameter(client):
    assert places(client.post(PROBE, params={"x": "1"}, json={"y": 1})) == ["query.x", "body"]


def test_of_very_many_mistakes_the_first_are_named(client):
    params = {f"x{n}": "1" for n in range(30)}
    assert places(client.put(PAUSE, params=params, json={})) == [f"query.x{n}" for n in range(20)]


def test_a_body_that_cannot_be_read_is_400_whatever_the_parameters(client):
    headers = {"Content-Type": "application/json"}
    answer = client.put(PAUSE, params={"x": "1"}, content=b"{", headers=headers)
    assert answer.status_code == 400


@pytest.mark.parametrize("body", [None, {"duration": "99h"}])
def test_whoever_may_not_make_the_call_is_told_that(client, authority, body):
    authority.refuses = Refused("no")
    assert client.get(f"/api/v1/shoots/{NAMESPACE}", params={"x": "1"}).status_code == 409
    answer = client.put(PAUSE, params={"x": "1"}, json=body)
    assert (answer.status_code, "errors" in answer.json()) == (409, False)


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/readyz", "/"])
def test_what_is_none_of_the_api_is_not_so_strict(client, path):
    assert client.get(path, params={"verbose": "", "x": "1"}).status_code == 200


PROBE = f"/api/v1/shoots/{NAMESPACE}/probe"


@pytest.mark.parametrize("body", [b'{"reason": "look"}', b"[]", b"0", b"null"])
def test_a_body_that_nobody_would_read_is_422(client, scaling_runs, body):
    answer = client.post(PROBE, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "body"
    assert scaling_runs.probed == []


@pytest.mark.parametrize("body", [b"", b"{}", b" {}\n", b"{ }", b"{\n\t}"])
def test_a_body_that_says_nothing_is_none(client, scaling_runs, body):
    answer = client.post(PROBE, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202
    assert len(scaling_runs.probed) == 1


# A parameter that is given twice.


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("GET shoots", "limit=1&limit=1"),
        ("GET shoots", "paused=true&paused=false"),
        ("GET operations", "namespace=a&namespace=b"),
        ("GET weeders", "running=true&running=true"),
        (f"GET shoots/{NAMESPACE}/history", "limit=1&limit=2"),
        (f"DELETE shoots/{IGNORED}", "apiVersion=apps/v1&apiVersion=apps/v1"),
    ],
)
def test_a_parameter_of_one_value_that_is_given_twice_is_422_and_named(client, path, query):
    method, path = path.split()
    answer = client.request(method, f"/api/v1/{path}?{query}")
    assert places(answer) == [f"query.{query.partition('=')[0]}"]
    assert answer.json()["errors"][0]["message"] == "Given more than once"


def test_a_parameter_of_many_values_may_be_given_often(client):
    answer = client.get("/api/v1/shoots", params={"state": ["Healthy", "Suspect", "Healthy"]})
    assert answer.status_code == 200


def test_what_else_is_wrong_of_the_query_is_named_too(client):
    answer = client.get("/api/v1/shoots?q=a&q=b&limit=0&x=1&sort=no&x=2")
    assert places(answer) == ["query.q", "query.x", "query.limit", "query.sort"]


# Names of the contract alone.


@pytest.mark.parametrize("value", ["", "x"])
def test_a_parameter_has_no_second_name(client, value):
    answer = client.get("/api/v1/shoots", params={"token": value})
    assert places(answer) == ["query.token"]
