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


async def test_a_pause_is_reported_once_when_it_begins_and_when_it_ends(lab):
    replica = await lab.started(leads=True)
    pause = await replica.pause(seconds=60, reason="load test")
    await lab.clock.sleep(5)
    (began,) = replica.told("PauseStarted")
    assert (began.namespace, began.resource.kind, began.resource_uid) == (
        SHOOT,
        "Pause",
        pause.id.uid,
    )
    assert began.message.startswith(f"{SHOOT} is paused, scope all, by alice until ")
    assert began.event
    await lab.clock.sleep(60)
    (ended,) = replica.told("PauseEnded")
    assert f"the pause of {SHOOT} by alice (api) ended at " in ended.message


async def test_who_ended_a_pause_early_is_named_where_this_process_did_it(lab):
    replica = await lab.started(leads=True)
    await replica.pause()
    await lab.clock.sleep(1)
    await replica.resume()
    await lab.clock.sleep(1)
    (ended,) = replica.told("PauseEnded")
    assert "was ended by bob before its end" in ended.message
    assert ended.author == "bob"


async def test_of_one_that_kubectl_deleted_nobody_knows_by_whom(lab):
    replica = await lab.started(leads=True)
    replica.world.people.create("Pause", SHOOT, "mine", reason="r")
    await lab.clock.sleep(1)
    replica.world.people.delete("Pause", SHOOT, "mine")
    await lab.clock.sleep(1)
    (ended,) = replica.told("PauseEnded")
    assert "(mine) was deleted before its end" in ended.message
    assert ended.author is None


async def test_a_changed_pause_is_reported_again(lab):
    replica = await lab.started(leads=True)
    await replica.pause()
    await lab.clock.sleep(1)
    await replica.pause(reason="another")
    await lab.clock.sleep(1)
    assert len(replica.told("PauseStarted")) == 2
    assert replica.told("PauseEnded") == []


async def test_a_pause_whose_end_was_moved_into_the_past_has_ended_and_was_not_deleted(lab):
    replica = await lab.started(leads=True)
    kubectl = replica.world.people
    kubectl.create("Pause", SHOOT, "mine", reason="r")
    await lab.clock.sleep(5)
    end = rfc3339(replica.now - 2)
    kubectl.edit("Pause", SHOOT, "mine", until=end)
    await lab.clock.sleep(1)
    (ended,) = replica.told("PauseEnded")
    assert f"(mine) ended at {end}" in ended.message


async def test_a_pause_of_all_shoots_is_reported_of_all(lab):
    replica = await lab.started(leads=True)
    await replica.pause(None)
    await lab.clock.sleep(1)
    (began,) = replica.told("PauseStarted")
    assert (began.namespace, began.about_namespace) == ("_all", HOME)
    assert "all shoots are paused" in began.message


async def test_one_that_lasts_longer_than_a_day_is_a_warning(lab):
    replica = await lab.started(leads=True)
    replica.world.people.create("Pause", SHOOT, "long", reason="r", until="2099-01-01T00:00:00Z")
    await lab.clock.sleep(1)
    (began,) = replica.told("PauseStarted")
    assert (began.severity, replica.acting().id.name) == (Severity.WARNING, "long")


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9])
async def test_one_of_a_day_by_the_api_is_none(lab, fraction):
    replica = await lab.started(leads=True)
    await lab.clock.sleep(1 + fraction)
    await replica.pause(seconds=DAY)
    await lab.clock.sleep(1)
    assert [each.severity for each in replica.told("PauseStarted")] == [Severity.INFO]


async def test_an_end_after_the_year_9999_is_written_into_the_status_once(lab):
    replica = await lab.started(leads=True)
    end = "9999-12-31T23:59:59-01:00"
    replica.world.people.create("Pause", SHOOT, "long", reason="r", until=end)
    await lab.clock.sleep(2)
    replica.world.requests.reset()
    await lab.clock.sleep(300)
    assert replica.world.requests.live(Host.SEED, "patch") == 0
    assert status(replica, "long") == {"until": "9999-12-31T23:59:59Z"}


async def test_a_pause_where_there_is_no_shoot_is_reported_once_as_without_effect(lab):
    replica = await lab.started(leads=True)
    replica.world.people.create("Pause", "kube-system", "lost", reason="r")
    await lab.clock.sleep(60)
    assert len(replica.told("PauseIgnored")) == 1
    ends = {"namespace": "kube-system", "kind": "pause"}
    assert replica.sample("dwd_override_expiry_timestamp_seconds", **ends) is None
    assert active(replica, "pause") == 0, "no metric says that it is in force"
    replica.world.people.delete("Pause", "kube-system", "lost")
    await lab.clock.sleep(1)
    assert {each.reason for each in replica.notices} == {"PauseIgnored"}


async def test_an_ignored_pause_begins_when_the_shoot_of_its_namespace_comes(lab):
    replica = await lab.started(leads=True)
    replica.world.people.create("Pause", "shoot--new", "early", reason="r")
    await lab.clock.sleep(30)
    replica.seed.known |= {"shoot--new": None}
    await lab.clock.sleep(30)
    assert [each.reason for each in replica.notices] == ["PauseIgnored", "PauseStarted"]
    replica.world.people.delete("Pause", "shoot--new", "early")
    await lab.clock.sleep(1)
    assert [each.reason for each in replica.notices][2:] == ["PauseEnded"]


async def test_a_new_leader_does_not_report_the_end_of_a_pause_that_its_predecessor_ignored(lab):
    replica = await lab.started(leads=True)
    replica.world.people.create("Pause", "kube-system", "lost", reason="r")
    await lab.clock.sleep(1)
    following = lab.replica(replica.world)
    replica.leadership.become(leading=False)
    following.leadership.become(leading=True)
    await lab.clock.sleep(1)
    replica.world.people.delete("Pause", "kube-system", "lost")
    await lab.clock.sleep(1)
    assert following.notices == []


async def test_while_the_clusters_are_not_known_no_pause_is_called_without_effect(lab):
    replica = await lab.started(leads=True)
    replica.seed.known = None
    replica.world.people.create("Pause", "kube-system", "lost", reason="r")
    await lab.clock.sleep(5)
    assert replica.told("PauseIgnored") == []


async def test_a_pause_whose_end_has_passed_when_it_is_made_is_over(lab):
    replica = await lab.started(leads=True)
    replica.world.people.create("Pause", SHOOT, "old", reason="r", until="2020-01-01T00:00:00Z")
    await lab.clock.sleep(5)
    assert (replica.acting(), replica.notices) == (None, [])
    assert not replica.there("Pause", "old")


async def test_the_end_that_applies_is_shown_in_the_status_and_follows_the_spec(lab):
    replica = await lab.started(leads=True)
    replica.world.people.create("Pause", SHOOT, "api", reason="r")
    await lab.clock.sleep(1)
    end = parse_rfc3339(status(replica)["until"])
    assert end == replica.acting().created_at + DAY
    replica.world.people.edit("Pause", SHOOT, "api", until="2099-01-01T00:00:00Z")
    await lab.clock.sleep(1)
    assert status(replica)["until"] == "2099-01-01T00:00:00Z"


async def test_a_standby_reports_writes_and_deletes_nothing(lab):
    replica = await lab.started()
    await replica.pause(seconds=60)
    await lab.clock.sleep(2 * 3_600)
    assert (replica.notices, status(replica)) == ([], {})
    assert replica.there("Pause", "api")


async def test_a_new_leader_reports_only_what_no_leader_has_seen(lab):
    replica = await lab.started(leads=True)
    await replica.pause()
    await lab.clock.sleep(1)
    following = lab.replica(replica.world)
    replica.leadership.become(leading=False)
    await lab.clock.sleep(1)
    await following.pause(None)
    await lab.clock.sleep(2)
    following.leadership.become(leading=True)
    await lab.clock.sleep(0.5)
    assert [each.namespace for each in following.told("PauseStarted")] == ["_all"]


async def test_the_end_of_a_hold_is_reported_with_who_ended_it(lab):
    replica = await lab.started(leads=True)
    made = await replica.ask()
    await lab.clock.sleep(1)
    await replica.service.delete_request(made, by="bob")
    await lab.clock.sleep(1)
    (ended,) = replica.told("HoldEnded")
    assert (ended.operation, ended.author) == (made.id.uid, "bob")


@pytest.mark.parametrize(("after", "there"), [(3_500, True), (3_700, False)])
async def test_a_pause_is_deleted_an_hour_after_its_end(lab, after, there):
    replica = await lab.started(leads=True)
    await replica.pause(seconds=60)
    await lab.clock.sleep(60 + after)
    assert replica.there("Pause", "api") is there


async def test_requests_are_deleted_a_day_after_their_hold_but_for_the_last_five_of_a_shoot(lab):
    replica = await lab.started(leads=True)
    store = replica.world.store
    yesterday = rfc3339(replica.now - DAY)
    for number in range(8):
        name = f"r{number}"
        replica.world.people.create(
            "ScaleRequest", SHOOT, name, direction="Up", reason="r", hold="10m"
        )
        done = {"status": {"phase": "Succeeded", "endedAt": yesterday}}
        replica.world.write(ObjectKey("ScaleRequest", SHOOT, name), done, "dwd", status=True)
        await lab.clock.sleep(1)
    await lab.clock.sleep(580)
    assert len(store.list("ScaleRequest", SHOOT)) == 8
    await lab.clock.sleep(20)
    left = {each["metadata"]["name"] for each in store.list("ScaleRequest", SHOOT)}
    assert left == {"r3", "r4", "r5", "r6", "r7"}


def test_an_open_request_is_never_deleted():
    spec = ScaleSpec(Direction.UP, "r", "alice", 0.0)
    left = [ScaleRequest(ObjectId(SHOOT, f"r{n}"), spec, float(n)) for n in range(9)]
    assert finished(left, 9 * DAY) == []


async def test_upkeep_that_fails_is_tried_again_and_logged_once(lab, capsys):
    replica = await lab.started(leads=True)
    with replica.world.faults.overrides_forbidden("patch"):
        replica.world.people.create("Pause", SHOOT, "api", reason="r")
        await lab.clock.sleep(200)
        assert status(replica) == {}
    await lab.clock.sleep(40)
    assert "until" in status(replica)
    assert capsys.readouterr().out.count("the overrides could not be cleaned up") == 1


async def test_kinds_that_are_removed_are_reported_once_in_the_own_namespace(lab):
    replica = await lab.started(leads=True)
    await lab.clock.sleep(1)
    replica.world.faults.crds_removed("ScaleRequest")
    await lab.clock.sleep(200)
    (told,) = replica.told("OverridesOff")
    assert (told.about_namespace, told.resource.kind, told.event) == (
        HOME,
        "Namespace",
        told.message,
    )
    assert told.message.startswith("there are no scalerequests any more: ")


# Metrics.


def active(replica, kind):
    return replica.sample("dwd_overrides_active", kind=kind)


async def test_the_leader_counts_what_is_in_force_by_kind(lab):
    replica = await lab.started(leads=True)
    await replica.pause()
    await replica.pause(None)
    replica.world.people.create("Pause", OTHER, "mine", reason="r")
    replica.world.people.create("Pause", OTHER, "too", reason="r")
    await replica.ask()
    await lab.clock.sleep(1)
    kinds = ("pause", "global-pause", "hold", "ignore-scaling", "invalid")
    assert [active(replica, kind) for kind in kinds] == [3, 1, 1, 3, 0]
    ends = {"namespace": OTHER, "kind": "pause"}
    assert replica.sample("dwd_override_expiry_timestamp_seconds", **ends) == max(
        each.until for each in replica.cache.pauses(OTHER)
    )


async def test_a_standby_counts_nothing(lab):
    replica = await lab.started()
    await replica.pause()
    assert active(replica, "pause") is None
