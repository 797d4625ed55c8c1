"""The ConfigMap of the overrides: written with care, read through a watch, whatever happens to either."""

import json

import pytest

from app.core.errors import Conflict, Forbidden, Invalid
from app.core.model.overrides import OVERRIDES
from tests.contract.adapter import impatient
from tests.contract.arena import REAL_TIME, until

pytestmark = REAL_TIME

KEY = "shoot--contract--a"
PAUSED = {KEY: json.dumps({"pause": {"reason": "maintenance", "author": "jane"}})}


def shown(store):
    """What the watch shows of the keys; None: no ConfigMap."""
    document = store.document()
    return None if document is None else dict(document.data)


async def shows(store, data):
    await until(lambda: shown(store) == data, f"{data} is shown, not {shown(store)}")


async def test_where_there_is_none_there_is_none(overriding):
    store = overriding.store
    assert (store.document(), await store.read(), store.forbidden) == (None, None, None)
    assert store.watch_state().synced


async def test_what_is_created_is_there_and_shows(overriding):
    store = overriding.store
    made = await store.create(PAUSED)
    assert (dict(made.data), made.whole["metadata"]["name"]) == (PAUSED, OVERRIDES)
    assert await overriding.data() == PAUSED
    assert await store.read() == made
    await shows(store, PAUSED)
    assert store.document().resource_version == made.resource_version
    assert store.document().uid == made.uid


async def test_of_two_that_create_it_the_second_has_a_conflict(overriding):
    await overriding.store.create(PAUSED)
    with pytest.raises(Conflict):
        await overriding.store.create({})
    assert await overriding.data() == PAUSED


async def test_a_write_replaces_what_was_read_and_has_a_version_of_its_own(overriding):
    store = overriding.store
    made = await store.create(PAUSED)
    changed = await store.replace(made, {"_all": "{}"})
    assert changed.uid == made.uid
    assert changed.resource_version != made.resource_version
    assert await overriding.data() == {"_all": "{}"}
    await shows(store, {"_all": "{}"})


async def test_a_write_keeps_the_labels_and_annotations_of_others(overriding, arena):
    await overriding.edit({"_all": "{}"})
    found = await overriding.store.read()
    metadata = {**found.whole["metadata"], "labels": {"team": "a"}}
    labelled = type(found)(
        found.uid, found.resource_version, found.data, {**found.whole, "metadata": metadata}
    )
    with_label = await overriding.store.replace(labelled, PAUSED)
    again = await overriding.store.replace(with_label, {})
    assert again.whole["metadata"]["labels"] == {"team": "a"}
    assert dict(again.data) == {}


async def test_a_write_over_what_has_changed_since_is_a_conflict_and_changes_nothing(overriding):
    store = overriding.store
    made = await store.create(PAUSED)
    await overriding.edit({"_all": "{}"})
    with pytest.raises(Conflict):
        await store.replace(made, {})
    assert await overriding.data() == {**PAUSED, "_all": "{}"}
    current = await store.read()
    await store.replace(current, {})
    assert await overriding.data() == {}


async def test_a_write_over_what_is_gone_is_a_conflict(overriding):
    made = await overriding.store.create(PAUSED)
    await overriding.delete()
    with pytest.raises(Conflict):
        await overriding.store.replace(made, {})
    assert await overriding.store.read() is None


async def test_a_write_over_one_that_was_made_anew_is_a_conflict(overriding):
    made = await overriding.store.create(PAUSED)
    await overriding.delete()
    await overriding.edit({"_all": "{}"})
    with pytest.raises(Conflict):
        await overriding.store.replace(made, {})
    assert await overriding.data() == {"_all": "{}"}


async def test_who_starts_a_write_is_asked_before_it_is_sent(overriding):
    made = await overriding.store.create(PAUSED)

    def no_longer():
        raise Forbidden("not any more")

    with pytest.raises(Forbidden, match="not any more"):
        await overriding.store.replace(made, {}, starting=no_longer)
    assert await overriding.data() == PAUSED
    await overriding.delete()
    with pytest.raises(Forbidden, match="not any more"):
        await overriding.store.create({}, starting=no_longer)
    assert await overriding.store.read() is None


async def test_more_than_a_mebibyte_is_refused_and_changes_nothing(overriding):
    made = await overriding.store.create(PAUSED)
    with pytest.raises(Invalid) as caught:
        await overriding.store.replace(made, {KEY: "x" * (1 << 20), "_all": "y"})
    assert caught.value.status == 422
    assert await overriding.data() == PAUSED
    largest = {KEY: "x" * (1 << 20)}
    await overriding.store.replace(made, largest)
    await shows(overriding.store, largest)


async def test_what_people_edit_and_delete_shows_and_is_told(overriding):
    store, told = overriding.store, []
    store.subscribe(lambda: told.append(shown(store)))
    await overriding.edit(PAUSED)
    await shows(store, PAUSED)
    await overriding.edit({"_all": "not JSON at all", KEY: None})
    await shows(store, {"_all": "not JSON at all"})
    await overriding.delete()
    await shows(store, None)
    assert [each for each in told if each != PAUSED][-2:] == [{"_all": "not JSON at all"}, None]
    assert told[0] == PAUSED


async def test_the_content_outlives_a_cut_and_catches_up(overriding):
    await overriding.edit(PAUSED)
    await shows(overriding.store, PAUSED)
    async with overriding.cut():
        await overriding.edit({KEY: "changed"})
        assert shown(overriding.store) == PAUSED
    await shows(overriding.store, {KEY: "changed"})
    async with overriding.cut():
        await overriding.delete()
        assert shown(overriding.store) == {KEY: "changed"}
    await shows(overriding.store, None)


@pytest.fixture
def hasty(monkeypatch):
    """To be asked for before the arena: silent watches are given up soon."""
    impatient(monkeypatch)


async def test_a_stalled_watch_stays_without_contact_and_catches_up(hasty, overriding):
    await overriding.edit(PAUSED)
    await shows(overriding.store, PAUSED)
    async with overriding.stalled():
        contact = overriding.store.watch_state().last_contact
        await overriding.edit({KEY: "changed"})
        assert overriding.store.watch_state().last_contact == contact
        assert shown(overriding.store) == PAUSED
    await shows(overriding.store, {KEY: "changed"})


@pytest.mark.parametrize("meanwhile", ["changed", "deleted", "made"])
async def test_a_position_that_is_too_old_is_followed_by_a_new_list(overriding, meanwhile):
    if meanwhile != "made":
        await overriding.edit(PAUSED)
        await shows(overriding.store, PAUSED)
    async with overriding.forgets():
        if meanwhile == "deleted":
            await overriding.delete()
        else:
            await overriding.edit({KEY: "changed"})
    await shows(overriding.store, None if meanwhile == "deleted" else {KEY: "changed"})


async def test_the_content_outlives_a_restart_of_the_api_server(overriding):
    await overriding.edit(PAUSED)
    await shows(overriding.store, PAUSED)
    async with overriding.away():
        assert shown(overriding.store) == PAUSED
    await overriding.edit({KEY: "after"})
    await shows(overriding.store, {KEY: "after"})
    assert overriding.store.forbidden is None


async def test_who_may_not_read_it_says_so_keeps_the_last_content_and_recovers(overriding):
    await overriding.edit(PAUSED)
    await shows(overriding.store, PAUSED)
    told = []
    overriding.store.subscribe(lambda: told.append(overriding.store.forbidden is None))
    async with overriding.forbidden():
        await until(lambda: overriding.store.forbidden is not None, "it is known", within=30)
        assert "configmaps" in overriding.store.forbidden
        assert shown(overriding.store) == PAUSED
        with pytest.raises(Forbidden):
            await overriding.store.read()
        with pytest.raises(Forbidden):
            await overriding.store.replace(overriding.store.document(), {})
        with pytest.raises(Forbidden):
            await overriding.store.create({})
        await overriding.edit({KEY: "changed"})
    await shows(overriding.store, {KEY: "changed"})
    assert overriding.store.forbidden is None
    assert told[0] is False
    assert told[-1] is True


async def test_who_may_not_update_it_still_reads(overriding):
    await overriding.edit(PAUSED)
    await shows(overriding.store, PAUSED)
    async with overriding.forbidden("update"):
        with pytest.raises(Forbidden) as caught:
            await overriding.store.replace(overriding.store.document(), {})
        assert "update configmaps" in str(caught.value)
        await overriding.edit({KEY: "changed"})
        await shows(overriding.store, {KEY: "changed"})
        assert overriding.store.forbidden is None


async def test_who_may_not_create_it_still_reads_what_others_make(overriding):
    async with overriding.forbidden("create"):
        with pytest.raises(Forbidden) as caught:
            await overriding.store.create({})
        assert "create configmaps" in str(caught.value)
        assert await overriding.store.read() is None
        await overriding.edit(PAUSED)
        await shows(overriding.store, PAUSED)
        assert overriding.store.forbidden is None
