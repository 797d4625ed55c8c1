"""What is refused before it reaches a route, and what every answer has."""

import time

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from app.api.application import create_health_app, create_metrics_app
from app.api.health import Health
from app.api.middleware import MAX_HEAD, RequestGuard
from app.core.metrics import Metrics
from tests.api.facts import healthy
from tests.api.fakes import application, unused

CANARY = "s3cr3t-canary-of-an-exception"


@pytest.fixture
def local() -> TestClient:
    return TestClient(application(local_only=True))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost:8080",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.2",
        "[::1]",
        "[::1]:8080",
    ],
)
def test_a_loopback_address_answers_hosts_that_are_this_machine(local, host):
    assert local.get("/api/v1/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "10.0.0.1:8080",
        "[::2]",
        "",
        "localhost:x",
        "8.8.8.8",
        "localhost:80@evil.example",
        "127.1",
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/shoots", "/metrics", "/livez", "/"])
def test_a_name_that_was_made_to_resolve_to_loopback_is_refused(local, host, path):
    answer = local.get(path, headers={"Host": host})
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:dependency-watchdog:problem:host-not-allowed"


async def test_two_hosts_are_no_host():
    answer = await asgi(
        RequestGuard(unused, local_only=True), headers=[(b"host", b"localhost")] * 2
    )
    assert answer[0]["status"] == 403


async def asgi(app, method="GET", headers=()):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": "/",
        "query_string": b"",
        "headers": list(headers),
    }
    await app(scope, None, send)
    return sent


async def talkative(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"text"})


@pytest.mark.parametrize(("method", "body"), [("GET", b"text"), ("HEAD", b"")])
async def test_head_sends_no_body_whatever_the_server_would_make_of_it(method, body):
    start, rest = await asgi(RequestGuard(talkative), method)
    assert (start["status"], rest["body"]) == (200, body)


async def endless(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(3):
        await send({"type": "http.response.body", "body": b"text", "more_body": True})


async def test_an_answer_to_head_ends_with_its_head_also_where_a_body_would_go_on():
    sent = await asgi(RequestGuard(endless), "HEAD")
    assert [(each["type"], each.get("more_body", False)) for each in sent] == [
        ("http.response.start", False),
        ("http.response.body", False),
    ]


@pytest.mark.parametrize("method", ["POST", "PATCH", "OPTIONS", "TRACE", "FROB"])
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        *(
            (path, "GET, HEAD")
            for path in ("/api/v1/shoots", "/livez", "/metrics", "/openapi.json")
        ),
        ("/api/v1/shoots/shoot--acme--prod/pause", "PUT, DELETE"),
        ("/api/v1/operations/op-1", "GET, HEAD, DELETE"),
    ],
)
def test_methods_that_a_path_does_not_have_are_405_which_names_those_that_it_has(
    client, method, path, allowed
):
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.json()["type"] == "urn:dependency-watchdog:problem:method-not-allowed"


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "TRACE", "FROB", "OPTIONS"])
def test_a_path_that_is_not_there_has_no_methods(client, method):
    assert client.request(method, "/nowhere").status_code == 404


@pytest.mark.parametrize("path", ["/api/v1/status", "/livez", "/metrics", "/", "/openapi.json"])
def test_head_is_get_without_the_body(client, path):
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


@pytest.mark.parametrize("content", [b"x" * 100, [b"x"]], ids=["of a length", "of none"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_only_post_and_put_have_bodies_and_others_end_the_connection(client, method, content):
    sent = iter(content) if isinstance(content, list) else content
    answer = client.request(method, "/api/v1/pause", content=sent)
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")
    if method != "HEAD":
        assert answer.json()["type"] == "urn:dependency-watchdog:problem:body-not-allowed"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PATCH", "/api/v1/pause", 405),
        ("OPTIONS", "/api/v1/pause", 405),
        ("PATCH", "/nowhere", 404),
    ],
)
def test_a_method_that_nothing_has_is_what_is_wrong_with_a_body_too(client, method, path, status):
    answer = client.request(method, path, json={"reason": "x"})
    assert (answer.status_code, answer.headers["connection"]) == (status, "close")
    assert answer.headers.get("allow") == ("PUT, DELETE" if status == 405 else None)


@pytest.mark.parametrize("length", [b"16385", b"99999999999", b"9" * 5_000])
async def test_a_body_that_is_announced_as_too_long_is_refused_unread(length):
    headers = [(b"content-length", length), (b"content-type", b"application/json")]
    start, body = await asgi(RequestGuard(unused), "POST", headers)
    assert start["status"] == 413
    assert b"payload-too-large" in body["body"]
    assert (b"connection", b"close") in start["headers"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/jsonp"},
        {"Content-Type": ""},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_a_body_that_is_not_declared_as_plain_json_is_400(client, headers):
    answer = client.put("/api/v1/pause", content=b'{"reason": "x"}', headers=headers)
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:dependency-watchdog:problem:malformed-request"


async def test_a_body_with_two_lengths_is_400():
    headers = [(b"content-length", b"5"), (b"transfer-encoding", b"chunked"), JSON]
    start, _ = await asgi(RequestGuard(unused), "POST", headers)
    assert start["status"] == 400


JSON = (b"content-type", b"application/json; charset=utf-8")


async def test_a_small_body_passes():
    start, _ = await asgi(RequestGuard(talkative), "PUT", [(b"content-length", b"16384"), JSON])
    assert start["status"] == 200


def test_a_head_that_is_too_large_is_431(client):
    answer = client.get("/api/v1/status", headers={"X-Long": "x" * MAX_HEAD})
    assert answer.status_code == 431
    assert client.get("/api/v1/shoots", params={"q": "x" * MAX_HEAD}).status_code == 431


@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/api/v1/status", "/nowhere", "/livez", "/metrics", "/api/v1/shoots?limit=0"],
)
def test_every_answer_has_the_headers_that_keep_browsers_in_check(client, path):
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


def test_an_unexpected_error_is_500_without_its_text_and_counted(client, shoots, metrics, logged):
    shoots.breaks = ValueError(CANARY)
    answer = client.get("/api/v1/shoots")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:dependency-watchdog:problem:internal-error"
    assert CANARY not in answer.text
    labels = {"handler": "/api/v1/shoots", "method": "GET", "status": "500"}
    assert metrics.registry.get_sample_value("http_requests_total", labels) == 1
    (line,) = logged
    assert (line["log_level"], line["path"]) == ("error", "/api/v1/shoots")
    assert line["exc_info"] is shoots.breaks, "the log has what the caller does not see"


@pytest.mark.parametrize("path", ["/nowhere", "/api/v1/shoots/", "/%00"])
def test_what_is_not_there_is_a_404_problem(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    found = answer.json()
    assert found["type"] == "urn:dependency-watchdog:problem:not-found"
    assert set(found) == {"type", "title", "status", "detail", "instance"}


def test_a_path_is_repeated_trimmed_and_printable(client):
    found = client.get("/" + "%1b%5b31m" + "x" * 5000).json()
    assert len(found["instance"]) <= 200
    assert found["instance"].isprintable()


@pytest.mark.parametrize(
    "path", ["/api/v1/status", "/api/v1/shoots", "/", "/docs", "/openapi.json"]
)
def test_the_health_port_and_the_metrics_port_serve_nothing_else(path, shoots):
    shoots.add(healthy())
    assert TestClient(create_health_app(Health())).get(path).status_code == 404
    assert TestClient(create_metrics_app(Metrics(), time.monotonic)).get(path).status_code == 404


# What is counted of requests, and how it is shown.


def test_metrics_come_in_the_text_format_with_ours_and_those_of_http(client, shoots):
    shoots.add(healthy())
    client.get("/api/v1/shoots/shoot--acme--prod")
    client.get("/api/v1/nowhere")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = {each.name: each for each in text_string_to_metric_families(answer.text)}
    assert "dwd_probe_lag_seconds" in families
    counted = {s.labels["handler"]: s.labels["status"] for s in families["http_requests"].samples}
    assert counted == {"/api/v1/shoots/{namespace}": "200", "none": "404"}


def test_metrics_come_in_openmetrics_for_who_asks(client):
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = client.get("/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/metrics"])
def test_health_and_metrics_are_not_counted_as_requests(client, path):
    client.get(path)
    assert f'handler="{path}"' not in client.get("/metrics").text


def test_methods_that_do_not_exist_make_no_series(client):
    client.request("FROB", "/api/v1/status")
    assert "FROB" not in client.get("/metrics").text
