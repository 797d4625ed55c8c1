"""A service is ready again: what waits for it is deleted once, and nothing else is."""

import asyncio

from tests.e2e import weeder_objects as things
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Place, Uids, until_there
from tests.e2e.weeder_objects import APISERVER, ETCD
from tests.e2e.weeder_stage import (
    WeederSeed,
    names,
    recoveries,
    uid_of,
    weeder_shows,
    weeding,
)

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


async def told(weeder: Program, place: Place, service: str) -> dict[str, set[str]]:
    """The pods that it spared, by their reasons."""
    (recovery,) = await recoveries(weeder, place, service)
    found: dict[str, set[str]] = {}
    for each in recovery["spared"]:
        found.setdefault(each["reason"], set()).add(each["pod"])
    return found


@scenario()
async def test_each_of_50_waiting_pods_is_deleted_once_and_no_other_pod_is(stage: Stage) -> None:
    """10 owners with 5 pods each, one of them waiting in an init container.

    Those that run, end, wait for 10 s at most, have no owner or are not selected stay as they are, and so do all that
    wait in a namespace in which nothing came back. What the owners make anew runs, and stays too.
    """
    async with weeding(stage) as seed:
        here, elsewhere = await seed.place(), await seed.place()
        waiting = await here.workloads(OWNERS, EACH)
        await here.becomes("wait0-0", things.crash_looping(ago=60))
        waiting |= await here.pod("init-0", things.crash_looping(init=True))
        spared = await others(here)
        seed.kubelet.keeps.add("ends-0")
        await here.begin_to_end("ends-0")
        there = await elsewhere.workloads(3, 2)
        await here.service(APISERVER, ready=False)
        await elsewhere.service(APISERVER, ready=False)
        weeder = await seed.leader()
        assert not seed.deletions()
        back = await here.service(APISERVER, ready=True)
        done = await seed.until_deleted(waiting, within=15)
        stage.figure(
            f"51 pods: first deleted {1000 * (done[0].done - back):.0f} ms, "
            f"last {done[-1].done - back:.2f} s after the slice was written"
        )
        alive = len(waiting) + len(
            of_all(spared)
        )  # what is deleted is made anew, the ending one ends
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
        found = await told(weeder, here, APISERVER)
        for reason in ("ShortBackoff", "BarePod", "Terminating"):
            assert found[reason] == set(spared[reason]), reason
        assert "NotSelected" not in found
        (recovery,) = await recoveries(weeder, here, APISERVER)
        assert names(recovery["deletions"]) == set(waiting)
        assert {each["result"] for each in recovery["deletions"]} == {"deleted"}


async def until_restarted(seed: WeederSeed, place: Place, waiting: Uids) -> None:
    """What was deleted was made anew, and runs."""

    async def is_so() -> bool:
        return not waiting.keys() & (await place.there()).keys()

    await eventually(is_so, "all were made anew", within=15)


@scenario()
async def test_gardeners_rights_and_files_suffice_for_etcd_then_api_server_then_dependents(
    stage: Stage,
) -> None:
    """The chain of a control plane that was without etcd, with Gardener's arguments, rights and ConfigMap.

    Nothing is refused but Pauses, and Events in control-plane namespaces, which Gardener does not grant: that is
    reported.
    """
    async with weeding(stage) as seed:
        await seed.grant_people([])
        place = await seed.place()
        await place.service(ETCD, ready=False)
        await place.service(APISERVER, ready=False)
        await place.becomes(f"{APISERVER}-0", things.crash_looping())
        servers = await place.workloads(1, 2, labels=things.OF_APISERVER, named="server")
        first = {k: v for k, v in (await place.there()).items() if k == f"{APISERVER}-0"} | servers
        dependents = await place.workloads(4, 2)
        weeder = await seed.leader()
        assert {"--config-file", "--enable-leader-election"} <= {
            word.partition("=")[0] for word in weeder.child.command
        }
        await place.service(ETCD, ready=True)
        await seed.until_deleted(first, within=10)
        await until_restarted(seed, place, first)
        since = len(seed.deletions())
        await place.pod("again-0", things.running(), labels=things.OF_APISERVER)
        await api_server_is_back(seed, place)
        await seed.until_deleted(first | dependents, within=10)
        assert {uid_of(each) for each in seed.deletions()[since:]} == set(dependents.values())
        await gardeners_rights_suffice(seed, weeder)
        shown = await weeder_shows(weeder, place, ETCD)
        assert (shown["ready"], shown["recoveries"][0]["cause"]) == (True, "BecameReady")


async def api_server_is_back(seed: WeederSeed, place: Place) -> None:
    """Its slice names the pod that the weeder had restarted."""
    changed = {"endpoints": things.endpoints("again-0", ready=True)}
    await seed.api.patch(f"{things.slices(place.namespace)}/{APISERVER}-x", changed)


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
