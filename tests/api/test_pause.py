"""Pauses of one shoot and of all: who takes them, what is refused, what is written and shown."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import EntryChanged, FeatureUnavailable, StoreFull, Unreachable
from app.core.model import workloads as ann
from app.core.model.overrides import ALL_SHOOTS, OverrideEntry, Scope
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from tests.api.facts import (
    KCM,
    MCM,
    NAMESPACE,
    NOW,
    healthy,
    hold,
    not_probed,
    pause,
    protected,
    workload,
)

ONE = f"/api/v1/shoots/{NAMESPACE}/pause"
ALL = "/api/v1/pause"
REASON = {"reason": "the load balancer is replaced"}
DOWN_ONLY = {**REASON, "scope": "scaleDown"}


@pytest.fixture(autouse=True)
def one_shoot(shoots):
    shoots.add(healthy())


def type_of(answer):
    return answer.json()["type"].rpartition(":")[2]


# What is taken.


@pytest.mark.parametrize("url", [ONE, ALL])
def test_a_replica_that_has_just_started_takes_a_pause_as_soon_as_it_has_listed_the_seed(
    client, process, shoots, url
):
    shoots.listed, began = False, process.time

    def waited():
        shoots.listed = process.time >= began + 1.5

    process.when_asked_to_wait = waited
    assert client.put(url, json=REASON).status_code == 200
    assert 1.5 <= process.time - began < 1.6


def test_a_pause_lasts_an_hour_holds_back_everything_and_has_its_author(client, overrides):
    answer = client.put(ONE, json=REASON)
    assert answer.status_code == 200
    assert answer.json() == {
        "covers": "shoot",
        "scope": "all",
        "reason": "the load balancer is replaced",
        "author": "tester",
        "createdAt": "2027-01-15T08:00:00Z",
        "until": "2027-01-15T09:00:00Z",
    }
    written = overrides.entry(NAMESPACE).pause
    assert (written.scope, written.until - written.created_at) == (Scope.ALL, 3_600)


def test_the_pause_is_shown_with_the_shoot_from_then_on(client):
    made = client.put(ONE, json={**DOWN_ONLY, "duration": "24h"}).json()
    assert client.get(f"/api/v1/shoots/{NAMESPACE}").json()["pause"] == made
    assert made["until"] == "2027-01-16T08:00:00Z"


def test_a_pause_of_all_covers_every_shoot_and_is_in_the_status(client, overrides):
    made = client.put(ALL, json=REASON).json()
    assert made["covers"] == "all"
    assert client.get("/api/v1/status").json()["pause"] == made
    assert client.get(f"/api/v1/shoots/{NAMESPACE}").json()["pause"] == made
    assert list(overrides.entries) == [ALL_SHOOTS]


def test_a_pause_over_another_replaces_it_and_leaves_the_hold(client, overrides):
    overrides.entries[NAMESPACE] = OverrideEntry(pause(), hold())
    client.put(ONE, json=DOWN_ONLY)
    assert overrides.entry(NAMESPACE).pause.scope is Scope.SCALE_DOWN
    assert overrides.entry(NAMESPACE).hold == hold()


@pytest.mark.parametrize("path", [ONE, ALL])
def test_ending_a_pause_is_204_whether_there_is_one_or_not(client, overrides, path):
    client.put(path, json=REASON)
    for _ in range(2):
        answer = client.delete(path)
        assert (answer.status_code, answer.content) == (204, b"")
    assert overrides.entries == {}


def test_whoever_ends_a_pause_or_hold_is_handed_on(client, overrides):
    for path in (
        f"/api/v1/shoots/{NAMESPACE}/pause",
        "/api/v1/pause",
        f"/api/v1/shoots/{NAMESPACE}/hold",
    ):
        assert client.delete(path).status_code == 204
    assert overrides.ended_by == ["tester"] * 3


def test_the_end_of_one_pause_leaves_that_of_all_and_the_other_way_round(client, overrides):
    client.put(ONE, json=REASON)
    client.put(ALL, json=REASON)
    client.delete(ONE)
    assert list(overrides.entries) == [ALL_SHOOTS]
    client.put(ONE, json=REASON)
    client.delete(ALL)
    assert list(overrides.entries) == [NAMESPACE]


# Bad input: nothing is written.


@pytest.mark.parametrize(
    ("body", "path", "says"),
    [
        ({}, "reason", "required"),
        ({"reason": ""}, "reason", "at least 1"),
        ({"reason": " \t"}, "reason", "pattern"),
        ({"reason": "x" * 301}, "reason", "at most 300"),
        ({"reason": 7}, "reason", "string"),
        ({**REASON, "duration": "0s"}, "duration", "more than 0s"),
        ({**REASON, "duration": "-1h"}, "duration", "more than 0s"),
        ({**REASON, "duration": "24h0m1s"}, "duration", "at most 24h"),
        ({**REASON, "duration": "an hour"}, "duration", "duration"),
        ({**REASON, "duration": "60"}, "duration", "unit"),
        ({**REASON, "duration": 60}, "duration", "string"),
        ({**REASON, "scope": "scaleUp"}, "scope", "'all' or 'scaleDown'"),
        ({**REASON, "force": "yes"}, "force", "boolean"),
        ({**REASON, "until": "tomorrow"}, "until", "not permitted"),
    ],
)
@pytest.mark.parametrize("url", [ONE, ALL])
def test_a_wrong_field_is_422_and_named_with_what_it_may_be(
    client, overrides, url, body, path, says
):
    answer = client.put(url, json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["path"] == path
    assert says in error["message"]
    assert "Value error" not in error["message"], "a rule of ours in our words"
    assert overrides.entries == {}


def test_every_wrong_field_is_named(client):
    body = {"duration": "x", "scope": "x", "force": 1, "x": 1}
    errors = client.put(ONE, json=body).json()["errors"]
    assert {each["path"] for each in errors} == {"reason", "duration", "scope", "force", "x"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"'])
def test_a_body_that_is_no_object_is_refused(client, overrides, content):
    headers = {"Content-Type": "application/json"}
    answer = client.request("PUT", ONE, content=content, headers=headers)
    assert answer.status_code in {400, 422}
    assert overrides.entries == {}


def test_a_reason_becomes_one_printable_line(client, overrides):
    client.put(ONE, json={"reason": " a\nb\x1b[31m\u202e "})
    assert overrides.entry(NAMESPACE).pause.reason == "a b [31m"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("namespace", ["shoot--no--such", "garden", "_all", "%2e%2e"])
def test_a_namespace_that_is_no_shoots_is_404(client, overrides, method, namespace):
    overrides.entries[ALL_SHOOTS] = OverrideEntry(pause())
    body = REASON if method == "PUT" else None
    answer = client.request(method, f"/api/v1/shoots/{namespace}/pause", json=body)
    assert (answer.status_code, type_of(answer)) == (404, "not-found")
    assert list(overrides.entries) == [ALL_SHOOTS]


# Scope all over a protected shoot.


def test_scope_all_over_a_protected_shoot_is_409_and_says_what_would_stay_at_0(
    client, shoots, overrides
):
    shoots.add(protected())
    answer = client.put(ONE, json=REASON)
    assert (answer.status_code, type_of(answer)) == (409, "conflict")
    found = answer.json()
    kcm, mcm = str(KCM), str(MCM)
    assert found["detail"] == (
        f"{NAMESPACE} is protected: {kcm} and {mcm} would stay at 0; use scope scaleDown, or force"
    )
    assert found["staysAtZero"] == {NAMESPACE: [kcm, mcm]}
    assert overrides.entries == {}


@pytest.mark.parametrize("body", [DOWN_ONLY, {**REASON, "force": True}])
def test_force_or_scope_scale_down_pauses_a_protected_shoot(client, shoots, overrides, body):
    shoots.add(protected())
    for url in (ONE, ALL):
        assert client.put(url, json=body).status_code == 200
    assert len(overrides.entries) == 2


def test_a_pause_of_all_names_the_first_protected_shoots_and_counts_them(client, shoots, overrides):
    shoots.add(*(protected(f"shoot--p--{n}") for n in range(7)))
    found = client.put(ALL, json=REASON).json()
    assert found["status"] == 409
    assert "7 shoots are protected" in found["detail"]
    assert "shoot--p--4 and 2 more" in found["detail"]
    assert found["protectedShoots"] == 7
    assert list(found["staysAtZero"]) == [f"shoot--p--{n}" for n in range(5)]
    assert overrides.entries == {}


def test_protection_elsewhere_does_not_keep_a_shoot_from_its_pause(client, shoots):
    shoots.add(protected("shoot--another--one"))
    assert client.put(ONE, json=REASON).status_code == 200
    assert client.put(ALL, json=REASON).status_code == 409


def of(*views, state=ShootState.PROTECTED):
    return replace(protected(), state=state, resources={each.ref: each for each in views})


def kept(ref, replicas, **more: Any):
    return workload(ref, replicas, **{ann.MELTDOWN: "", ann.REPLICAS: "1"}, **more)


@pytest.mark.parametrize(
    ("status", "named"),
    [
        (of(kept(KCM, 0), workload(MCM, 0)), [str(KCM), str(MCM)]),
        (of(kept(KCM, 1), workload(MCM, 1)), None),
        (of(workload(KCM, 0)), None),
        (of(kept(KCM, 0), kept(MCM, 0, **{ann.IGNORE_SCALING: "true"})), [str(KCM)]),
        (of(kept(KCM, None)), [str(KCM)]),
        (of(kept(KCM, 0), state=ShootState.RECOVERING), [str(KCM)]),
        (of(kept(KCM, 0), state=ShootState.NOT_PROBED), None),
        (not_probed(), None),
    ],
    ids=[
        "one that lost its key counts too",
        "nothing is at 0",
        "not protected",
        "an ignored one stays anyway",
        "of unknown size",
        "in a flow up",
        "nobody would bring it back",
        "hibernated",
    ],
)
def test_what_would_stay_at_0_is_what_the_prober_would_bring_back(client, shoots, status, named):
    shoots.add(status)
    answer = client.put(ONE, json=REASON)
    if named is None:
        assert answer.status_code == 200
    else:
        assert answer.json()["staysAtZero"] == {NAMESPACE: named}


# Who takes it.


def test_a_standby_takes_pauses(client, process, overrides):
    process.leading = False
    for url in (ONE, ALL):
        assert client.put(url, json=REASON).status_code == 200
        assert client.delete(url).status_code == 204


@pytest.mark.parametrize("url", [ONE, ALL])
def test_a_dry_run_writes_nothing(client, process, overrides, url):
    overrides.entries[NAMESPACE] = OverrideEntry(pause())
    process.dry_run = True
    for answer in (client.put(url, json=REASON), client.delete(url)):
        assert (answer.status_code, type_of(answer)) == (503, "dry-run")
    assert list(overrides.entries) == [NAMESPACE]


@pytest.mark.parametrize("url", [ONE, ALL])
def test_a_weeder_alone_takes_pauses_and_scope_all_only_with_force(
    *, client, process, weeders, overrides, url
):
    process.loops, weeders.served = (Loop.WEEDER,), {NAMESPACE}
    answer = client.put(url, json=REASON)
    assert (answer.status_code, type_of(answer)) == (409, "conflict")
    assert "runs the weeder alone" in answer.json()["detail"]
    assert overrides.entries == {}
    for body in (DOWN_ONLY, {**REASON, "force": True}):
        assert client.put(url, json=body).status_code == 200
    assert client.delete(url).status_code == 204


@pytest.mark.parametrize("namespace", ["_all", "A", "x" * 64])
def test_a_weeder_alone_refuses_what_cannot_be_a_namespace(client, process, overrides, namespace):
    process.loops = (Loop.WEEDER,)
    answer = client.put(f"/api/v1/shoots/{namespace}/pause", json=DOWN_ONLY)
    assert answer.status_code == 404
    assert overrides.entries == {}


def test_a_weeder_alone_pauses_only_what_it_knows_and_ends_what_is_paused(
    client, process, overrides, weeders
):
    process.loops, weeders.served = (Loop.WEEDER,), {"shoot--other"}
    for answer in (client.put(ONE, json=DOWN_ONLY), client.delete(ONE)):
        assert (answer.status_code, type_of(answer)) == (404, "not-found")
    assert overrides.entries == {}
    assert client.put("/api/v1/shoots/shoot--other/pause", json=DOWN_ONLY).status_code == 200
    overrides.entries[NAMESPACE] = OverrideEntry(pause(Scope.SCALE_DOWN))
    assert client.delete(ONE).status_code == 204
    assert NAMESPACE not in overrides.entries
    assert client.put(ALL, json=DOWN_ONLY).status_code == 200


def test_a_weeder_alone_takes_none_of_a_shoot_before_it_has_seen_all_services(
    client, process, overrides, weeders
):
    process.loops, weeders.served = (Loop.WEEDER,), None
    for answer in (client.put(ONE, json=DOWN_ONLY), client.delete(ONE)):
        assert (answer.status_code, type_of(answer)) == (503, "not-listed")
        assert answer.headers["Retry-After"] == "2"
        assert "EndpointSlices" in answer.json()["detail"]
    assert process.time == pytest.approx(NOW + 2 * 2.0, abs=0.2), "each has waited 2 s"
    assert overrides.entries == {}
    overrides.entries[NAMESPACE] = OverrideEntry(pause(Scope.SCALE_DOWN))
    assert client.delete(ONE).status_code == 204, "what is paused is known"
    assert client.put(ALL, json=DOWN_ONLY).status_code == 200, "and so is everything"


@pytest.mark.parametrize("url", [ONE, ALL])
def test_a_weeder_that_knows_where_the_prober_is_says_so(client, process, overrides, url):
    process.loops, process.peer_url = (Loop.WEEDER,), "http://dwd-prober:8080"
    for answer in (client.put(url, json=REASON), client.delete(url)):
        assert (answer.status_code, type_of(answer)) == (503, "loop-not-here")
        assert answer.json()["peer"] == "http://dwd-prober:8080"
        assert "ask http://dwd-prober:8080" in answer.json()["detail"]
    assert overrides.entries == {}


# What fails has changed nothing.


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (EntryChanged("somebody paused it meanwhile", {"author": "bob"}), 409, "conflict"),
        (StoreFull("more than 900 KiB"), 503, "store-full"),
        (FeatureUnavailable("overrides", "may not be read"), 503, "feature-off"),
        (Unreachable("timed out"), 503, "seed-away"),
    ],
)
def test_what_the_desk_refuses_is_told_and_changes_nothing(
    client, overrides, error, status, problem
):
    overrides.breaks = error
    for url in (ONE, ALL):
        for answer in (client.put(url, json=REASON), client.delete(url)):
            assert (answer.status_code, type_of(answer)) == (status, problem)
    assert overrides.entries == {}


# The audit.


def test_the_audit_has_who_why_before_and_after(client, overrides, audit):
    overrides.entries[NAMESPACE] = OverrideEntry(pause(Scope.SCALE_DOWN))
    client.put(ONE, json=REASON)
    client.delete(ONE)
    ended, made = (each.attempt for each in audit.entries())
    assert (made.action, made.namespace, made.reason) == ("pause", NAMESPACE, REASON["reason"])
    assert made.before["scope"] == "scaleDown"
    assert made.before["author"] == "alice"
    assert made.after["scope"] == "all"
    assert made.after["until"] == "2027-01-15T09:00:00Z"
    assert (ended.action, ended.before, ended.after) == ("resume", made.after, None)


def test_a_refused_pause_is_in_the_audit_with_its_reason(client, shoots, audit):
    shoots.add(protected())
    client.put(ONE, json=REASON)
    (record,) = audit.entries()
    said = record.attempt
    assert (said.action, said.reason, said.after) == ("pause", REASON["reason"], None)
    assert (said.status, said.caller) == (409, "tester")


@pytest.mark.parametrize("url", [ONE, ALL])
@pytest.mark.parametrize(
    "error",
    [EntryChanged("somebody else"), StoreFull("full"), FeatureUnavailable("overrides", "off"), Unreachable("away")],
)  # fmt: skip
def test_a_refused_attempt_has_the_pause_that_stays_there(*, client, overrides, audit, url, error):
    key = NAMESPACE if url == ONE else ALL_SHOOTS
    overrides.entries[key] = OverrideEntry(pause(Scope.SCALE_DOWN))
    overrides.breaks = error
    client.put(url, json=REASON)
    client.delete(url)
    for each in audit.entries():
        said = each.attempt
        assert (said.before["author"], said.before["scope"]) == ("alice", "scaleDown")
        assert said.before["covers"] == ("shoot" if url == ONE else "all")
        assert said.after is None


def test_so_has_what_a_rule_refused_before_anything_was_written(
    *, client, process, shoots, overrides, audit
):
    shoots.add(protected())
    overrides.entries[NAMESPACE] = OverrideEntry(pause(Scope.SCALE_DOWN))
    assert client.put(ONE, json=REASON).status_code == 409
    process.dry_run = True
    assert client.delete(ONE).status_code == 503
    process.dry_run, shoots.listed = False, False
    assert client.put(ONE, json=REASON).status_code == 503
    assert [each.attempt.before["author"] for each in audit.entries()] == ["alice"] * 3


def test_the_pause_of_all_is_not_what_was_there_of_one_shoot(client, shoots, overrides, audit):
    shoots.add(protected())
    overrides.entries[ALL_SHOOTS] = OverrideEntry(pause(Scope.SCALE_DOWN))
    assert client.put(ONE, json=REASON).status_code == 409
    assert audit.entries()[0].attempt.before is None


def test_what_was_done_has_what_was_there_then(client, overrides, audit):
    """And not what was known before."""
    overrides.entries[NAMESPACE] = OverrideEntry(pause())
    write = overrides.end_pause

    async def end_pause(key, *, by=None):
        overrides.entries.clear()
        return await write(key, by=by)

    overrides.end_pause = end_pause
    assert client.delete(ONE).status_code == 204
    assert audit.entries()[0].attempt.before is None


def test_the_time_of_a_pause_is_that_of_this_process(client, process, overrides):
    process.time = NOW + 7
    client.put(ONE, json={**REASON, "duration": "1m"})
    assert overrides.entry(NAMESPACE).pause.until == NOW + 67
