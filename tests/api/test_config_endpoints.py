"""The effective configuration of endpoint mode and of endpoint probes, and what of it is not shown."""

from dataclasses import replace

import pytest
import yaml

from app.core.config.policy_files import parse_prober
from app.core.model.endpoints import (
    Effect,
    EndpointProbeSpec,
    Exec,
    Grpc,
    HttpGet,
    ProbeType,
    Scheme,
    TcpSocket,
)
from app.core.model.selectors import LabelSelector, Operator, Requirement
from tests.api.facts import POLICY
from tests.api.fakes import FakeConfigured
from tests.support.endpointprobes import handled_by

PATH = "/api/v1/config"
CANARY = "s3cr3t-canary"
ETCD = LabelSelector(
    (
        Requirement("app", Operator.IN, frozenset({"etcd"})),
        Requirement("role", Operator.NOT_IN, frozenset({"backup", "events"})),
    )
)
HTTP = EndpointProbeSpec(
    "canary",
    http_get=HttpGet("https", Scheme.HTTPS, "/healthz?verbose", (("Accept", "text/plain"),)),
    pods=ETCD,
    container="etcd",
    initial_delay=3,
    period=5,
    timeout=2,
    success_threshold=2,
    failure_threshold=4,
    effect=Effect.GATE_SCALE_DOWN,
)
PROBES = (
    HTTP,
    EndpointProbeSpec("lb", tcp_socket=TcpSocket(443), host="api.{namespace}.example.org"),
    EndpointProbeSpec("health", grpc=Grpc(2379, "etcd"), type=ProbeType.STARTUP, pods=ETCD),
    EndpointProbeSpec(
        "shell", exec=Exec(("test", "-e", "/run/ready")), type=ProbeType.LIVENESS, pods=ETCD
    ),
)
IN_ENDPOINT_MODE = replace(
    POLICY,
    kubeconfig_secret=None,
    internal_secret="internal",
    external_secret="external",
    internal_failure_backoff=45.0,
    failure_threshold=3,
    success_threshold=1,
)


@pytest.fixture
def shown(client, process):
    """What is shown of a policy."""

    def of(policy):
        process.configured = FakeConfigured(prober=policy)
        return client.get(PATH).json()["prober"]

    return of


def probe(shown, handler, **more):
    found = EndpointProbeSpec("p", **handled_by(handler), pods=ETCD, **more)
    return shown(replace(POLICY, endpoint_probes=(found,)))["endpointProbes"][0]


def test_lease_mode_has_one_secret_and_endpoint_mode_the_other_two(shown):
    keys = [
        "kubeConfigSecretName",
        "internalKubeConfigSecretName",
        "externalKubeConfigSecretName",
        "internalProbeFailureBackoffDuration",
    ]
    assert [shown(POLICY)[key] for key in keys] == ["kubeconfig", None, None, None]
    assert [shown(IN_ENDPOINT_MODE)[key] for key in keys] == [None, "internal", "external", "45s"]


def test_an_endpoint_probe_is_shown_completely_defaults_included(shown):
    assert probe(shown, TcpSocket(443)) == {
        "name": "p",
        "type": "Readiness",
        "effect": "Observe",
        "httpGet": None,
        "tcpSocket": {"port": 443},
        "grpc": None,
        "exec": None,
        "host": None,
        "podSelector": {
            "matchLabels": {"app": "etcd"},
            "matchExpressions": [
                {"key": "role", "operator": "NotIn", "values": ["backup", "events"]}
            ],
        },
        "container": None,
        "initialDelaySeconds": 0,
        "periodSeconds": 10,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def test_of_a_header_the_name_is_shown_and_never_the_value(shown, client):
    headers = (("Authorization", f"Bearer {CANARY}"), ("X-Whatever", CANARY))
    found = probe(shown, HttpGet(443, headers=headers))
    assert found["httpGet"]["httpHeaders"] == [
        {"name": "Authorization", "value": "[redacted]"},
        {"name": "X-Whatever", "value": "[redacted]"},
    ]
    assert CANARY not in client.get(PATH).text


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("etcdctl", "--password", CANARY, "get"), ["etcdctl", "--password", "[redacted]", "get"]),
        (("etcdctl", f"--password={CANARY}"), ["etcdctl", "--password=[redacted]"]),
        (
            ("curl", "-H", f"Authorization: Bearer {CANARY}"),
            ["curl", "-H", "Authorization: [redacted]"],
        ),
        (("test", "-e", "token"), ["test", "-e", "token"]),
    ],
    ids=["after its flag", "with its flag", "in a header", "a word like a secret"],
)
def test_a_command_is_shown_without_what_looks_like_a_secret(shown, command, expected):
    assert probe(shown, Exec(command))["exec"]["command"] == expected


def test_a_secret_in_a_path_is_not_shown(shown, client):
    found = probe(shown, HttpGet(443, path=f"/healthz?token={CANARY}&full=1"))
    assert found["httpGet"]["path"].startswith("/healthz?token=[redacted]")
    assert CANARY not in client.get(PATH).text


@pytest.mark.parametrize(
    "policy",
    [
        IN_ENDPOINT_MODE,
        replace(IN_ENDPOINT_MODE, endpoint_probes=PROBES[:2]),
        replace(POLICY, endpoint_probes=PROBES),
        replace(
            POLICY,
            max_protection=5_400.0,
            probe_interval=0.25,
            suspect_interval=0.25,
            limit=0.35,
            jitter=0.0,
        ),
    ],
    ids=["endpoint mode", "with probes", "lease mode with every handler", "other numbers"],
)
def test_the_file_that_is_shown_means_what_is_in_force_but_for_values_of_headers(shown, policy):
    written = {name: value for name, value in shown(policy).items() if value is not None}
    again = parse_prober(yaml.safe_dump(written), "shown", strict=True, allow_exec=True).policy
    assert replace(again, endpoint_probes=()) == replace(policy, endpoint_probes=())
    assert [comparable(each) for each in again.endpoint_probes] == [
        comparable(each) for each in policy.endpoint_probes
    ]


def comparable(found):
    """Without the values of headers, and without the order of conditions on labels."""
    handler = found.handler
    if isinstance(handler, HttpGet):
        bare = replace(handler, headers=tuple((name, "") for name, _ in handler.headers))
        found = replace(found, http_get=bare)
    pods = None if found.pods is None else frozenset(found.pods.requirements)
    return replace(found, pods=None), pods
