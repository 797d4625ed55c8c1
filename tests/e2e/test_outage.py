"""The main job, at the grace period that shoots have, with the file and the arguments that Gardener writes."""

import asyncio
import re
import time

from app.core.model import workloads as ann
from app.core.model.instants import parse_rfc3339
from tests.e2e import landscape
from tests.e2e.audit import Request
from tests.e2e.objects import CA, KCM, MCM, rule
from tests.e2e.parallel import scenario
from tests.e2e.people import Kubectl
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage

FIRST_WRITE, KCM_GONE = 1.5, 3.0  # seconds after the outage can be known
COUNTS = {KCM: 3, MCM: 2, CA: 1}


@scenario()
async def test_an_outage_takes_the_controllers_to_0_and_back_and_their_events_say_why(
    stage: Stage,
) -> None:
    await stage.furnish()
    events = [rule("events.k8s.io", ["events"], "create")]
    await landscape.grant(stage.seed.api, stage.garden, "events", events)
    await stage.shoot.build(nodes=10, replicas=COUNTS)
    kubectl, prober = Kubectl(stage, stage.shoot.namespace), await stage.healthy()
    down = await stage.outage()
    known = stage.shoot.known_at()
    assert {name: each.saved for name, each in down.items()} == {
        name: str(count) for name, count in COUNTS.items()
    }
    assert all(each.protected for each in down.values())
    began = [parse_rfc3339(each.annotations[ann.SINCE]) or 0.0 for each in down.values()]
    assert all(abs(at - known) < 5 for at in began)
    the_writes_were_in_time(stage, known)
    shoot = await stage.until_state(prober, "Protected", within=10)
    assert shoot["reason"] == "LeasesExpired"
    assert shoot["leases"]["expired"] >= 6
    await its_beginning_is_described(kubectl)
    await asyncio.sleep(10)
    assert set((await stage.shoot.replicas()).values()) == {0}, "as long as it lasts"
    restored = stage.shoot.kubelets.path.restore()
    up = await stage.until_up()
    assert {name: each.replicas for name, each in up.items()} == COUNTS
    assert not any(key in ann.OURS for each in up.values() for key in each.annotations)
    the_way_back_was_by_levels(stage.writes(restored))
    stage.figure(f"all back {time.time() - restored:.1f} s after the end of the outage")
    await stage.until_state(prober, "Healthy", within=20)
    ended = await told(kubectl, KCM, "MeltdownProtectionEnded", "ScaledUp")
    assert ended["ScaledUp"] == (
        "Scaled from 0 to 3 replicas, as the nodes reach their API server again."
    )
    assert ended["MeltdownProtectionEnded"].startswith("Meltdown protection ended: ")


async def told(kubectl: Kubectl, name: str, *reasons: str) -> dict[str, str]:
    """Waits until `describe` shows these reasons; what it says beside each that comes from the watchdog."""

    async def shown() -> dict[str, str] | None:
        text = await kubectl("describe", "deployment", name)
        table = text.partition("\nEvents:")[2]
        rows = re.findall(r"^  \w+ +(\w+) +.*? dependency-watchdog +(.+)$", table, re.MULTILINE)
        found = dict(rows)
        return found if set(reasons) <= found.keys() else None

    return await eventually(shown, f"{', '.join(reasons)} on {name}", within=20, every=0.5) or {}


async def its_beginning_is_described(kubectl: Kubectl) -> None:
    """By `kubectl describe`, to somebody who wonders why a controller is at 0."""
    began = await told(kubectl, KCM, "MeltdownProtectionStarted", "ScaledDown")
    assert began["ScaledDown"] == (
        "Scaled from 3 to 0 replicas, as nodes cannot reach their API server; it comes back with 3 when they can."
    )
    assert re.fullmatch(
        r"Meltdown protection began: until the nodes reach their API server again, the controllers that would replace "
        r"nodes or move their pods are stopped\. Reason: \d+ of 10 node leases are older than 30 s .*\.",
        began["MeltdownProtectionStarted"],
    )
    assert "ScaledDown" in await told(kubectl, MCM, "ScaledDown")


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
