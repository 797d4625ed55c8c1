"""Endpoint probes and endpoint mode in the object of a shoot, and what endpoint mode does not have."""

from dataclasses import replace

import pytest

from app.api import presenting
from app.core.model.endpoints import CachedResult, GateReason
from app.prober.status import ConditionStatus, ShootCondition
from tests.api.facts import NAMESPACE, NOW, POLICY, container, endpoint, healthy

LIST = "/api/v1/shoots"
PATH = f"{LIST}/{NAMESPACE}"
PATHS = (
    ShootCondition("APIServerReachable", ConditionStatus.TRUE, "Answered", "it answers", NOW - 600),
    ShootCondition(
        "ExternalPathReachable", ConditionStatus.FALSE, "Unreachable", "no answer in 5 s", NOW - 60
    ),
)
IN_ENDPOINT_MODE = replace(POLICY, external_secret="external")


@pytest.fixture
def shown(client, shoots, endpoints):
    """The shoot with these endpoint probes."""

    def of(*views, gates=()):
        shoots.add(healthy())
        endpoints.found[NAMESPACE], endpoints.closing[NAMESPACE] = views, gates
        return client.get(PATH).json()

    return of


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (None, None),
        *((each, "Closed" if each is GateReason.FAILING else "Open") for each in GateReason),
    ],
    ids=str,
)
def test_only_a_gate_whose_targets_all_fail_is_closed(shown, reason, state):
    [found] = shown(endpoint(gate=reason))["endpointProbes"]
    assert found["gate"] == state


def test_probes_are_listed_by_name_and_target(shown):
    views = [
        endpoint("etcd", container("etcd-main-1")),
        endpoint("canary"),
        endpoint("etcd", container("etcd-main-0", "sidecar")),
        endpoint("etcd", container("etcd-main-0", "backup")),
    ]
    found = [
        (each["name"], each["target"]["pod"], each["target"]["container"])
        for each in shown(*views)["endpointProbes"]
    ]
    assert found == [
        ("canary", None, None),
        ("etcd", "etcd-main-0", "backup"),
        ("etcd", "etcd-main-0", "sidecar"),
        ("etcd", "etcd-main-1", "etcd"),
    ]


def test_of_very_many_the_worst_are_shown_and_how_many_there_are(shown):
    well = [endpoint("etcd", container(f"etcd-{n:03}")) for n in range(200)]
    ill = [endpoint("etcd", container(f"z-{n}"), CachedResult.FAILURE) for n in range(3)]
    unknown = endpoint("etcd", container("y"), CachedResult.UNKNOWN)
    closed = endpoint("zz", result=CachedResult.FAILURE, gate=GateReason.FAILING)
    found = shown(*well, *ill, unknown, closed)
    targets = [each["target"]["pod"] for each in found["endpointProbes"]]
    assert found["endpointProbesTotal"] == 205
    assert len(targets) == presenting.MOST
    assert targets == [*sorted(targets[:-1]), None]
    assert targets[-5:] == ["y", "z-0", "z-1", "z-2", None]


def test_a_closed_gate_is_shown_before_failures_that_hold_back_nothing(shown):
    ill = [endpoint("a", container(f"pod-{n:03}"), CachedResult.FAILURE) for n in range(60)]
    closed = endpoint("z", result=CachedResult.FAILURE, gate=GateReason.FAILING)
    found = shown(*ill, closed)["endpointProbes"]
    assert (found[-1]["name"], found[-1]["gate"]) == ("z", "Closed")


# Endpoint mode.


class TestEndpointMode:
    @pytest.fixture
    def policy(self):
        return IN_ENDPOINT_MODE

    @pytest.fixture
    def status(self, shoots):
        found = replace(healthy(), conditions=PATHS, tally=None, judgements=(), candidacy=None)
        shoots.add(found)
        return found

    @pytest.mark.usefixtures("status")
    def test_there_are_no_leases_and_conditions_for_both_paths(self, client):
        found = client.get(PATH).json()
        assert found["leases"] is None
        assert [(each["type"], each["status"]) for each in found["conditions"]] == [
            ("APIServerReachable", "True"),
            ("ExternalPathReachable", "False"),
        ]

    def test_leases_of_before_a_change_of_the_mode_are_not_shown(self, client, shoots):
        shoots.add(healthy())
        assert client.get(PATH).json()["leases"] is None

    @pytest.mark.usefixtures("status")
    def test_nodes_are_404_as_nobody_reads_them_and_the_detail_says_so(self, client):
        answer = client.get(PATH + "/nodes")
        assert answer.status_code == 404
        assert answer.json()["type"].endswith(":not-found")
        assert "in endpoint mode neither Nodes nor Leases are read" in answer.json()["detail"]

    def test_an_unknown_shoot_is_still_told_from_that(self, client):
        answer = client.get(f"{LIST}/nowhere/nodes")
        assert answer.json()["detail"] == "the seed has no Cluster nowhere"
