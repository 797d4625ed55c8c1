"""One object that nobody can swallow must not hide the others: nested too deeply, or too long; for every kind."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from app.core.clock import Clock
from app.core.errors import LimitExceeded, ServerFault, Throttled
from app.core.kube import resources
from app.core.kube.custom_objects import PAUSE, SCALE_REQUEST
from app.core.kube.decoding.envelope import METADATA_LIST
from app.core.kube.nesting import shallow
from app.core.kube.resources import Resources
from app.core.metrics import Metrics
from app.core.model.names import LabelSelector
from app.core.model.shoots import Route, Undecodable
from app.core.model.workloads import ResourceRef
from tests.core.kube.test_reflector import Watcher as Following

NS = "shoot--dev--one"
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
SOURCES: dict[str, Any] = {
    "clusters": resources.clusters(),
    "machines": resources.machines(),
    "secrets": resources.secrets("kubeconfig"),
    "external secrets": resources.secrets("kubeconfig", Route.EXTERNAL),
    "dependents": resources.dependent(KCM, Resources(cast("Any", None))),
    "slices": resources.slices(["etcd-main-client"]),
    "pods of a recovery": resources.pods(NS, None),
    "pods of probes": resources.probed_pods(LabelSelector()),
    "pauses": PAUSE.source,
    "scale requests": SCALE_REQUEST.source,
}
CUT_SHORT = "an object is nested too deeply; its deeper parts are not read"
UNDECODABLE = "an object cannot be decoded; its last known state stays in use"


def nested(levels):
    return "[" * levels + "]" * levels


def thing(name, version=1, field='"x"', deep_in=""):
    """A field that nobody reads stands before all else, as such a field may."""
    ours = f'"deep": {field}, ' if deep_in in ("", "object") else ""
    managed = f'"managedFields": {field}, ' if deep_in == "metadata" else ""
    meta = f'{managed}"uid": "u", "name": "{name}", "resourceVersion": "{version}"'
    meta += ', "creationTimestamp": "2026-11-20T14:00:00Z"'
    spec = '{"shoot": {"spec": {}}, "reason": "r", "direction": "Up"}'
    return f'{{{ours}"metadata": {{{meta}}}, "spec": {spec}}}'.encode()


class Server:
    """The objects of one kind; what is asked of it, and what is too long for who asks."""

    def __init__(self, source, *objects):
        self.clock, self.metrics = Clock.of_loop(), Metrics()
        self.source, self.objects = source, list(objects)
        self.events: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self.asked: list[Any] = []
        self.sent = 0
        self.metadata_fails: Exception | None = None

    def limits(self):
        return [int(each.params["limit"]) for each in self.asked if "limit" in each.params]

    async def call(self, request, decode, *_):
        self.asked.append(request)
        begin, limit = int(request.params.get("continue", 0)), int(request.params["limit"])
        items, more = self.objects[begin : begin + limit], begin + limit < len(self.objects)
        kind = self.source.resource.kind
        if request.accept == METADATA_LIST:
            if self.metadata_fails is not None:
                raise self.metadata_fails
            kind, items = "PartialObjectMetadata", [self.metadata(each) for each in items]
        meta = {"resourceVersion": "50", "continue": str(begin + limit) if more else ""}
        body = b'{"items": [%s], "kind": "%sList", "metadata": %s}' % (
            b", ".join(items),
            kind.encode(),
            json.dumps(meta).encode(),
        )
        self.sent += min(len(body), request.most)
        if len(body) > request.most:
            raise LimitExceeded("size", "more than we take")
        try:
            return decode(bytearray(body))
        except RecursionError:  # as `SeedApi` does
            return decode(await shallow(body, self.clock))

    def metadata(self, raw):
        begin = raw.index(b'{"uid"')
        return b'{"metadata": %s}' % raw[begin : raw.index(b"}", begin) + 1]

    @asynccontextmanager
    async def watch(self, request, **_):
        self.asked.append(request)
        yield self._lines()

    async def _lines(self):
        while True:
            word, raw = await self.events.get()
            yield b'{"object": %s, "type": "%s"}' % (raw, word.encode())


class Watcher(Following):
    """A reflector of one source over such a server, a second after its start."""

    def __init__(self, server):
        super().__init__(server, server.source)
        self.server = server

    async def __aenter__(self):
        await super().__aenter__()
        await asyncio.sleep(1)
        return self

    async def happens(self, word, raw):
        self.server.events.put_nowait((word, raw))
        await asyncio.sleep(0.1)

    @property
    def names(self):
        return sorted(self.reflector.of(""))

    @property
    def position(self):
        """Where the last watch was opened."""
        return self.server.asked[-1].params.get("resourceVersion")


@pytest.fixture(params=list(SOURCES.values()), ids=list(SOURCES))
def source(request):
    return request.param


def named(lines, event):
    return [entry["name"] for entry in lines if entry["event"] == event]


# Nested too deeply. How deep the decoder goes depends on the version of Python: 950 levels, 10,000
# with 3.13, and since 3.14 as far as the stack reaches.
TOO_DEEP = 1_000_000


@pytest.mark.parametrize("deep_in", ["object", "metadata"])
@pytest.mark.parametrize("levels", [940, 965, 990, 1_500, TOO_DEEP])
async def test_a_deep_object_in_a_list_is_named_and_read_as_all_others(
    source, lines, levels, deep_in
):
    hostile = thing("b", 2, nested(levels), deep_in)
    async with Watcher(Server(source, thing("a"), hostile, thing("c", 3))) as watcher:
        assert watcher.names == ["a", "b", "c"]
        assert watcher.reflector.trouble is None
        assert watcher.position == "50"
    if levels == TOO_DEEP:
        assert named(lines, CUT_SHORT) == ["b"]
    assert not named(lines, UNDECODABLE)


@pytest.mark.parametrize("levels", [940, 965, 990, TOO_DEEP])
async def test_a_deep_object_in_a_watch_is_named_and_the_watch_goes_on_behind_it(
    source, lines, levels
):
    async with Watcher(Server(source, thing("a"))) as watcher:
        await watcher.happens("MODIFIED", thing("a", 60, nested(levels)))
        await watcher.happens("ADDED", thing("b", 61, nested(levels)))
        await watcher.happens("ADDED", thing("c", 62))
        assert watcher.names == ["a", "b", "c"]
        await watcher.happens("DELETED", thing("b", 63, nested(levels)))
        assert watcher.names == ["a", "c"]
        assert len(watcher.server.asked) == 2, "one list, and one watch that goes on"
        assert watcher.reflector.version == "63"
    if levels == TOO_DEEP:
        assert named(lines, CUT_SHORT) == ["a", "b"]
    assert not named(lines, UNDECODABLE)


async def test_what_is_read_of_a_deep_cluster_is_what_it_says_now():
    deep = thing(NS, 60, nested(TOO_DEEP)).replace(
        b'"spec": {}', b'"spec": {"hibernation": {"enabled": true}}'
    )
    async with Watcher(Server(SOURCES["clusters"], thing(NS))) as watcher:
        assert not watcher.reflector.of("")[NS].shoot.hibernation_enabled
        await watcher.happens("MODIFIED", deep)
        assert watcher.reflector.of("")[NS].shoot.hibernation_enabled


async def test_a_deep_object_is_named_once_for_each_of_its_versions(lines):
    async with Watcher(Server(SOURCES["clusters"], thing("a", 1, nested(TOO_DEEP)))) as watcher:
        for version in (60, 60, 61):
            await watcher.happens("MODIFIED", thing("a", version, nested(TOO_DEEP)))
    assert named(lines, CUT_SHORT) == ["a", "a", "a"]


# Too long.

MOST = 1 << 18
"""Bytes of a page here: tests of what is 64 times as long take a minute."""


def small(source):
    return replace(source, most=MOST)


def long(name, share, version=1):
    """An object of so large a share of the longest page."""
    return thing(name, version, f'"{"x" * int(share * MOST)}"')


async def test_a_page_that_is_too_long_is_asked_for_again_with_fewer_objects(source, lines):
    server = Server(small(source), *(long(f"o{n:02}", 0.09) for n in range(60)))
    async with Watcher(server) as watcher:
        assert len(watcher.names) == 60
        assert watcher.reflector.trouble is None
        assert server.limits()[0] == source.page
        assert max(server.limits()[4:]) < 12
        assert server.sent < 2 * 60 * 0.09 * MOST
    assert not lines


async def test_the_pages_become_longer_again_after_those_that_weigh_much():
    heavy = [long(f"a{n}", 0.5) for n in range(4)]
    clusters = small(SOURCES["clusters"])
    server = Server(clusters, *heavy, *(thing(f"b{n:03}") for n in range(300)))
    async with Watcher(server) as watcher:
        assert len(watcher.names) == 304
        assert server.limits()[-1] == 50
        assert len(server.limits()) < 20


@pytest.mark.parametrize("place", range(3))
async def test_what_is_too_long_even_alone_is_named_and_keeps_its_last_good_record(
    source, lines, place
):
    objects = [thing("a", 7), thing("b", 7), thing("c", 7)]
    server = Server(small(source), *objects)
    async with Watcher(server) as watcher:
        before = dict(watcher.reflector.of(""))
        server.objects = [thing(each, 8) for each in "abc"]
        server.objects[place] = long("abc"[place], 1, 8)
        await watcher.happens("ERROR", b'{"code": 410}')
        await asyncio.sleep(5)
        assert watcher.names == ["a", "b", "c"]
        assert watcher.reflector.of("")["abc"[place]] is before["abc"[place]]
        assert watcher.reflector.trouble is None
        assert watcher.position == "50"
    assert named(lines, UNDECODABLE) == ["abc"[place]]
    assert "more than" in next(e["error"] for e in lines if e["event"] == UNDECODABLE)


async def test_what_was_never_read_and_is_too_long_is_absent_and_named(source, lines):
    async with Watcher(Server(small(source), thing("a"), long("b", 1))) as watcher:
        assert watcher.names == ["a"]
        assert watcher.reflector.state.synced
        live = await watcher.reflector.read("", send=watcher.server.call, within=1.0)
        assert live.keys() == {("", "a")}
    assert named(lines, UNDECODABLE) == ["b"]


@pytest.mark.parametrize(
    "failure", [LimitExceeded("size", "more"), ServerFault("500"), Throttled("429")]
)
async def test_where_not_even_its_name_can_be_had_the_list_has_failed(failure):
    server = Server(small(SOURCES["clusters"]), thing("a"), long("b", 1))
    server.metadata_fails = failure
    async with Watcher(server) as watcher:
        await asyncio.sleep(300)
        assert not watcher.reflector.state.synced
        assert watcher.reflector.trouble == str(failure)
        assert len(server.asked) < 150, "seven in each try"
        server.metadata_fails = None
        await asyncio.sleep(40)
        assert watcher.names == ["a"]


async def test_an_answer_that_is_too_slow_is_no_reason_for_smaller_pages():
    server = Server(SOURCES["clusters"], thing("a"))

    async def too_slow(request, *_):
        server.asked.append(request)
        raise LimitExceeded("time", "not complete")

    server.call = too_slow  # type: ignore[method-assign]
    async with Watcher(server):
        await asyncio.sleep(60)
    assert set(server.limits()) == {50}


# More than there is of anything.


def many(path, item):
    """An object with a hundred thousand of something, as small as may be."""
    found: Any = [item] * 100_000 if path[-1] != "labels" else {str(n): "" for n in range(100_000)}
    for name in reversed(path):
        found = [found] if name is None else {name: found}
    return json.dumps({"metadata": {"name": NS, "resourceVersion": "60"}} | found).encode()


SHOOT = ("spec", "shoot")
WORKERS = (*SHOOT, "spec", "provider", "workers")
POD = SOURCES["pods of a recovery"]
PROBED = SOURCES["pods of probes"]
MANY = {
    "workers": (SOURCES["clusters"], WORKERS, {"name": "a"}),
    "waiting containers": (POD, ("status", "containerStatuses"), {}),
    "init containers": (POD, ("status", "initContainerStatuses"), {}),
    "conditions": (POD, ("status", "conditions"), {}),
    "containers": (PROBED, ("spec", "containers"), {"name": "a"}),
    "statuses": (PROBED, ("status", "containerStatuses"), {}),
    "endpoints": (SOURCES["slices"], ("endpoints",), {}),
}


@pytest.mark.parametrize(("source", "path", "item"), MANY.values(), ids=MANY)
async def test_of_what_has_more_than_a_thousand_of_anything_the_last_good_record_stays(
    source, path, item, lines
):
    async with Watcher(Server(source, thing(NS))) as watcher:
        before = watcher.reflector.of("")[NS]
        await watcher.happens("MODIFIED", many(path, item))
        found = watcher.reflector.of("")[NS]
        assert found is before or isinstance(found.shoot, Undecodable)
    assert named(lines, UNDECODABLE) == [NS]
