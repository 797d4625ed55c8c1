"""A query parameter or a body that a call does not have is refused, by every call."""

from typing import Any

import pytest

from app.core.errors import Refused
from app.core.model.loops import Loop
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


@pytest.fixture(autouse=True)
def both(process, shoots):
    process.loops = tuple(Loop)
    shoots.add(healthy())


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_parameter_that_a_call_does_not_have_is_422_and_named(
    *, client, overrides, flows, method, path
):
    body: Any = {} if method in {"PUT", "POST"} else None
    answer = client.request(method, path.format(**_NAMES), params={"dryrun": "1"}, json=body)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["errors"] == [
        {"path": "query.dryrun", "message": "Extra inputs are not permitted"}
    ]
    assert (overrides.entries, flows.orders, flows.probed) == ({}, [], [])


def test_all_unknown_ones_are_named_and_the_known_ones_are_not(client):
    path = f"/api/v1/shoots/{NAMESPACE}/resources/Deployment/kube-controller-manager/ignore-scaling"
    params = {"apiVersion": "apps/v1", "apiversion": "v1", "x": ""}
    answer = client.delete(path, params=params)
    assert [each["path"] for each in answer.json()["errors"]] == ["query.apiversion", "query.x"]


def test_whoever_may_not_make_the_call_is_told_that(client, authority):
    authority.refuses = Refused("no")
    assert client.get(f"/api/v1/shoots/{NAMESPACE}", params={"x": "1"}).status_code == 409


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/readyz", "/"])
def test_what_is_none_of_the_api_is_not_so_strict(client, path):
    assert client.get(path, params={"verbose": "", "x": "1"}).status_code == 200


PROBE = f"/api/v1/shoots/{NAMESPACE}/probe"


@pytest.mark.parametrize("body", [b'{"reason": "look"}', b"[]", b"0", b"null"])
def test_a_body_that_nobody_would_read_is_422(client, flows, body):
    answer = client.post(PROBE, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "body"
    assert flows.probed == []


@pytest.mark.parametrize("body", [b"", b"{}", b" {}\n"])
def test_a_body_that_says_nothing_is_none(client, flows, body):
    answer = client.post(PROBE, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202
    assert len(flows.probed) == 1
