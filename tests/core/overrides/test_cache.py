"""The overrides as they are now: the watch, what was written here, the clock, and what goes wrong with them."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from app.core.clock import Clock
from app.core.errors import Unreachable
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS, NOTHING, Hold, OverrideEntry, Scope
from app.core.model.workloads import Direction
from app.core.overrides.cache import OverrideCache, WeederPauses
from app.core.overrides.rules import MOST_KEYS
from app.core.ports import OverridesDocument
from app.core.tasks import Tasks
from tests.support.overrides import MemoryStore

NS = "shoot--acme--prod"


class Harness:
    """A book over a ConfigMap in memory, with its loop running."""

    def __init__(self, *, synced=True, forbidden=None):
        self.clock = Clock.of_loop()
        self.tasks = Tasks(self.clock)
        self.metrics = Metrics()
        self.store = MemoryStore(self.clock)
        self.store.synced = synced
        if forbidden:
            self.store.forbid(forbidden)
        self.cache = OverrideCache(self.store, self.clock, self.metrics)
        self.told: list[float] = []
        self.cache.subscribe(lambda: self.told.append(self.clock.now() - self.start))
        self.start = self.clock.now()
        _ = self.tasks.shared(self.cache.run, "overrides")

    async def after(self, seconds):
        await self.clock.sleep_until(self.start + seconds + 0.001)

    def pause(self, seconds, key=NS, **fields):
        until = rfc3339(self.clock.now() + seconds)
        base = {
            "scope": "all",
            "reason": "r",
            "author": "a",
            "createdAt": rfc3339(self.clock.now()),
        }
        self.store.kubectl_set(key, {"pause": {**base, "until": until, **fields}})

    @property
    def off(self):
        return self.metrics.registry.get_sample_value("dwd_feature_off", {"feature": "overrides"})

    @property
    def paused(self):
        return self.cache.effective(NS).pause


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
    return make()


async def test_what_is_there_at_the_start_is_in_force(make):
    harness = make(synced=False)
    harness.pause(60)
    assert not harness.cache.synced
    assert harness.cache.effective(NS) == NOTHING
    harness.store.synced = True
    assert harness.cache.synced
    assert harness.paused is not None


async def test_a_seed_without_the_config_map_has_no_overrides_and_is_synced(harness):
    assert harness.cache.synced
    assert harness.cache.off is None
    assert harness.cache.trouble is None
    assert harness.cache.document is None
    assert harness.cache.global_pause() is None


async def test_what_kubectl_writes_is_in_force_and_told_at_once(harness):
    harness.store.kubectl_set(NS, {"pause": {"reason": "hands off"}})
    assert harness.paused.scope is Scope.ALL
    assert harness.paused.reason == "hands off"
    assert len(harness.told) == 1


async def test_the_pause_of_all_is_known_by_itself(harness):
    harness.pause(60, ALL_SHOOTS, scope="scaleDown")
    assert harness.cache.global_pause().scope is Scope.SCALE_DOWN
    assert harness.cache.effective("shoot--any").global_pause == harness.cache.global_pause()


async def test_an_end_by_the_clock_is_told_when_it_comes(harness):
    await harness.after(0)
    harness.pause(60)
    harness.pause(120, "shoot--other")
    harness.told.clear()
    await harness.after(59)
    assert harness.told == []
    assert harness.paused is not None
    await harness.after(61)
    assert harness.told == [pytest.approx(60, abs=0.01)]
    assert harness.paused is None
    await harness.after(300)
    assert harness.told == [pytest.approx(60, abs=0.01), pytest.approx(120, abs=0.01)]


async def test_a_bookmark_that_changes_nothing_is_not_told(harness):
    harness.pause(60)
    harness.told.clear()
    harness.store.server.version += 50
    harness.store.kubectl(dict(harness.store.data))
    harness.store.stale = False
    await harness.after(1)
    assert harness.told == []


async def test_a_listener_that_fails_stops_no_other(harness):
    def fails():
        raise RuntimeError("a bug")

    harness.cache.subscribe(fails)
    later = []
    harness.cache.subscribe(lambda: later.append(1))
    with capture_logs() as logs:
        harness.pause(60)
    assert later == [1]
    assert [each["log_level"] for each in logs] == ["error"]


# Deleted, forbidden, failing, stale.


async def test_a_deleted_config_map_means_no_overrides_and_is_logged(harness):
    harness.pause(600)
    with capture_logs() as logs:
        harness.store.kubectl(None)
    assert harness.cache.effective(NS) == NOTHING
    assert "was deleted" in logs[0]["event"]
    assert len(harness.told) == 2


async def test_an_unreadable_key_that_is_deleted_with_its_config_map_pauses_nothing(harness):
    harness.store.kubectl_set(NS, "{")
    assert harness.paused is not None
    harness.store.kubectl(None)
    assert harness.paused is None


async def test_forbidden_from_the_start_counts_as_none_and_is_reported(make):
    harness = make(synced=False, forbidden="no right to get configmaps")
    assert harness.cache.synced
    assert harness.cache.off == "no right to get configmaps"
    with capture_logs() as logs:
        await harness.after(1)
    assert harness.off == 1
    assert [each["log_level"] for each in logs] == ["warning"]
    assert "there are none" in str(harness.cache.trouble)
    with capture_logs() as logs:
        await harness.after(100)
    assert logs == []


async def test_a_right_that_is_granted_later_brings_the_overrides_to_life(make):
    harness = make(synced=False, forbidden="no")
    await harness.after(1)
    harness.pause(600)
    harness.store.allow()
    harness.store.synced = True
    assert harness.paused is not None
    assert harness.cache.off is None
    await harness.after(15)
    assert harness.off == 0
    assert harness.cache.trouble is None


async def test_forbidden_after_it_was_read_once_keeps_the_last_content_and_says_so(harness):
    harness.pause(600)
    harness.store.forbid("taken away")
    harness.store.kubectl(None)
    assert harness.paused is not None
    assert harness.cache.off is None
    assert "the last content applies: taken away" in str(harness.cache.trouble)
    await harness.after(1)
    assert harness.off == 1
    await harness.after(601)
    assert harness.paused is None


async def test_failing_otherwise_counts_as_none_after_a_minute_and_not_before(make):
    harness = make(synced=False)
    await harness.after(59)
    assert not harness.cache.synced
    assert harness.cache.trouble is None
    assert harness.told == []
    await harness.after(61)
    assert harness.cache.synced
    assert harness.cache.off is None
    assert "count as none" in str(harness.cache.trouble)
    assert harness.told == [pytest.approx(60, abs=1.1)]
    assert harness.off == 1


async def test_what_comes_after_that_minute_is_in_force_all_the_same(make):
    harness = make(synced=False)
    await harness.after(100)
    harness.pause(600)
    harness.store.synced = True
    assert harness.paused is not None
    assert harness.cache.trouble is None


async def test_forbidden_is_told_within_a_second_while_the_loops_wait_for_it(make):
    harness = make(synced=False)
    await harness.after(5)
    harness.store._forbidden = "no"  # nobody is told: the watch gave up in silence
    await harness.after(6.1)
    assert len(harness.told) == 1


async def test_a_stale_watch_keeps_the_last_content_and_says_so(harness):
    harness.pause(7_200)
    await harness.after(10)
    harness.store.stale = True
    harness.store.kubectl(None)
    with capture_logs() as logs:
        await harness.after(95)
        assert harness.cache.trouble is None
        await harness.after(115)
    assert harness.paused is not None
    assert "has had no contact since" in str(harness.cache.trouble)
    assert not harness.cache.current
    assert [each["log_level"] for each in logs] == ["warning"]
    assert harness.off == 0
    with capture_logs() as logs:
        harness.store.stale = False
        await harness.after(130)
    assert harness.paused is None
    assert harness.cache.trouble is None
    assert logs[-1]["log_level"] == "info"


# What was written here, and a watch that lags behind.


async def written(harness, data):
    before = harness.cache.document
    if before is None:
        return await harness.store.create(data)
    return await harness.store.replace(before, data)


def text_of(harness, reason):
    now = harness.clock.now()
    span = {"createdAt": rfc3339(now), "until": rfc3339(now + 600)}
    return json.dumps({"pause": {"scope": "all", "reason": reason, "author": "a", **span}})


@pytest.fixture
async def lagging(harness):
    harness.store.kubectl_set(NS, text_of(harness, "old"))
    harness.store.held = True
    return harness


async def test_what_was_written_is_in_force_before_the_watch_shows_it(lagging):
    lagging.cache.learn(await written(lagging, {NS: text_of(lagging, "new")}))
    assert lagging.paused.reason == "new"
    assert lagging.cache.document.resource_version == str(lagging.store.server.version)


async def test_older_news_of_the_watch_do_not_undo_what_was_written(lagging):
    lagging.store.kubectl_set(NS, text_of(lagging, "of kubectl"))
    lagging.cache.learn(
        await lagging.store.replace(lagging.store.server.document, {NS: text_of(lagging, "ours")})
    )
    lagging.store.show(1)
    assert lagging.paused.reason == "ours"
    lagging.store.show(1)
    assert lagging.paused.reason == "ours"


async def test_newer_news_of_the_watch_replace_what_was_written(lagging):
    lagging.cache.learn(await written(lagging, {NS: text_of(lagging, "ours")}))
    lagging.store.kubectl_set(NS, text_of(lagging, "theirs"))
    lagging.store.show()
    assert lagging.paused.reason == "theirs"


async def test_an_answer_that_comes_after_newer_news_of_the_watch_is_old(lagging):
    answer = await written(lagging, {NS: text_of(lagging, "ours")})
    lagging.store.kubectl_set(NS, text_of(lagging, "theirs"))
    lagging.store.show()
    lagging.cache.learn(answer)
    assert lagging.paused.reason == "theirs"


async def test_resource_versions_are_compared_as_numbers(lagging):
    lagging.store.server.version = 998
    lagging.store.kubectl_set(NS, text_of(lagging, "999"))
    lagging.store.show()
    lagging.cache.learn(await written(lagging, {NS: text_of(lagging, "1000")}))
    assert lagging.paused.reason == "1000"


async def test_a_deletion_that_was_before_our_creation_does_not_undo_it(lagging):
    lagging.store.kubectl(None)
    lagging.cache.learn(await lagging.store.create({NS: text_of(lagging, "ours")}))
    lagging.store.show(1)
    assert lagging.store.document() is None
    assert lagging.paused.reason == "ours"


async def test_a_deletion_after_our_write_counts(lagging):
    lagging.cache.learn(await written(lagging, {NS: text_of(lagging, "ours")}))
    lagging.store.kubectl(None)
    lagging.store.show()
    assert lagging.cache.effective(NS) == NOTHING


async def test_a_deletion_that_the_watch_slept_through_counts_within_half_a_minute(harness):
    harness.store.held = True
    harness.cache.learn(await harness.store.create({NS: text_of(harness, "ours")}))
    harness.store.kubectl(None)
    harness.store._pending.clear()  # it lists anew, and there is nothing
    await harness.after(20)
    assert harness.paused is not None
    await harness.after(45)
    assert harness.paused is None


async def test_what_was_deleted_does_not_come_back_with_a_watch_that_shows_what_was_before(harness):
    harness.store.kubectl({NS: text_of(harness, "first")})
    harness.store.held = True
    for reason in ("second", "third"):
        harness.cache.learn(
            await harness.store.replace(harness.cache.document, {NS: text_of(harness, reason)})
        )
    harness.store.kubectl(None)
    await harness.after(20)
    assert harness.paused.reason == "third"
    await harness.after(45)
    found = [harness.paused]
    for _ in range(2):
        harness.store.show(1)
        found.append(harness.paused)
    assert found == [None] * 3, "the watch is behind"
    harness.store.kubectl({NS: text_of(harness, "another")})
    harness.store.show()
    assert harness.cache.effective(NS).pause.reason == "another"


async def test_a_watch_that_is_in_contact_and_behind_never_undoes_what_was_written(harness):
    """As one of an API server whose own watch of the storage hangs: it sends bookmarks of a version of long ago."""
    harness.store.held = True
    harness.cache.learn(await harness.store.create({NS: text_of(harness, "ours")}))
    for minute in range(1, 9):
        await harness.after(60 * minute)
        assert harness.paused is not None
    harness.store.show()
    assert harness.paused is not None


async def test_what_somebody_else_wrote_over_it_is_known_within_three_quarters_of_a_minute(harness):
    harness.store.held = True
    harness.cache.learn(await harness.store.create({NS: text_of(harness, "ours")}))
    harness.store.kubectl_set(NS, text_of(harness, "theirs"))
    await harness.after(45)
    assert harness.paused.reason == "theirs"
    harness.store.show(1)
    assert harness.paused.reason == "theirs", "the watch is behind that, too"


async def test_while_the_seed_cannot_be_asked_what_was_written_goes_on(harness):
    harness.store.held = True
    harness.cache.learn(await harness.store.create({NS: text_of(harness, "ours")}))
    harness.store.kubectl(None)
    harness.store.failing = Unreachable("cut")
    await harness.after(200)
    assert harness.paused is not None
    harness.store.failing = None
    await harness.after(245)
    assert harness.paused is None


async def test_a_watch_that_shows_what_was_written_is_asked_for_nothing_more(harness):
    harness.cache.learn(await harness.store.create({NS: text_of(harness, "ours")}))
    await harness.after(300)
    assert harness.store.requests == ["create"]


async def test_a_watch_that_is_dead_never_undoes_what_was_written(harness):
    harness.store.stale = True
    harness.cache.learn(await harness.store.create({NS: text_of(harness, "ours")}))
    await harness.after(400)
    assert harness.paused is not None


async def test_versions_that_are_no_numbers_are_taken_as_they_come(harness):
    harness.cache.learn(OverridesDocument("u", "a7", {NS: text_of(harness, "first")}))
    harness.cache.learn(OverridesDocument("u", "a6", {NS: text_of(harness, "second")}))
    assert harness.paused.reason == "second"


async def test_only_what_cannot_be_read_is_amended(harness):
    harness.pause(600)
    harness.cache.amend(NS, OverrideEntry())
    harness.cache.amend("shoot--nobody", OverrideEntry())
    assert harness.paused is not None
    assert harness.cache.effective("shoot--nobody") == NOTHING


# As the weeder sees them.


async def test_only_a_pause_of_scope_all_keeps_pods(harness):
    pauses = WeederPauses(harness.cache)
    assert pauses.paused(NS) is None
    harness.pause(60, scope="scaleDown")
    assert pauses.paused(NS) is None
    harness.pause(60, reason="surgery", author="alice")
    until = rfc3339(harness.paused.until)
    assert pauses.paused(NS) == f"the shoot is paused by alice until {until}: surgery"
    assert pauses.paused("shoot--other") is None


async def test_a_pause_of_all_keeps_the_pods_of_every_shoot(harness):
    pauses = WeederPauses(harness.cache)
    harness.pause(60, scope="scaleDown")
    harness.pause(60, ALL_SHOOTS)
    assert str(pauses.paused(NS)).startswith("all shoots are paused by a until ")


async def test_an_unreadable_key_keeps_pods(harness):
    harness.store.kubectl_set(NS, "junk")
    assert "cannot be read" in str(WeederPauses(harness.cache).paused(NS))


async def test_a_hold_keeps_no_pods(harness):
    harness.store.kubectl_set(NS, {"hold": {}})
    assert WeederPauses(harness.cache).paused(NS) is None


async def test_the_weeder_hears_of_the_end_of_a_pause_and_waits_for_the_first_list(make):
    harness = make(synced=False)
    pauses, heard = WeederPauses(harness.cache), asyncio.Event()
    pauses.subscribe(heard.set)
    known = [pauses.synced]
    harness.store.synced = True
    known.append(pauses.synced)
    assert known == [False, True]
    await harness.after(1)
    harness.pause(5)
    heard.clear()
    await asyncio.wait_for(heard.wait(), 6)
    assert pauses.paused(NS) is None


def many(number, **more):
    return {
        f"shoot--{n:05}": json.dumps({"pause": {"reason": str(n)}}) for n in range(number)
    } | more


async def test_hundreds_of_keys_are_read_in_turns_with_others_and_told_of_once(make):
    harness = make(synced=False)
    harness.store.kubectl(many(300) | {ALL_SHOOTS: '{"pause": {"scope": "scaleDown"}}'})
    harness.store.synced = True
    assert not harness.cache.synced
    assert harness.cache.global_pause() is not None, "it is read first"
    assert harness.cache.effective("shoot--00299").pause.scope is Scope.ALL, "it may be paused"
    assert harness.cache.effective("shoot--other").pause is None
    await harness.after(0)
    assert harness.cache.synced
    assert harness.cache.effective("shoot--00299").pause.reason == "299"
    assert len(harness.told) == 2, "what is in force, and that it is known"


async def test_what_was_known_of_a_key_goes_on_until_its_new_text_is_read(harness):
    harness.store.kubectl(many(300))
    await harness.after(1)
    data = {key: text.replace('reason": "', 'reason": "new ') for key, text in many(300).items()}
    harness.told.clear()
    harness.store.kubectl(data)
    last = "shoot--00299"
    assert harness.cache.effective(last).pause.reason == "299"
    assert harness.told == []
    await harness.after(2)
    assert harness.cache.effective(last).pause.reason == "new 299"
    assert len(harness.told) == 1


async def test_of_more_than_two_thousand_keys_the_rest_is_one_report(harness):
    with capture_logs() as logs:
        harness.store.kubectl(many(2_500))
        await harness.after(30)
        harness.store.kubectl(many(2_600))
        await harness.after(60)
    assert "more than 2000 keys" in harness.cache.trouble
    assert harness.cache.feature_off is None
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert harness.cache.unread == 600
    assert len(harness.cache.knowledge) == 2_000
    harness.store.kubectl(many(2_000))
    await harness.after(61)
    assert harness.cache.trouble is None
    assert harness.cache.unread == 0


async def test_a_shoot_whose_key_is_among_the_rest_is_paused_for_an_hour_and_that_end_is_told(
    harness,
):
    harness.store.kubectl(many(2_001))
    await harness.after(1)
    late = "shoot--02000"
    assert harness.cache.effective(late).pause.stand_in
    harness.told.clear()
    await harness.after(3_598)
    assert harness.cache.effective(late).pause is not None
    assert harness.told == []
    await harness.after(3_601)
    assert harness.cache.effective(late).pause is None
    assert len(harness.told) == 1


async def test_what_is_written_among_too_many_keys_is_in_force(harness):
    harness.store.kubectl(many(2_500))
    await harness.after(1)
    harness.pause(60, "shoot--99999")
    assert harness.cache.effective("shoot--99999").pause.author == "a"
    await harness.after(2)
    harness.store.kubectl_set("shoot--00001", {"pause": {"reason": "another"}})
    assert harness.cache.effective("shoot--99999").pause.author == "a"


async def test_runs_that_ended_here_are_remembered_of_so_many_shoots(harness):
    def hold(number):
        return Hold("r", "a", 0.0, 1.0, Direction.UP, f"operation-{number}", done=False)

    for number in range(MOST_KEYS + 1):
        harness.cache.note_done(f"shoot--{number}", f"operation-{number}")
    assert not harness.cache.has_ended("shoot--0", hold(0))
    assert harness.cache.has_ended("shoot--1", hold(1))
    assert harness.cache.has_ended(f"shoot--{MOST_KEYS}", hold(MOST_KEYS))
