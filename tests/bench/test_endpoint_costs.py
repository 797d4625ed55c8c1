"""The bench of endpoint probes: the files that it gives the program are taken, and its arithmetic is right."""

import math

import pytest
import yaml

from app.core.config.policy_files import parse_prober
from app.core.model.endpoints import Grpc, HttpGet, Scheme, TcpSocket
from app.core.model.shoots import Route
from bench.endpoints import _HANDLERS, _goals, in_endpoint_mode, with_probes
from bench.endpoints_gate import with_a_gate
from bench.endpoints_world import Found
from bench.perf.figures import Buckets
from bench.perf.program import config
from bench.perf.validity import Stretch

PORTS = {"http": 1001, "tcp": 1002, "https": 1003, "grpc": 1004}
STRETCH = Stretch(seconds=50.0, load=0.1, idle=0.7, lag=0.002, counts={})
LAG = Buckets({0.1: 99.0, 0.25: 100.0, math.inf: 100.0})


def found(cores, runs, *, asked=6000, rss=100.0):
    return Found(cores, 1500.0, runs, 0.0, asked, rss, LAG, STRETCH)


def policy(change):
    text = yaml.safe_dump(change(config(10.0)))
    loaded = parse_prober(text, "prober.yaml", strict=True)
    assert loaded.warnings == ()
    return loaded.policy


@pytest.mark.parametrize(
    ("name", "handler"),
    [
        ("httpGet", HttpGet(1001, path="/healthz")),
        ("tcpSocket", TcpSocket(1002)),
        ("httpGet, TLS", HttpGet(1003, Scheme.HTTPS)),
        ("grpc", Grpc(1004)),
    ],
)
def test_each_handler_has_a_file_with_four_probes(name, handler):
    probes = policy(with_probes(name, PORTS)).endpoint_probes
    assert [(each.handler, each.period) for each in probes] == [(handler, 10)] * 4
    assert name in _HANDLERS


def test_the_world_to_compare_with_has_none():
    assert policy(with_probes("no probes", PORTS)).endpoint_probes == ()


def test_the_gate_is_one_that_the_program_takes_without_a_warning():
    (gate,) = policy(with_a_gate(PORTS)).endpoint_probes
    assert gate.gates
    assert gate.handler == HttpGet(1001)


def test_endpoint_mode_has_both_secrets_and_the_rest_as_it_was():
    changed, before = policy(in_endpoint_mode), policy(lambda given: given)
    assert set(changed.secret_names) == set(Route)
    assert changed.secret_names[Route.INTERNAL] == before.secret_names[Route.INTERNAL]
    assert changed.dependents == before.dependents


def test_a_run_costs_what_the_process_uses_more_than_without_by_their_number():
    assert found(0.10, 5000).a_run(found(0.05, 0)) == pytest.approx(0.5)


def test_too_much_cpu_too_much_memory_and_missing_runs_are_goals_that_are_not_reached():
    without = found(0.05, 0)
    fine = list(_goals("httpGet", found(0.10, 5500), without))
    assert all(each.reached for each in fine)
    assert len(fine) == 4
    bad = list(_goals("httpGet", found(0.20, 5500, asked=5000, rss=141.0), without))
    assert [each.what for each in bad if not each.reached] == [
        "httpGet: runs that are missing",
        "httpGet: CPU per run",
        "httpGet: memory",
    ]


def test_grpc_is_measured_without_a_goal_of_its_own():
    assert [each.what for each in _goals("grpc", found(9.0, 5500, rss=300.0), found(0.05, 0))] == [
        "grpc: runs that are missing",
        "grpc: lag of probes, p99",
    ]
