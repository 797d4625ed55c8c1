"""The leader reports Pauses, shows when they end, and deletes what is long over."""

import pytest

from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.overrides import ObjectId, ScaleRequest
from app.core.model.scaling_runs import ScaleSpec
from app.core.model.workloads import Direction
from app.core.overrides.reconciler import finished
from app.core.reporting.notices import Severity
from app.simulation.store import ObjectKey
from app.simulation.traffic import Host
from tests.core.overrides.replicas import HOME, OTHER, SHOOT

DAY = 86_400.0


def status(replica, name="api", namespace=SHOOT):
    return replica.world.store.get(ObjectKey("Pause", namespace, name)).get("status") or {}


async def test_a_pause_is_reported_once_when_it_begins_and_when_it_ends(leader):
    pause = await leader.pause(seconds=60, reason="load test")
    await leader.run(5)
    (began,) = leader.told("PauseStarted")
    assert (began.namespace, began.resource.kind, began.resource_uid) == (
        SHOOT,
        "Pause",
        pause.id.uid,
    )
    assert began.message.startswith(f"{SHOOT} is paused, scope all, by alice until ")
    assert began.event
    await leader.run(60)
    (ended,) = leader.told("PauseEnded")
    assert f"the pause of {SHOOT} by alice (api) ended at " in ended.message


async def test_who_ended_a_pause_early_is_named_where_this_process_did_it(leader):
    await leader.pause()
    await leader.run(1)
    await leader.resume()
    await leader.run(1)
    (ended,) = leader.told("PauseEnded")
    assert "was ended by bob before its end" in ended.message
    assert ended.author == "bob"


async def test_of_one_that_kubectl_deleted_nobody_knows_by_whom(leader):
    leader.world.people.create("Pause", SHOOT, "mine", reason="r")
    await leader.run(1)
    leader.world.people.delete("Pause", SHOOT, "mine")
    await leader.run(1)
    (ended,) = leader.told("PauseEnded")
    assert "(mine) was deleted before its end" in ended.message
    assert ended.author is None


async def test_a_changed_pause_is_reported_again(leader):
    await leader.pause()
    await leader.run(1)
    await leader.pause(reason="another")
    await leader.run(1)
    assert len(leader.told("PauseStarted")) == 2
    assert leader.told("PauseEnded") == []


async def test_a_pause_whose_end_was_moved_into_the_past_has_ended_and_was_not_deleted(leader):
    kubectl = leader.world.people
    kubectl.create("Pause", SHOOT, "mine", reason="r")
    await leader.run(5)
    end = rfc3339(leader.now - 2)
    kubectl.edit("Pause", SHOOT, "mine", until=end)
    await leader.run(1)
    (ended,) = leader.told("PauseEnded")
    assert f"(mine) ended at {end}" in ended.message


async def test_a_pause_of_all_shoots_is_reported_of_all(leader):
    await leader.pause(None)
    await leader.run(1)
    (began,) = leader.told("PauseStarted")
    assert (began.namespace, began.about_namespace) == ("_all", HOME)
    assert "all shoots are paused" in began.message


async def test_one_that_lasts_longer_than_a_day_is_a_warning(leader):
    leader.world.people.create("Pause", SHOOT, "long", reason="r", until="2099-01-01T00:00:00Z")
    await leader.run(1)
    (began,) = leader.told("PauseStarted")
    assert (began.severity, leader.acting().id.name) == (Severity.WARNING, "long")


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9])
async def test_one_of_a_day_by_the_api_is_none(leader, fraction):
    await leader.run(1 + fraction)
    await leader.pause(seconds=DAY)
    await leader.run(1)
    assert [each.severity for each in leader.told("PauseStarted")] == [Severity.INFO]


async def test_an_end_after_the_year_9999_is_written_into_the_status_once(leader):
    end = "9999-12-31T23:59:59-01:00"
    leader.world.people.create("Pause", SHOOT, "long", reason="r", until=end)
    await leader.run(2)
    leader.world.requests.reset()
    await leader.run(300)
    assert leader.world.requests.live(Host.SEED, "patch") == 0
    assert status(leader, "long") == {"until": "9999-12-31T23:59:59Z"}


async def test_a_pause_where_there_is_no_shoot_is_reported_once_as_without_effect(leader):
    leader.world.people.create("Pause", "kube-system", "lost", reason="r")
    await leader.run(60)
    assert len(leader.told("PauseIgnored")) == 1
    ends = {"namespace": "kube-system", "kind": "pause"}
    assert leader.sample("dwd_override_expiry_timestamp_seconds", **ends) is None
    assert active(leader, "pause") == 0, "no metric says that it is in force"
    leader.world.people.delete("Pause", "kube-system", "lost")
    await leader.run(1)
    assert {each.reason for each in leader.notices} == {"PauseIgnored"}


async def test_an_ignored_pause_begins_when_the_shoot_of_its_namespace_comes(leader):
    leader.world.people.create("Pause", "shoot--new", "early", reason="r")
    await leader.run(30)
    leader.seed.known |= {"shoot--new": None}
    await leader.run(30)
    assert [each.reason for each in leader.notices] == ["PauseIgnored", "PauseStarted"]
    leader.world.people.delete("Pause", "shoot--new", "early")
    await leader.run(1)
    assert [each.reason for each in leader.notices][2:] == ["PauseEnded"]


async def test_a_new_leader_does_not_report_the_end_of_a_pause_that_its_predecessor_ignored(
    lab, leader
):
    leader.world.people.create("Pause", "kube-system", "lost", reason="r")
    await leader.run(1)
    following = lab.replica(leader.world)
    leader.leadership.become(leading=False)
    following.leadership.become(leading=True)
    await leader.run(1)
    leader.world.people.delete("Pause", "kube-system", "lost")
    await leader.run(1)
    assert following.notices == []


async def test_while_the_clusters_are_not_known_no_pause_is_called_without_effect(leader):
    leader.seed.known = None
    leader.world.people.create("Pause", "kube-system", "lost", reason="r")
    await leader.run(5)
    assert leader.told("PauseIgnored") == []


async def test_a_pause_whose_end_has_passed_when_it_is_made_is_over(leader):
    leader.world.people.create("Pause", SHOOT, "old", reason="r", until="2020-01-01T00:00:00Z")
    await leader.run(5)
    assert (leader.acting(), leader.notices) == (None, [])
    assert not leader.there("Pause", "old")


async def test_the_end_that_applies_is_shown_in_the_status_and_follows_the_spec(leader):
    leader.world.people.create("Pause", SHOOT, "api", reason="r")
    await leader.run(1)
    assert parse_rfc3339(status(leader)["until"]) == leader.acting().created_at + DAY
    leader.world.people.edit("Pause", SHOOT, "api", until="2099-01-01T00:00:00Z")
    await leader.run(1)
    assert status(leader)["until"] == "2099-01-01T00:00:00Z"


async def test_a_standby_reports_writes_and_deletes_nothing(replica):
    await replica.pause(seconds=60)
    await replica.run(2 * 3_600)
    assert (replica.notices, status(replica)) == ([], {})
    assert replica.there("Pause", "api")


async def test_a_new_leader_reports_only_what_no_leader_has_seen(lab, leader):
    await leader.pause()
    await leader.run(1)
    following = lab.replica(leader.world)
    leader.leadership.become(leading=False)
    await leader.run(1)
    await following.pause(None)
    await leader.run(2)
    following.leadership.become(leading=True)
    await leader.run(0.5)
    assert [each.namespace for each in following.told("PauseStarted")] == ["_all"]


async def test_the_end_of_a_hold_is_reported_with_who_ended_it(leader):
    made = await leader.ask()
    await leader.run(1)
    await leader.service.delete_request(made, by="bob")
    await leader.run(1)
    (ended,) = leader.told("HoldEnded")
    assert (ended.operation, ended.author) == (made.id.uid, "bob")


@pytest.mark.parametrize(("after", "there"), [(3_500, True), (3_700, False)])
async def test_a_pause_is_deleted_an_hour_after_its_end(leader, after, there):
    await leader.pause(seconds=60)
    await leader.run(60 + after)
    assert leader.there("Pause", "api") is there


async def test_requests_are_deleted_a_day_after_their_hold_but_for_the_last_five_of_a_shoot(leader):
    store = leader.world.store
    yesterday = rfc3339(leader.now - DAY)
    for number in range(8):
        name = f"r{number}"
        leader.world.people.create(
            "ScaleRequest", SHOOT, name, direction="Up", reason="r", hold="10m"
        )
        done = {"status": {"phase": "Succeeded", "endedAt": yesterday}}
        leader.world.write(ObjectKey("ScaleRequest", SHOOT, name), done, "dwd", status=True)
        await leader.run(1)
    await leader.run(580)
    assert len(store.list("ScaleRequest", SHOOT)) == 8
    await leader.run(20)
    left = {each["metadata"]["name"] for each in store.list("ScaleRequest", SHOOT)}
    assert left == {"r3", "r4", "r5", "r6", "r7"}


def test_an_open_request_is_never_deleted():
    spec = ScaleSpec(Direction.UP, "r", "alice", 0.0)
    left = [ScaleRequest(ObjectId(SHOOT, f"r{n}"), spec, float(n)) for n in range(9)]
    assert finished(left, 9 * DAY) == []


async def test_upkeep_that_fails_is_tried_again_and_logged_once(leader, capsys):
    with leader.world.faults.overrides_forbidden("patch"):
        leader.world.people.create("Pause", SHOOT, "api", reason="r")
        await leader.run(200)
        assert status(leader) == {}
    await leader.run(40)
    assert "until" in status(leader)
    assert capsys.readouterr().out.count("the overrides could not be cleaned up") == 1


async def test_kinds_that_are_removed_are_reported_once_in_the_own_namespace(leader):
    await leader.run(1)
    leader.world.faults.crds_removed("ScaleRequest")
    await leader.run(200)
    (told,) = leader.told("OverridesOff")
    assert (told.about_namespace, told.resource.kind, told.event) == (
        HOME,
        "Namespace",
        told.message,
    )
    assert told.message.startswith("there are no scalerequests any more: ")


# Metrics.


def active(replica, kind):
    return replica.sample("dwd_overrides_active", kind=kind)


async def test_the_leader_counts_what_is_in_force_by_kind(leader):
    await leader.pause()
    await leader.pause(None)
    leader.world.people.create("Pause", OTHER, "mine", reason="r")
    leader.world.people.create("Pause", OTHER, "too", reason="r")
    await leader.ask()
    await leader.run(1)
    kinds = ("pause", "global-pause", "hold", "ignore-scaling", "invalid")
    assert [active(leader, kind) for kind in kinds] == [3, 1, 1, 3, 0]
    ends = {"namespace": OTHER, "kind": "pause"}
    assert leader.sample("dwd_override_expiry_timestamp_seconds", **ends) == max(
        each.until for each in leader.cache.pauses(OTHER)
    )


async def test_what_is_in_force_for_a_shoot_is_not_counted_when_the_shoot_is_gone(leader):
    await leader.pause()
    await leader.ask()
    await leader.run(1)
    leader.seed.known = {OTHER: None}
    for kind in ("pause", "hold"):
        assert active(leader, kind) == 0
        end = {"namespace": SHOOT, "kind": kind}
        assert leader.sample("dwd_override_expiry_timestamp_seconds", **end) is None


async def test_a_standby_counts_nothing(replica):
    await replica.pause()
    assert active(replica, "pause") is None
