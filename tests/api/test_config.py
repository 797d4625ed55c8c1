"""The effective configuration with what of it is not shown, and the level of the log."""

import logging
from dataclasses import replace

import pytest
import structlog
import yaml

from app.core import log
from app.core.config.flags import read_flags
from app.core.config.policy_files import parse_prober, parse_weeder
from app.core.config.settings import DemoSettings, ServeSettings
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
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.policy import Loop
from tests.api.facts import POLICY
from tests.api.fakes import FakeConfigured
from tests.support.endpointprobes import handled_by

PATH = "/api/v1/config"
LEVEL = PATH + "/log-level"
CANARY = "s3cr3t-canary"
WEEDER = """
watchDuration: 90s
minBackoffRemaining: 1m30s
servicesAndDependantSelectors:
  kube-apiserver:
    podSelectors:
    - matchLabels: {app: kubernetes}
      matchExpressions:
      - {key: role, operator: NotIn, values: [main, apiserver]}
      - {key: gardener.cloud/role, operator: Exists}
  etcd-main-client:
    podSelectors:
    - matchExpressions:
      - {key: role, operator: In, values: [a]}
      - {key: role, operator: In, values: [a, b]}
"""


def serve(*flags):
    required = ("--prober-config-file=/etc/dwd/prober.yaml", "--weeder-config-file=/w.yaml")
    return read_flags(ServeSettings, (*required, *flags), {}, "dwd serve").settings


# The configuration.


def test_flags_are_there_by_name_in_the_words_of_the_command_line(client, process):
    process.configured = FakeConfigured(
        serve(
            "--kube-api-qps=7.5",
            "--leader-elect-lease-duration=1m",
            "--dry-run",
            "--log-level=warn",
        )
    )
    found = client.get(PATH).json()["flags"]
    assert found["prober-config-file"] == "/etc/dwd/prober.yaml"
    assert found["kube-api-qps"] == 7.5
    assert found["kube-api-burst"] == 10
    assert found["leader-elect-lease-duration"] == "1m0s"
    assert found["dry-run"] is True
    assert found["log-level"] == "warning"
    assert found["kubeconfig"] is None
    assert found["health-bind-addr"] == ":9644"


def test_every_flag_of_every_command_that_serves_can_be_shown(client, process):
    for settings in (serve(), DemoSettings()):
        process.configured = FakeConfigured(settings)
        found = client.get(PATH).json()["flags"]
        assert set(found) == {name.replace("_", "-") for name in type(settings).model_fields}


def test_the_weeder_file_that_is_shown_means_what_is_in_force(client, process):
    policy = parse_weeder(WEEDER, "given", strict=True).policy
    process.configured = FakeConfigured(weeder=policy)
    shown = client.get(PATH).json()["weeder"]
    assert shown["watchDuration"] == "1m30s"
    selector = shown["servicesAndDependantSelectors"]["kube-apiserver"]["podSelectors"][0]
    assert selector["matchLabels"] == {"app": "kubernetes"}
    again = parse_weeder(yaml.safe_dump(shown), "shown", strict=True).policy
    assert again.watch_duration == policy.watch_duration
    assert {n: [set(s.requirements) for s in each] for n, each in again.services.items()} == {
        n: [set(s.requirements) for s in each] for n, each in policy.services.items()
    }
    assert replace(again, services=policy.services) == policy


def test_a_file_of_a_loop_that_does_not_run_here_is_null(client, process):
    process.configured = FakeConfigured(prober=None)
    found = client.get(PATH).json()
    assert (found["prober"], found["weeder"]) == (None, None)


@pytest.mark.parametrize("loop", list(Loop))
def test_a_standby_and_either_loop_answer_about_themselves(client, process, loop):
    process.loops, process.leading, process.dry_run = (loop,), False, True
    assert client.get(PATH).status_code == 200
    assert client.put(LEVEL, json={"level": "error"}).status_code == 200


# The level of the log.


@pytest.mark.parametrize("word", ["debug", "info", "warning", "error"])
def test_the_level_is_changed_at_once_for_us_and_for_libraries(client, logged, word):
    answer = client.put(LEVEL, json={"level": word})
    assert (answer.status_code, answer.json()) == (200, {"level": word})
    assert client.get(PATH).json()["logLevel"] == word
    logged.clear()
    order = ["debug", "info", "warning", "error"]
    for each in order:
        getattr(structlog.get_logger("ours"), each)("said")
    kept = order[order.index(word) :]
    assert [line["log_level"] for line in logged] == kept
    library = logging.getLogger("a library")
    enabled = [
        each for each in order if library.isEnabledFor(logging.getLevelNamesMapping()[each.upper()])
    ]
    assert enabled == kept


def test_the_flag_is_what_it_was_started_with(client):
    client.put(LEVEL, json={"level": "error"})
    found = client.get(PATH).json()
    assert (found["logLevel"], found["flags"]["log-level"]) == ("error", "info")


def test_the_audit_has_both_levels(client, audit):
    client.put(LEVEL, json={"level": "warning"})
    client.put(LEVEL, json={"level": "error"})
    said = audit.entries()[0].attempt
    assert (said.action, said.before, said.after) == ("log-level", "warning", "error")


def test_a_level_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no log level loud"):
        log.set_level("loud")


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


def command(*words):
    return {"exec": {"command": list(words)}}


HEADERS = (("Authorization", f"Bearer {CANARY}"), ("X-Whatever", CANARY))
NAMES = [{"name": name, "value": "[redacted]"} for name, _ in HEADERS]


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (Exec(("etcdctl", "--password", CANARY)), command("etcdctl", "--password", "[redacted]")),
        (Exec(("etcdctl", f"--password={CANARY}")), command("etcdctl", "--password=[redacted]")),
        (
            Exec(("curl", f"Authorization: Bearer {CANARY}")),
            command("curl", "Authorization: [redacted]"),
        ),
        (Exec(("test", "-e", "token")), command("test", "-e", "token")),
        (HttpGet(443, headers=HEADERS), {"httpGet": {"httpHeaders": NAMES}}),
        (
            HttpGet(443, path=f"/healthz?token={CANARY}"),
            {"httpGet": {"path": "/healthz?token=[redacted]"}},
        ),
    ],
    ids=["after its flag", "with its flag", "as a header", "a word like one", "headers", "path"],
)
def test_a_probe_is_shown_without_what_is_or_looks_like_a_secret(shown, client, handler, expected):
    found = probe(shown, handler)
    for name, parts in expected.items():
        assert found[name] | parts == found[name]
    assert CANARY not in client.get(PATH).text


def test_of_flags_no_secret_is_shown_and_of_a_file_its_path_alone(client, process, tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(CANARY)
    flags = (f"--kubeconfig={file}", f"--shoot-server-pattern=password={CANARY}")
    process.configured = FakeConfigured(serve(*flags))
    answer = client.get(PATH)
    assert answer.json()["flags"]["kubeconfig"] == str(file)
    assert CANARY not in answer.text


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
