"""The weeder on a real API server: what waits is deleted once, whatever happens meanwhile, and nothing else is."""

import asyncio
import datetime as dt
import time

from tests.e2e import weeder_objects as things
from tests.e2e.api import Json
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import PATIENT, SHORT_LEASE, Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Place, Uids, until_there
from tests.e2e.weeder_stage import SLOWLY, WeederSeed, recoveries, weeding

OWNERS, EACH = 10, 5


async def others(place: Place) -> dict[str, Uids]:
    """Pods that are not to be deleted, by the reason that is to be told."""
    looping = things.crash_looping
    return {
        "NotWaiting": await place.workloads(2, 2, things.running, named="well"),
        "ShortBackoff": await place.workloads(2, 2, things.soon_again, named="soon"),
        "BarePod": await place.pod("bare", looping(), owned=False),
        "Terminating": await place.pod("ends-0", looping()),
        "NotSelected": await place.workloads(1, 2, labels=things.UNRELATED, named="unrelated"),
    }


def of_all(groups: dict[str, Uids]) -> Uids:
    return {name: uid for group in groups.values() for name, uid in group.items()}


async def told(weeder: Program, place: Place) -> dict[str, set[str]]:
    """The pods that it spared, by their reasons."""
    (recovery,) = await recoveries(weeder, place)
    found: dict[str, set[str]] = {}
    for each in recovery["spared"]:
        found.setdefault(each["reason"], set()).add(each["pod"])
    return found


@scenario()
async def test_each_of_50_waiting_pods_is_deleted_once_and_no_other_pod_is(stage: Stage) -> None:
    """10 owners with 5 pods each, one of them waiting in an init container.

    Those that run, end, wait for 10 s at most, have no owner or are not selected stay as they are, and so do all that
    wait in a namespace in which nothing came back. What the owners make anew runs, and stays too.

    It has Gardener's arguments, rights and ConfigMap. Nothing is refused but Pauses, and Events in control-plane
    namespaces, which Gardener does not grant: that is reported.
    """
    async with weeding(stage) as seed:
        await seed.grant_people([])
        here, elsewhere = await seed.place(), await seed.place()
        waiting = await here.workloads(OWNERS, EACH)
        await here.becomes("wait0-0", things.crash_looping(ago=60))
        waiting |= await here.pod("init-0", things.crash_looping(init=True))
        spared = await others(here)
        seed.kubelet.keeps.add("ends-0")
        await here.begin_to_end("ends-0")
        there = await elsewhere.workloads(3, 2)
        await here.service(ready=False)
        await elsewhere.service(ready=False)
        weeder = await seed.leader()
        assert {"--config-file", "--enable-leader-election"} <= {
            word.partition("=")[0] for word in weeder.child.command
        }
        assert not seed.deletions()
        back = await here.service(ready=True)
        done = await seed.until_deleted(waiting, within=15)
        stage.figure(
            f"51 pods: first deleted {1000 * (done[0].done - back):.0f} ms, "
            f"last {done[-1].done - back:.2f} s after the slice was written"
        )
        # what is deleted is made anew, the ending one ends
        alive = len(waiting) + len(of_all(spared))
        await until_there(here, alive, within=15)
        await asyncio.sleep(3)
        assert len(seed.deletions()) == len(waiting), "none is asked for twice"
        assert (
            of_all(spared).items() - {("ends-0", spared["Terminating"]["ends-0"])}
            <= (await here.there()).items()
        )
        assert there.items() <= (await elsewhere.there()).items()
        assert [(each.began.namespace, each.ended) for each in seed.pod_watches()] == [
            (here.namespace, None)
        ]
        found = await told(weeder, here)
        for reason in ("ShortBackoff", "BarePod", "Terminating"):
            assert found[reason] == set(spared[reason]), reason
        assert "NotSelected" not in found
        (recovery,) = await recoveries(weeder, here)
        assert {each["pod"] for each in recovery["deletions"]} == set(waiting)
        assert {each["result"] for each in recovery["deletions"]} == {"deleted"}
        await gardeners_rights_suffice(seed, weeder)


OFF = ("events", "pauses")


async def gardeners_rights_suffice(seed: WeederSeed, weeder: Program) -> None:
    for needed in ("pods", "endpointslices", "leases"):
        assert not await weeder.metric("dwd_missing_permissions", resource=needed), needed

    async def told() -> bool:
        off = [await weeder.metric("dwd_feature_off", feature=each) for each in OFF]
        return off == [1] * len(OFF)

    await eventually(told, f"{OFF} are told to be off", within=15)
    refused = [each for each in seed.requests() if each.code == 403]
    assert {(each.resource, each.verb) for each in refused} <= {
        ("events", "create"),
        ("pauses", "list"),
    }, refused
    known = {
        ("list", "endpointslices"),
        ("watch", "endpointslices"),
        *((verb, "pods") for verb in ("get", "list", "watch", "delete")),
        *((verb, "leases") for verb in ("get", "create", "update")),
        ("create", "selfsubjectaccessreviews"),
        ("create", "events"),
        ("list", "pauses"),
    }
    assert {(each.verb, each.resource) for each in seed.requests()} <= known


# Watches are cut and expire, the API server restarts, pods change: nothing is missed, nothing deleted twice.


async def under_way(seed: WeederSeed, deleted: int, **flags: str) -> tuple[Place, Uids, Program]:
    """A recovery with 50 pods, of which so many are deleted."""
    place = await seed.place()
    waiting = await place.workloads(OWNERS, EACH)
    await place.service(ready=False)
    weeder = await seed.leader(**SLOWLY, **flags)
    await place.service(ready=True)
    await seed.until_some_deleted(deleted)
    assert len(seed.deleted()) < OWNERS * EACH / 2, "there is more to come"
    return place, waiting, weeder


async def only_recovery(weeder: Program, place: Place) -> None:
    """A list anew is none, nor is a watch that was opened again."""
    (recovery,) = await recoveries(weeder, place)
    assert (recovery["cause"], recovery["phase"]) == ("BecameReady", "Watching")
    assert await weeder.metric("dwd_weeder_recoveries_total") == 1


@scenario()
async def test_restarts_of_the_api_server_in_a_recovery_miss_no_pod_and_delete_none_twice(
    stage: Stage,
) -> None:
    """It is stopped, and killed. Positions are gone then (410), and what they are of is listed anew.

    Not that of a watch to which nothing had to be told since: its position is the one that the server begins with.
    """
    async with weeding(stage) as seed:
        place, waiting, weeder = await under_way(seed, 8, **PATIENT)
        await seed.plane.child.stop()
        await seed.plane.start()
        waiting |= await place.workloads(2, 2, named="late")
        await seed.until_some_deleted(20, within=40)
        await seed.plane.child.kill()
        await seed.plane.start()
        back = time.time()
        waiting |= await place.workloads(2, 2, named="later")
        done = await seed.until_deleted(waiting, within=60)
        after = [each.at for each in done if each.at > back]
        stage.figure(f"API server restarted: goes on {after[0] - back:.1f} s after it was back")
        await asyncio.sleep(3)
        assert len(seed.deleted()) == len(waiting)
        expired = await weeder.metric("dwd_watch_restarts_total", kind="pods", reason="Expired")
        assert expired in {1, 2}
        await only_recovery(weeder, place)


# Weeders that die in the middle of a recovery, and others that go on where they stopped.

KILLED_AT = 12
DURATION = 300.0


async def goes_on(weeder: Program, place: Place, since: float) -> None:
    """Its only recovery is for the time that is left, counted from when the service became ready."""
    (recovery,) = await recoveries(weeder, place)
    assert recovery["cause"] == "Started"
    until = dt.datetime.fromisoformat(recovery["until"]).timestamp()
    assert abs(until - since - DURATION) <= 2, "instants of pods are cut to whole seconds"


@scenario()
async def test_the_standby_goes_on_after_sigkill_in_the_middle_of_a_recovery(stage: Stage) -> None:
    """What the leader had asked for last may be answered by nobody; the standby asks for none of it again."""
    async with weeding(stage) as seed:
        place = await seed.place()
        waiting = await place.workloads(OWNERS, EACH)
        await place.service(ready=False)
        leader = await seed.leader(**SLOWLY, **SHORT_LEASE)
        standby = await seed.start(**SLOWLY, **SHORT_LEASE)
        assert not await standby.leads()
        since = await place.service(ready=True)
        await seed.until_some_deleted(KILLED_AT)
        await leader.kill()
        killed, before = time.time(), len(seed.deleted())
        assert before < len(waiting)
        done = await seed.until_deleted(waiting, within=40)
        took = done[before].at - killed
        stage.figure(f"SIGKILL: the standby deletes {took:.1f} s after, with a Lease of 4 s")
        assert took <= 4 + 2 * 1.2 + 2, "the Lease, two retries"
        await asyncio.sleep(3)
        assert len(seed.deleted()) == len(waiting), "none twice"
        await goes_on(standby, place, since)


# A right that the weeder lacks is named; everything else goes on, and it works once the right is given.

LEASE_MOVES = 6.0


async def is_reported(weeder: Program, verb: str) -> None:
    """By the metric, the verbose answer of /readyz, which stays 200, and as an error in the log."""

    async def known() -> bool:
        return bool(await weeder.metric("dwd_missing_permissions", verb=verb, resource="pods"))

    await eventually(known, f"the missing right to {verb} pods is a metric", within=15)
    assert f"{verb} pods" in await weeder.readiness()
    assert await weeder.is_ready()
    errors = [line for line in weeder.logs() if line.get("level") == "error"]
    assert any(line.get("right") == f"{verb} pods" for line in errors), errors


async def ended(weeder: Program, place: Place) -> Json:
    """Waits until the newest recovery has ended; returns it."""

    async def has() -> Json | None:
        found = await recoveries(weeder, place)
        return found[0] if found and found[0]["ended"] else None

    return await eventually(has, "the recovery has ended", within=20) or {}


async def rest_goes_on(seed: WeederSeed, weeder: Program) -> None:
    """It leads, renews its Lease, follows the slices, and has nothing to complain about but the right."""
    writes = len([each for each in seed.requests() if each.resource == "leases"])
    await asyncio.sleep(LEASE_MOVES)
    asked = seed.requests()
    assert len([each for each in asked if each.resource == "leases"]) >= writes + 2
    assert await weeder.leads()
    slices = [each for each in asked if each.resource == "endpointslices"]
    assert {each.code for each in slices} == {200}


async def comes_back(place: Place) -> float:
    """The service is lost, and ready again."""
    await place.service(ready=False)
    await asyncio.sleep(1)
    return await place.service(ready=True)


@scenario()
async def test_without_the_right_to_delete_one_recovery_gives_up_and_the_rest_goes_on(
    stage: Stage,
) -> None:
    """After the first refusal one deletion at a time is tried, two more in all, as an API server that has just started
    refuses for a moment what it is about to allow. With the right the next recovery deletes.
    """
    async with weeding(stage) as seed:
        await seed.grant(things.weeder_rules(pods="get list watch"))
        place = await seed.place()
        waiting = await place.workloads(10, 3)
        await place.service(ready=False)
        weeder = await seed.leader()
        await is_reported(weeder, "delete")
        await place.service(ready=True)
        found = await ended(weeder, place)
        assert found["end"] == "Forbidden"
        assert "delete" in found["trouble"]
        assert found["deletions"] == []
        refused = seed.deletions()
        assert {each.code for each in refused} == {403}
        assert len(refused) <= 20 + 2, "a second's worth was on its way"
        await rest_goes_on(seed, weeder)
        assert len(seed.deletions()) == len(refused)
        assert waiting.items() <= (await place.there()).items()
        await seed.grant(things.weeder_rules())
        await comes_back(place)
        await seed.until_deleted(waiting, within=15)
        assert (await recoveries(weeder, place))[0]["trouble"] is None
