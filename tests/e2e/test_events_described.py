"""What `kubectl describe` says on a controller, to somebody who wonders why it is at 0."""

import re

from tests.e2e import landscape
from tests.e2e.kubectl import Kubectl
from tests.e2e.objects import CA, KCM, MCM, rule
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import quick
from tests.e2e.stage import Stage

EVENTS = [rule("events.k8s.io", ["events"], "create")]
FROM = "dependency-watchdog"


async def told(kubectl: Kubectl, name: str, *reasons: str) -> dict[str, str]:
    """Waits until `describe` shows these reasons; what it says beside each that comes from the watchdog."""

    async def shown() -> dict[str, str] | None:
        text = await kubectl("describe", "deployment", name)
        table = text.partition("\nEvents:")[2]
        rows = re.findall(rf"^  \w+ +(\w+) +.*? {FROM} +(.+)$", table, re.MULTILINE)
        found = dict(rows)
        return found if set(reasons) <= found.keys() else None

    return await eventually(shown, f"{', '.join(reasons)} on {name}", within=20, every=0.5) or {}


@scenario()
async def test_a_controller_that_was_scaled_says_why_where_its_owner_probes(stage: Stage) -> None:
    await stage.furnish()
    await landscape.grant(stage.seed.api, stage.garden, "events", EVENTS)
    await stage.shoot.build(grace=16, duration=16, replicas={KCM: 2, MCM: 1, CA: 1})
    await stage.healthy(quick())
    kubectl = Kubectl(stage, stage.shoot.namespace)
    await stage.outage(within=40)
    down = await told(kubectl, KCM, "MeltdownProtectionStarted", "ScaledDown")
    assert down["ScaledDown"] == (
        "Scaled from 2 to 0 replicas, as nodes cannot reach their API server; it comes back with 2 when they can."
    )
    assert re.fullmatch(
        r"Meltdown protection began: until the nodes reach their API server again, the controllers that would replace "
        r"nodes or move their pods are stopped\. Reason: \d+ of 10 node leases are older than 12 s .*\.",
        down["MeltdownProtectionStarted"],
    )
    assert "ScaledDown" in await told(kubectl, MCM, "ScaledDown")
    stage.shoot.kubelets.path.restore()
    await stage.until_up()
    up = await told(kubectl, KCM, "MeltdownProtectionEnded", "ScaledUp")
    assert (
        up["ScaledUp"] == "Scaled from 0 to 2 replicas, as the nodes reach their API server again."
    )
    assert up["MeltdownProtectionEnded"].startswith("Meltdown protection ended: ")
    text = await kubectl("describe", "deployment", KCM)
    stage.figure("kubectl describe shows" + text.partition("\nEvents:")[2])
