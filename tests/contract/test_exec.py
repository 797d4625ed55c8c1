"""Commands in containers: what a real server answers, where no kubelet is."""

import pytest

from app.core.errors import Forbidden, Invalid, NotFound
from app.core.handlers.handlers import NetworkHandlers
from app.core.kube.pods import ContainerExec
from app.core.model.endpoints import EndpointProbeSpec, Exec, ProbeOutcome, TargetAddress
from tests.contract.arena import REAL_ALONE, REAL_TIME
from tests.contract.pods import pod
from tests.core.handlers.targets import free_port
from tests.e2e import objects

pytestmark = [*REAL_TIME, REAL_ALONE]

ERROR = ProbeOutcome.ERROR


@pytest.fixture
def execs(arena):
    return ContainerExec(arena.adapter.api)


@pytest.fixture
async def handlers(arena, execs):
    made = NetworkHandlers(arena.clock, execs)
    yield made
    await made.close()


async def allowed(arena, verbs="get create"):
    await arena.grant("exec", [objects.rule("", ["pods/exec"], verbs)])


async def with_pod(arena, name="a", **more):
    await arena.admin.create("Pod", pod(name, **more))
    await allowed(arena)


async def frames(execs, arena, *command, name="a", container="main"):
    async with execs.open(arena.namespace, name, container, command) as opened:
        return [frame async for frame in opened]


async def run(handlers, arena, *command, name="a", container="main", timeout=3.0):
    address = TargetAddress(arena.namespace, "10.0.0.1", name, container)
    return await handlers.run(EndpointProbeSpec("p", exec=Exec(command), timeout=timeout), address)


async def test_a_pod_that_is_not_there_is_an_error(arena, execs, handlers):
    await allowed(arena)
    with pytest.raises(NotFound):
        await frames(execs, arena, "true")
    found = await run(handlers, arena, "true")
    assert found.outcome is ERROR
    assert "404" in found.message


async def test_a_container_that_is_not_there_is_an_error(arena, execs, handlers):
    await with_pod(arena)
    with pytest.raises(Invalid, match="not valid for pod"):
        await frames(execs, arena, "true", container="other")
    assert (await run(handlers, arena, "true", container="other")).outcome is ERROR


@pytest.mark.parametrize(
    ("node", "reason"), [(None, "does not have a host"), ("node-1", "not found")]
)
async def test_where_no_kubelet_is_it_is_an_error_with_its_reason(arena, handlers, node, reason):
    await with_pod(arena, node=node)
    found = await run(handlers, arena, "true")
    assert found.outcome is ERROR
    assert reason in found.message


async def test_a_kubelet_that_cannot_be_reached_is_an_error_after_the_upgrade(arena, handlers):
    ports = {"kubeletEndpoint": {"Port": free_port()}}
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    status = {"addresses": addresses, "daemonEndpoints": ports}
    await arena.admin.create("Node", {"metadata": {"name": arena.namespace}, "status": status})
    try:
        await with_pod(arena, node=arena.namespace)
        found = await run(handlers, arena, "true")
    finally:
        await arena.admin.delete("Node", arena.namespace)
    assert found.outcome is ERROR
    assert "error sending request" in found.message
    assert arena.adapter.metrics.requests.labels("seed", "GET", "101")._value.get() == 1


@pytest.mark.parametrize(
    ("verbs", "reason"),
    [("get", "create pods/exec"), ("create", "cannot get resource"), ("", "cannot get resource")],
)
async def test_a_real_server_wants_both_rights(arena, execs, verbs, reason):
    await arena.admin.create("Pod", pod("a"))
    if verbs:
        await allowed(arena, verbs)
    with pytest.raises(Forbidden, match=reason):
        await frames(execs, arena, "true")
