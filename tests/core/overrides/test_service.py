"""What the API and scaling runs write: read back where nobody knows, and never over somebody else's change."""

import pytest

from app.core.errors import (
    ClusterError,
    Conflict,
    EntryChanged,
    FeatureUnavailable,
    LeadershipLost,
    Refused,
    Unreachable,
)
from app.core.model.instants import rfc3339
from app.core.model.overrides import ScaleRequest, Scope
from app.core.model.scaling_runs import OperationPhase
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from tests.core.overrides.replicas import DOWN, HOME, SHOOT

PAUSE = ObjectKey("Pause", SHOOT, "api")


class Lossy:
    """Loses answers of one replica's requests, or requests before they are carried out."""

    def __init__(self, monkeypatch, objects, method, *, answers=0, requests=0):
        self.answers, self.requests, self.sent = answers, requests, 0
        real = getattr(objects, method)

        async def lossy(*args, **kwargs):
            self.sent += 1
            if self.requests:
                self.requests -= 1
                raise Unreachable("cut on the way there")
            found = await real(*args, **kwargs)
            if self.answers:
                self.answers -= 1
                raise Unreachable("cut on the way back")
            return found

        monkeypatch.setattr(objects, method, lossy)


async def test_a_pause_of_the_api_is_an_object_of_that_name_with_the_caller_as_verified_author(
    replica,
):
    before, after = await replica.service.set_pause(SHOOT, replica.wish(seconds=59.5))
    assert before is None
    assert (after.author, after.verified, after.id.name) == ("alice", True, "api")
    assert after.until - replica.now == pytest.approx(60, abs=0.6)
    found = replica.world.store.get(PAUSE)
    name = replica.process.adapters.identity
    assert found["metadata"]["annotations"] == {
        "dependency-watchdog.gardener.cloud/created-by": name
    }


async def test_another_pause_of_the_api_replaces_it_and_leaves_the_labels_of_others(replica):
    first = await replica.pause()
    replica.world.write(PAUSE, {"metadata": {"labels": {"a": "b"}}}, "kubectl")
    await replica.run(1)
    before, after = await replica.service.set_pause(SHOOT, replica.wish(Scope.SCALE_DOWN))
    assert (before.id.uid, after.id.uid, after.scope) == (first.id.uid,) * 2 + (Scope.SCALE_DOWN,)
    assert replica.world.store.get(PAUSE)["metadata"]["labels"] == {"a": "b"}


async def test_one_of_that_name_that_kubectl_made_has_a_verified_author_once_the_api_replaces_it(
    replica,
):
    replica.world.people.create("Pause", SHOOT, "api", reason="r", author="bob")
    await replica.run(1)
    before, after = await replica.service.set_pause(SHOOT, replica.wish())
    assert (before.author, before.verified) == ("bob", False)
    assert (after.author, after.verified) == ("alice", True)


async def test_a_pause_of_all_shoots_is_in_the_own_namespace(replica):
    await replica.pause(None)
    assert replica.there("Pause", "api", HOME)


@pytest.mark.parametrize("what", ["made", "changed", "deleted"])
async def test_who_meets_a_change_of_somebody_else_is_told_what_is_there_now(replica, what):
    people = replica.world.people
    if what != "made":
        await replica.pause()
        await replica.run(1)
    replica.world.faults.overrides_watch_stalled()
    if what == "made":
        people.create("Pause", SHOOT, "api", reason="mine", author="bob")
    elif what == "changed":
        people.edit("Pause", SHOOT, "api", reason="mine", author="bob")
    else:
        people.delete("Pause", SHOOT, "api")
    with pytest.raises(EntryChanged) as refused:
        await replica.pause(reason="another")
    shown = refused.value.now
    assert shown is None if what == "deleted" else shown == {"author": "bob", "reason": "mine"}
    now = replica.acting()
    assert now is None if what == "deleted" else now.reason == "mine"


async def test_a_pause_that_a_finalizer_keeps_after_its_deletion_is_not_renewed_as_it_would_never_act(
    replica,
):
    await replica.pause()
    await replica.run(1)
    kept = {"metadata": {"deletionTimestamp": rfc3339(replica.now)}}
    replica.world.store.patch(PAUSE, kept)
    await replica.run(1)
    assert replica.acting() is None
    with pytest.raises(Refused, match="Pause api in shoot--local--a is being deleted"):
        await replica.pause(reason="another")
    replica.world.faults.overrides_watch_stalled()
    replica.world.people.delete("Pause", SHOOT, "api")
    assert (await replica.pause(reason="another")).reason == "another", "it is gone by now"
    assert replica.acting().reason == "another"


async def test_the_end_of_a_pause_names_what_it_was_and_there_may_be_none(replica):
    await replica.pause(reason="load test")
    ended = await replica.resume()
    assert (ended.reason, replica.service.ended_by(ended.id.uid)) == ("load test", "bob")
    assert await replica.resume() is None


async def test_who_was_not_allowed_to_end_a_pause_is_not_named_as_who_did(replica):
    pause = await replica.pause()
    forbidden = Trouble(forbidden=True, verbs=frozenset({"delete"}))
    with replica.world.faults.seed_trouble(forbidden), pytest.raises(FeatureUnavailable):
        await replica.service.end_pause(SHOOT, "api", by="mallory")
    assert replica.service.ended_by(pause.id.uid) is None


async def test_who_comes_too_late_to_end_a_pause_is_not_named_as_who_did(replica):
    pause = await replica.pause()
    with replica.world.faults.overrides_watch_stalled():
        replica.world.people.delete("Pause", SHOOT, "api")
        assert await replica.service.end_pause(SHOOT, "api", by="bob") is None
    assert replica.service.ended_by(pause.id.uid) is None


async def test_who_ends_what_another_has_ended_already_does_not_take_their_place(replica):
    """A finalizer keeps it, or a watch that lags still shows it."""
    pause = await replica.pause()
    with replica.world.faults.overrides_watch_stalled():
        assert await replica.service.end_pause(SHOOT, "api", by="bob") == pause
        replica.pauses._learnt.clear()
        assert await replica.service.end_pause(SHOOT, "api", by="carol") is None
    assert replica.service.ended_by(pause.id.uid) == "bob"


async def test_a_pause_that_kubectl_made_can_be_ended_by_its_name_even_before_the_watch_shows_it(
    replica,
):
    replica.world.faults.overrides_watch_stalled()
    replica.world.people.create("Pause", SHOOT, "mine", reason="r")
    assert (await replica.resume(name="mine")).id.name == "mine"
    assert not replica.there("Pause", "mine")


async def test_one_that_was_made_anew_under_the_same_name_stays_and_that_is_said(replica):
    await replica.pause()
    await replica.run(1)
    replica.world.faults.overrides_watch_stalled()
    replica.world.people.delete("Pause", SHOOT, "api")
    replica.world.people.create("Pause", SHOOT, "api", reason="another")
    with pytest.raises(EntryChanged, match="somebody else changed Pause api in"):
        await replica.resume()
    assert replica.there("Pause", "api")
    assert replica.acting().reason == "another"


@pytest.mark.parametrize("lost", ["answers", "requests"])
async def test_a_pause_a_change_of_it_and_its_end_are_read_back_or_written_again_where_the_answer_was_lost(
    replica, monkeypatch, lost
):
    lossy = Lossy(monkeypatch, replica.pauses, "create", **{lost: 1})
    assert (await replica.pause()).reason == "r"
    assert lossy.sent == (1 if lost == "answers" else 2)
    _ = Lossy(monkeypatch, replica.pauses, "change", **{lost: 1})
    assert (await replica.pause(reason="another")).reason == "another"
    assert replica.acting().reason == "another"
    _ = Lossy(monkeypatch, replica.pauses, "delete", **{lost: 1})
    assert await replica.resume() is not None
    assert not replica.there("Pause", "api")


@pytest.mark.parametrize("lost", ["answers", "requests"])
async def test_so_is_a_request_which_is_never_made_twice(replica, monkeypatch, lost):
    _ = Lossy(monkeypatch, replica.requests, "create", **{lost: 1})
    made = await replica.ask()
    assert (made.spec.direction, made.spec.hold, made.phase) == (
        DOWN,
        600.0,
        OperationPhase.PENDING,
    )
    assert len(replica.world.store.list("ScaleRequest", SHOOT)) == 1


async def test_what_never_gets_through_is_given_up_after_three_tries(replica, monkeypatch):
    lossy = Lossy(monkeypatch, replica.pauses, "create", requests=9)
    with pytest.raises(Unreachable):
        await replica.pause()
    assert lossy.sent == 3


async def test_if_nobody_can_tell_what_came_of_it_the_caller_is_told_so(replica):
    with replica.world.faults.seed_trouble(Trouble(silent=True)), pytest.raises(ClusterError):
        await replica.pause()


async def test_somebody_elses_change_after_a_lost_answer_is_not_written_over(replica, monkeypatch):
    _ = Lossy(monkeypatch, replica.pauses, "create", requests=1)
    real = replica.pauses.read

    async def read(namespace, name):
        if not replica.there("Pause", "api"):
            replica.world.people.create("Pause", SHOOT, "api", reason="mine", author="bob")
        return await real(namespace, name)

    monkeypatch.setattr(replica.pauses, "read", read)
    with pytest.raises(EntryChanged):
        await replica.pause()
    assert replica.acting().reason == "mine"


async def test_a_status_that_meets_another_is_refused_and_the_other_is_known_then(replica):
    made = await replica.ask()
    replica.world.faults.overrides_watch_stalled()
    key = ObjectKey("ScaleRequest", SHOOT, made.id.name)
    replica.world.write(key, {"status": {"phase": "Cancelled"}}, "kubectl", status=True)
    with pytest.raises(Conflict):
        await replica.service.set_status(made, made, starting=lambda: None)
    (known,) = replica.cache.requests(SHOOT)
    assert known.phase is OperationPhase.CANCELLED


async def test_starting_may_forbid_a_request_at_the_last_moment(replica):

    def starting():
        raise LeadershipLost("gone")

    spec = (await replica.ask()).spec
    with pytest.raises(LeadershipLost):
        await replica.service.request_scaling(SHOOT, spec, starting=starting)
    assert len(replica.world.store.list("ScaleRequest", SHOOT)) == 1


@pytest.mark.parametrize("why", ["dry run", "absent", "forbidden"])
async def test_where_nothing_can_be_written_every_write_says_why(lab, why):
    world = lab.world()
    if why == "absent":
        world.faults.crds_removed()
    replica = lab.replica(world, dry_run=why == "dry run")
    await lab.clock.sleep(40)
    if why == "forbidden":
        world.faults.overrides_forbidden("create", "patch", "delete")
        await lab.clock.sleep(1)
    for write in (replica.pause, replica.ask):
        with pytest.raises(FeatureUnavailable, match={"absent": "404"}.get(why, why)):
            await write()


async def test_a_creation_that_was_taken_for_lost_and_comes_late_is_found_under_its_name(
    replica, monkeypatch
):
    create, read = replica.requests.create, replica.requests.read
    late: list[ScaleRequest] = []

    async def lost(wanted, **options):
        if not late:
            late.append(wanted)
            raise Unreachable("cut")
        return await create(wanted, **options)

    async def read_before_it_comes(namespace, name):
        found = await read(namespace, name)
        if found is None:
            await create(late[0])
        return found

    monkeypatch.setattr(replica.requests, "create", lost)
    monkeypatch.setattr(replica.requests, "read", read_before_it_comes)
    assert (await replica.ask()).id.name == late[0].id.name
    assert len(replica.world.store.list("ScaleRequest", SHOOT)) == 1
