"""The store of the overrides: what it says of refusals, on virtual time; what it sends, over real sockets."""

import asyncio
import json
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import pytest
import structlog

from app.core.clock import Clock
from app.core.errors import BadAnswer, Conflict, Forbidden, LimitExceeded, Unreachable
from app.core.kube.overrides_store import KubeOverridesStore
from app.core.kube.seed_api import SeedApi
from app.core.metrics import Metrics
from app.core.model.overrides import OVERRIDES
from app.core.tasks import Tasks
from tests.core.kube.server import serving
from tests.core.kube.test_reflector import FOREVER, Script, bookmark, event
from tests.core.kube.test_seed import FakeCredentials

MAPS = "/api/v1/namespaces/garden/configmaps"
PATH = f"{MAPS}/{OVERRIDES}"
NO = Forbidden("list configmaps: 403 (Forbidden)", status=403)


def config_map(version=5, data=None, **more):
    meta = {"name": OVERRIDES, "namespace": "garden", "uid": "u1", "resourceVersion": str(version)}
    found = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta} | more
    return found if data is None else found | {"data": data}


def listed(*items, version=10):
    meta = {"resourceVersion": str(version)}
    return {"kind": "ConfigMapList", "metadata": meta, "items": list(items)}


class Watched:
    """A store over a script, on virtual time."""

    def __init__(self, lists, watches=((FOREVER,),)):
        self.script = Script(lists, watches)
        self.clock, self.metrics = Clock.of_loop(), Metrics()
        self.tasks = Tasks(self.clock)
        self.store = KubeOverridesStore(
            cast("Any", self.script), "garden", self.clock, self.tasks, self.metrics, Random(1)
        )
        self.told: list[tuple[Any, bool]] = []
        self.store.subscribe(self._tell)

    def _tell(self):
        document = self.store.document()
        shown = None if document is None else dict(document.data)
        self.told.append((shown, self.store.forbidden is None))

    async def __aenter__(self):
        await self.store.start()
        return self

    async def __aexit__(self, *_):
        await self.store.close()
        await self.tasks.stop()

    @property
    def off(self):
        labels = {"feature": "overrides"}
        return self.metrics.registry.get_sample_value("dwd_feature_off", labels)


async def test_one_object_is_asked_for_by_its_name_in_the_own_namespace():
    async with Watched([listed()]) as watched:
        await asyncio.sleep(1)
        assert {each.path for each in watched.script.asked} == {MAPS}
        selectors = {each.params["fieldSelector"] for each in watched.script.asked}
        assert selectors == {f"metadata.name={OVERRIDES}"}


async def test_an_empty_list_is_told_too_as_then_it_is_known_that_there_is_none():
    async with Watched([listed()]) as watched:
        assert not watched.store.watch_state().synced
        await asyncio.sleep(1)
        assert watched.store.watch_state().synced
        assert watched.told == [(None, True)]
        assert watched.store.forbidden is None


async def test_what_it_holds_is_as_it_was_written():
    data = {"_all": '{"pause": {}}', "b": "nonsense"}
    async with Watched([listed(config_map(7, data, immutable=False))]) as watched:
        await asyncio.sleep(1)
        document = watched.store.document()
    assert (document.uid, document.resource_version, dict(document.data)) == ("u1", "7", data)
    assert document.whole["immutable"] is False


@pytest.mark.parametrize("more", [{}, {"data": None}, {"data": {"a": None}}], ids=str)
async def test_data_may_be_missing(more):
    async with Watched([listed(config_map(**more))]) as watched:
        await asyncio.sleep(1)
        assert set(watched.store.document().data.values()) <= {""}


async def test_changes_of_the_watch_are_told_one_by_one():
    steps = (
        1,
        event("ADDED", config_map(11, {"a": "1"})),
        event("MODIFIED", config_map(12, {"a": "2"})),
        bookmark(13),
        event("DELETED", config_map(14, {"a": "2"})),
        FOREVER,
    )
    async with Watched([listed()], [steps]) as watched:
        await asyncio.sleep(2)
        assert watched.told == [(None, True), ({"a": "1"}, True), ({"a": "2"}, True), (None, True)]


async def test_a_listener_that_fails_does_not_keep_the_others_from_hearing():
    async with Watched([listed()]) as watched:
        watched.store._listeners.insert(0, lambda: 1 / 0)
        with structlog.testing.capture_logs() as logs:
            await asyncio.sleep(1)
        assert watched.told == [(None, True)]
        assert [each["event"] for each in logs] == ["a listener failed"]


async def test_what_is_refused_for_a_moment_is_not_forbidden():
    async with Watched([NO, NO, listed()]) as watched:
        await asyncio.sleep(60)
        assert watched.told == [(None, True)]
        assert watched.off in (None, 0)


async def test_what_goes_on_being_refused_is_forbidden_within_seconds_and_said_once():
    async with Watched([NO]) as watched:
        with structlog.testing.capture_logs() as logs:
            await asyncio.sleep(10)
            assert watched.store.forbidden == str(NO)
            assert not watched.store.watch_state().synced
            await asyncio.sleep(3600)
        assert watched.told == [(None, False)]
        assert watched.off == 1
        severe = [each for each in logs if each["log_level"] == "error"]
        assert [each["event"] for each in severe].count("reading the overrides is forbidden") == 1
        assert len(severe) <= 4


async def test_a_right_that_comes_later_is_noticed_within_a_minute():
    async with Watched([NO] * 6 + [listed(config_map(7, {"a": "1"}))]) as watched:
        await asyncio.sleep(20)
        assert watched.store.forbidden is not None
        await asyncio.sleep(120)
        assert watched.store.forbidden is None
        assert watched.told[-1] == ({"a": "1"}, True)
        assert watched.off == 0


async def test_who_loses_the_right_keeps_what_was_read():
    lists = [listed(config_map(7, {"a": "1"}))]
    refused = Forbidden("watch configmaps: 403 (Forbidden)", status=403)
    async with Watched(lists, [(5,), refused]) as watched:
        await asyncio.sleep(60)
        assert watched.store.forbidden == str(refused)
        assert dict(watched.store.document().data) == {"a": "1"}
        assert watched.store.watch_state().synced
        assert watched.told == [({"a": "1"}, True), ({"a": "1"}, False)]


async def test_who_may_list_but_not_watch_is_forbidden():
    refused = Forbidden("watch configmaps: 403 (Forbidden)", status=403)
    async with Watched([listed()], [refused]) as watched:
        await asyncio.sleep(60)
        assert watched.store.forbidden == str(refused)


async def test_a_server_that_is_away_is_no_refusal_and_trouble():
    async with Watched([Unreachable("nobody there")]) as watched:
        await asyncio.sleep(600)
        assert watched.store.forbidden is None
        assert watched.store.troubles() == {"configmaps": "nobody there"}
        assert not watched.store.watch_state().synced
        assert watched.told == []


# On the wire.


@asynccontextmanager
async def store_on(handle):
    async with serving(handle) as server:
        clock, metrics = Clock.system(), Metrics()
        tasks = Tasks(clock)
        api = SeedApi(FakeCredentials(server), clock, metrics)
        try:
            yield KubeOverridesStore(api, "garden", clock, tasks, metrics, Random(1)), server
        finally:
            await api.close()
            await tasks.stop()
            await asyncio.sleep(0.01)


def answering(*answers):
    """Answers with each of these in turn: a body and a status."""
    left = list(answers)

    async def handle(asked):
        body, status = left.pop(0)
        await asked.answer(body, status)

    return handle


@pytest.mark.looptime(False)
async def test_it_is_read_by_its_name():
    async with store_on(answering((config_map(7, {"a": "1"}), 200), ({}, 404))) as (store, server):
        assert dict((await store.read()).data) == {"a": "1"}
        assert await store.read() is None
        assert [(each.method, each.path) for each in server.asked] == [("GET", PATH)] * 2


@pytest.mark.looptime(False)
async def test_it_is_made_with_its_name_and_data_alone():
    async with store_on(answering((config_map(7, {"a": "1"}), 201))) as (store, server):
        made = await store.create({"a": "1"})
        assert (server.asked[0].method, server.asked[0].path) == ("POST", MAPS)
        assert json.loads(server.asked[0].body) == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": OVERRIDES, "namespace": "garden"},
            "data": {"a": "1"},
        }
    assert made.resource_version == "7"


@pytest.mark.looptime(False)
async def test_it_is_put_as_a_whole_as_it_was_read_with_other_data():
    before = config_map(7, {"a": "1"}, immutable=False, binaryData={"x": "eA=="})
    after = config_map(8, {"b": "2"})
    async with store_on(answering((before, 200), (after, 200))) as (store, server):
        changed = await store.replace(await store.read(), {"b": "2"})
        put = server.asked[1]
        assert (put.method, put.path) == ("PUT", PATH)
        assert json.loads(put.body) == before | {"data": {"b": "2"}}
        assert json.loads(put.body)["metadata"]["resourceVersion"] == "7"
        assert put.headers["content-type"] == "application/json"
    assert changed.resource_version == "8"


@pytest.mark.looptime(False)
@pytest.mark.parametrize("status", [404, 409])
async def test_what_has_changed_or_is_gone_is_a_conflict(status):
    answers = ((config_map(7), 200), ({"message": "no"}, status))
    async with store_on(answering(*answers)) as (store, _):
        found = await store.read()
        with pytest.raises(Conflict) as caught:
            await store.replace(found, {})
    assert caught.value.status == status


@pytest.mark.looptime(False)
async def test_a_write_has_a_connection_of_its_own_and_is_not_repeated():
    async def handle(asked):
        if asked.method == "PUT":
            asked.cut()
            raise EOFError
        await asked.answer(config_map(7))

    async with store_on(handle) as (store, server):
        found = await store.read()
        with pytest.raises(Unreachable):
            await store.replace(found, {})
        assert [each.method for each in server.asked] == ["GET", "PUT"]
        assert [each.connection for each in server.asked] == [1, 2]


@pytest.mark.looptime(False)
async def test_an_answer_that_is_too_long_is_not_read_to_its_end():
    body = json.dumps(config_map(7, {"a": "x" * (9 << 20)})).encode()
    async with store_on(answering((body, 200))) as (store, _):
        with pytest.raises(LimitExceeded):
            await store.read()


@pytest.mark.looptime(False)
async def test_a_mebibyte_that_is_written_with_escapes_is_read():
    body = json.dumps(config_map(7, {"a": "\x01" * (1 << 20)})).encode()
    async with store_on(answering((body, 200))) as (store, _):
        assert len((await store.read()).data["a"]) == 1 << 20


@pytest.mark.looptime(False)
@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "Secret", "metadata": config_map()["metadata"]},
        config_map() | {"metadata": config_map()["metadata"] | {"name": "another"}},
        {"kind": "ConfigMap", "metadata": {"name": OVERRIDES}},
        config_map(7, {"a": 1}),
        [],
    ],
    ids=["another kind", "another name", "no version", "no text", "a list"],
)
async def test_what_is_not_our_config_map_is_a_bad_answer(answer):
    async with store_on(answering((answer, 200))) as (store, _):
        with pytest.raises(BadAnswer):
            await store.read()
