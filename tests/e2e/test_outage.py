"""The main job, at the grace period that shoots have, with the file and the arguments that Gardener writes."""

import asyncio
import time

from app.core.model import workloads as ann
from app.core.model.instants import parse_rfc3339
from tests.e2e.audit import Request
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.parallel import scenario
from tests.e2e.program import config
from tests.e2e.stage import Stage

FIRST_WRITE, KCM_GONE = 1.5, 3.0  # seconds after the outage can be known
LEARNING = (
    20  # seconds until each lease has moved before our eyes: before that, its clock may be off
)


async def an_outage_and_its_end(stage: Stage, counts: dict[str, int]) -> None:
    await stage.shoot.build(nodes=10, replicas=counts)
    prober = await stage.healthy()
    down = await stage.outage()
    known = stage.shoot.known_at()
    assert {name: each.saved for name, each in down.items()} == {
        name: str(count) for name, count in counts.items()
    }
    assert all(each.protected for each in down.values())
    began = [parse_rfc3339(each.annotations[ann.SINCE]) or 0.0 for each in down.values()]
    assert all(abs(at - known) < 5 for at in began)
    the_writes_were_in_time(stage, known)
    shoot = await stage.until_state(prober, "Protected", within=10)
    assert shoot["reason"] == "LeasesExpired"
    assert shoot["leases"]["expired"] >= 6
    await asyncio.sleep(15)
    assert set((await stage.shoot.replicas()).values()) == {0}, "as long as it lasts"
    restored = stage.shoot.kubelets.path.restore()
    up = await stage.until_up()
    assert {name: each.replicas for name, each in up.items()} == counts
    assert not any(key in ann.OURS for each in up.values() for key in each.annotations)
    the_way_back_was_by_levels(stage.writes(restored))
    stage.figure(f"all back {time.time() - restored:.1f} s after the end of the outage")
    await stage.until_state(prober, "Healthy", within=20)


def the_writes_were_in_time(stage: Stage, known: float) -> None:
    writes = stage.writes()
    assert sorted(each.name for each in writes) == sorted([KCM, MCM, CA]), "one patch for each"
    assert all(each.body["spec"] == {"replicas": 0} for each in writes)
    first = writes[0].at - known
    gone = next(each.at for each in writes if each.name == KCM) - known
    stage.figure(f"first write {first:.2f} s, {KCM} at 0 {gone:.2f} s after it could be known")
    assert -0.1 < first <= FIRST_WRITE
    assert gone <= KCM_GONE


def the_way_back_was_by_levels(writes: list[Request]) -> None:
    assert [each.name for each in writes] == [KCM, MCM, CA], "one patch for each, by level"
    assert writes[1].at - writes[0].at >= 30, "the initialDelay of its level"


@scenario()
async def test_an_outage_takes_the_controllers_to_0_and_back_to_1(stage: Stage) -> None:
    await an_outage_and_its_end(stage, {KCM: 1, MCM: 1, CA: 1})


@scenario()
async def test_an_outage_takes_the_controllers_to_0_and_back_to_3(stage: Stage) -> None:
    await an_outage_and_its_end(stage, {KCM: 3, MCM: 3, CA: 1})


@scenario()
async def test_59_percent_of_the_leases_change_nothing(stage: Stage) -> None:
    await stage.shoot.build(nodes=100)
    prober = await stage.healthy()
    stage.shoot.kubelets.path.cut(stage.shoot.nodes[:59])
    await asyncio.sleep(75)
    leases = (await prober.shoot(stage.shoot.namespace))["leases"]
    assert (leases["candidates"], leases["expired"]) == (100, 59)
    stage.assert_nothing_was_scaled()


@scenario()
async def test_60_percent_of_the_leases_take_the_controllers_to_0(stage: Stage) -> None:
    await stage.shoot.build(nodes=100)
    prober = await stage.healthy()
    await asyncio.sleep(LEARNING)
    stage.shoot.kubelets.path.cut(stage.shoot.nodes[:60])
    await stage.until_down()
    the_writes_were_in_time(stage, stage.shoot.known_at())
    shoot = await stage.until_state(prober, "Protected", within=10)
    assert shoot["leases"]["expired"] == 60


async def requests_in_a_minute(stage: Stage, interval: str) -> list[Request]:
    await stage.shoot.build(nodes=10)
    prober = await stage.healthy(config(interval=interval))
    await asyncio.sleep(30)
    began, connections = time.time(), prober.connections_to(stage.plane.port)
    await asyncio.sleep(65)
    found = stage.requests_to_shoot(began)
    assert len(connections) == 1
    assert prober.connections_to(stage.plane.port) == connections, "it stays open"
    of_seed = [each for each in stage.requests_to_seed(began) if each.resource != "leases"]
    # The seed is shared: what a shoot of another scenario suffers may make an Event of this program, too.
    reads = [each for each in of_seed if each.verb != "watch" and not each.writes]
    assert not reads, "\n".join(str(each) for each in reads)
    return found


@scenario()
async def test_in_the_steady_state_a_probe_is_2_requests(stage: Stage) -> None:
    found = await requests_in_a_minute(stage, "10s")
    looks = sum(each.resource == "/version" for each in found)
    stage.figure(f"probeInterval 10s: {len(found)} requests in {looks} looks")
    assert looks >= 5
    assert abs(len(found) - 2 * looks) <= 1, "one may have begun before the minute, or end after it"


@scenario()
async def test_with_probes_30s_apart_two_contacts_come_on_top(stage: Stage) -> None:
    found = await requests_in_a_minute(stage, "30s")
    looks = sum(each.resource == "/version" for each in found)
    stage.figure(f"probeInterval 30s: {len(found)} requests in {looks} looks")
    assert 2 <= looks <= 3
    assert abs(len(found) - 4 * looks) <= 3, "a probe with its contacts may have begun before"
