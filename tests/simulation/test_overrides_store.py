"""The overrides of a simulated seed: the port, people who edit the ConfigMap, and what can go wrong."""

from typing import TYPE_CHECKING

import pytest

from app.core.errors import Conflict, Forbidden, Invalid, NotFound, Unreachable
from app.core.model.overrides import OVERRIDES
from app.simulation.builders import OPERATOR
from app.simulation.cluster import WATCHDOG
from app.simulation.overrides_store import CONFIG_MAP
from app.simulation.reflection import SILENCE
from app.simulation.traffic import Host
from tests.simulation.worlds import about, simulated

if TYPE_CHECKING:
    from app.core.ports import OverridesStore

A = {"shoot--local--a": "{}"}
B = {"shoot--local--b": "{}"}

in_a_world = simulated(
    store=lambda world: world.overrides_store, editor=lambda world: world.overrides_editor
)


class Ear:
    """Keeps what the store showed whenever it told of a change."""

    def __init__(self, world):
        self.store, self.clock = world.overrides_store, world.clock
        self.heard, self.at = [], []
        self.store.subscribe(self._hear)

    def _hear(self):
        self.heard.append((shown(self.store), self.store.forbidden is None))
        self.at.append(self.clock.now())


def shown(store):
    document = store.document()
    return None if document is None else dict(document.data)


@in_a_world
async def test_it_is_what_the_port_says(world):
    store: OverridesStore = world.overrides_store
    assert store.document() is None


@in_a_world
async def test_nothing_is_asked_for_before_somebody_listens(world, clock, store):
    await clock.sleep(600)
    assert world.requests.total() == 0
    assert not store.watch_state().synced


@in_a_world
async def test_a_list_is_told_although_there_is_none(world, clock, store):
    ear = Ear(world)
    await clock.sleep(1)
    assert ear.heard == [(None, True)]
    assert store.watch_state().synced


@in_a_world
async def test_it_is_one_list_and_one_watch(world, clock):
    Ear(world)
    await clock.sleep(600)
    asked = {each.verb: n for each, n in world.requests.counts.items() if each.host is Host.SEED}
    assert asked == {"list": 1, "watch": 1}


@in_a_world
async def test_what_was_there_before_is_listed(world, clock, editor):
    editor.edit(A)
    ear = Ear(world)
    await clock.sleep(1)
    assert ear.heard == [(A, True)]


@in_a_world
async def test_an_edit_is_told_after_the_delay_of_the_watch(world, clock, editor):
    ear = Ear(world)
    await clock.sleep(1)
    at = clock.now()
    editor.edit(A)
    await clock.sleep(1)
    assert ear.heard[1:] == [(A, True)]
    assert ear.at[1] == about(at + 0.05)


@in_a_world
async def test_edits_add_change_and_remove_keys(clock, editor):
    editor.edit(A)
    editor.edit(B)
    assert editor.data() == A | B
    editor.edit({"shoot--local--a": "changed", "shoot--local--b": None})
    assert editor.data() == {"shoot--local--a": "changed"}
    editor.delete()
    assert editor.data() == {}
    with pytest.raises(NotFound):
        editor.delete()


@in_a_world
async def test_other_config_maps_of_the_namespace_are_not_ours(world, clock, store):
    ear = Ear(world)
    world.store.create(CONFIG_MAP._replace(name="another"), {"apiVersion": "v1", "data": A})
    await clock.sleep(1)
    world.store.patch(CONFIG_MAP._replace(name="another"), {"data": B})
    await clock.sleep(1)
    assert ear.heard == [(None, True)]


@in_a_world
async def test_the_prober_s_watches_do_not_hear_of_it(world, clock, editor):
    told: list[object] = []
    world.seed.subscribe(told.append)
    editor.edit(A)
    await clock.sleep(1)
    assert told == []


@in_a_world
async def test_writes_are_in_the_journal_with_who_made_them(world, store, editor):
    made = await store.create(A)
    await store.replace(made, B)
    editor.edit(A)
    editor.delete()
    writes = [(each.by, each.verb) for each in world.journal.writes]
    assert writes == [
        (WATCHDOG, "create"),
        (WATCHDOG, "update"),
        (OPERATOR, "patch"),
        (OPERATOR, "delete"),
    ]
    assert {each.ref.name for each in world.journal.writes} == {OVERRIDES}


@in_a_world
async def test_a_write_is_judged_when_it_arrives(world, tasks, store, editor):
    made = await store.create(A)
    conflicts = []

    async def late():
        with pytest.raises(Conflict):
            await store.replace(made, B)
        conflicts.append(editor.data())

    tasks.once(late, "late")
    await world.clock.sleep(0.005)  # it is on its way
    editor.edit({"_all": "{}"})
    await world.clock.sleep(1)
    assert conflicts == [A | {"_all": "{}"}]


@in_a_world
async def test_a_write_over_one_that_was_made_anew_is_a_conflict(store, editor):
    made = await store.create(A)
    editor.delete()
    with pytest.raises(Conflict):
        await store.replace(made, B)
    editor.edit(A)
    with pytest.raises(Conflict):
        await store.replace(made, B)
    assert editor.data() == A


@pytest.mark.parametrize(
    "data", [{"a/b": "x"}, {"a": "x" * ((1 << 20) + 1)}, {"..a": "x"}, {"a": 1}], ids=range(4)
)
@in_a_world
async def test_data_that_a_server_would_not_keep_is_refused(store, editor, data):
    with pytest.raises(Invalid):
        await store.create(data)
    made = await store.create(A)
    with pytest.raises(Invalid):
        await store.replace(made, data)
    with pytest.raises(Invalid):
        editor.edit(data)
    assert editor.data() == A


@in_a_world
async def test_a_cut_watch_is_opened_again_and_misses_nothing(world, clock, store, editor):
    editor.edit(A)
    ear = Ear(world)
    await clock.sleep(1)
    with world.faults.overrides_watch_cut():
        editor.edit({"shoot--local--a": "changed"})
        await clock.sleep(120)
        assert shown(store) == A
        assert store.watch_state().stale(clock.now())
        assert store.forbidden is None
    await clock.sleep(31)
    assert ear.heard[-1] == ({"shoot--local--a": "changed"}, True)
    assert not store.watch_state().stale(clock.now())


@in_a_world
async def test_a_watch_that_expired_lists_anew(world, clock, store, editor):
    editor.edit(A)
    Ear(world)
    await clock.sleep(1)
    with world.faults.overrides_watch_cut(expired=True):
        editor.delete()
        await clock.sleep(5)
    await clock.sleep(60)
    assert shown(store) is None
    assert world.requests.total(verb="list", what="configmaps") >= 2


@in_a_world
async def test_a_stalled_watch_is_stale_in_time(world, clock, store, editor):
    Ear(world)
    await clock.sleep(1)
    with world.faults.overrides_watch_stalled(contact_ago=60):
        editor.edit(A)
        await clock.sleep(29)
        assert not store.watch_state().stale(clock.now())
        await clock.sleep(2)
        assert store.watch_state().stale(clock.now())
        assert shown(store) is None
    await clock.sleep(1)
    assert shown(store) == A


@in_a_world
async def test_a_mute_watch_is_listed_anew_after_each_silence(world, clock, store, editor):
    Ear(world)
    await clock.sleep(1)
    with world.faults.overrides_watch_mute():
        editor.edit(A)
        await clock.sleep(SILENCE - 1)
        assert shown(store) is None
        await clock.sleep(4)
        assert shown(store) == A
        editor.delete()
        for _ in range(80):
            await clock.sleep(1)
            assert clock.now() - store.watch_state().last_contact < SILENCE + 4
        assert shown(store) is None
    assert world.requests.total(verb="list", what="configmaps") == 3
    editor.edit(A)
    await clock.sleep(1)
    assert shown(store) == A


@in_a_world
async def test_forbidden_is_known_within_seconds_keeps_the_content_and_passes(
    world, clock, store, editor
):
    editor.edit(A)
    ear = Ear(world)
    await clock.sleep(1)
    with world.faults.overrides_forbidden():
        await clock.sleep(1)
        assert store.forbidden is None  # it may be a refusal in passing
        await clock.sleep(10)
        assert "configmaps" in str(store.forbidden)
        assert shown(store) == A
        for ask in (store.read, lambda: store.create(B)):
            with pytest.raises(Forbidden):
                await ask()
    await clock.sleep(31)
    assert store.forbidden is None
    assert ear.heard == [(A, True), (A, False), (A, True)]


@in_a_world
async def test_only_the_verbs_that_are_named_are_forbidden(world, clock, store):
    Ear(world)
    await clock.sleep(1)
    made = await store.create(A)
    with world.faults.overrides_forbidden("update"):
        with pytest.raises(Forbidden):
            await store.replace(made, B)
        await clock.sleep(60)
        assert (store.forbidden, shown(store)) == (None, A)
        assert await store.read() == made


@in_a_world
async def test_a_seed_that_is_away_answers_nothing_and_keeps_the_content(
    world, clock, store, editor
):
    editor.edit(A)
    Ear(world)
    await clock.sleep(1)
    with world.faults.overrides_away():
        with pytest.raises(Unreachable):
            await store.read()
        await clock.sleep(100)
        assert shown(store) == A
        assert store.watch_state().stale(clock.now())
