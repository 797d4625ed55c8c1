"""What a process says of itself, and what a standby leaves to the leader."""

from app.core.errors import ConfigWarning
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from app.core.ports import Permission
from tests.api.facts import healthy, protected

STATUS = "/api/v1/status"


def test_a_leader_counts_its_shoots_by_state(client, shoots):
    shoots.add(healthy("a"), healthy("b"), protected("c"))
    found = client.get(STATUS).json()
    assert found["role"] == "leader"
    assert found["counts"]["Healthy"] == 2
    assert found["counts"]["Protected"] == 1
    assert found["counts"]["Failing"] == 0
    assert found["counts"]["Unprotected"] == 0
    assert list(found["counts"]) == list(ShootState)


def test_the_status_says_all_that_deserves_a_look(client, process):
    process.off = {"events": "forbidden"}
    process.missing = [Permission("patch", "apps", "deployments", "kube-controller-manager")]
    process.warnings = [ConfigWarning("probeIntervall", "unknown", 3)]
    process.unconfigured = ["shoot--a/Deployment/etcd-druid"]
    found = client.get(STATUS).json()
    assert found == {
        "version": "1.2.3",
        "identity": "dwd-7f9",
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
        "selectorsWithoutPods": [],
    }


def test_a_standby_answers_status_without_counts(client, process, shoots):
    process.leading = False
    shoots.add(healthy())
    found = client.get(STATUS).json()
    assert (found["role"], found["counts"]) == ("standby", None)
    assert found["leaders"]["prober"]["identity"] == "dwd-7f9"


# Which loops run here.


def test_each_loop_has_its_leader_in_the_status(client, process):
    process.loops = tuple(Loop)
    leader = {"identity": "dwd-7f9", "address": None}
    assert client.get(STATUS).json()["leaders"] == {"prober": leader, "weeder": leader}


def test_without_the_prober_there_are_no_shoots_to_count(client, process, shoots):
    process.loops = (Loop.WEEDER,)
    shoots.add(healthy())
    found = client.get(STATUS).json()
    assert (found["role"], found["counts"]) == ("leader", None)
    assert list(found["leaders"]) == ["weeder"]


def test_who_leads_one_loop_is_a_leader_and_answers_for_that_loop_alone(client, process, shoots):
    process.loops, process.stands_by = tuple(Loop), {Loop.WEEDER}
    shoots.add(healthy())
    assert client.get(STATUS).json()["role"] == "leader"
    assert client.get("/api/v1/shoots").status_code == 200
    found = client.get("/api/v1/weeders").json()
    assert found["type"] == "urn:dependency-watchdog:problem:not-the-leader"


def test_selectors_that_match_no_pod_are_in_the_status_in_order(client, process):
    process.empty_selectors = ["b, selector 0: no pod matches", "a, selector 1: no pod matches"]
    assert client.get(STATUS).json()["selectorsWithoutPods"] == [
        "a, selector 1: no pod matches",
        "b, selector 0: no pod matches",
    ]
