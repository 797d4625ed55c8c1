"""One shoot: its shape, its nodes, its history, and a probe on request."""

from dataclasses import replace

import pytest

from app.core.model import workloads as ann
from app.core.model.probing import Exclusion, LeaseState, NoticeKind, ShootState
from app.core.model.workloads import ResourceRef
from tests.api.facts import (
    KCM,
    MCM,
    NAMESPACE,
    NOW,
    candidacy,
    healthy,
    judgement,
    not_probed,
    protected,
    workload,
)
from tests.support.notices import OF_KIND

PATH = f"/api/v1/shoots/{NAMESPACE}"


def test_a_protected_shoot_has_the_shape_of_the_contract(client, shoots):
    shoots.add(protected())
    assert client.get(PATH).json() == {
        "namespace": NAMESPACE,
        "state": "Protected",
        "reason": "LeasesExpired",
        "message": "63 of 100 node leases are older than 30 s (limit 60%)",
        "since": "2027-01-15T07:58:30Z",
        "conditions": [
            {
                "type": "APIServerReachable",
                "status": "True",
                "reason": "Answered",
                "message": "it answers",
                "lastTransitionTime": "2027-01-15T07:50:00Z",
            }
        ],
        "probe": {
            "lastTime": "2027-01-15T07:59:58Z",
            "nextTime": "2027-01-15T08:00:08Z",
            "durationSeconds": 0.021346,
            "verdict": "ScaleDown",
            "wouldBe": "ScaleDown",
            "count": 812,
            "consecutiveFailures": 3,
        },
        "leases": {
            "asOf": "2027-01-15T07:59:58Z",
            "candidates": 100,
            "expired": 63,
            "unknown": 0,
            "candidatesAsOf": "2027-01-15T07:59:00Z",
            "fraction": 0.63,
            "threshold": 0.6,
            "expiryAfter": "30s",
            "excluded": {"NotManaged": 2},
        },
        "resources": [
            dependent("kube-controller-manager", down=1, spec=0, saved=1, active=True),
            dependent("machine-controller-manager", up=1, spec=0, saved=3, active=True),
            absent("cluster-autoscaler", up=2),
        ],
        "pause": None,
        "pauses": 0,
        "hold": None,
        "endpointProbes": [],
        "endpointProbesTotal": 0,
        "gates": [],
    }


def dependent(name, *, up=0, down=0, spec, saved, active):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": name,
        "optional": False,
        "scaleUpLevel": up,
        "scaleDownLevel": down,
        "replicas": {"spec": spec, "ready": spec, "saved": saved},
        "ignoreScaling": False,
        "protectionActive": active,
    }


def absent(name, *, up):
    found = dependent(name, up=up, spec=None, saved=None, active=None)
    return found | {"optional": True, "ignoreScaling": None}


def test_a_shoot_that_was_never_looked_at_has_nulls(client, shoots):
    shoots.add(not_probed())
    found = client.get(PATH).json()
    assert (found["state"], found["reason"], found["leases"]) == ("NotProbed", "Hibernated", None)
    assert found["probe"]["verdict"] is None
    assert found["probe"]["lastTime"] is None
    assert found["probe"]["count"] == 0


@pytest.mark.parametrize(
    ("value", "ignored"), [("true", True), ("T", True), ("false", False), ("yes", False)]
)
def test_ignore_scaling_is_shown_as_it_is_heeded(client, shoots, value, ignored):
    shoots.add(replace(healthy(), resources={KCM: workload(KCM, **{ann.IGNORE_SCALING: value})}))
    assert client.get(PATH).json()["resources"][0]["ignoreScaling"] is ignored


def test_an_invalid_saved_count_is_null(client, shoots):
    shoots.add(replace(healthy(), resources={MCM: workload(MCM, 0, **{ann.REPLICAS: "-1"})}))
    assert client.get(PATH).json()["resources"][1]["replicas"]["saved"] is None


# Nodes.


def nodes(client):
    return {each["name"]: each for each in client.get(PATH + "/nodes").json()["items"]}


def test_before_nodes_were_read_nobody_knows_who_counts(client, shoots):
    shoots.add(healthy())
    assert client.get(PATH + "/nodes").json()["metadata"]["candidatesAsOf"] is None
    found = nodes(client)
    assert {(each["candidate"], each["reason"]) for each in found.values()} == {(None, "NotRead")}
    assert found["node-0"] == {
        "name": "node-0",
        "pool": None,
        "zone": None,
        "candidate": None,
        "reason": "NotRead",
        "lease": "Fresh",
        "renewTime": "2027-01-15T07:59:55Z",
        "ageSeconds": 5.0,
        "clockOffsetSeconds": 0.0,
    }


def test_each_node_says_whether_it_counts_or_why_not(client, shoots):
    reasons = (
        *("NotManaged", "UnhealthyCondition", "NoMachine"),
        *("MachineFailed", "MachineTerminating", "InPlaceUpdate"),
    )
    read = candidacy(good=None, leaseless=None, **{each: Exclusion(each) for each in reasons})
    leases = [judgement("good", LeaseState.EXPIRED), *(judgement(each) for each in reasons)]
    shoots.add(replace(healthy(), candidacy=read, judgements=tuple(leases)))
    found = {name: (each["candidate"], each["reason"]) for name, each in nodes(client).items()}
    assert found.pop("good") == (True, None)
    assert found.pop("leaseless") == (False, "NoLease")
    assert found == {each: (False, each) for each in reasons}, "the words of the contract"


def test_a_node_without_lease_is_missing_one(client, shoots):
    shoots.add(replace(healthy(), candidacy=candidacy(bare=None), judgements=()))
    found = nodes(client)["bare"]
    assert (found["lease"], found["renewTime"], found["ageSeconds"]) == ("Missing", None, None)
    assert (found["pool"], found["zone"]) == ("workers", "a")


def test_a_node_that_is_newer_than_the_nodes_read_is_not_read_and_one_that_went_is_not_listed(
    client, shoots
):
    leases = (
        judgement("known"),
        judgement("newer", renewed=NOW - 1),
        judgement("gone", LeaseState.EXPIRED, renewed=NOW - 900),
        judgement("silent", LeaseState.UNKNOWN, renewed=None),
        judgement("behind", renewed=NOW - 301, offset=300.0),
    )
    shoots.add(replace(healthy(), candidacy=candidacy(known=None), judgements=leases))
    found = {name: each["reason"] for name, each in nodes(client).items()}
    newer = ("newer", "silent", "behind")
    assert found == {"known": None} | dict.fromkeys(newer, "NotRead")


def test_a_list_of_nodes_says_when_they_and_their_leases_were_read(client, shoots):
    shoots.add(healthy())
    assert client.get(PATH + "/nodes").json()["metadata"] == {
        "total": 3,
        "continue": None,
        "candidatesAsOf": None,
        "leasesAsOf": "2027-01-15T07:59:58Z",
    }


# History.


def note(shoots, kind, message, at, resource=None):
    shoots.past.note(OF_KIND[kind](NAMESPACE, at, "Reason", message, resource=resource))


def test_the_history_has_the_newest_first_in_the_shape_of_the_contract(client, shoots):
    shoots.add(replace(healthy(), state=ShootState.HEALTHY))
    note(shoots, NoticeKind.LOOK, "fine", NOW)
    note(shoots, NoticeKind.SCALE, "scaled", NOW + 1, KCM)
    assert client.get(PATH + "/history").json()["items"] == [
        {
            "time": "2027-01-15T08:00:01Z",
            "type": "Scale",
            "verdict": None,
            "reason": "Reason",
            "message": "scaled",
            "resource": "Deployment/kube-controller-manager",
        },
        {
            "time": "2027-01-15T08:00:00Z",
            "type": "Look",
            "verdict": None,
            "reason": "Reason",
            "message": "fine",
            "resource": None,
        },
    ]


def test_probes_that_say_the_same_are_one_entry_that_says_how_many(client, shoots):
    shoots.add(healthy())
    for second in range(3):
        note(shoots, NoticeKind.LOOK, "fine", NOW + second)
    (only,) = client.get(PATH + "/history").json()["items"]
    assert only["time"] == "2027-01-15T08:00:02Z"
    assert only["message"] == "fine (result of 3 probes since 2027-01-15T08:00:00Z)"


def test_what_the_weeder_did_is_in_the_history_of_the_shoot(client, shoots):
    shoots.add(healthy())
    owner = ResourceRef("apps/v1", "ReplicaSet", "kube-scheduler-5d")
    note(shoots, NoticeKind.WEED, "deleted pod kube-scheduler-5d-x", NOW, owner)
    (only,) = client.get(PATH + "/history").json()["items"]
    assert (only["type"], only["resource"]) == ("Weed", "ReplicaSet/kube-scheduler-5d")


# A probe on request.


def test_a_probe_is_asked_for_and_the_audit_has_the_one_before_and_when_the_next_is(
    *, client, shoots, scaling_runs, audit
):
    shoots.add(healthy())
    answer = client.post(PATH + "/probe")
    assert (answer.status_code, answer.json()) == (202, {"at": "2027-01-15T08:00:01Z"})
    assert scaling_runs.probed == [NAMESPACE]
    shoots.add(replace(healthy(), last_probe=None))
    client.post(PATH + "/probe")
    first, said = (each.attempt for each in audit.entries())
    assert (said.before, said.after) == ({"lastTime": "2027-01-15T07:59:58Z"}, answer.json())
    assert first.before == {"lastTime": None}
