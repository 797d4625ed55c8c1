"""The leader's address: when it is read and written, what a standby believes, what turns it off; on virtual time."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from app.core.clock import Clock
from app.core.errors import Conflict, Forbidden, Invalid, NotFound, Unreachable
from app.core.kube.leader_slice import ApiEndpoint, LeaderAddress, LeaderAddressOff
from app.core.metrics import Metrics
from tests.support.doubles import SetLeadership

OWN, OTHER = ApiEndpoint("10.0.0.1", 8080), ApiEndpoint("10.0.0.2", 8080)
PATH = "/apis/discovery.k8s.io/v1/namespaces/garden/endpointslices/leader"


def of_chart(**more):
    meta = {"name": "leader", "namespace": "garden", "resourceVersion": "1", "labels": {"a": "b"}}
    return {"kind": "EndpointSlice", "addressType": "IPv4", "metadata": meta} | more


def sending_to(place, name="api", **conditions):
    endpoint = {"addresses": [place.ip], "conditions": {"ready": True} | conditions}
    port = {"name": name, "protocol": "TCP", "port": place.port}
    return of_chart(endpoints=[endpoint], ports=[port])


class Seed:
    """A seed with one slice: reads and writes take effect unless something is in the way."""

    def __init__(self, slice_=None):
        self.clock, self.metrics = Clock.of_loop(), Metrics()
        self.slice = slice_
        self.asked: list[tuple[str, float]] = []
        self.written: list[Any] = []
        self.reading: Exception | None = None
        self.writing: list[Exception] = []

    async def call(self, request, decode, *, new_connection=False, starting=None):
        self.asked.append((request.method, asyncio.get_running_loop().time()))
        assert request.path == PATH
        await asyncio.sleep(0.01)
        if request.method == "PUT":
            return self._put(request, decode, starting)
        if self.reading is not None:
            raise self.reading
        if self.slice is None:
            raise NotFound("get endpointslices in garden/leader: 404 (NotFound)", status=404)
        return decode(json.dumps(self.slice).encode())

    def _put(self, request, decode, starting):
        starting()
        if self.writing:
            raise self.writing.pop(0)
        self.slice = json.loads(json.dumps(request.body))
        self.written.append(self.slice)
        return decode(json.dumps(self.slice).encode())

    def times(self, method):
        return [round(at - self.asked[0][1]) for verb, at in self.asked if verb == method]


class Replica:
    """One replica on a seed, and what it says."""

    def __init__(self, seed, *, leading):
        self.metrics, self.leadership = seed.metrics, SetLeadership(leading=leading)
        api = cast("Any", seed)
        self.address = LeaderAddress(api, "garden", "leader", OWN, self.leadership)

    @property
    def off(self):
        return self.metrics.registry.get_sample_value(
            "dwd_feature_off", {"feature": "leader-address"}
        )


@asynccontextmanager
async def running(seed, *, leading):
    replica = Replica(seed, leading=leading)
    task = asyncio.ensure_future(replica.address.run())
    try:
        yield replica
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_leader_probes_every_minute_and_writes_what_differs():
    seed = Seed(of_chart())
    async with running(seed, leading=True) as replica:
        await asyncio.sleep(1)
        assert seed.slice == sending_to(OWN)
        assert (replica.address.off, replica.off) == (None, 0)
        seed.slice = sending_to(OTHER)
        await asyncio.sleep(58)
        assert len(seed.written) == 1
        await asyncio.sleep(2)
        assert seed.slice == sending_to(OWN)
        await asyncio.sleep(600)
        assert len(seed.written) == 2
        assert seed.times("GET") == [60 * n for n in range(12)]


DIFFERENT = {
    "another address": sending_to(OTHER),
    "another port": sending_to(ApiEndpoint(OWN.ip, 1)),
    "not ready": sending_to(OWN, ready=False),
    "readiness unknown": sending_to(OWN, ready=None),
    "not serving": sending_to(OWN, serving=False),
    "terminating": sending_to(OWN, terminating=True),
    "no endpoints": sending_to(OWN) | {"endpoints": None},
    "no ports": sending_to(OWN) | {"ports": None},
    "two endpoints": sending_to(OWN)
    | {"endpoints": [*sending_to(OWN)["endpoints"], *sending_to(OTHER)["endpoints"]]},
    "two addresses": sending_to(OWN)
    | {"endpoints": [{"addresses": [OWN.ip, OTHER.ip], "conditions": {"ready": True}}]},
    "no conditions": sending_to(OWN) | {"endpoints": [{"addresses": [OWN.ip]}]},
    "every port": sending_to(OWN) | {"ports": [{"name": "api"}]},
}


@pytest.mark.parametrize("before", DIFFERENT.values(), ids=DIFFERENT)
async def test_whatever_differs_is_written(before):
    seed = Seed(before)
    async with running(seed, leading=True):
        await asyncio.sleep(1)
    assert len(seed.written) == 1
    after = seed.slice
    assert after["endpoints"] == sending_to(OWN)["endpoints"]
    assert [each["port"] for each in after["ports"]] == [OWN.port]
    assert after["metadata"] == of_chart()["metadata"]


async def test_what_is_right_is_not_written():
    seed = Seed(sending_to(OWN, serving=True, terminating=False))
    async with running(seed, leading=True):
        await asyncio.sleep(300)
    assert seed.written == []


async def test_the_name_of_the_port_is_the_chart_s():
    seed = Seed(sending_to(OTHER, name="https"))
    async with running(seed, leading=True):
        await asyncio.sleep(1)
    assert seed.slice["ports"] == [{"name": "https", "protocol": "TCP", "port": OWN.port}]


async def test_a_standby_asks_every_ten_seconds_and_writes_nothing():
    seed = Seed(sending_to(OTHER))
    async with running(seed, leading=False) as replica:
        assert replica.address.address() is None
        await asyncio.sleep(1)
        assert replica.address.address() == "10.0.0.2:8080"
        seed.slice = sending_to(ApiEndpoint("10.0.0.3", 9))
        await asyncio.sleep(10)
        assert replica.address.address() == "10.0.0.3:9"
        await asyncio.sleep(50)
    assert seed.times("GET") == [10 * n for n in range(7)]
    assert seed.written == []


async def test_who_begins_to_lead_writes_at_once():
    seed = Seed(sending_to(OTHER))
    async with running(seed, leading=False) as replica:
        await asyncio.sleep(5)
        replica.leadership.become(leading=True)
        assert replica.address.address() == "10.0.0.1:8080"
        await asyncio.sleep(0.1)
        assert seed.slice == sending_to(OWN)


async def test_who_leads_no_more_writes_no_more():
    seed = Seed(sending_to(OTHER))
    async with running(seed, leading=True) as replica:
        await asyncio.sleep(0.015)  # it has read, and is about to write
        replica.leadership.become(leading=False)
        await asyncio.sleep(300)
        assert replica.address.address() == "10.0.0.2:8080"
    assert seed.written == []


@pytest.mark.parametrize(("conflicts", "tried"), [(1, [0, 0]), (3, [0, 0, 0, 10])])
async def test_a_write_that_meets_another_one_is_made_again(conflicts, tried):
    seed = Seed(of_chart())
    seed.writing = [Conflict("changed", status=409)] * conflicts
    async with running(seed, leading=True) as replica:
        await asyncio.sleep(5)
        assert replica.address.off is None
        await asyncio.sleep(10)
    assert seed.times("PUT") == tried
    assert [method for method, _ in seed.asked][:4] == ["GET", "PUT", "GET", "PUT"]
    assert seed.slice == sending_to(OWN)


MENDED_BY_PEOPLE = [
    Forbidden("get endpointslices in garden/leader: 403 (Forbidden)", status=403),
    NotFound("get endpointslices in garden/leader: 404 (NotFound)", status=404),
]


@pytest.mark.parametrize("refusal", MENDED_BY_PEOPLE, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("leading", [True, False])
async def test_what_only_a_person_can_mend_turns_it_off_until_it_is_mended(refusal, leading, lines):
    seed = Seed(sending_to(OTHER))
    seed.reading = refusal
    async with running(seed, leading=leading) as replica:
        await asyncio.sleep(600)
        assert (replica.address.off, replica.off) == (str(refusal), 1)
        assert len(seed.asked) <= 11
        seed.reading = None
        await asyncio.sleep(61)
        assert (replica.address.off, replica.off) == (None, 0)
    assert len([each for each in lines if each["log_level"] == "warning"]) == 1


@pytest.mark.parametrize("kind", [Forbidden, Invalid])
async def test_a_write_that_is_refused_turns_it_off(kind):
    seed = Seed(of_chart())
    seed.writing = [kind("update endpointslices: no", status=403)]
    async with running(seed, leading=True) as replica:
        await asyncio.sleep(1)
        assert replica.address.off == "update endpointslices: no"
        await asyncio.sleep(60)
        assert replica.address.off is None
    assert seed.slice == sending_to(OWN)


async def test_a_seed_that_is_away_turns_nothing_off_and_is_asked_again_soon():
    seed = Seed(of_chart())
    seed.reading = Unreachable("nobody there")
    async with running(seed, leading=True) as replica:
        await asyncio.sleep(25)
        assert seed.times("GET") == [0, 10, 20]
        assert (replica.address.off, replica.off) == (None, 0)
        seed.reading = None
        await asyncio.sleep(10)
        assert seed.slice == sending_to(OWN)


async def test_what_a_standby_read_is_believed_for_a_minute():
    seed = Seed(sending_to(OTHER))
    async with running(seed, leading=False) as replica:
        await asyncio.sleep(1)
        seed.reading = Unreachable("nobody there")
        await asyncio.sleep(55)
        assert replica.address.address() == "10.0.0.2:8080"
        await asyncio.sleep(10)
        assert replica.address.address() is None


NOWHERE = {
    "empty": of_chart(),
    "two endpoints": DIFFERENT["two endpoints"],
    "every port": DIFFERENT["every port"],
    "no slice": sending_to(OTHER) | {"kind": "Endpoints"},
}


@pytest.mark.parametrize("found", NOWHERE.values(), ids=NOWHERE)
async def test_what_names_no_one_place_names_none(found):
    async with running(Seed(found), leading=False) as replica:
        await asyncio.sleep(1)
        assert (replica.address.address(), replica.address.off) == (None, None)


def test_an_ipv6_address_stands_in_brackets():
    assert str(ApiEndpoint("fd00::1", 8080)) == "[fd00::1]:8080"


def test_where_it_is_not_configured_it_is_off_from_the_beginning():
    metrics = Metrics()
    off = LeaderAddressOff("--leader-endpointslice is not given", metrics)
    assert (off.off, off.address()) == ("--leader-endpointslice is not given", None)
    labels = {"feature": "leader-address"}
    assert metrics.registry.get_sample_value("dwd_feature_off", labels) == 1
