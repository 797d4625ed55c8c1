"""What the prober's leader fills in, removes and tells."""

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core.clock import Clock
from app.core.errors import ServerFault
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS, Hold, Pause, Scope
from app.core.model.workloads import Direction, ResourceRef
from app.core.overrides.cache import OverrideCache
from app.core.overrides.reconciler import OverrideReconciler
from app.core.overrides.service import OverrideService
from app.core.overrides.writer import ENDED_BY, OverrideWriter
from app.core.reporting.event_writer import event
from app.core.reporting.notices import Notice, NoticeBus, NoticeKind, Severity
from app.core.tasks import Tasks
from tests.support.overrides import MemoryStore

CONFIG_MAP = ResourceRef("v1", "ConfigMap", "dependency-watchdog-overrides")
NS = "shoot--acme--prod"
OTHER = "shoot--acme--test"
HOME = "garden"


class Harness:
    """The upkeep of one replica, with its loops running."""

    def __init__(self, *, leads=True, synced=True, data=None, dry_run=False):
        self.clock = Clock.of_loop(1_800_000_000.0)
        self.start = self.clock.now()
        self.tasks = Tasks(self.clock)
        self.store = MemoryStore(self.clock)
        self.store.synced = synced
        if data is not None:
            self.store.kubectl({key: json.dumps(value) for key, value in data.items()})
        self.cache = OverrideCache(self.store, self.clock, Metrics())
        writer = OverrideWriter(self.store, self.cache, dry_run=dry_run)
        self.service = OverrideService(writer, self.cache, self.clock)
        self.notice_bus = NoticeBus()
        self.notices: list[Notice] = []
        self.notice_bus.subscribe(self.notices.append)
        self.leads, self.clusters = leads, {NS, OTHER}
        self.upkeep = OverrideReconciler(
            self.cache,
            writer,
            self.notice_bus,
            self.clock,
            home=HOME,
            leading=lambda: self.leads,
            clusters=lambda: self.clusters,
        )
        _ = self.tasks.shared(self.cache.run, "overrides")
        _ = self.tasks.shared(self.upkeep.run, "upkeep")

    async def after(self, seconds):
        await self.clock.sleep_until(self.start + seconds + 0.01)

    def entry(self, seconds=600, **fields):
        now = self.clock.now()
        span = {"createdAt": rfc3339(now), "until": rfc3339(now + seconds)}
        return {"reason": "surgery", "author": "alice", **span, **fields}

    def standby(self):
        """The service of another replica, which does not lead."""
        store = self.store.replica()
        cache = OverrideCache(store, self.clock, Metrics())
        return OverrideService(OverrideWriter(store, cache), cache, self.clock)

    def kubectl_pause(self, key=NS, seconds=600, **fields):
        self.store.kubectl_set(key, {"pause": self.entry(seconds, scope="all", **fields)})

    @property
    def told(self):
        return [(each.reason, each.message) for each in self.notices]


@pytest.fixture
async def make():
    made = []

    def new(**options):
        made.append(Harness(**options))
        return made[-1]

    yield new
    for each in made:
        await each.tasks.stop()


@pytest.fixture
async def harness(make):
    found = make()
    for _ in range(20):
        await asyncio.sleep(0)  # until both loops have looked once
    return found


# Filling in and removing.


async def test_what_kubectl_left_out_is_filled_in_at_once(harness):
    harness.store.kubectl_set(NS, {"pause": {"reason": "hands off"}})
    await harness.after(0.1)
    assert harness.store.entries(NS)["pause"] == {
        "scope": "all",
        "reason": "hands off",
        "author": "unknown",
        "createdAt": rfc3339(harness.start),
        "until": rfc3339(harness.start + 86_400),
    }
    assert len(harness.notices) == 1


async def test_a_standby_fills_in_removes_and_tells_nothing(make):
    harness = make(leads=False)
    harness.store.kubectl_set(NS, {"pause": {}})
    harness.kubectl_pause("shoot--gone", 1)
    await harness.after(4_000)
    assert harness.store.entries(NS) == {"pause": {}}
    assert "shoot--gone" in harness.store.data
    assert harness.notices == []
    assert harness.store.requests == []


async def test_what_a_standby_saw_is_filled_in_by_it_when_it_leads(make):
    harness = make(leads=False)
    harness.store.kubectl_set(NS, {"pause": {}})
    await harness.after(5)
    harness.leads = True
    harness.upkeep.wake()
    await harness.after(5.1)
    assert harness.store.entries(NS)["pause"]["createdAt"] == rfc3339(harness.start)
    assert [reason for reason, _ in harness.told] == ["OverrideSet"]


async def test_an_entry_is_removed_an_hour_after_its_end(harness):
    harness.kubectl_pause(seconds=600)
    harness.store.kubectl_set(OTHER, {"hold": harness.entry(1_200)})
    await harness.after(600 + 3_590)
    assert NS in harness.store.data
    await harness.after(601 + 3_620)
    assert set(harness.store.data) == {OTHER}
    await harness.after(1_201 + 3_620)
    assert harness.store.data == {}


async def test_keys_of_clusters_that_are_gone_go_after_a_minute(harness):
    harness.kubectl_pause("shoot--gone", 7_200)
    harness.store.kubectl_set("shoot--gone-too", "junk")
    harness.kubectl_pause(ALL_SHOOTS, 7_200)
    harness.kubectl_pause(NS, 7_200)
    await harness.after(55)
    assert "shoot--gone" in harness.store.data
    await harness.after(80)
    assert set(harness.store.data) == {ALL_SHOOTS, NS}


async def test_nothing_is_gone_while_the_clusters_are_not_known(harness):
    harness.clusters = None
    harness.kubectl_pause("shoot--gone", 7_200)
    await harness.after(600)
    assert "shoot--gone" in harness.store.data


async def test_a_cluster_that_comes_back_within_a_minute_keeps_what_was_said_of_it(harness):
    harness.kubectl_pause(NS, 7_200)
    harness.clusters = {OTHER}
    await harness.after(50)
    harness.clusters = {NS, OTHER}
    await harness.after(70)
    harness.clusters = {OTHER}
    await harness.after(120)
    assert NS in harness.store.data


async def test_a_minute_is_counted_anew_after_the_clusters_were_not_known(harness):
    harness.clusters = {OTHER}
    harness.kubectl_pause(NS, 7_200)
    await harness.after(50)
    harness.clusters = None
    await harness.after(70)
    harness.clusters = {OTHER}
    await harness.after(110)
    assert NS in harness.store.data
    await harness.after(150)
    assert NS not in harness.store.data


async def test_a_key_that_somebody_mends_while_it_is_tidied_is_theirs(harness):
    harness.store.kubectl_set(NS, {"pause": {}})
    theirs = {"pause": harness.entry(60, scope="scaleDown")}
    left = [1]

    async def before(what):
        if what == "replace" and left:
            left.clear()
            harness.store.kubectl_set(NS, theirs)

    harness.store.before = before
    await harness.after(20)
    assert not left
    assert harness.store.entries(NS) == theirs


async def test_a_seed_that_is_away_is_tried_again_and_told_once(harness):
    harness.store.failing = ServerFault("500")
    with capture_logs() as logs:
        harness.store.kubectl_set(NS, {"pause": {}})
        await harness.after(200)
    assert [each["event"] for each in logs] == ["the overrides could not be cleaned up"]
    assert 10 <= len(harness.store.requests) <= 14  # a write and a read, every 30 s
    harness.store.failing = None
    await harness.after(240)
    assert "until" in harness.store.entries(NS)["pause"]


async def test_a_dry_run_writes_nothing(make):
    harness = make(dry_run=True)
    harness.store.kubectl_set(NS, {"pause": {}})
    with capture_logs() as logs:
        await harness.after(100)
    assert harness.store.requests == []
    assert logs == []


async def test_who_lost_the_lead_meanwhile_writes_nothing(harness):
    async def before(_):
        harness.leads = False

    harness.store.before = before
    harness.store.kubectl_set(NS, {"pause": {}})
    await harness.after(100)
    assert harness.store.entries(NS) == {"pause": {}}
    assert harness.store.requests == []


async def test_what_is_right_already_is_never_written(harness):
    harness.kubectl_pause()
    harness.store.kubectl_set(OTHER, "{")
    await harness.after(500)
    assert harness.store.requests == []


# Telling.


async def test_a_pause_is_told_when_it_is_set_and_when_its_time_is_over(harness):
    harness.kubectl_pause(seconds=60)
    end = rfc3339(harness.cache.effective(NS).pause.until)
    await harness.after(100)
    text = f"{NS} is paused, scope all, by alice until {end}: surgery"
    over = f"the pause of {NS} by alice ended at {end}: surgery"
    assert harness.told == [("OverrideSet", text), ("OverrideEnded", over)]
    assert [each.severity for each in harness.notices] == [Severity.INFO] * 2


async def test_a_pause_that_somebody_removes_is_told_as_that(harness):
    harness.kubectl_pause()
    await harness.after(2)
    await harness.service.end_pause(NS)
    await harness.after(3)
    assert harness.told[1][0] == "OverrideEnded"
    assert "was removed before its end at" in harness.told[1][1]


async def test_a_pause_that_somebody_ends_through_this_process_is_told_with_his_name(harness):
    harness.kubectl_pause()
    await harness.after(2)
    until = rfc3339(harness.cache.effective(NS).pause.until)
    await harness.service.end_pause(NS, by="bob\n")
    await harness.after(3)
    text = f"the pause of {NS} by alice was ended by bob before its end at {until}: surgery"
    assert harness.told[1] == ("OverrideEnded", text)
    assert [each.numbers.get("author") for each in harness.notices] == ["alice", "bob"]


async def test_a_hold_that_somebody_ends_through_this_process_is_told_with_his_name(harness):
    now = harness.clock.now()
    await harness.service.set_hold(
        NS, Hold("r", "alice", now, now + 60, Direction.UP, "op", done=True)
    )
    await harness.after(2)
    await harness.service.end_hold(NS, by="bob")
    await harness.after(3)
    assert f"the hold of {NS} by alice was ended by bob before" in harness.told[1][1]


async def test_who_ends_a_pause_or_hold_through_a_standby_is_named_by_the_leader(harness):
    now = harness.clock.now()
    harness.kubectl_pause()
    await harness.service.set_hold(
        OTHER, Hold("r", "alice", now, now + 60, Direction.UP, "op", done=True)
    )
    await harness.after(2)
    await harness.standby().end_pause(NS, by="bob")
    await harness.standby().end_hold(OTHER, by="carol")
    await harness.after(3)
    ends = [each for each in harness.notices if each.reason == "OverrideEnded"]
    assert [each.numbers.get("author") for each in ends] == ["bob", "carol"]
    assert f"the pause of {NS} by alice was ended by bob before its end" in ends[0].message


async def test_ends_that_came_all_at_once_through_a_standby_have_their_authors(harness):
    harness.kubectl_pause()
    harness.kubectl_pause(OTHER)
    await harness.after(2)
    harness.store.held = True
    await harness.standby().end_pause(NS, by="bob")
    await harness.standby().set_pause(
        NS, Pause(Scope.ALL, "r", "eve", harness.start, harness.start + 9)
    )
    await harness.standby().end_pause(NS, by="eve")
    await harness.standby().end_pause(OTHER, by="carol")
    harness.store.show()
    await harness.after(3)
    assert [each.numbers.get("author") for each in harness.notices[2:]] == ["bob", "carol"]


async def test_who_ended_a_pause_is_not_named_for_the_very_same_one_later(harness):
    harness.kubectl_pause()
    text = harness.store.data[NS]
    await harness.after(2)
    await harness.standby().end_pause(NS, by="bob")
    await harness.after(3)
    harness.store.kubectl_set(NS, text)
    await harness.after(4)
    harness.store.kubectl_set(NS, None)
    await harness.after(5)
    ends = [each for each in harness.notices if each.reason == "OverrideEnded"]
    assert [each.numbers.get("author") for each in ends] == ["bob", None]


@pytest.mark.parametrize("standby", [False, True])
async def test_who_removes_a_key_that_cannot_be_read_is_named(harness, standby):
    harness.store.kubectl_set(NS, "{")
    await harness.after(2)
    service = harness.standby() if standby else harness.service
    await service.end_pause(NS, by="bob")
    await harness.after(3)
    text = (
        f"the key {NS} of the overrides was fixed or removed by bob: it no longer pauses anything"
    )
    assert harness.told[1] == ("OverrideEnded", text)
    assert harness.notices[1].numbers["author"] == "bob"


async def test_who_ends_the_hold_of_a_key_that_cannot_be_read_ends_what_stood_in_for_it(harness):
    now = harness.clock.now()
    await harness.service.set_hold(
        NS, Hold("r", "alice", now, now + 600, Direction.UP, "o", done=True)
    )
    await harness.after(2)
    harness.store.kubectl_set(NS, "{")
    await harness.after(3)
    await harness.service.end_hold(NS, by="bob")
    await harness.after(4)
    ends = [each for each in harness.notices if each.reason == "OverrideEnded"]
    assert [(e.numbers["override"], e.numbers.get("author")) for e in ends] == [
        ("pause", "bob"),
        ("hold", "bob"),
    ]


async def test_an_annotation_that_somebody_mangled_costs_no_more_than_a_name(harness):
    harness.kubectl_pause()
    harness.kubectl_pause(OTHER)
    await harness.standby().end_pause(NS, by="bob")
    harness.store.annotate(ENDED_BY, "{")
    harness.store.annotate("team", "a")
    await harness.after(2)
    await harness.standby().end_pause(OTHER, by="carol")
    await harness.after(3)
    assert harness.notices[-1].numbers["author"] == "carol"
    assert harness.store.server.annotations["team"] == "a"


async def test_a_conflict_and_a_lost_answer_keep_the_author(harness):
    harness.kubectl_pause()
    await harness.after(2)
    harness.store.conflicts = harness.store.lost_answers = 1
    await harness.service.end_pause(NS, by="bob")
    await harness.after(3)
    (ended,) = (each for each in harness.notices if each.reason == "OverrideEnded")
    assert ended.numbers["author"] == "bob"


async def test_an_end_by_the_clock_or_by_kubectl_is_nobodys(harness):
    harness.kubectl_pause(seconds=60)
    harness.kubectl_pause(OTHER)
    await harness.after(2)
    harness.store.kubectl_set(OTHER, None)
    await harness.after(100)
    assert [each.reason for each in harness.notices[2:]] == ["OverrideEnded"] * 2
    assert ["author" in each.numbers for each in harness.notices[2:]] == [False, False]


async def test_who_failed_to_end_a_pause_did_not_end_it(harness):
    harness.kubectl_pause()
    await harness.after(2)
    harness.store.failing = ServerFault("away")
    with pytest.raises(ServerFault):
        await harness.service.end_pause(NS, by="bob")
    harness.store.failing = None
    harness.store.kubectl_set(NS, None)
    await harness.after(3)
    assert "was removed before its end" in harness.told[1][1]


async def test_who_ended_what_was_not_there_is_not_named_for_the_next_one(harness):
    await harness.service.end_pause(NS, by="bob")
    harness.kubectl_pause()
    await harness.after(2)
    harness.store.kubectl_set(NS, None)
    await harness.after(3)
    assert "was removed before its end" in harness.told[1][1]


async def test_who_ended_a_pause_while_another_one_led_is_not_named_for_the_next_one(harness):
    harness.kubectl_pause()
    await harness.after(2)
    harness.leads = False
    await harness.service.end_pause(NS, by="bob")
    await harness.after(3)
    harness.leads = True
    harness.kubectl_pause()
    await harness.after(20)
    harness.store.kubectl_set(NS, None)
    await harness.after(21)
    assert "was removed before its end" in harness.told[-1][1]


async def test_a_deleted_config_map_ends_each_override(harness):
    harness.kubectl_pause()
    harness.kubectl_pause(ALL_SHOOTS)
    await harness.after(2)
    harness.store.kubectl(None)
    await harness.after(3)
    assert [reason for reason, _ in harness.told[2:]] == ["OverrideEnded"] * 2
    assert "the pause of all shoots by alice was removed" in harness.told[3][1]


async def test_a_pause_that_is_changed_is_told_once_more_and_not_as_ended(harness):
    harness.kubectl_pause()
    await harness.after(2)
    harness.kubectl_pause(reason="longer surgery")
    await harness.after(3)
    assert [reason for reason, _ in harness.told] == ["OverrideSet"] * 2


async def test_the_pause_of_all_is_told_as_that(harness):
    now = harness.clock.now()
    await harness.service.set_pause(ALL_SHOOTS, Pause(Scope.SCALE_DOWN, "r", "bob", now, now + 60))
    await harness.after(2)
    assert harness.told[0][1].startswith("all shoots are paused, scope scaleDown, by bob until ")


async def test_a_hold_is_told_with_its_operation_and_its_runs_end_is_not(harness):
    now = harness.clock.now()
    hold = Hold("by hand", "bob", now, now + 60, Direction.UP, "op-7", done=False)
    await harness.service.set_hold(NS, hold)
    await harness.after(2)
    await harness.service.finish_hold(NS, "op-7")
    await harness.after(30)
    assert len(harness.told) == 1
    assert f"verdicts of {NS} are not acted on until" in harness.told[0][1]
    assert "hold of bob (operation op-7): by hand" in harness.told[0][1]
    await harness.after(70)
    assert harness.told[1][1].startswith(f"the hold of {NS} by bob ended at ")


async def test_a_hold_whose_run_outlives_it_is_told_as_ended_when_the_run_ends(harness):
    now = harness.clock.now()
    await harness.service.set_hold(
        NS, Hold("r", "b", now, now + 60, Direction.UP, "op", done=False)
    )
    await harness.after(100)
    assert len(harness.told) == 1
    await harness.service.finish_hold(NS, "op")
    await harness.after(101)
    assert harness.told[1][0] == "OverrideEnded"


async def test_an_unreadable_key_is_told_once_for_each_version_and_when_it_is_ignored(harness):
    harness.store.kubectl_set(NS, {"pause": {"scope": "x"}})
    await harness.after(600)
    assert len(harness.told) == 1
    assert harness.told[0][0] == "OverrideSet"
    assert harness.told[0][1].startswith(f"{NS} is paused, scope all, until ")
    assert 'cannot be read: pause.scope: must be all or scaleDown, not "x"' in harness.told[0][1]
    harness.store.kubectl_set(NS, {"pause": {"scope": "y"}})
    await harness.after(601)
    assert len(harness.told) == 2
    await harness.after(600 + 3_660)
    assert harness.told[2][0] == "OverrideEnded"
    assert "is ignored from now on" in harness.told[2][1]
    assert {each.severity for each in harness.notices} == {Severity.WARNING}


async def test_a_mended_key_is_told_as_what_it_says(harness):
    harness.store.kubectl_set(NS, "{")
    await harness.after(2)
    harness.store.kubectl_set(NS, None)
    await harness.after(3)
    assert "was fixed or removed" in harness.told[1][1]


async def test_an_unreadable_key_of_all_shoots_is_an_error(harness):
    harness.store.kubectl_set(ALL_SHOOTS, "{")
    await harness.after(2)
    assert harness.notices[0].severity is Severity.ERROR


async def test_what_is_in_force_when_it_begins_to_lead_was_told_by_the_leader_before(make):
    harness = make(data={NS: {"pause": {"until": rfc3339(1_800_000_500)}}}, leads=False)
    await harness.service.set_pause(
        NS, Pause(Scope.ALL, "r", "a", harness.start, harness.start + 600)
    )
    await harness.after(5)
    harness.leads = True
    harness.upkeep.wake()
    await harness.after(6)
    assert harness.told == []
    await harness.after(700)
    assert [reason for reason, _ in harness.told] == ["OverrideEnded"]


async def test_what_was_there_before_the_first_list_was_told_by_a_leader_before(make):
    harness = make(synced=False)
    harness.kubectl_pause()
    await harness.after(5)
    harness.store.synced = True
    await harness.after(30)
    assert harness.cache.effective(NS).pause is not None
    assert harness.told == []


@pytest.mark.parametrize("value", [{"pause": {}}, {"pause": {"scope": "x"}}])
async def test_what_no_leader_can_have_seen_is_told_by_the_next(make, value):
    harness = make(data={NS: value})
    await harness.after(1)
    assert [reason for reason, _ in harness.told] == ["OverrideSet"]


async def test_what_changes_while_it_leads_again_is_told_from_then_on(harness):
    harness.leads = False
    harness.kubectl_pause()
    await harness.after(15)
    harness.leads = True
    await harness.after(30)
    harness.store.kubectl(None)
    await harness.after(31)
    assert [reason for reason, _ in harness.told] == ["OverrideEnded"]


async def test_an_event_is_on_the_config_map_in_our_own_namespace_and_names_the_shoot(harness):
    harness.kubectl_pause()
    await harness.after(2)
    notice = harness.notices[0]
    assert (notice.kind, notice.namespace, notice.event) == (NoticeKind.OVERRIDE, NS, True)
    assert notice.resource == CONFIG_MAP
    body: dict[str, Any] = event(
        notice, CONFIG_MAP, uid=notice.resource_uid, identity="dwd-1", number=1
    )
    assert body["metadata"]["namespace"] == HOME
    assert body["regarding"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": HOME,
        "name": "dependency-watchdog-overrides",
        "uid": harness.cache.document.uid,
    }
    assert NS in body["note"]
    assert (body["reason"], body["action"], body["type"]) == (
        "OverrideSet",
        "SetOverride",
        "Normal",
    )
