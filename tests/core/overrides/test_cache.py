"""The overrides as they are now: the watch, what was written here, the clock, and what goes wrong with them."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from app.core.clock import Clock
from app.core.errors import Unreachable
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS, NOTHING, OverrideEntry, Scope
from app.core.overrides.cache import OverrideCache, WeederPauses
from app.core.ports import OverridesDocument
from app.core.tasks import Tasks
from tests.support.overrides import MemoryStore

NS = "shoot--acme--prod"


class Stand:
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
        made.append(Stand(**options))
        return made[-1]

    yield new
    for each in made:
        await each.tasks.stop()


@pytest.fixture
async def stand(make):
    return make()


async def test_what_is_there_at_the_start_is_in_force(make):
    stand = make(synced=False)
    stand.pause(60)
    assert not stand.cache.synced
    assert stand.cache.effective(NS) == NOTHING
    stand.store.synced = True
    assert stand.cache.synced
    assert stand.paused is not None


async def test_a_seed_without_the_config_map_has_no_overrides_and_is_synced(stand):
    assert stand.cache.synced
    assert stand.cache.off is None
    assert stand.cache.trouble is None
    assert stand.cache.document is None
    assert stand.cache.global_pause() is None


async def test_what_kubectl_writes_is_in_force_and_told_at_once(stand):
    stand.store.kubectl_set(NS, {"pause": {"reason": "hands off"}})
    assert stand.paused.scope is Scope.ALL
    assert stand.paused.reason == "hands off"
    assert len(stand.told) == 1


async def test_the_pause_of_all_is_known_by_itself(stand):
    stand.pause(60, ALL_SHOOTS, scope="scaleDown")
    assert stand.cache.global_pause().scope is Scope.SCALE_DOWN
    assert stand.cache.effective("shoot--any").global_pause == stand.cache.global_pause()


async def test_an_end_by_the_clock_is_told_when_it_comes(stand):
    await stand.after(0)
    stand.pause(60)
    stand.pause(120, "shoot--other")
    stand.told.clear()
    await stand.after(59)
    assert stand.told == []
    assert stand.paused is not None
    await stand.after(61)
    assert stand.told == [pytest.approx(60, abs=0.01)]
    assert stand.paused is None
    await stand.after(300)
    assert stand.told == [pytest.approx(60, abs=0.01), pytest.approx(120, abs=0.01)]


async def test_a_bookmark_that_changes_nothing_is_not_told(stand):
    stand.pause(60)
    stand.told.clear()
    stand.store.server.version += 50
    stand.store.kubectl(dict(stand.store.data))
    stand.store.stale = False
    await stand.after(1)
    assert stand.told == []


async def test_a_listener_that_fails_stops_no_other(stand):
    def fails():
        raise RuntimeError("a bug")

    stand.cache.subscribe(fails)
    later = []
    stand.cache.subscribe(lambda: later.append(1))
    with capture_logs() as logs:
        stand.pause(60)
    assert later == [1]
    assert [each["log_level"] for each in logs] == ["error"]


# Deleted, forbidden, failing, stale.


async def test_a_deleted_config_map_means_no_overrides_and_is_logged(stand):
    stand.pause(600)
    with capture_logs() as logs:
        stand.store.kubectl(None)
    assert stand.cache.effective(NS) == NOTHING
    assert "was deleted" in logs[0]["event"]
    assert len(stand.told) == 2


async def test_an_unreadable_key_that_is_deleted_with_its_config_map_pauses_nothing(stand):
    stand.store.kubectl_set(NS, "{")
    assert stand.paused is not None
    stand.store.kubectl(None)
    assert stand.paused is None


async def test_forbidden_from_the_start_counts_as_none_and_is_reported(make):
    stand = make(synced=False, forbidden="no right to get configmaps")
    assert stand.cache.synced
    assert stand.cache.off == "no right to get configmaps"
    with capture_logs() as logs:
        await stand.after(1)
    assert stand.off == 1
    assert [each["log_level"] for each in logs] == ["warning"]
    assert "there are none" in str(stand.cache.trouble)
    with capture_logs() as logs:
        await stand.after(100)
    assert logs == []


async def test_a_right_that_is_granted_later_brings_the_overrides_to_life(make):
    stand = make(synced=False, forbidden="no")
    await stand.after(1)
    stand.pause(600)
    stand.store.allow()
    stand.store.synced = True
    assert stand.paused is not None
    assert stand.cache.off is None
    await stand.after(15)
    assert stand.off == 0
    assert stand.cache.trouble is None


async def test_forbidden_after_it_was_read_once_keeps_the_last_content_and_says_so(stand):
    stand.pause(600)
    stand.store.forbid("taken away")
    stand.store.kubectl(None)
    assert stand.paused is not None
    assert stand.cache.off is None
    assert "the last content applies: taken away" in str(stand.cache.trouble)
    await stand.after(1)
    assert stand.off == 1
    await stand.after(601)
    assert stand.paused is None


async def test_failing_otherwise_counts_as_none_after_a_minute_and_not_before(make):
    stand = make(synced=False)
    await stand.after(59)
    assert not stand.cache.synced
    assert stand.cache.trouble is None
    assert stand.told == []
    await stand.after(61)
    assert stand.cache.synced
    assert stand.cache.off is None
    assert "count as none" in str(stand.cache.trouble)
    assert stand.told == [pytest.approx(60, abs=1.1)]
    assert stand.off == 1


async def test_what_comes_after_that_minute_is_in_force_all_the_same(make):
    stand = make(synced=False)
    await stand.after(100)
    stand.pause(600)
    stand.store.synced = True
    assert stand.paused is not None
    assert stand.cache.trouble is None


async def test_forbidden_is_told_within_a_second_while_the_loops_wait_for_it(make):
    stand = make(synced=False)
    await stand.after(5)
    stand.store._forbidden = "no"  # nobody is told: the watch gave up in silence
    await stand.after(6.1)
    assert len(stand.told) == 1


async def test_a_stale_watch_keeps_the_last_content_and_says_so(stand):
    stand.pause(7_200)
    await stand.after(10)
    stand.store.stale = True
    stand.store.kubectl(None)
    with capture_logs() as logs:
        await stand.after(95)
        assert stand.cache.trouble is None
        await stand.after(115)
    assert stand.paused is not None
    assert "has had no contact since" in str(stand.cache.trouble)
    assert not stand.cache.current
    assert [each["log_level"] for each in logs] == ["warning"]
    assert stand.off == 0
    with capture_logs() as logs:
        stand.store.stale = False
        await stand.after(130)
    assert stand.paused is None
    assert stand.cache.trouble is None
    assert logs[-1]["log_level"] == "info"


# What was written here, and a watch that lags behind.


async def written(stand, data):
    before = stand.cache.document
    if before is None:
        return await stand.store.create(data)
    return await stand.store.replace(before, data)


def text_of(stand, reason):
    now = stand.clock.now()
    span = {"createdAt": rfc3339(now), "until": rfc3339(now + 600)}
    return json.dumps({"pause": {"scope": "all", "reason": reason, "author": "a", **span}})


@pytest.fixture
async def lagging(stand):
    stand.store.kubectl_set(NS, text_of(stand, "old"))
    stand.store.held = True
    return stand


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


async def test_a_deletion_that_the_watch_slept_through_counts_within_half_a_minute(stand):
    stand.store.held = True
    stand.cache.learn(await stand.store.create({NS: text_of(stand, "ours")}))
    stand.store.kubectl(None)
    stand.store._pending.clear()  # it lists anew, and there is nothing
    await stand.after(20)
    assert stand.paused is not None
    await stand.after(45)
    assert stand.paused is None


async def test_what_was_deleted_does_not_come_back_with_a_watch_that_shows_what_was_before(stand):
    stand.store.kubectl({NS: text_of(stand, "first")})
    stand.store.held = True
    for reason in ("second", "third"):
        stand.cache.learn(
            await stand.store.replace(stand.cache.document, {NS: text_of(stand, reason)})
        )
    stand.store.kubectl(None)
    await stand.after(20)
    assert stand.paused.reason == "third"
    await stand.after(45)
    found = [stand.paused]
    for _ in range(2):
        stand.store.show(1)
        found.append(stand.paused)
    assert found == [None] * 3, "the watch is behind"
    stand.store.kubectl({NS: text_of(stand, "another")})
    stand.store.show()
    assert stand.cache.effective(NS).pause.reason == "another"


async def test_a_watch_that_is_in_contact_and_behind_never_undoes_what_was_written(stand):
    """As one of an API server whose own watch of the storage hangs: it sends bookmarks of a version of long ago."""
    stand.store.held = True
    stand.cache.learn(await stand.store.create({NS: text_of(stand, "ours")}))
    for minute in range(1, 9):
        await stand.after(60 * minute)
        assert stand.paused is not None
    stand.store.show()
    assert stand.paused is not None


async def test_what_somebody_else_wrote_over_it_is_known_within_three_quarters_of_a_minute(stand):
    stand.store.held = True
    stand.cache.learn(await stand.store.create({NS: text_of(stand, "ours")}))
    stand.store.kubectl_set(NS, text_of(stand, "theirs"))
    await stand.after(45)
    assert stand.paused.reason == "theirs"
    stand.store.show(1)
    assert stand.paused.reason == "theirs", "the watch is behind that, too"


async def test_while_the_seed_cannot_be_asked_what_was_written_goes_on(stand):
    stand.store.held = True
    stand.cache.learn(await stand.store.create({NS: text_of(stand, "ours")}))
    stand.store.kubectl(None)
    stand.store.failing = Unreachable("cut")
    await stand.after(200)
    assert stand.paused is not None
    stand.store.failing = None
    await stand.after(245)
    assert stand.paused is None


async def test_a_watch_that_shows_what_was_written_is_asked_for_nothing_more(stand):
    stand.cache.learn(await stand.store.create({NS: text_of(stand, "ours")}))
    await stand.after(300)
    assert stand.store.requests == ["create"]


async def test_a_watch_that_is_dead_never_undoes_what_was_written(stand):
    stand.store.stale = True
    stand.cache.learn(await stand.store.create({NS: text_of(stand, "ours")}))
    await stand.after(400)
    assert stand.paused is not None


async def test_versions_that_are_no_numbers_are_taken_as_they_come(stand):
    stand.cache.learn(OverridesDocument("u", "a7", {NS: text_of(stand, "first")}))
    stand.cache.learn(OverridesDocument("u", "a6", {NS: text_of(stand, "second")}))
    assert stand.paused.reason == "second"


async def test_only_what_cannot_be_read_is_amended(stand):
    stand.pause(600)
    stand.cache.amend(NS, OverrideEntry())
    stand.cache.amend("shoot--nobody", OverrideEntry())
    assert stand.paused is not None
    assert stand.cache.effective("shoot--nobody") == NOTHING


# As the weeder sees them.


async def test_only_a_pause_of_scope_all_keeps_pods(stand):
    pauses = WeederPauses(stand.cache)
    assert pauses.paused(NS) is None
    stand.pause(60, scope="scaleDown")
    assert pauses.paused(NS) is None
    stand.pause(60, reason="surgery", author="alice")
    until = rfc3339(stand.paused.until)
    assert pauses.paused(NS) == f"the shoot is paused by alice until {until}: surgery"
    assert pauses.paused("shoot--other") is None


async def test_a_pause_of_all_keeps_the_pods_of_every_shoot(stand):
    pauses = WeederPauses(stand.cache)
    stand.pause(60, scope="scaleDown")
    stand.pause(60, ALL_SHOOTS)
    assert str(pauses.paused(NS)).startswith("all shoots are paused by a until ")


async def test_an_unreadable_key_keeps_pods(stand):
    stand.store.kubectl_set(NS, "junk")
    assert "cannot be read" in str(WeederPauses(stand.cache).paused(NS))


async def test_a_hold_keeps_no_pods(stand):
    stand.store.kubectl_set(NS, {"hold": {}})
    assert WeederPauses(stand.cache).paused(NS) is None


async def test_the_weeder_hears_of_the_end_of_a_pause_and_waits_for_the_first_list(make):
    stand = make(synced=False)
    pauses, heard = WeederPauses(stand.cache), asyncio.Event()
    pauses.subscribe(heard.set)
    known = [pauses.synced]
    stand.store.synced = True
    known.append(pauses.synced)
    assert known == [False, True]
    await stand.after(1)
    stand.pause(5)
    heard.clear()
    await asyncio.wait_for(heard.wait(), 6)
    assert pauses.paused(NS) is None


def many(number, **more):
    return {
        f"shoot--{n:05}": json.dumps({"pause": {"reason": str(n)}}) for n in range(number)
    } | more


async def test_hundreds_of_keys_are_read_in_turns_with_others_and_told_of_once(make):
    stand = make(synced=False)
    stand.store.kubectl(many(300) | {ALL_SHOOTS: '{"pause": {"scope": "scaleDown"}}'})
    stand.store.synced = True
    assert not stand.cache.synced
    assert stand.cache.global_pause() is not None, "it is read first"
    assert stand.cache.effective("shoot--00299").pause.scope is Scope.ALL, "it may be paused"
    assert stand.cache.effective("shoot--other").pause is None
    await stand.after(0)
    assert stand.cache.synced
    assert stand.cache.effective("shoot--00299").pause.reason == "299"
    assert len(stand.told) == 2, "what is in force, and that it is known"


async def test_what_was_known_of_a_key_goes_on_until_its_new_text_is_read(stand):
    stand.store.kubectl(many(300))
    await stand.after(1)
    data = {key: text.replace('reason": "', 'reason": "new ') for key, text in many(300).items()}
    stand.told.clear()
    stand.store.kubectl(data)
    last = "shoot--00299"
    assert stand.cache.effective(last).pause.reason == "299"
    assert stand.told == []
    await stand.after(2)
    assert stand.cache.effective(last).pause.reason == "new 299"
    assert len(stand.told) == 1


async def test_of_more_than_two_thousand_keys_the_rest_is_one_report(stand):
    with capture_logs() as logs:
        stand.store.kubectl(many(2_500))
        await stand.after(30)
        stand.store.kubectl(many(2_600))
        await stand.after(60)
    assert "more than 2000 keys" in stand.cache.trouble
    assert stand.cache.feature_off is None
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert stand.cache.unread == 600
    assert len(stand.cache.knowledge) == 2_000
    stand.store.kubectl(many(2_000))
    await stand.after(61)
    assert stand.cache.trouble is None
    assert stand.cache.unread == 0


async def test_a_shoot_whose_key_is_among_the_rest_is_paused_for_an_hour_and_that_end_is_told(
    stand,
):
    stand.store.kubectl(many(2_001))
    await stand.after(1)
    late = "shoot--02000"
    assert stand.cache.effective(late).pause.stand_in
    stand.told.clear()
    await stand.after(3_598)
    assert stand.cache.effective(late).pause is not None
    assert stand.told == []
    await stand.after(3_601)
    assert stand.cache.effective(late).pause is None
    assert len(stand.told) == 1


async def test_what_is_written_among_too_many_keys_is_in_force(stand):
    stand.store.kubectl(many(2_500))
    await stand.after(1)
    stand.pause(60, "shoot--99999")
    assert stand.cache.effective("shoot--99999").pause.author == "a"
    await stand.after(2)
    stand.store.kubectl_set("shoot--00001", {"pause": {"reason": "another"}})
    assert stand.cache.effective("shoot--99999").pause.author == "a"
