"""What a server says to watches, word by word."""

import asyncio

import pytest

from tests.contract.arena import KINDS, REAL_TIME
from tests.contract.test_wire_reads import TABLE, at, lease
from tests.contract.wire import MERGE
from tests.e2e import objects

pytestmark = REAL_TIME

BOOKMARKS = "&allowWatchBookmarks=true"


async def version(arena, wire, kind="Lease"):
    return (await wire.get(at(arena, kind))).json["metadata"]["resourceVersion"]


async def history(arena, wire):
    """A Lease is made, changed and deleted; gives the version before."""
    before = await version(arena, wire)
    await wire.ask("POST", at(arena, "Lease"), lease("a"))
    patch = {"spec": {"holderIdentity": "y"}}
    await wire.ask("PATCH", at(arena, "Lease", "a"), patch, kind=MERGE)
    await wire.ask("DELETE", at(arena, "Lease", "a"))
    return before


def told(events):
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


async def _all(wire, path):
    return [event async for event in wire.watch(path)]


async def test_what_happened_since_a_version_is_told_in_order(arena, wire):
    before = await history(arena, wire)
    events = await wire.events(f"{at(arena, 'Lease')}?watch=1&resourceVersion={before}", 3)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert {event["object"]["kind"] for event in events} == {"Lease"}
    assert {event["object"]["apiVersion"] for event in events} == {"coordination.k8s.io/v1"}
    holders = [event["object"]["spec"]["holderIdentity"] for event in events]
    assert holders == ["x", "y", "y"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(before)


@pytest.mark.parametrize("query", ["watch=true", "watch=True&resourceVersion=0", "watch=1"])
async def test_a_watch_from_no_version_begins_with_what_is_there(arena, wire, query):
    await wire.ask("POST", at(arena, "Lease"), lease("a"))
    await wire.ask("POST", at(arena, "Lease"), lease("b"))
    events = await wire.events(f"{at(arena, 'Lease')}?{query}", 2)
    assert sorted(told(events)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_of_one_name_tells_of_nothing_else_until_its_time_is_over(arena, wire):
    before = await version(arena, wire)
    for name in ("a", "b", "c"):
        await wire.ask("POST", at(arena, "Lease"), lease(name))
    began = asyncio.get_running_loop().time()
    selector = "fieldSelector=metadata.name%3Db&timeoutSeconds=1"
    path = f"{at(arena, 'Lease')}?watch=1&resourceVersion={before}&{selector}"
    assert told(await _all(wire, path)) == [("ADDED", "b")]
    assert 0.9 < asyncio.get_running_loop().time() - began < 4


async def test_a_bookmark_comes_before_the_end_where_there_is_something_new_to_tell(
    where, arena, wire
):
    before = await version(arena, wire, "Machine")
    seconds = 5 if where == "kube" else 3  # kube-apiserver sends none in a shorter one
    quiet, plain, marked = (
        f"{at(arena, kind)}?watch=1&resourceVersion={before}&timeoutSeconds={seconds}{more}"
        for kind, more in (("Scaler", BOOKMARKS), ("Machine", ""), ("Machine", BOOKMARKS))
    )
    found = asyncio.gather(*(_all(wire, path) for path in (quiet, plain)))
    stream = wire.watch(marked)
    first = asyncio.ensure_future(anext(stream))
    await wire.ask("POST", at(arena, "Machine"), objects.machine("a"))
    added = await first
    elsewhere = KINDS["Machine"].path("default")
    other = (await wire.ask("POST", elsewhere, objects.machine(arena.namespace))).json
    mark = [event async for event in stream][-1]
    nothing, unmarked = await found
    if where == "kube":  # the tests beside this one write there too: what they wrote is new
        assert all(newer(event, before) and event["type"] == "BOOKMARK" for event in nothing)
    else:
        assert nothing == []
    assert unmarked == [added]
    assert told([added]) == [("ADDED", "machine-a")]
    assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "Machine")
    assert mark["object"]["apiVersion"] == KINDS["Machine"].api_version
    metadata = mark["object"]["metadata"]
    assert metadata.keys() - {"creationTimestamp"} == {"resourceVersion"}
    assert int(metadata["resourceVersion"]) >= int(other["metadata"]["resourceVersion"])
    await wire.ask("POST", at(arena, "Machine"), objects.machine("b"))
    path = f"{at(arena, 'Machine')}?watch=1&resourceVersion={metadata['resourceVersion']}"
    assert told(await wire.events(path, 1)) == [("ADDED", "machine-b")]


def newer(event, version):
    return int(event["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_a_version_that_is_forgotten_is_an_error_in_the_stream(arena, wire):
    before = await version(arena, wire, "Secret")
    await wire.ask("POST", at(arena, "Secret"), {"metadata": {"name": "a"}})
    await wire.ask("POST", at(arena, "Secret"), {"metadata": {"name": "b"}})
    await arena.forget()
    path = f"{at(arena, 'Secret')}?watch=1&resourceVersion={before}&timeoutSeconds=8"
    async with asyncio.timeout(5):  # and the end of the stream
        (event,) = await _all(wire, path)
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["apiVersion"]) == ("Status", "v1")
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 410, "Expired")
    assert "too old" in status["message"]


async def test_a_version_that_is_not_reached_yet_tells_nothing_before(arena, wire):
    query = "watch=1&resourceVersion=99999999&timeoutSeconds=1"
    stream = asyncio.ensure_future(_all(wire, f"{at(arena, 'Lease')}?{query}"))
    await wire.ask("POST", at(arena, "Lease"), lease("a"))
    assert await stream == []


async def test_a_watch_shows_objects_as_rows_of_a_table_where_that_is_asked_for(arena, wire):
    await wire.ask("POST", at(arena, "Lease"), lease("a"))
    (row,) = await wire.events(f"{at(arena, 'Lease')}?watch=1", 1, accept=TABLE)
    assert row["object"]["kind"] == "Table"
    assert row["object"]["rows"][0]["cells"][0] == "a"
