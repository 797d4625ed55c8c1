"""What pages of other sites may do through somebody's browser."""

import pytest
from fastapi.testclient import TestClient

from tests.api.fakes import application

DASHBOARD = "https://dashboard.example"
PAUSE = "/api/v1/pause"
BODY = {"reason": "maintenance"}


@pytest.fixture
def cors():
    return TestClient(application(origins=[DASHBOARD]))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "Cross-Site", "anything"])
@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_write_that_another_site_began_is_refused(client, overrides, method, site):
    answer = client.request(method, PAUSE, headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:dependency-watchdog:problem:cross-site"
    assert overrides.global_pause() is None


@pytest.mark.parametrize(
    "origin",
    [
        DASHBOARD,
        "null",
        "http://testserver.evil.example",
        "http://evil.example#testserver",
        "http://user@testserver",
        "http://testserver:81",
        "https://testserver:80",
        "ftp://testserver",
        "testserver",
        "http://[",
        "",
    ],
)
def test_a_write_from_another_origin_is_refused(client, origin):
    assert client.put(PAUSE, json=BODY, headers={"Origin": origin}).status_code == 403


def test_two_origins_are_none(client):
    headers = [("Origin", "http://testserver"), ("Origin", "http://testserver")]
    assert client.put(PAUSE, json=BODY, headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://testserver"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://testserver"},
        {"Origin": "http://testserver:80"},
        {"Origin": "http://TestServer"},
        {"Origin": "https://testserver:8443", "Host": "testserver:8443"},
        {"Origin": "https://testserver", "Host": "testserver:443"},
    ],
)
def test_our_own_pages_and_programs_may_write(client, headers):
    assert client.put(PAUSE, json=BODY, headers=headers).status_code == 200


# Dashboards of other origins.


def test_a_page_of_a_named_origin_may_read(cors):
    answer = cors.get("/api/v1/status", headers={"Origin": DASHBOARD})
    assert answer.headers["access-control-allow-origin"] == DASHBOARD
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    "origin",
    [
        "https://dashboard.example.evil.example",
        "http://dashboard.example",
        "https://dashboard.example:444",
        "null",
        "*",
        "",
    ],
)
def test_a_page_of_another_origin_may_not_read(cors, origin):
    answer = cors.get("/api/v1/status", headers={"Origin": origin})
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["vary"] == "Origin", "an answer that is kept is not shown to all"


def test_where_no_origin_is_named_no_page_may_read(client):
    answer = client.get("/api/v1/status", headers={"Origin": DASHBOARD})
    assert not [each for each in answer.headers if each.startswith("access-control")]


def test_a_named_origin_may_not_write(cors):
    answer = cors.put(PAUSE, json=BODY, headers={"Origin": DASHBOARD})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def asked(method, origin=DASHBOARD):
    return {"Origin": origin, "Access-Control-Request-Method": method}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browser_is_told_that_a_page_may_read_with_its_token(cors, method):
    answer = cors.options("/api/v1/shoots", headers=asked(method))
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == DASHBOARD
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD"
    assert "authorization" in answer.headers["access-control-allow-headers"]


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "get", ""])
def test_a_browser_is_told_that_a_page_may_not_write(cors, method):
    answer = cors.options(PAUSE, headers=asked(method))
    assert answer.status_code in {403, 405}
    assert "access-control-allow-methods" not in answer.headers


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_browser_is_told_nothing_for_pages_of_other_origins(cors, client, method):
    for each, origin in ((cors, "https://evil.example"), (client, DASHBOARD)):
        answer = each.options("/api/v1/shoots", headers=asked(method, origin))
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
