"""Endpoint probes in the prober file: what loads, what is refused with which words, and what deserves a look."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from app.core.config.policy_files import parse_prober, read_prober_file, slow_gate
from app.core.errors import ConfigurationError
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
from app.core.model.policy import ProberPolicy
from tests.core.config import test_files

HERE = Path(__file__).parent / "endpoint"
API_SERVER = LabelSelector((Requirement("role", Operator.IN, frozenset({"apiserver"})),))
PODS = {"podSelector": {"matchLabels": {"role": "apiserver"}}}
TCP = {"tcpSocket": {"port": 443}}
CANARY = "canary"


def file_with(*probes, **keys):
    return test_files.file_with(**{"endpointProbes": list(probes)} | keys)


def read(*probes):
    """The probes of a file in order."""
    return parse_prober(file_with(*probes), "file", strict=True).policy.endpoint_probes


def read_one(**keys):
    (probe,) = read({"name": "probe"} | keys)
    return probe


def mistakes(*probes):
    """Path and sentence of each mistake where commands are not allowed."""
    with pytest.raises(ConfigurationError) as caught:
        parse_prober(file_with(*probes), "file", strict=True)
    return [f"{each.path}: {each.message}" for each in caught.value.mistakes]


def test_no_message_shows_what_may_be_a_secret():
    bad = HERE / "bad"
    assert not [path.stem for path in bad.glob("*.txt") if CANARY in path.read_text()]
    named = {path.stem for path in bad.glob("*.yaml") if CANARY in path.read_text()}
    assert named == {
        "exec-command-with-a-nul",
        "host-with-userinfo",
        "http-header-value-with-a-line-break",
        "http-header-value-with-a-nul",
    }


def test_each_handler_means_what_it_says():
    path = HERE / "good/one-of-each-handler.yaml"
    dns = "kube-dns.kube-system.svc.cluster.local."
    headers = (("Accept", "text/plain"), ("X-Empty", ""))
    livez = HttpGet("https", Scheme.HTTPS, "/livez?verbose", headers)
    app = LabelSelector((Requirement("app", Operator.EXISTS),))
    assert read_prober_file(path, strict=True, allow_exec=True).policy.endpoint_probes == (
        EndpointProbeSpec(
            "seed-dns", tcp_socket=TcpSocket(53), host=dns, effect=Effect.GATE_SCALE_DOWN
        ),
        EndpointProbeSpec(
            "apiserver",
            http_get=livez,
            type=ProbeType.LIVENESS,
            pods=API_SERVER,
            container="kube-apiserver",
            initial_delay=15,
            period=5,
            timeout=3,
            failure_threshold=2,
        ),
        EndpointProbeSpec("etcd", grpc=Grpc(2379, "etcd.health"), type=ProbeType.STARTUP, pods=app),
        EndpointProbeSpec(
            "marker",
            exec=Exec(("sh", "-c", "test -e /tmp/healthy", "")),
            pods=API_SERVER,
            success_threshold=2,
        ),
        EndpointProbeSpec("bare", grpc=Grpc(50051), host="2001:db8::1"),
    )


def test_a_host_may_stand_in_the_handler_as_in_kubernetes():
    path = HERE / "good/hosts-as-in-kubernetes.yaml"
    policy = read_prober_file(path, strict=True).policy
    assert [(each.name, each.host) for each in policy.endpoint_probes] == [
        ("http", "api.{namespace}.example.org"),
        ("tcp", "192.0.2.7"),
        ("above", "etcd-main-client.{namespace}.svc"),
    ]
    assert policy.endpoint_mode, "endpoint probes belong to both modes"


def test_null_is_absent_and_keys_match_whatever_their_case():
    path = HERE / "good/nulls-and-other-cases.yaml"
    (probe,) = read_prober_file(path, strict=True).policy.endpoint_probes
    assert probe == EndpointProbeSpec("probe", http_get=HttpGet(443), pods=API_SERVER, period=7)


def test_without_the_key_there_are_none():
    assert read() == ()
    assert parse_prober(file_with(endpointProbes=None), "f", strict=True).policy == (
        parse_prober(file_with(), "f", strict=True).policy
    )


def test_what_is_absent_has_the_defaults_of_kubernetes():
    probe = read_one(host="example.org", **TCP)
    assert (probe.initial_delay, probe.period, probe.timeout) == (0, 10, 1)
    assert (probe.success_threshold, probe.failure_threshold) == (1, 3)
    assert (probe.type, probe.effect) == (ProbeType.READINESS, Effect.OBSERVE)
    http = read_one(host="example.org", httpGet={"port": 80}).handler
    assert http == HttpGet(80, Scheme.HTTP, "/", ())


@pytest.mark.parametrize("handler", [{}, TCP], ids=["alone", "as a second handler"])
def test_exec_is_refused_without_its_flag(handler):
    probe = {"name": "probe", "exec": {"command": ["true"]}} | PODS | handler
    assert "endpointProbes[0].exec: needs the flag --allow-exec" in mistakes(probe)
    with pytest.raises(ConfigurationError, match="needs the flag --allow-exec"):
        parse_prober(file_with(probe), "f", strict=False)


def test_hosts_names_of_ports_and_paths_are_kept_as_they_are_written():
    path = HERE / "good/hosts-ports-and-paths.yaml"
    written = yaml.safe_load(path.read_text())["endpointProbes"]
    for probe, said in zip(
        read_prober_file(path, strict=True).policy.endpoint_probes, written, strict=True
    ):
        assert probe.host == said.get("host")
        given = said.get("httpGet") or said["tcpSocket"]
        assert not isinstance(probe.handler, Exec)
        kept = {"path": probe.http_get.path} if probe.http_get else {}
        assert kept | {"port": probe.handler.port} == given


def test_headers_keep_their_order_and_may_be_repeated():
    given = [{"name": "X-A", "value": "1 \t2"}, {"name": "Host", "value": "b"}, {"name": "X-A"}]
    handler = read_one(host="a", httpGet={"port": 80, "httpHeaders": given}).handler
    assert handler == HttpGet(80, headers=(("X-A", "1 \t2"), ("Host", "b"), ("X-A", "")))


@pytest.mark.parametrize(("failures", "late"), [(4, False), (5, True)])
def test_in_endpoint_mode_a_gate_is_warned_of_that_closes_after_the_verdict(failures, late):
    """Three probes 5 s apart: 10 s after the first that failed there may be a verdict."""
    gate = EndpointProbeSpec(
        "gate",
        tcp_socket=TcpSocket(53),
        host="a",
        period=2,
        timeout=1,
        failure_threshold=failures,
        effect=Effect.GATE_SCALE_DOWN,
    )
    mode = ProberPolicy("in", (), failure_threshold=3, suspect_interval=5.0, external_secret="out")
    advice = slow_gate(gate, mode)
    assert (advice is not None) == late
    if advice is not None:
        assert "later than the verdict may come, 10s after the first probe" in advice
    assert slow_gate(gate, replace(mode, external_secret=None)) is None


def test_what_is_no_gate_may_be_as_slow_as_it_likes():
    probe = {"name": "slow", "host": "a", "periodSeconds": 3600} | TCP
    assert parse_prober(file_with(probe), "f", strict=True).warnings == ()


def test_the_grace_of_the_file_decides_what_a_slow_gate_is():
    gate = {"name": "gate", "host": "a", "effect": "GateScaleDown"} | TCP
    quiet = parse_prober(file_with(gate, kcmNodeMonitorGraceDuration="63s"), "f", strict=True)
    loud = parse_prober(file_with(gate, kcmNodeMonitorGraceDuration="62s"), "f", strict=True)
    assert (len(quiet.warnings), len(loud.warnings)) == (0, 1)
