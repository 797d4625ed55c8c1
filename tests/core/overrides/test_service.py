"""Writing one entry of one key, beside others who write."""

import asyncio
import json
from dataclasses import replace

import pytest

from app.core.clock import Clock
from app.core.errors import (
    BadAnswer,
    Conflict,
    EntryChanged,
    FeatureUnavailable,
    Forbidden,
    Invalid,
    LeadershipLost,
    ServerFault,
    StoreFull,
    Throttled,
    Unreachable,
)
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.overrides import (
    ALL_SHOOTS,
    LONGEST,
    Hold,
    OverrideEntry,
    Pause,
    Scope,
    Unreadable,
)
from app.core.model.workloads import Direction
from app.core.overrides.cache import OverrideCache
from app.core.overrides.service import OverrideService
from app.core.overrides.writer import MOST_BYTES, TRIES, TRIES_UNSURE, OverrideWriter
from tests.support.overrides import MemoryStore

NS = "shoot--acme--prod"
OTHER = "shoot--acme--test"


class Harness:
    """A service over a ConfigMap in memory."""

    def __init__(self, *, dry_run=False, server=None, synced=True, forbidden=None):
        self.clock = Clock.of_loop(1_800_000_000.25)
        self.now = self.clock.now()
        self.store = MemoryStore(self.clock, server)
        self.store.synced = synced
        if forbidden:
            self.store.forbid(forbidden)
        self.cache = OverrideCache(self.store, self.clock, Metrics())
        self.service = OverrideService(
            OverrideWriter(self.store, self.cache, dry_run=dry_run), self.cache, self.clock
        )

    def pause(self, seconds=600, reason="surgery", scope=Scope.ALL):
        return Pause(scope, reason, "alice", self.now, self.now + seconds)

    def hold(self, seconds=600, operation="op", *, done=False):
        return Hold(
            "by hand",
            "bob",
            self.now,
            self.now + seconds,
            Direction.UP,
            operation,
            done=done,
        )

    def span(self):
        return {"createdAt": rfc3339(self.now), "until": rfc3339(self.now + 600)}

    def kubectl_pause(self, key=NS, **fields):
        self.store.kubectl_set(key, {"pause": {**self.span(), **fields}})

    def effective(self, key=NS):
        return self.cache.effective(key)

    def before_write(self, act, times=1):
        """`act` is done by somebody else just before each of so many writes arrive."""
        left = [times]

        async def before(what):
            if what != "read" and left[0]:
                left[0] -= 1
                act()

        self.store.before = before


@pytest.fixture
async def harness():
    return Harness()


async def test_a_pause_is_written_and_in_force_when_the_call_returns(harness):
    harness.store.held = True
    change = await harness.service.set_pause(NS, harness.pause())
    assert change.before is None
    assert change.after == OverrideEntry(
        Pause(Scope.ALL, "surgery", "alice", 1_800_000_000, 1_800_000_601)
    )
    assert harness.effective().pause == change.after.pause
    assert harness.store.requests == ["create"]
    assert harness.store.entries(NS) == {
        "pause": {
            "scope": "all",
            "reason": "surgery",
            "author": "alice",
            "createdAt": "2027-01-15T08:00:00Z",
            "until": "2027-01-15T08:10:01Z",
        }
    }


async def test_no_pause_is_written_that_lasts_longer_than_a_day(harness):
    change = await harness.service.set_pause(NS, harness.pause(2 * LONGEST))
    assert change.after.pause.until - change.after.pause.created_at == LONGEST


async def test_a_second_write_goes_over_the_first_without_reading_again(harness):
    await harness.service.set_pause(NS, harness.pause())
    change = await harness.service.set_pause(ALL_SHOOTS, harness.pause(scope=Scope.SCALE_DOWN))
    assert harness.store.requests == ["create", "replace"]
    assert set(harness.store.data) == {NS, ALL_SHOOTS}
    assert harness.cache.global_pause() == change.after.pause


async def test_a_pause_replaces_the_one_that_is_there(harness):
    await harness.service.set_pause(NS, harness.pause())
    change = await harness.service.set_pause(NS, harness.pause(reason="longer"))
    assert change.before.pause.reason == "surgery"
    assert harness.effective().pause.reason == "longer"


async def test_a_pause_that_is_there_already_is_not_written_again(harness):
    await harness.service.set_pause(NS, harness.pause())
    change = await harness.service.set_pause(NS, harness.pause())
    assert change.before == change.after
    assert harness.store.requests == ["create"]


async def test_a_write_leaves_the_other_entry_and_all_other_keys_to_the_byte(harness):
    hold = f'{{ "hold":{{"until":"{rfc3339(harness.now + 60)}", "reason":"by kubectl"}} }}'
    harness.store.kubectl({NS: hold, OTHER: "junk { of somebody", "a.b": ""})
    await harness.service.set_pause(NS, harness.pause())
    assert harness.store.data[OTHER] == "junk { of somebody"
    assert harness.store.data["a.b"] == ""
    assert harness.store.entries(NS)["hold"] == json.loads(hold)["hold"]


async def test_ending_a_pause_leaves_the_hold(harness):
    await harness.service.set_pause(NS, harness.pause())
    await harness.service.set_hold(NS, harness.hold())
    change = await harness.service.end_pause(NS)
    assert change.before.pause is not None
    assert change.after == OverrideEntry(None, change.before.hold)
    assert set(harness.store.entries(NS)) == {"hold"}


async def test_the_last_entry_takes_its_key_with_it(harness):
    await harness.service.set_pause(NS, harness.pause())
    change = await harness.service.end_pause(NS)
    assert change.after is None
    assert harness.store.data == {}
    assert harness.effective().pause is None


async def test_ending_what_is_not_there_writes_nothing(harness):
    change = await harness.service.end_pause(NS)
    assert change.before is change.after is None
    await harness.service.set_pause(NS, harness.pause())
    harness.store.requests.clear()
    change = await harness.service.end_hold(NS)
    assert change.before == change.after
    assert harness.store.requests == []


# Holds and their scaling runs.


async def test_a_hold_is_written_with_its_run_before_anything_else(harness):
    started = []
    change = await harness.service.set_hold(NS, harness.hold(), starting=lambda: started.append(1))
    assert started == [1]
    assert change.after.hold.operation == "op"
    assert harness.store.entries(NS)["hold"]["done"] is False
    assert not harness.effective().hold.done


async def test_who_does_not_lead_any_more_writes_no_hold(harness):
    def lost():
        raise LeadershipLost("another leads")

    with pytest.raises(LeadershipLost):
        await harness.service.set_hold(NS, harness.hold(), starting=lost)
    assert harness.store.data == {}


async def test_a_finished_run_writes_done_and_nothing_else(harness):
    await harness.service.set_hold(NS, harness.hold())
    before = harness.store.entries(NS)["hold"]
    change = await harness.service.finish_hold(NS, "op")
    assert not change.before.hold.done
    assert change.after.hold.done
    assert harness.store.entries(NS)["hold"] == {**before, "done": True}


@pytest.mark.parametrize("there", [None, {"pause": {}}, {"hold": {"operation": "newer"}}])
async def test_a_finished_run_whose_hold_is_another_ones_writes_nothing(harness, there):
    harness.store.kubectl_set(NS, there)
    before = harness.store.data
    await harness.service.finish_hold(NS, "op")
    await harness.service.end_hold(NS, operation="op")
    assert harness.store.data == before
    assert harness.store.requests == []


async def test_done_is_written_once(harness):
    await harness.service.set_hold(NS, harness.hold())
    await harness.service.finish_hold(NS, "op")
    harness.store.requests.clear()
    change = await harness.service.finish_hold(NS, "op")
    assert change.before == change.after
    assert harness.store.requests == []


async def test_done_goes_into_a_hold_that_was_prolonged_meanwhile(harness):
    await harness.service.set_hold(NS, harness.hold())
    longer = {**harness.store.entries(NS)["hold"], "until": rfc3339(harness.now + 9_000)}
    harness.before_write(lambda: harness.store.kubectl_set(NS, {"hold": longer}))
    await harness.service.finish_hold(NS, "op")
    assert harness.store.entries(NS)["hold"] == {**longer, "done": True}


async def test_done_does_not_go_into_a_hold_that_came_meanwhile(harness):
    await harness.service.set_hold(NS, harness.hold())
    newer = {**harness.store.entries(NS)["hold"], "operation": "newer"}
    harness.before_write(lambda: harness.store.kubectl_set(NS, {"hold": newer}))
    change = await harness.service.finish_hold(NS, "op")
    assert harness.store.entries(NS)["hold"] == newer
    assert change.after.hold.operation == "newer"


async def test_a_hold_is_ended_by_its_operation(harness):
    await harness.service.set_hold(NS, harness.hold(done=True))
    change = await harness.service.end_hold(NS, operation="op")
    assert change.before.hold is not None
    assert harness.store.data == {}


async def test_a_hold_is_ended_by_a_person_whatever_its_operation(harness):
    await harness.service.set_hold(NS, harness.hold())
    await harness.service.end_hold(NS)
    assert harness.effective().hold is None


# Others write at the same time.


async def test_a_conflict_over_another_key_is_written_again(harness):
    await harness.service.set_pause(OTHER, harness.pause())
    harness.store.conflicts = 3
    await harness.service.set_pause(NS, harness.pause())
    assert {NS, OTHER, "stranger"} == set(harness.store.data)
    assert harness.store.requests[1:] == ["replace", "read"] * 3 + ["replace"]


async def test_a_conflict_over_the_other_entry_of_the_key_is_written_again(harness):
    await harness.service.set_pause(NS, harness.pause())
    hold = {"hold": {"operation": "theirs", "direction": "up", "done": False, **harness.span()}}
    both = {**harness.store.entries(NS), **hold}
    harness.before_write(lambda: harness.store.kubectl_set(NS, both))
    change = await harness.service.set_pause(NS, harness.pause(reason="longer"))
    assert change.before.hold.operation == "theirs"
    assert harness.store.entries(NS)["hold"] == hold["hold"]
    assert harness.store.entries(NS)["pause"]["reason"] == "longer"


async def test_a_conflict_over_the_same_entry_says_what_is_there_and_changes_nothing(harness):
    await harness.service.set_pause(NS, harness.pause())
    harness.before_write(lambda: harness.kubectl_pause(reason="theirs"))
    with pytest.raises(EntryChanged, match=f"changed the pause of {NS}") as caught:
        await harness.service.set_pause(NS, harness.pause(reason="ours"))
    assert caught.value.now == {"reason": "theirs", **harness.span()}
    assert harness.effective().pause.reason == "theirs"


async def test_a_pause_that_appears_meanwhile_is_not_overwritten(harness):
    harness.before_write(lambda: harness.kubectl_pause(reason="theirs"))
    with pytest.raises(EntryChanged):
        await harness.service.set_pause(NS, harness.pause())
    assert harness.store.entries(NS)["pause"]["reason"] == "theirs"


async def test_a_pause_that_vanishes_meanwhile_is_not_written_again(harness):
    await harness.service.set_pause(NS, harness.pause())
    harness.before_write(lambda: harness.store.kubectl({OTHER: "{}"}))
    with pytest.raises(EntryChanged, match="removed the pause") as caught:
        await harness.service.set_pause(NS, harness.pause(reason="longer"))
    assert caught.value.now is None
    assert set(harness.store.data) == {OTHER}


async def test_a_pause_that_was_changed_meanwhile_is_not_ended(harness):
    await harness.service.set_pause(NS, harness.pause())
    harness.before_write(lambda: harness.kubectl_pause(reason="theirs"))
    with pytest.raises(EntryChanged):
        await harness.service.end_pause(NS)
    assert harness.effective().pause.reason == "theirs"


async def test_a_pause_that_somebody_else_ended_meanwhile_is_ended(harness):
    await harness.service.set_pause(NS, harness.pause())
    harness.before_write(lambda: harness.store.kubectl({}))
    change = await harness.service.end_pause(NS)
    assert change.before.pause is not None
    assert change.after is None


async def test_a_config_map_that_is_deleted_meanwhile_is_made_anew(harness):
    harness.store.kubectl({OTHER: "{}"})
    harness.before_write(lambda: harness.store.kubectl(None))
    await harness.service.set_pause(NS, harness.pause())
    assert harness.store.requests == ["replace", "read", "create"]
    assert set(harness.store.data) == {NS}


async def test_a_config_map_that_somebody_else_makes_meanwhile_is_written_over_as_it_is(harness):
    harness.before_write(lambda: harness.store.kubectl({OTHER: "{}"}))
    await harness.service.set_pause(NS, harness.pause())
    assert harness.store.requests == ["create", "read", "replace"]
    assert set(harness.store.data) == {NS, OTHER}


async def test_a_key_that_becomes_unreadable_meanwhile_is_not_replaced_unseen(harness):
    await harness.service.set_pause(NS, harness.pause())
    harness.before_write(lambda: harness.store.kubectl_set(NS, "half a th\x07ought"))
    with pytest.raises(EntryChanged) as caught:
        await harness.service.set_pause(NS, harness.pause(reason="ours"))
    assert caught.value.now == "half a th ought"
    assert harness.store.data[NS] == "half a th\x07ought"


async def test_others_who_write_each_time_just_before_are_a_conflict_in_the_end(harness):
    harness.store.conflicts = 1_000
    with pytest.raises(Conflict):
        await harness.service.set_pause(NS, harness.pause())
    assert harness.store.requests.count("create") + harness.store.requests.count("replace") == TRIES
    assert NS not in harness.store.data


async def test_a_hundred_calls_at_once_here_meet_no_conflict_among_themselves(harness):
    await asyncio.gather(
        *(harness.service.set_pause(f"shoot--{n}", harness.pause()) for n in range(100))
    )
    assert len(harness.store.data) == 100
    assert harness.store.requests == ["create"] + ["replace"] * 99


# Keys that cannot be read.


async def test_a_pause_over_an_unreadable_key_replaces_it(harness):
    harness.store.kubectl_set(NS, {"pause": {"scope": "x"}, "hold": {}})
    change = await harness.service.set_pause(NS, harness.pause())
    assert isinstance(change.before, Unreadable)
    assert harness.store.entries(NS).keys() == {"pause"}
    assert harness.effective().unreadable is None


async def test_ending_the_pause_of_an_unreadable_key_removes_it(harness):
    harness.store.kubectl_set(NS, "{")
    change = await harness.service.end_pause(NS)
    assert isinstance(change.before, Unreadable)
    assert change.after is None
    assert harness.store.data == {}
    assert harness.effective().pause is None


async def test_a_hold_that_is_known_in_force_outlives_the_key_that_hid_it(harness):
    await harness.service.set_hold(NS, harness.hold())
    harness.store.kubectl_set(NS, "{")
    assert harness.effective().hold.operation == "op"
    change = await harness.service.set_pause(NS, harness.pause())
    assert change.after.hold.operation == "op"
    assert not harness.effective().hold.done


async def test_what_has_ended_does_not_come_back_with_a_key_that_is_replaced(harness):
    await harness.service.set_pause(NS, harness.pause(-60))
    await harness.service.set_hold(NS, harness.hold(-60, done=True))
    harness.store.kubectl_set(NS, "{")
    await harness.service.set_hold(NS, harness.hold(operation="new"))
    assert set(harness.store.entries(NS)) == {"hold"}
    harness.store.kubectl_set(NS, {"hold": {**harness.store.entries(NS)["hold"], "done": True}})
    harness.store.kubectl_set(NS, "{")
    await harness.clock.sleep(700)
    await harness.service.set_pause(NS, harness.pause(900))
    assert set(harness.store.entries(NS)) == {"pause"}


async def test_a_run_that_ends_leaves_an_unreadable_key_to_its_writer_and_remembers(harness):
    await harness.service.set_hold(NS, harness.hold())
    harness.store.kubectl_set(NS, "{")
    change = await harness.service.finish_hold(NS, "op")
    assert change.after.hold.done
    assert harness.store.data[NS] == "{"
    assert harness.effective().hold.done
    await harness.service.end_hold(NS, operation="op")
    assert harness.effective().hold is None
    assert harness.effective().pause is not None


async def test_a_run_that_ends_leaves_another_runs_hold_of_an_unreadable_key(harness):
    await harness.service.set_hold(NS, harness.hold())
    harness.store.kubectl_set(NS, "{")
    await harness.service.finish_hold(NS, "another")
    await harness.service.end_hold(NS, operation="another")
    assert not harness.effective().hold.done


# Answers that are lost, and refusals.


@pytest.mark.parametrize("there", [None, {OTHER: "{}"}])
async def test_a_write_whose_answer_is_lost_is_done(harness, there):
    harness.store.kubectl(there)
    harness.store.lost_answers = 1
    change = await harness.service.set_pause(NS, harness.pause())
    assert change.before is None
    assert change.after.pause is not None
    assert harness.store.requests[1:] == ["read"]
    assert harness.effective().pause is not None


async def test_a_finished_run_whose_answer_is_lost_has_changed_its_hold(harness):
    await harness.service.set_hold(NS, harness.hold())
    harness.store.lost_answers = 1
    change = await harness.service.finish_hold(NS, "op")
    assert not change.before.hold.done
    assert change.after.hold.done


async def test_a_write_that_was_lost_is_sent_again_over_the_same_version(harness):
    harness.store.kubectl({OTHER: "{}"})
    harness.store.lost_requests = 1
    await harness.service.set_pause(NS, harness.pause())
    assert harness.store.requests == ["replace", "read", "replace"]


async def test_a_lost_answer_over_somebody_elses_later_change_is_a_change_of_theirs(harness):
    await harness.service.set_pause(NS, harness.pause())
    harness.store.lost_answers = 1

    async def before(what):
        if what == "read":
            harness.kubectl_pause(reason="theirs")

    harness.store.before = before
    with pytest.raises(EntryChanged):
        await harness.service.set_pause(NS, harness.pause(reason="ours"))
    assert harness.effective().pause.reason == "theirs"


async def test_writes_that_are_lost_again_and_again_are_given_up(harness):
    harness.store.lost_requests = 100
    with pytest.raises(Unreachable):
        await harness.service.set_pause(NS, harness.pause())
    assert harness.store.requests.count("create") == TRIES_UNSURE
    assert harness.store.data == {}


@pytest.mark.parametrize("error", [Unreachable("cut"), ServerFault("500"), BadAnswer("cut off")])
async def test_a_seed_that_is_away_is_asked_once_more_and_then_named(harness, error):
    harness.store.failing = error
    with pytest.raises(type(error)) as caught:
        await harness.service.set_pause(NS, harness.pause())
    assert caught.value is error
    assert harness.store.requests == ["create", "read"]


@pytest.mark.parametrize("error", [Throttled("429"), Invalid("422")])
async def test_a_write_that_was_refused_is_not_sent_again(harness, error):
    harness.store.failing = error
    with pytest.raises(type(error)):
        await harness.service.set_pause(NS, harness.pause())
    assert harness.store.requests == ["create"]


async def test_a_write_that_is_forbidden_is_a_feature_that_is_off(harness):
    harness.store.failing = Forbidden("update configmaps: 403")
    with pytest.raises(FeatureUnavailable, match="update configmaps") as caught:
        await harness.service.set_pause(NS, harness.pause())
    assert caught.value.feature == "overrides"
    assert isinstance(caught.value.__cause__, Forbidden)


CALLS = {
    "set_pause": lambda harness: harness.service.set_pause(NS, harness.pause()),
    "end_pause": lambda harness: harness.service.end_pause(NS),
    "set_hold": lambda harness: harness.service.set_hold(NS, harness.hold()),
    "finish_hold": lambda harness: harness.service.finish_hold(NS, "op"),
    "end_hold": lambda harness: harness.service.end_hold(NS),
    "end_hold_of_a_flow": lambda harness: harness.service.end_hold(NS, operation="op"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_without_overrides_and_in_a_dry_run_every_write_is_off(call):
    dry = Harness(dry_run=True)
    with pytest.raises(FeatureUnavailable) as caught:
        await call(dry)
    assert caught.value.feature == "dry-run"
    forbidden = Harness(synced=False, forbidden="no right")
    with pytest.raises(FeatureUnavailable, match="no right"):
        await call(forbidden)
    assert dry.store.requests == forbidden.store.requests == []


async def test_before_the_watch_has_listed_it_is_read_live(harness):
    harness.store.kubectl({OTHER: "{}"})
    late = Harness(server=harness.store.server, synced=False)
    await late.service.set_pause(NS, late.pause())
    assert late.store.requests == ["read", "replace"]
    assert set(late.store.data) == {NS, OTHER}
    assert late.effective().pause is not None


async def test_with_a_stale_watch_what_is_decided_on_is_read_live(harness):
    await harness.service.set_pause(NS, harness.pause())
    harness.store.stale = True
    harness.kubectl_pause(reason="theirs, a while ago")
    await harness.clock.sleep(91)
    harness.store.requests.clear()
    change = await harness.service.set_pause(NS, harness.pause(reason="ours"))
    assert change.before.pause.reason == "theirs, a while ago"
    assert harness.store.requests == ["read", "replace"]


# Size.


def filler(size):
    return {"shoot--big": "x" * (size - len("shoot--big"))}


async def test_what_would_be_too_large_is_refused_and_changes_nothing(harness):
    harness.store.kubectl(filler(MOST_BYTES - 50))
    with pytest.raises(StoreFull, match="more than 900 KiB"):
        await harness.service.set_pause(NS, harness.pause())
    assert harness.store.requests == []
    assert harness.effective().pause is None


async def test_bytes_are_counted_and_not_characters(harness):
    harness.store.kubectl({"shoot--big": "ü" * (MOST_BYTES // 2 - 100)})
    with pytest.raises(StoreFull):
        await harness.service.set_pause(NS, harness.pause(reason="ü" * 80))


async def test_what_just_fits_is_written(harness):
    await harness.service.set_pause(NS, harness.pause())
    used = len(NS) + len(harness.store.data[NS])
    harness.store.kubectl(filler(MOST_BYTES - used))
    await harness.service.set_pause(NS, harness.pause())
    assert set(harness.store.data) == {NS, "shoot--big"}


async def test_what_makes_it_smaller_is_allowed_even_where_it_is_too_large(harness):
    await harness.service.set_pause(NS, harness.pause())
    harness.store.kubectl({**harness.store.data, **filler(MOST_BYTES + 10_000)})
    await harness.service.end_pause(NS)
    assert set(harness.store.data) == {"shoot--big"}


async def test_what_others_put_there_meanwhile_counts(harness):
    harness.before_write(lambda: harness.store.kubectl(filler(MOST_BYTES)))
    with pytest.raises(StoreFull):
        await harness.service.set_pause(NS, harness.pause())
    assert set(harness.store.data) == {"shoot--big"}


async def test_nothing_is_written_over_keys_that_were_not_decoded(harness):
    harness.store.kubectl({"shoot--other": "{}"})
    whole = harness.store.server.document
    harness.cache.learn(replace(whole, resource_version="9999", left_out=5))
    with pytest.raises(StoreFull, match="remove some"):
        await harness.service.set_pause(NS, harness.pause())
    assert harness.store.requests == []


async def test_a_write_beside_too_many_keys_keeps_all_of_them_and_is_in_force():
    harness = Harness()
    junk = {f"k{n}": "{}" for n in range(2_500)}
    harness.store.kubectl(junk)
    await harness.service.set_pause(NS, harness.pause())
    found = harness.cache.effective(NS).pause
    assert found is not None
    assert (found.author, found.stand_in) == ("alice", False)
    assert harness.store.data.keys() == junk.keys() | {NS}
