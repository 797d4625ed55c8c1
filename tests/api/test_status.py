"""What a process says of itself, and what a standby leaves to the leader."""

import pytest

from app.core.model.policy import ConfigWarning
from app.core.ports import Permission
from tests.api.facts import healthy, protected

STATUS = "/api/v1/status"
LEADERS_ONLY = (
    "/api/v1/shoots",
    "/api/v1/shoots/shoot--acme--prod",
    "/api/v1/shoots/shoot--acme--prod/nodes",
    "/api/v1/shoots/shoot--acme--prod/history",
)


def test_a_leader_counts_its_shoots_by_state(client, shoots):
    shoots.add(healthy("a"), healthy("b"), protected("c"))
    found = client.get(STATUS).json()
    assert found["role"] == "leader"
    assert found["counts"]["Healthy"] == 2
    assert found["counts"]["Protected"] == 1
    assert found["counts"]["Failing"] == 0
    assert len(found["counts"]) == 9


def test_the_status_says_all_that_deserves_a_look(client, process):
    process.off = {"events": "forbidden"}
    process.missing = [Permission("patch", "apps", "deployments", "kube-controller-manager")]
    process.warnings = [ConfigWarning("probeIntervall", "unknown", 3)]
    process.unconfigured = ["shoot--a/Deployment/etcd-druid"]
    found = client.get(STATUS).json()
    assert found == {
        "version": "1.2.3",
        "startedAt": "2027-01-15T07:00:00Z",
        "role": "leader",
        "dryRun": False,
        "leaders": {"prober": {"identity": "dwd-7f9", "address": None}},
        "counts": found["counts"],
        "pause": None,
        "featuresOff": [{"feature": "events", "reason": "forbidden"}],
        "missingPermissions": [
            {
                "verb": "patch",
                "group": "apps",
                "resource": "deployments",
                "name": "kube-controller-manager",
                "namespace": None,
                "feature": None,
            }
        ],
        "configWarnings": [{"path": "probeIntervall", "line": 3, "message": "unknown"}],
        "foundUnconfigured": ["shoot--a/Deployment/etcd-druid"],
    }


def test_a_standby_answers_status_without_counts(client, process, shoots):
    process.leading = False
    shoots.add(healthy())
    found = client.get(STATUS).json()
    assert (found["role"], found["counts"]) == ("standby", None)
    assert found["leaders"]["prober"]["identity"] == "dwd-7f9"


@pytest.mark.parametrize("path", LEADERS_ONLY)
def test_a_standby_answers_everything_else_with_503_and_the_leader(client, process, shoots, path):
    process.leading = False
    shoots.add(healthy())
    answer = client.get(path)
    assert answer.status_code == 503
    found = answer.json()
    assert found["type"] == "urn:dependency-watchdog:problem:not-the-leader"
    assert found["leader"] == {"identity": "dwd-7f9", "address": None}
    assert "dwd-7f9 leads" in found["detail"]


def test_a_standby_says_so_when_nobody_is_known_to_lead(client, process):
    process.leading, process.leader_identity = False, None
    found = client.get("/api/v1/shoots").json()
    assert found["leader"] == {"identity": None, "address": None}
    assert "nobody" in found["detail"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/", "/docs", "/openapi.json"])
def test_a_standby_answers_health_metrics_and_docs(client, process, path):
    process.leading = False
    assert client.get(path).status_code == 200
