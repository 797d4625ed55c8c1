"""The watch of the EndpointSlices: what is told of services, and when; on virtual time, against a script."""

import asyncio

import pytest

from app.core.errors import Expired, Unreachable
from app.core.kube.seed_api import Budget
from app.core.model.weeding import ServiceKey
from tests.core.kube.test_reflector import ENDS, EXPIRED_EVENT, FOREVER, Script, bookmark, event
from tests.core.kube.weeding import API, ETCD, a_slice, down, endpoint, listed, seed_on, up

OTHER = ServiceKey("shoot--dev--two", ETCD.service)
SLICES = "EndpointSlice"


def watched(*watches, lists=None, **more):
    first = listed(SLICES, down(), up("api-1", 2, service=API.service))
    return Script(lists or [first], watches, **more)


async def test_only_slices_of_configured_services_are_asked_for_in_pages_of_500():
    script = watched([FOREVER], lists=[listed(SLICES, up(), more="x"), listed(SLICES)])
    async with seed_on(script) as seed:
        await asyncio.sleep(1)
        chosen = {
            "labelSelector": "kubernetes.io/service-name in (etcd-main-client,kube-apiserver)"
        }
        first, second, watch = script.asked
        assert first.params == chosen | {"limit": "500"}
        assert second.params == first.params | {"continue": "x"}
        assert watch.params.items() >= chosen.items()
        assert {each.path for each in script.asked} == {"/apis/discovery.k8s.io/v1/endpointslices"}
        assert set(script.budgets) == {Budget.NORMAL}
        assert len(seed.heard.relisted) == 1


BURST = [event("MODIFIED", down(version=21)), event("MODIFIED", up(version=22))]


async def test_after_an_interruption_each_missed_event_is_told_in_its_order():
    script = watched([3, Unreachable("cut")], [*BURST, ENDS])
    async with seed_on(script) as seed:
        await asyncio.sleep(100)
        assert seed.heard.changes[:2] == [(ETCD, False), (ETCD, True)]
        assert len(seed.heard.relisted) == 1
        assert script.verbs().count("list") == 1
        assert seed.troubles() == {}


async def test_after_silence_what_was_missed_is_told_as_a_new_list_and_nothing_was_missed_before():
    lists = [listed(SLICES, down()), listed(SLICES, up(version=21))]
    async with seed_on(watched([7, bookmark(11), FOREVER], [ENDS], lists=lists)) as seed:
        await asyncio.sleep(80)
        assert seed.heard.changes == []
        since, changed = seed.heard.relisted[1].since, seed.heard.relisted[1].changed
        assert since - seed.began == pytest.approx(7, abs=0.01)
        assert changed == (ETCD,)
        assert seed.heard.ready(ETCD)
        assert seed.troubles() == {}


async def test_a_new_list_is_told_once_with_the_services_that_differ():
    before = listed(
        SLICES,
        down(),
        up("api-1", 2, service=API.service),
        up("etcd-1", 3, namespace=OTHER.namespace),
    )
    after = listed(SLICES, up(version=40), up("api-1", 2, service=API.service), version=50)
    async with seed_on(watched(Expired("410"), [FOREVER], lists=[before, after])) as seed:
        await asyncio.sleep(20)
        relisted = seed.heard.relisted[1]
        assert sorted(relisted.changed) == [ETCD, OTHER]
        assert relisted.since == seed.began
        assert len(seed.heard.relisted) == 2
        assert seed.heard.changes == []
        assert seed.heard.ready(ETCD)
        assert OTHER not in seed.services()


async def test_a_new_list_in_which_nothing_differs_names_no_service():
    async with seed_on(watched(Expired("410"), [FOREVER])) as seed:
        await asyncio.sleep(20)
        assert [each.changed for each in seed.heard.relisted] == [(ETCD, API), ()]


FIRST, THEN, LAST = listed(SLICES, down()), listed(SLICES, more="x"), listed(SLICES, up(version=9))
MISSED = {
    "an event is a line": ([], [[7, BURST[0], 5, Unreachable("cut")], Expired("410"), [ENDS]], 7),
    "so is a bookmark": ([], [[7, bookmark(30), 5, Unreachable("cut")], Expired("410"), [ENDS]], 7),
    "that a stream opens which then says that it is too late proves nothing": (
        [],
        [[7, BURST[0], 10], [30, EXPIRED_EVENT], [ENDS]],
        7,
    ),
    "nor does a list that failed on its way": (
        [FIRST, THEN, Unreachable("cut"), LAST],
        [[7, BURST[0], EXPIRED_EVENT], [ENDS]],
        7,
    ),
    "without a line it is when the list was sent": (
        [listed(SLICES, down(), more="x"), listed(SLICES), LAST],
        [[20], [EXPIRED_EVENT], [ENDS]],
        0,
    ),
}


@pytest.mark.parametrize(("lists", "watches", "since"), MISSED.values(), ids=MISSED)
async def test_nothing_was_missed_until_the_last_line(lists, watches, since):
    delay = 2.0 if since == 0 else 0.0
    async with seed_on(watched(*watches, lists=lists, delay=delay)) as seed:
        await asyncio.sleep(120)
        _, relisted = seed.heard.relisted
        assert relisted.since - seed.began == pytest.approx(since, abs=0.01)
        assert relisted.changed == (ETCD,) or not lists


@pytest.mark.parametrize("to", [API.service, "another", None])
async def test_a_slice_that_changes_hands_is_told_of_both_services(to):
    moved = event("MODIFIED" if to == API.service else "DELETED", up(version=21, service=to))
    async with seed_on(watched([1, moved, FOREVER], lists=[listed(SLICES, up())])) as seed:
        await asyncio.sleep(2)
        joined = {API: True} if to == API.service else {}
        assert dict(seed.heard.changes) == {ETCD: False} | joined
        assert list(seed.services()) == list(joined)


async def test_a_slice_that_moved_while_nobody_watched_is_told_of_both():
    after = listed(SLICES, up(version=21, service=API.service), up("api-1", 2, service=API.service))
    first = listed(SLICES, down(), up("api-1", 2, service=API.service))
    async with seed_on(watched(Expired("410"), [FOREVER], lists=[first, after])) as seed:
        await asyncio.sleep(6)
        assert set(seed.heard.relisted[1].changed) == {ETCD, API}
        assert list(seed.services()) == [API]


async def test_names_that_are_the_same_in_many_places_are_kept_once():
    first = listed(SLICES, up(), up("etcd-1", 2, namespace=OTHER.namespace), a_slice("x", 3))
    same = endpoint(ready=None)
    same["targetRef"]["namespace"] = OTHER.namespace
    first["items"][1]["endpoints"] = [same]
    async with seed_on(watched([FOREVER], lists=[first])) as seed:
        await asyncio.sleep(1)
        (one, _), (two,) = seed.slices(ETCD), seed.slices(OTHER)
        assert one.endpoints[0].pod is two.endpoints[0].pod
        assert one.service is two.service
