"""The pods of endpoint probes are seen as a server has them; what watches survive is tested in tests/core/kube."""

from random import Random
from typing import Any

from app.core.kube.pods import ProbedPods
from app.core.model.endpoints import ProbedContainer, ProbedPod
from app.core.model.instants import parse_rfc3339
from app.core.model.names import LabelSelector, Operator, Requirement
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import pod
from tests.e2e.weeder_objects import weeder_rules

pytestmark = REAL_TIME

ETCD = LabelSelector((Requirement("role", Operator.IN, frozenset({"main"})),))
SINCE = "2030-01-01T00:00:00Z"
FIRST = "containerd://1"
PORTS = [
    {"name": "client", "containerPort": 2379, "protocol": "TCP"},
    {"containerPort": 2380, "protocol": "TCP"},
]


def running(**more):
    container = {"name": "main", "image": "registry.invalid/none:1", "imageID": "", "ready": True}
    container |= {"restartCount": 0, "containerID": FIRST}
    container |= {"state": {"running": {"startedAt": SINCE}}} | more
    status = {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}
    return status | {"containerStatuses": [container]}


async def test_a_pod_that_matches_is_seen_with_what_its_probes_depend_on(arena):
    await arena.grant("weeder", weeder_rules())
    probed, told = ProbedPods(arena.adapter.api, (ETCD,), arena.tasks, Random(1)), set[str]()
    probed.subscribe(told.add)
    await probed.start()
    probed.follow(arena.namespace)

    def only() -> Any:
        (found,) = probed.pods(arena.namespace, ETCD) or (None,)
        return found

    await arena.admin.create("Pod", pod("other", labels={"role": "apiserver"}))
    body = pod("a", labels={"role": "main"}) | {"status": running()}
    body["spec"]["containers"][0]["ports"] = PORTS
    await arena.admin.create("Pod", body)
    found = (await arena.admin.find("Pod", "a"))["metadata"]
    await until(lambda: (view := only()) and view.ip, "its status is seen")
    container = ProbedContainer(
        "main", FIRST, running=True, started_at=parse_rfc3339(SINCE), ports={"client": 2379}
    )
    assert only() == ProbedPod(
        arena.namespace,
        "a",
        found["uid"],
        found["resourceVersion"],
        ip="10.0.0.7",
        phase="Running",
        containers=(container,),
    )
    waits = running(state={"waiting": {"reason": "CrashLoopBackOff"}})
    await arena.admin.patch("Pod", "a", {"status": waits}, status=True)
    await until(lambda: not only().containers[0].running, "it waits")
    await arena.admin.delete("Pod", "a")
    await until(lambda: only().deleting, "it is being deleted")
    assert told == {arena.namespace}
