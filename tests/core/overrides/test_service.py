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


class Stand:
    """A desk over a ConfigMap in memory."""

    def __init__(self, *, dry_run=False, server=None, synced=True, forbidden=None):
        self.clock = Clock.of_loop(1_800_000_000.25)
        self.now = self.clock.now()
        self.store = MemoryStore(self.clock, server)
        self.store.synced = synced
        if forbidden:
            self.store.forbid(forbidden)
        self.cache = OverrideCache(self.store, self.clock, Metrics())
        self.desk = OverrideService(
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
async def stand():
    return Stand()


async def test_a_pause_is_written_and_in_force_when_the_call_returns(stand):
    stand.store.held = True
    change = await stand.desk.set_pause(NS, stand.pause())
    assert change.before is None
    assert change.after == OverrideEntry(
        Pause(Scope.ALL, "surgery", "alice", 1_800_000_000, 1_800_000_601)
    )
    assert stand.effective().pause == change.after.pause
    assert stand.store.requests == ["create"]
    assert stand.store.entries(NS) == {
        "pause": {
            "scope": "all",
            "reason": "surgery",
            "author": "alice",
            "createdAt": "2027-01-15T08:00:00Z",
            "until": "2027-01-15T08:10:01Z",
        }
    }


async def test_no_pause_is_written_that_lasts_longer_than_a_day(stand):
    change = await stand.desk.set_pause(NS, stand.pause(2 * LONGEST))
    assert change.after.pause.until - change.after.pause.created_at == LONGEST


async def test_a_second_write_goes_over_the_first_without_reading_again(stand):
    await stand.desk.set_pause(NS, stand.pause())
    change = await stand.desk.set_pause(ALL_SHOOTS, stand.pause(scope=Scope.SCALE_DOWN))
    assert stand.store.requests == ["create", "replace"]
    assert set(stand.store.data) == {NS, ALL_SHOOTS}
    assert stand.cache.global_pause() == change.after.pause


async def test_a_pause_replaces_the_one_that_is_there(stand):
    await stand.desk.set_pause(NS, stand.pause())
    change = await stand.desk.set_pause(NS, stand.pause(reason="longer"))
    assert change.before.pause.reason == "surgery"
    assert stand.effective().pause.reason == "longer"


async def test_a_pause_that_is_there_already_is_not_written_again(stand):
    await stand.desk.set_pause(NS, stand.pause())
    change = await stand.desk.set_pause(NS, stand.pause())
    assert change.before == change.after
    assert stand.store.requests == ["create"]


async def test_a_write_leaves_the_other_entry_and_all_other_keys_to_the_byte(stand):
    hold = f'{{ "hold":{{"until":"{rfc3339(stand.now + 60)}", "reason":"by kubectl"}} }}'
    stand.store.kubectl({NS: hold, OTHER: "junk { of somebody", "a.b": ""})
    await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.data[OTHER] == "junk { of somebody"
    assert stand.store.data["a.b"] == ""
    assert stand.store.entries(NS)["hold"] == json.loads(hold)["hold"]


async def test_ending_a_pause_leaves_the_hold(stand):
    await stand.desk.set_pause(NS, stand.pause())
    await stand.desk.set_hold(NS, stand.hold())
    change = await stand.desk.end_pause(NS)
    assert change.before.pause is not None
    assert change.after == OverrideEntry(None, change.before.hold)
    assert set(stand.store.entries(NS)) == {"hold"}


async def test_the_last_entry_takes_its_key_with_it(stand):
    await stand.desk.set_pause(NS, stand.pause())
    change = await stand.desk.end_pause(NS)
    assert change.after is None
    assert stand.store.data == {}
    assert stand.effective().pause is None


async def test_ending_what_is_not_there_writes_nothing(stand):
    change = await stand.desk.end_pause(NS)
    assert change.before is change.after is None
    await stand.desk.set_pause(NS, stand.pause())
    stand.store.requests.clear()
    change = await stand.desk.end_hold(NS)
    assert change.before == change.after
    assert stand.store.requests == []


# Holds and their scaling runs.


async def test_a_hold_is_written_with_its_run_before_anything_else(stand):
    started = []
    change = await stand.desk.set_hold(NS, stand.hold(), starting=lambda: started.append(1))
    assert started == [1]
    assert change.after.hold.operation == "op"
    assert stand.store.entries(NS)["hold"]["done"] is False
    assert not stand.effective().hold.done


async def test_who_does_not_lead_any_more_writes_no_hold(stand):
    def lost():
        raise LeadershipLost("another leads")

    with pytest.raises(LeadershipLost):
        await stand.desk.set_hold(NS, stand.hold(), starting=lost)
    assert stand.store.data == {}


async def test_a_finished_run_writes_done_and_nothing_else(stand):
    await stand.desk.set_hold(NS, stand.hold())
    before = stand.store.entries(NS)["hold"]
    change = await stand.desk.finish_hold(NS, "op")
    assert not change.before.hold.done
    assert change.after.hold.done
    assert stand.store.entries(NS)["hold"] == {**before, "done": True}


@pytest.mark.parametrize("there", [None, {"pause": {}}, {"hold": {"operation": "newer"}}])
async def test_a_finished_run_whose_hold_is_another_ones_writes_nothing(stand, there):
    stand.store.kubectl_set(NS, there)
    before = stand.store.data
    await stand.desk.finish_hold(NS, "op")
    await stand.desk.end_hold(NS, operation="op")
    assert stand.store.data == before
    assert stand.store.requests == []


async def test_done_is_written_once(stand):
    await stand.desk.set_hold(NS, stand.hold())
    await stand.desk.finish_hold(NS, "op")
    stand.store.requests.clear()
    change = await stand.desk.finish_hold(NS, "op")
    assert change.before == change.after
    assert stand.store.requests == []


async def test_done_goes_into_a_hold_that_was_prolonged_meanwhile(stand):
    await stand.desk.set_hold(NS, stand.hold())
    longer = {**stand.store.entries(NS)["hold"], "until": rfc3339(stand.now + 9_000)}
    stand.before_write(lambda: stand.store.kubectl_set(NS, {"hold": longer}))
    await stand.desk.finish_hold(NS, "op")
    assert stand.store.entries(NS)["hold"] == {**longer, "done": True}


async def test_done_does_not_go_into_a_hold_that_came_meanwhile(stand):
    await stand.desk.set_hold(NS, stand.hold())
    newer = {**stand.store.entries(NS)["hold"], "operation": "newer"}
    stand.before_write(lambda: stand.store.kubectl_set(NS, {"hold": newer}))
    change = await stand.desk.finish_hold(NS, "op")
    assert stand.store.entries(NS)["hold"] == newer
    assert change.after.hold.operation == "newer"


async def test_a_hold_is_ended_by_its_operation(stand):
    await stand.desk.set_hold(NS, stand.hold(done=True))
    change = await stand.desk.end_hold(NS, operation="op")
    assert change.before.hold is not None
    assert stand.store.data == {}


async def test_a_hold_is_ended_by_a_person_whatever_its_operation(stand):
    await stand.desk.set_hold(NS, stand.hold())
    await stand.desk.end_hold(NS)
    assert stand.effective().hold is None


# Others write at the same time.


async def test_a_conflict_over_another_key_is_written_again(stand):
    await stand.desk.set_pause(OTHER, stand.pause())
    stand.store.conflicts = 3
    await stand.desk.set_pause(NS, stand.pause())
    assert {NS, OTHER, "stranger"} == set(stand.store.data)
    assert stand.store.requests[1:] == ["replace", "read"] * 3 + ["replace"]


async def test_a_conflict_over_the_other_entry_of_the_key_is_written_again(stand):
    await stand.desk.set_pause(NS, stand.pause())
    hold = {"hold": {"operation": "theirs", "direction": "up", "done": False, **stand.span()}}
    both = {**stand.store.entries(NS), **hold}
    stand.before_write(lambda: stand.store.kubectl_set(NS, both))
    change = await stand.desk.set_pause(NS, stand.pause(reason="longer"))
    assert change.before.hold.operation == "theirs"
    assert stand.store.entries(NS)["hold"] == hold["hold"]
    assert stand.store.entries(NS)["pause"]["reason"] == "longer"


async def test_a_conflict_over_the_same_entry_says_what_is_there_and_changes_nothing(stand):
    await stand.desk.set_pause(NS, stand.pause())
    stand.before_write(lambda: stand.kubectl_pause(reason="theirs"))
    with pytest.raises(EntryChanged, match=f"changed the pause of {NS}") as caught:
        await stand.desk.set_pause(NS, stand.pause(reason="ours"))
    assert caught.value.now == {"reason": "theirs", **stand.span()}
    assert stand.effective().pause.reason == "theirs"


async def test_a_pause_that_appears_meanwhile_is_not_overwritten(stand):
    stand.before_write(lambda: stand.kubectl_pause(reason="theirs"))
    with pytest.raises(EntryChanged):
        await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.entries(NS)["pause"]["reason"] == "theirs"


async def test_a_pause_that_vanishes_meanwhile_is_not_written_again(stand):
    await stand.desk.set_pause(NS, stand.pause())
    stand.before_write(lambda: stand.store.kubectl({OTHER: "{}"}))
    with pytest.raises(EntryChanged, match="removed the pause") as caught:
        await stand.desk.set_pause(NS, stand.pause(reason="longer"))
    assert caught.value.now is None
    assert set(stand.store.data) == {OTHER}


async def test_a_pause_that_was_changed_meanwhile_is_not_ended(stand):
    await stand.desk.set_pause(NS, stand.pause())
    stand.before_write(lambda: stand.kubectl_pause(reason="theirs"))
    with pytest.raises(EntryChanged):
        await stand.desk.end_pause(NS)
    assert stand.effective().pause.reason == "theirs"


async def test_a_pause_that_somebody_else_ended_meanwhile_is_ended(stand):
    await stand.desk.set_pause(NS, stand.pause())
    stand.before_write(lambda: stand.store.kubectl({}))
    change = await stand.desk.end_pause(NS)
    assert change.before.pause is not None
    assert change.after is None


async def test_a_config_map_that_is_deleted_meanwhile_is_made_anew(stand):
    stand.store.kubectl({OTHER: "{}"})
    stand.before_write(lambda: stand.store.kubectl(None))
    await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.requests == ["replace", "read", "create"]
    assert set(stand.store.data) == {NS}


async def test_a_config_map_that_somebody_else_makes_meanwhile_is_written_over_as_it_is(stand):
    stand.before_write(lambda: stand.store.kubectl({OTHER: "{}"}))
    await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.requests == ["create", "read", "replace"]
    assert set(stand.store.data) == {NS, OTHER}


async def test_a_key_that_becomes_unreadable_meanwhile_is_not_replaced_unseen(stand):
    await stand.desk.set_pause(NS, stand.pause())
    stand.before_write(lambda: stand.store.kubectl_set(NS, "half a th\x07ought"))
    with pytest.raises(EntryChanged) as caught:
        await stand.desk.set_pause(NS, stand.pause(reason="ours"))
    assert caught.value.now == "half a th ought"
    assert stand.store.data[NS] == "half a th\x07ought"


async def test_others_who_write_each_time_just_before_are_a_conflict_in_the_end(stand):
    stand.store.conflicts = 1_000
    with pytest.raises(Conflict):
        await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.requests.count("create") + stand.store.requests.count("replace") == TRIES
    assert NS not in stand.store.data


async def test_a_hundred_calls_at_once_here_meet_no_conflict_among_themselves(stand):
    await asyncio.gather(*(stand.desk.set_pause(f"shoot--{n}", stand.pause()) for n in range(100)))
    assert len(stand.store.data) == 100
    assert stand.store.requests == ["create"] + ["replace"] * 99


# Keys that cannot be read.


async def test_a_pause_over_an_unreadable_key_replaces_it(stand):
    stand.store.kubectl_set(NS, {"pause": {"scope": "x"}, "hold": {}})
    change = await stand.desk.set_pause(NS, stand.pause())
    assert isinstance(change.before, Unreadable)
    assert stand.store.entries(NS).keys() == {"pause"}
    assert stand.effective().unreadable is None


async def test_ending_the_pause_of_an_unreadable_key_removes_it(stand):
    stand.store.kubectl_set(NS, "{")
    change = await stand.desk.end_pause(NS)
    assert isinstance(change.before, Unreadable)
    assert change.after is None
    assert stand.store.data == {}
    assert stand.effective().pause is None


async def test_a_hold_that_is_known_in_force_outlives_the_key_that_hid_it(stand):
    await stand.desk.set_hold(NS, stand.hold())
    stand.store.kubectl_set(NS, "{")
    assert stand.effective().hold.operation == "op"
    change = await stand.desk.set_pause(NS, stand.pause())
    assert change.after.hold.operation == "op"
    assert not stand.effective().hold.done


async def test_what_has_ended_does_not_come_back_with_a_key_that_is_replaced(stand):
    await stand.desk.set_pause(NS, stand.pause(-60))
    await stand.desk.set_hold(NS, stand.hold(-60, done=True))
    stand.store.kubectl_set(NS, "{")
    await stand.desk.set_hold(NS, stand.hold(operation="new"))
    assert set(stand.store.entries(NS)) == {"hold"}
    stand.store.kubectl_set(NS, {"hold": {**stand.store.entries(NS)["hold"], "done": True}})
    stand.store.kubectl_set(NS, "{")
    await stand.clock.sleep(700)
    await stand.desk.set_pause(NS, stand.pause(900))
    assert set(stand.store.entries(NS)) == {"pause"}


async def test_a_run_that_ends_leaves_an_unreadable_key_to_its_writer_and_remembers(stand):
    await stand.desk.set_hold(NS, stand.hold())
    stand.store.kubectl_set(NS, "{")
    change = await stand.desk.finish_hold(NS, "op")
    assert change.after.hold.done
    assert stand.store.data[NS] == "{"
    assert stand.effective().hold.done
    await stand.desk.end_hold(NS, operation="op")
    assert stand.effective().hold is None
    assert stand.effective().pause is not None


async def test_a_run_that_ends_leaves_another_runs_hold_of_an_unreadable_key(stand):
    await stand.desk.set_hold(NS, stand.hold())
    stand.store.kubectl_set(NS, "{")
    await stand.desk.finish_hold(NS, "another")
    await stand.desk.end_hold(NS, operation="another")
    assert not stand.effective().hold.done


# Answers that are lost, and refusals.


@pytest.mark.parametrize("there", [None, {OTHER: "{}"}])
async def test_a_write_whose_answer_is_lost_is_done(stand, there):
    stand.store.kubectl(there)
    stand.store.lost_answers = 1
    change = await stand.desk.set_pause(NS, stand.pause())
    assert change.before is None
    assert change.after.pause is not None
    assert stand.store.requests[1:] == ["read"]
    assert stand.effective().pause is not None


async def test_a_finished_run_whose_answer_is_lost_has_changed_its_hold(stand):
    await stand.desk.set_hold(NS, stand.hold())
    stand.store.lost_answers = 1
    change = await stand.desk.finish_hold(NS, "op")
    assert not change.before.hold.done
    assert change.after.hold.done


async def test_a_write_that_was_lost_is_sent_again_over_the_same_version(stand):
    stand.store.kubectl({OTHER: "{}"})
    stand.store.lost_requests = 1
    await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.requests == ["replace", "read", "replace"]


async def test_a_lost_answer_over_somebody_elses_later_change_is_a_change_of_theirs(stand):
    await stand.desk.set_pause(NS, stand.pause())
    stand.store.lost_answers = 1

    async def before(what):
        if what == "read":
            stand.kubectl_pause(reason="theirs")

    stand.store.before = before
    with pytest.raises(EntryChanged):
        await stand.desk.set_pause(NS, stand.pause(reason="ours"))
    assert stand.effective().pause.reason == "theirs"


async def test_writes_that_are_lost_again_and_again_are_given_up(stand):
    stand.store.lost_requests = 100
    with pytest.raises(Unreachable):
        await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.requests.count("create") == TRIES_UNSURE
    assert stand.store.data == {}


@pytest.mark.parametrize("error", [Unreachable("cut"), ServerFault("500"), BadAnswer("cut off")])
async def test_a_seed_that_is_away_is_asked_once_more_and_then_named(stand, error):
    stand.store.failing = error
    with pytest.raises(type(error)) as caught:
        await stand.desk.set_pause(NS, stand.pause())
    assert caught.value is error
    assert stand.store.requests == ["create", "read"]


@pytest.mark.parametrize("error", [Throttled("429"), Invalid("422")])
async def test_a_write_that_was_refused_is_not_sent_again(stand, error):
    stand.store.failing = error
    with pytest.raises(type(error)):
        await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.requests == ["create"]


async def test_a_write_that_is_forbidden_is_a_feature_that_is_off(stand):
    stand.store.failing = Forbidden("update configmaps: 403")
    with pytest.raises(FeatureUnavailable, match="update configmaps") as caught:
        await stand.desk.set_pause(NS, stand.pause())
    assert caught.value.feature == "overrides"
    assert isinstance(caught.value.__cause__, Forbidden)


CALLS = {
    "set_pause": lambda stand: stand.desk.set_pause(NS, stand.pause()),
    "end_pause": lambda stand: stand.desk.end_pause(NS),
    "set_hold": lambda stand: stand.desk.set_hold(NS, stand.hold()),
    "finish_hold": lambda stand: stand.desk.finish_hold(NS, "op"),
    "end_hold": lambda stand: stand.desk.end_hold(NS),
    "end_hold_of_a_flow": lambda stand: stand.desk.end_hold(NS, operation="op"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_without_overrides_and_in_a_dry_run_every_write_is_off(call):
    dry = Stand(dry_run=True)
    with pytest.raises(FeatureUnavailable) as caught:
        await call(dry)
    assert caught.value.feature == "dry-run"
    forbidden = Stand(synced=False, forbidden="no right")
    with pytest.raises(FeatureUnavailable, match="no right"):
        await call(forbidden)
    assert dry.store.requests == forbidden.store.requests == []


async def test_before_the_watch_has_listed_it_is_read_live(stand):
    stand.store.kubectl({OTHER: "{}"})
    late = Stand(server=stand.store.server, synced=False)
    await late.desk.set_pause(NS, late.pause())
    assert late.store.requests == ["read", "replace"]
    assert set(late.store.data) == {NS, OTHER}
    assert late.effective().pause is not None


async def test_with_a_stale_watch_what_is_decided_on_is_read_live(stand):
    await stand.desk.set_pause(NS, stand.pause())
    stand.store.stale = True
    stand.kubectl_pause(reason="theirs, a while ago")
    await stand.clock.sleep(91)
    stand.store.requests.clear()
    change = await stand.desk.set_pause(NS, stand.pause(reason="ours"))
    assert change.before.pause.reason == "theirs, a while ago"
    assert stand.store.requests == ["read", "replace"]


# Size.


def filler(size):
    return {"shoot--big": "x" * (size - len("shoot--big"))}


async def test_what_would_be_too_large_is_refused_and_changes_nothing(stand):
    stand.store.kubectl(filler(MOST_BYTES - 50))
    with pytest.raises(StoreFull, match="more than 900 KiB"):
        await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.requests == []
    assert stand.effective().pause is None


async def test_bytes_are_counted_and_not_characters(stand):
    stand.store.kubectl({"shoot--big": "ü" * (MOST_BYTES // 2 - 100)})
    with pytest.raises(StoreFull):
        await stand.desk.set_pause(NS, stand.pause(reason="ü" * 80))


async def test_what_just_fits_is_written(stand):
    await stand.desk.set_pause(NS, stand.pause())
    used = len(NS) + len(stand.store.data[NS])
    stand.store.kubectl(filler(MOST_BYTES - used))
    await stand.desk.set_pause(NS, stand.pause())
    assert set(stand.store.data) == {NS, "shoot--big"}


async def test_what_makes_it_smaller_is_allowed_even_where_it_is_too_large(stand):
    await stand.desk.set_pause(NS, stand.pause())
    stand.store.kubectl({**stand.store.data, **filler(MOST_BYTES + 10_000)})
    await stand.desk.end_pause(NS)
    assert set(stand.store.data) == {"shoot--big"}


async def test_what_others_put_there_meanwhile_counts(stand):
    stand.before_write(lambda: stand.store.kubectl(filler(MOST_BYTES)))
    with pytest.raises(StoreFull):
        await stand.desk.set_pause(NS, stand.pause())
    assert set(stand.store.data) == {"shoot--big"}


async def test_nothing_is_written_over_keys_that_were_not_decoded(stand):
    stand.store.kubectl({"shoot--other": "{}"})
    whole = stand.store.server.document
    stand.cache.learn(replace(whole, resource_version="9999", left_out=5))
    with pytest.raises(StoreFull, match="remove some"):
        await stand.desk.set_pause(NS, stand.pause())
    assert stand.store.requests == []


async def test_a_write_beside_too_many_keys_keeps_all_of_them_and_is_in_force():
    stand = Stand()
    junk = {f"k{n}": "{}" for n in range(2_500)}
    stand.store.kubectl(junk)
    await stand.desk.set_pause(NS, stand.pause())
    found = stand.cache.effective(NS).pause
    assert found is not None
    assert (found.author, found.stand_in) == ("alice", False)
    assert stand.store.data.keys() == junk.keys() | {NS}
