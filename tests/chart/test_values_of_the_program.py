"""Whatever the program can be told, the chart can tell it; and what the one refuses, the other refuses, too."""

from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft7Validator

from app.core.config.policy_files import parse_prober, parse_weeder
from app.core.config.settings import ProberSettings, ServeSettings, WeederSettings
from app.core.config.yaml_file import keys_of
from app.core.model import names
from app.core.model.endpoints import EndpointProbeSpec, Exec, Grpc, HttpGet, HttpHeader, TcpSocket
from app.core.model.instants import parse_duration
from app.core.model.keys import MatchExpression, PodSelector, Ref
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.weeding import PodSelectors, WeederPolicy
from tests.chart.rendering import CHART
from tests.chart.valuesfiles import at, defaults, resolved, schema

ELSEWHERE = {
    "config_file": "config",
    "prober_config_file": "prober.config",
    "weeder_config_file": "weeder.config",
    "log_level": "logging.level",
    "log_format": "logging.format",
    "metrics_bind_addr": "ports.metrics",
    "health_bind_addr": "ports.health",
    "api_bind_addr": "ports.api",
    "auth_mode": "api.auth.mode",
    "auth_token_file": "api.auth.tokenSecret",
    "tls_cert_file": "api.tls",
    "tls_private_key_file": "api.tls",
    "allow_plain_http": "api.plainHttp",
    "metrics_auth": "metrics.auth",
    "cors_allow_origin": "api.cors.allowOrigins",
    "trusted_proxies": "api.trustedProxies",
    "peer_url": "api.urls",
    "advertise_address": "the downward API",
    "leader_endpointslice": "leaderElection.leaderAddress.enabled",
    "kubeconfig": "the ServiceAccount",
    "enable_leader_election": "leaderElection.enabled",
    "leader_election_namespace": "the namespace of the release",
    "leader_elect_lease_duration": "leaderElection.leaseDuration",
    "leader_elect_renew_deadline": "leaderElection.renewDeadline",
    "leader_elect_retry_period": "leaderElection.retryPeriod",
    "cluster_domain": "clusterDomain",
    "per_shoot_metrics": "metrics.perShoot",
}
"""Flags that are no `flags` of a Deployment, and where their value comes from."""


def keys(path: str) -> set[str]:
    return set(at(path)["properties"])


def definition(name: str) -> dict[str, Any]:
    found: dict[str, Any] = schema()["definitions"][name]
    return found


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("proberConfig", {*keys_of(ProberPolicy)}),
        ("endpointProbe", {*keys_of(EndpointProbeSpec)}),
        ("dependent", {*keys_of(DependentPolicy)}),
        ("scaling", {*keys_of(ScalePolicy)}),
        ("weederConfig", {*keys_of(WeederPolicy)}),
        ("dependants", {*keys_of(PodSelectors)}),
        ("labelSelector", {*keys_of(PodSelector)}),
        ("labelRequirement", {*keys_of(MatchExpression)}),
    ],
)
def test_the_schema_has_the_keys_of_the_files(name: str, known: set[str]) -> None:
    assert set(definition(name)["properties"]) == known


@pytest.mark.parametrize(
    ("handler", "known"),
    [("httpGet", HttpGet), ("tcpSocket", TcpSocket), ("grpc", Grpc), ("exec", Exec)],
)
def test_the_schema_has_the_keys_of_each_handler(handler: str, known: type) -> None:
    found = definition("endpointProbe")["properties"][handler]["properties"]
    assert set(found) == {*keys_of(known)}
    if "httpHeaders" in found:
        assert set(found["httpHeaders"]["items"]["properties"]) == {*keys_of(HttpHeader)}


def test_a_ref_has_one_key_more_which_is_for_the_chart() -> None:
    found = definition("dependent")["properties"]["ref"]["properties"]
    assert set(found) == {*keys_of(Ref), "resource"}


@pytest.mark.parametrize(
    ("component", "model"),
    [("prober", ProberSettings), ("weeder", WeederSettings), ("serve", ServeSettings)],
)
def test_every_flag_of_the_program_is_a_value(component: str, model: Any) -> None:
    theirs = {_camel(name) for name in model.model_fields if name not in ELSEWHERE}
    assert keys(f"{component}.flags") == theirs
    assert set(defaults()[component]["flags"]) == theirs


def test_flags_that_come_from_other_values_come_from_values_that_are_there() -> None:
    for name, path in ELSEWHERE.items():
        if "." in path:
            assert at(path), name


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


def test_the_default_configuration_is_one_that_the_program_takes_without_a_word() -> None:
    values = defaults()
    prober = parse_prober(yaml.safe_dump(values["prober"]["config"]), "prober.yaml", strict=True)
    weeder = parse_weeder(yaml.safe_dump(values["weeder"]["config"]), "weeder.yaml", strict=True)
    assert not prober.warnings
    assert not weeder.warnings


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version("dependency-watchdog")


DURATIONS = st.one_of(
    st.sampled_from(
        [
            *("0", "0s", "+0", "1.5h", ".5s", "1.s", "1m40s", "1m0s", "s", "", ".s", "1"),
            *("1 s", "1d", "0ns0h"),
        ]
    ),
    st.from_regex(r"\A\+?([0-9]{0,3}(\.[0-9]{0,2})?(ns|us|µs|ms|s|m|h|d)){1,3}\Z"),
)


@given(DURATIONS)
def test_a_duration_is_one_for_both_or_for_none(text: str) -> None:
    try:
        seconds: float | None = parse_duration(text)
    except ValueError:
        seconds = None
    assert _allowed("initialDelay").is_valid(text) is (seconds is not None)
    assert _allowed("probeInterval").is_valid(text) is (seconds is not None and _above_zero(text))


def _above_zero(text: str) -> bool:
    """Also where a float of seconds, or Go's nanoseconds, would not show it: the schema sees digits only."""
    return any(digit in text for digit in "123456789")


@cache
def _allowed(key: str) -> Draft7Validator:
    return Draft7Validator(resolved(schema(), definition("proberConfig")["properties"][key]))


TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "A", "a-b", "-a", "a-", "a.b", "a..b", "a/b", "a/b/c", "A.b/C", "1a", "ä"]
    ),
    st.from_regex(r"\A[aA1]?[-a.A/_0]{0,4}[aA1]?\Z"),
    st.integers(60, 66).map("a".__mul__),
)


def _names() -> Iterator[tuple[Draft7Validator, Callable[[str], bool]]]:
    dependent = definition("dependent")["properties"]["ref"]["properties"]
    requirement = definition("labelRequirement")["properties"]
    yield Draft7Validator(dependent["name"]), names.is_subdomain
    yield Draft7Validator(dependent["kind"]), names.is_kind
    yield Draft7Validator(dependent["apiVersion"]), names.is_api_version
    yield Draft7Validator(requirement["key"]), names.is_label_key
    yield Draft7Validator(requirement["values"]["items"]), names.is_label_value


NAMES = list(_names())
SERVICES = Draft7Validator(
    definition("weederConfig")["properties"]["servicesAndDependantSelectors"]
    | {"definitions": schema()["definitions"]}
)


@given(TEXTS)
def test_a_name_is_one_for_both_or_for_none(text: str) -> None:
    for found, is_one in NAMES:
        assert found.is_valid(text) is is_one(text)
    assert SERVICES.is_valid({text: {"podSelectors": [{}]}}) is names.is_service(text)
