"""Every route asks whether the caller may make its call, before it does anything else."""

import re
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from app.api.auth.authorization import Call
from app.api.problems import Problem, ProblemType
from app.core.model.callers import Role
from tests.api.facts import HOME, NAMESPACE
from tests.api.fakes import application, context

SHOOT = "/api/v1/shoots/{namespace}"
IGNORE = SHOOT + "/resources/{kind}/{name}/ignore-scaling"
WEEDER = "/api/v1/weeders/{namespace}/{service}"
TABLE = {
    ("GET", "/api/v1/status"): Call.LIST,
    ("GET", "/api/v1/shoots"): Call.LIST,
    ("GET", SHOOT): Call.READ_SHOOT,
    ("GET", SHOOT + "/nodes"): Call.READ_SHOOT,
    ("GET", SHOOT + "/history"): Call.READ_SHOOT,
    ("POST", SHOOT + "/probe"): Call.PROBE,
    ("PUT", SHOOT + "/pause"): Call.PAUSE,
    ("GET", SHOOT + "/pauses"): Call.READ_SHOOT,
    ("DELETE", SHOOT + "/pauses/{name}"): Call.RESUME,
    ("DELETE", SHOOT + "/pause"): Call.RESUME,
    ("PUT", "/api/v1/pause"): Call.PAUSE_ALL,
    ("DELETE", "/api/v1/pause"): Call.RESUME_ALL,
    ("GET", "/api/v1/pauses"): Call.LIST,
    ("DELETE", "/api/v1/pauses/{name}"): Call.RESUME_ALL,
    ("DELETE", SHOOT + "/hold"): Call.CANCEL,
    ("GET", SHOOT + "/resources"): Call.READ_SHOOT,
    ("PUT", IGNORE): Call.IGNORE,
    ("DELETE", IGNORE): Call.UNIGNORE,
    ("POST", SHOOT + "/scale"): Call.SCALE,
    ("GET", "/api/v1/operations"): Call.LIST,
    ("GET", "/api/v1/weeders"): Call.LIST,
    ("GET", WEEDER): Call.READ_SHOOT,
    ("POST", WEEDER): Call.WEED,
    ("GET", "/api/v1/events"): Call.LIST,
    ("GET", "/api/v1/audit"): Call.READ_AUDIT,
    ("GET", "/api/v1/config"): Call.READ_CONFIG,
    ("PUT", "/api/v1/config/log-level"): Call.LOG_LEVEL,
    ("GET", "/"): Call.LIST,
    ("GET", "/rows"): Call.LIST,
    ("GET", "/shoots/{namespace}"): Call.READ_SHOOT,
    ("GET", "/operations"): Call.LIST,
    ("GET", "/weeders"): Call.LIST,
    ("GET", "/audit"): Call.READ_AUDIT,
    ("GET", "/config"): Call.READ_CONFIG,
    ("GET", "/docs"): Call.LIST,
    ("GET", "/metrics"): Call.LIST,
}
BY_ITS_SHOOT = {("GET", "/api/v1/operations/{id}"), ("DELETE", "/api/v1/operations/{id}")}
"""Reviewed for the shoot of the operation, once that is known."""
OPEN = {("GET", path) for path in ("/livez", "/readyz", "/healthz")}


HIDDEN = {each for each in TABLE if not each[1].startswith("/api/") and each[1] != "/metrics"}
"""Pages for people: they are not in the document."""


def routes():
    paths = application().openapi()["paths"]
    return HIDDEN | {(method.upper(), path) for path in paths for method in paths[path]}


def test_every_route_is_in_the_table():
    assert routes() - BY_ITS_SHOOT - OPEN == set(TABLE)


def asked(client, method, path):
    url = re.sub(r"\{namespace\}", NAMESPACE, path)
    return client.request(method, re.sub(r"\{\w+\}", "x", url))


@pytest.mark.parametrize(("method", "path"), sorted(TABLE))
def test_who_may_not_is_refused_before_anything_else_is_said(client, authority, method, path):
    authority.refuses = Problem(ProblemType.FORBIDDEN, "may not")
    answer = asked(client, method, path)
    assert answer.status_code == 403, (
        "not 404, 422 or 503: whether there is such a shoot is not said"
    )
    call = TABLE[method, path]
    namespace = HOME if call.at_home else NAMESPACE if "{namespace}" in path else ""
    assert authority.asked == [("tester", call, namespace)]


def test_what_changes_something_is_never_a_viewers():
    for (method, path), call in TABLE.items():
        assert call.writes == (method != "GET"), path
        assert (call.role is Role.VIEWER) == (method == "GET"), path


def test_a_pause_of_all_is_asked_for_in_the_watchdogs_own_namespace(authority):
    given = replace(context(authority=authority), home="dwd-system")
    client = TestClient(application(given))
    answer = client.put("/api/v1/pause", json={"reason": "x"})
    assert answer.status_code == 200
    assert authority.asked == [("tester", Call.PAUSE_ALL, "dwd-system")]
