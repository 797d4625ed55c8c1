"""Metrics, the page of the calls and the OpenAPI document."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.facts import healthy


def test_metrics_come_in_the_text_format_with_ours_and_those_of_http(client, shoots, metrics):
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


def test_the_page_of_the_calls_has_no_script_and_nothing_from_elsewhere(client):
    answer = client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in answer.text
    assert "//" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "style-src 'self'" in policy
    assert "script-src" not in policy
    assert '<a href="/">Shoots</a>' in answer.text
