"""Pauses of one shoot and of all: who takes them, what is refused, what is written and shown."""

from dataclasses import replace
from typing import Any

import pytest

from app.api.auth.authorization import Call
from app.core.errors import EntryChanged, FeatureUnavailable, Unreachable
from app.core.model import workloads as ann
from app.core.model.overrides import API_PAUSE, Scope
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from tests.api.facts import (
    HOME,
    KCM,
    MCM,
    NAMESPACE,
    NOW,
    healthy,
    not_probed,
    pause,
    protected,
    request,
    workload,
)
from tests.api.fakes import type_of

ONE = f"/api/v1/shoots/{NAMESPACE}/pause"
ALL = "/api/v1/pause"
REASON = {"reason": "the load balancer is replaced"}
DOWN_ONLY = {**REASON, "scope": "scaleDown"}


@pytest.fixture(autouse=True)
def one_shoot(shoots):
    shoots.add(healthy())


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


def test_a_pause_of_all_covers_every_shoot_and_is_in_the_status(client, overrides):
    made = client.put(ALL, json=REASON).json()
    assert made["covers"] == "all"
    assert client.get("/api/v1/status").json()["pause"] == made
    assert client.get(f"/api/v1/shoots/{NAMESPACE}").json()["pause"] == made
    assert list(overrides.objects) == [(HOME, API_PAUSE)]


def test_a_pause_over_another_replaces_it_and_leaves_the_hold(client, overrides):
    overrides.add(pause(), request())
    client.put(ONE, json=DOWN_ONLY)
    assert overrides.api().scope is Scope.SCALE_DOWN
    assert list(overrides.orders) == ["op-1"]


@pytest.mark.parametrize("path", [ONE, ALL])
def test_ending_a_pause_is_204_whether_there_is_one_or_not(client, overrides, path):
    client.put(path, json=REASON)
    for _ in range(2):
        answer = client.delete(path)
        assert (answer.status_code, answer.content) == (204, b"")
    assert overrides.objects == {}


def test_whoever_ends_a_pause_or_hold_is_handed_on(client, overrides):
    overrides.add(request(), pause(name="night"))
    for path in (
        f"/api/v1/shoots/{NAMESPACE}/pause",
        "/api/v1/pause",
        f"/api/v1/shoots/{NAMESPACE}/hold",
        f"/api/v1/shoots/{NAMESPACE}/pauses/night",
    ):
        assert client.delete(path).status_code == 204
    assert overrides.enders == ["tester"] * 4


@pytest.mark.parametrize(
    ("method", "part"),
    [("PUT", "pause"), ("DELETE", "pause"), ("GET", "pauses"), ("DELETE", "pauses/api")],
)
@pytest.mark.parametrize("namespace", ["shoot--no--such", HOME, "_all", "%2e%2e"])
def test_a_namespace_that_is_no_shoots_is_404(client, overrides, method, part, namespace):
    overrides.add(pause(of=HOME))
    body = REASON if method == "PUT" else None
    answer = client.request(method, f"/api/v1/shoots/{namespace}/{part}", json=body)
    assert (answer.status_code, type_of(answer)) == (404, "not-found")
    if namespace == HOME:
        assert "use /api/v1/pause and /api/v1/pauses" in answer.json()["detail"]
    assert list(overrides.objects) == [(HOME, API_PAUSE)]


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
    assert overrides.objects == {}


def test_a_pause_of_all_names_the_first_protected_shoots_and_counts_them(client, shoots, overrides):
    shoots.add(*(protected(f"shoot--p--{n}") for n in range(7)))
    found = client.put(ALL, json=REASON).json()
    assert found["status"] == 409
    assert "7 shoots are protected" in found["detail"]
    assert "shoot--p--4 and 2 more" in found["detail"]
    assert found["protectedShoots"] == 7
    assert list(found["staysAtZero"]) == [f"shoot--p--{n}" for n in range(5)]
    assert overrides.objects == {}


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


@pytest.mark.parametrize("url", [ONE, ALL])
def test_a_weeder_alone_takes_pauses_and_scope_all_only_with_force(
    *, client, process, weeders, overrides, url
):
    process.loops, weeders.served = (Loop.WEEDER,), {NAMESPACE}
    answer = client.put(url, json=REASON)
    assert (answer.status_code, type_of(answer)) == (409, "conflict")
    assert "runs the weeder alone" in answer.json()["detail"]
    assert overrides.objects == {}
    for body in (DOWN_ONLY, {**REASON, "force": True}):
        assert client.put(url, json=body).status_code == 200
    assert client.delete(url).status_code == 204


@pytest.mark.parametrize("namespace", ["_all", "A", "x" * 64])
def test_a_weeder_alone_refuses_what_cannot_be_a_namespace(client, process, overrides, namespace):
    process.loops = (Loop.WEEDER,)
    answer = client.put(f"/api/v1/shoots/{namespace}/pause", json=DOWN_ONLY)
    assert answer.status_code == 404
    assert overrides.objects == {}


def test_a_weeder_alone_pauses_only_what_it_knows_and_ends_what_is_paused(
    client, process, overrides, weeders
):
    process.loops, weeders.served = (Loop.WEEDER,), {"shoot--other"}
    for answer in (client.put(ONE, json=DOWN_ONLY), client.delete(ONE)):
        assert (answer.status_code, type_of(answer)) == (404, "not-found")
    assert overrides.objects == {}
    assert client.put("/api/v1/shoots/shoot--other/pause", json=DOWN_ONLY).status_code == 200
    overrides.add(pause(Scope.SCALE_DOWN))
    assert client.delete(ONE).status_code == 204
    assert list(overrides.objects) == [("shoot--other", API_PAUSE)]
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
    assert overrides.objects == {}
    overrides.add(pause(Scope.SCALE_DOWN))
    assert client.delete(ONE).status_code == 204, "what is paused is known"
    assert client.put(ALL, json=DOWN_ONLY).status_code == 200, "and so is everything"


@pytest.mark.parametrize("url", [ONE, ALL])
def test_a_weeder_that_knows_where_the_prober_is_says_so(client, process, overrides, url):
    process.loops, process.peer_url = (Loop.WEEDER,), "http://dwd-prober:8080"
    for answer in (client.put(url, json=REASON), client.delete(url)):
        assert (answer.status_code, type_of(answer)) == (503, "loop-not-here")
        assert answer.json()["peer"] == "http://dwd-prober:8080"
        assert "ask http://dwd-prober:8080" in answer.json()["detail"]
    assert overrides.objects == {}


# What fails has changed nothing, and the audit has what stays there.


@pytest.mark.parametrize("url", [ONE, ALL])
@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (EntryChanged("somebody paused it meanwhile", {"author": "bob"}), 409, "conflict"),
        (FeatureUnavailable("pauses", "may not be read"), 503, "feature-off"),
        (Unreachable("timed out"), 503, "seed-away"),
    ],
)
def test_what_fails_is_told_and_the_pause_stays(
    *, client, overrides, audit, url, error, status, problem
):
    overrides.add(there := pause(Scope.SCALE_DOWN, of=NAMESPACE if url == ONE else HOME))
    overrides.breaks = error
    for answer in (client.put(url, json=REASON), client.delete(url)):
        assert (answer.status_code, type_of(answer)) == (status, problem)
    assert list(overrides.objects.values()) == [there]
    for said in (each.attempt for each in audit.entries()):
        assert (said.before["author"], said.before["scope"]) == ("alice", "scaleDown")
        assert said.before["covers"] == ("shoot" if url == ONE else "all")
        assert said.after is None


# The audit.


def test_the_audit_has_who_why_before_and_after(client, overrides, audit):
    overrides.add(pause(Scope.SCALE_DOWN))
    client.put(ONE, json=REASON)
    client.delete(ONE)
    ended, made = (each.attempt for each in audit.entries())
    assert (made.action, made.namespace, made.reason) == ("pause", NAMESPACE, REASON["reason"])
    assert made.before["scope"] == "scaleDown"
    assert made.before["author"] == "alice"
    assert made.after["scope"] == "all"
    assert made.after["until"] == "2027-01-15T09:00:00Z"
    assert (ended.action, ended.before, ended.after) == ("resume", made.after, None)


def test_so_has_what_a_rule_refused_before_anything_was_written(
    *, client, process, shoots, overrides, audit
):
    shoots.add(protected())
    overrides.add(pause(Scope.SCALE_DOWN))
    assert client.put(ONE, json=REASON).status_code == 409
    process.dry_run = True
    assert client.delete(ONE).status_code == 503
    process.dry_run, shoots.listed = False, False
    assert client.put(ONE, json=REASON).status_code == 503
    assert [each.attempt.before["author"] for each in audit.entries()] == ["alice"] * 3


def test_the_pause_of_all_is_not_what_was_there_of_one_shoot(client, shoots, overrides, audit):
    shoots.add(protected())
    overrides.add(pause(Scope.SCALE_DOWN, of=HOME))
    assert client.put(ONE, json=REASON).status_code == 409
    assert audit.entries()[0].attempt.before is None


def test_what_was_done_has_what_was_there_then(client, overrides, audit):
    """And not what was known before."""
    overrides.add(pause())
    write = overrides.end_pause

    async def end_pause(namespace, name, *, by):
        overrides.objects.clear()
        return await write(namespace, name, by=by)

    overrides.end_pause = end_pause
    assert client.delete(ONE).status_code == 204
    assert audit.entries()[0].attempt.before is None


# Those of kubectl, beside the API's.


LISTED = f"/api/v1/shoots/{NAMESPACE}/pauses"
LISTED_OF_ALL = "/api/v1/pauses"
OF_KUBECTL = pause(name="night-shift", author="bob", reason="by hand")


def names(answer):
    assert answer.status_code == 200
    return [each["name"] for each in answer.json()["items"]]


def test_all_pauses_in_force_are_listed_the_one_that_acts_first(client, overrides):
    overrides.add(
        pause(Scope.SCALE_DOWN, 9_000),
        pause(name="longer", seconds=7_200),
        pause(name="long"),
        pause(name="over", seconds=-1),
        pause(Scope.SCALE_DOWN, of=HOME, name="of-all"),
        pause(of="shoot--another--one"),
    )
    answer = client.get(LISTED)
    assert names(answer) == ["longer", "long", "api", "of-all"]
    assert [each["covers"] for each in answer.json()["items"]] == ["shoot"] * 3 + ["all"]
    assert [each["verified"] for each in answer.json()["items"]] == [False, False, True, False]
    assert answer.json()["metadata"] == {"total": 4, "continue": None}
    assert names(client.get(LISTED_OF_ALL)) == ["of-all"]
    shown = client.get(f"/api/v1/shoots/{NAMESPACE}").json()
    assert (shown["pause"]["name"], shown["pauses"]) == ("longer", 4)


@pytest.mark.parametrize("of", [NAMESPACE, HOME])
def test_a_pause_is_ended_by_its_name(client, overrides, of, audit):
    overrides.add(pause(of=of), pause(of=of, name="night-shift", author="bob"))
    path = LISTED if of == NAMESPACE else LISTED_OF_ALL
    assert client.delete(f"{path}/night-shift").status_code == 204
    assert list(overrides.objects) == [(of, API_PAUSE)]
    said = audit.entries()[0].attempt
    assert (said.action, said.target) == ("resume", "Pause/night-shift")
    assert said.before["author"] == "bob"
    assert said.namespace == (NAMESPACE if of == NAMESPACE else None)


@pytest.mark.parametrize("name", ["nothing", "Not-A-Name", "x" * 300, "a b"])
@pytest.mark.parametrize("url", [LISTED, LISTED_OF_ALL])
def test_a_pause_that_is_not_there_is_404(client, overrides, url, name):
    overrides.add(pause(), pause(of=HOME))
    for answer in (
        client.delete(f"{url}/{name}"),
        client.delete(f"{url}/{name}", params={"dryRun": "true"}),
    ):
        assert (answer.status_code, type_of(answer)) == (404, "not-found")
        assert "there is no pause" in answer.json()["detail"]
    assert len(overrides.objects) == 2


def test_a_process_that_has_not_read_the_pauses_lists_none(client, overrides):
    overrides.synced = False
    for path in (LISTED, LISTED_OF_ALL):
        answer = client.get(path)
        assert (answer.status_code, type_of(answer)) == (503, "not-listed")


# The right to make a pause is not that to replace one.


@pytest.mark.parametrize(
    ("url", "of", "make", "replaces"),
    [
        (ONE, NAMESPACE, Call.PAUSE, Call.CHANGE_PAUSE),
        (ALL, HOME, Call.PAUSE_ALL, Call.CHANGE_PAUSE_ALL),
    ],
)
def test_to_make_a_pause_is_another_right_than_to_replace_it(
    *, client, overrides, authority, url, of, make, replaces
):
    client.put(url, json=REASON)
    client.put(url, json=REASON)
    overrides.add(pause(of=of, seconds=-1))
    client.put(url, json=REASON)
    assert authority.asked == [("tester", call, of) for call in (make, replaces, replaces)]


def test_those_of_kubectl_are_not_what_a_put_replaces(client, overrides, authority):
    overrides.add(OF_KUBECTL)
    client.put(ONE, json=REASON)
    assert authority.asked == [("tester", Call.PAUSE, NAMESPACE)]


def test_what_somebody_makes_meanwhile_is_replaced_only_with_the_right_to(
    client, process, shoots, overrides, authority
):
    shoots.listed = False
    authority.forbidden.add(Call.CHANGE_PAUSE)

    def made():
        shoots.listed = True
        overrides.add(pause())

    process.when_asked_to_wait = made
    assert client.put(ONE, json=REASON).status_code == 403
    assert overrides.api() == pause()
    assert [call for _, call, _ in authority.asked] == [Call.PAUSE, Call.CHANGE_PAUSE]
