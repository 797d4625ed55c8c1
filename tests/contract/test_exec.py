"""Commands in containers, through the simulation's server; and what a real one answers, where no kubelet is."""

import pytest

from app.core.errors import (
    Forbidden,
    Invalid,
    NotFound,
)
from app.core.handlers.handlers import NetworkHandlers
from app.core.kube.pods import ContainerExec
from app.core.model.endpoints import EndpointProbeSpec, Exec, ProbeOutcome, TargetAddress
from app.core.ports import Permission
from app.simulation.server.executing import Ending, Script
from app.simulation.traffic import Trouble
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import pod
from tests.contract.real import RealArena
from tests.core.handlers.targets import free_port
from tests.e2e import objects
from tests.e2e.landscape import grant
from tests.e2e.processes import eventually

pytestmark = REAL_TIME
real = pytest.mark.parametrize(
    "where", [pytest.param("kube", marks=pytest.mark.real)], indirect=True
)
simulated = pytest.mark.parametrize("where", ["http"], indirect=True)

SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR


@pytest.fixture
def execs(arena):
    return ContainerExec(arena.adapter.api)


@pytest.fixture
async def handlers(arena, execs):
    made = NetworkHandlers(arena.clock, execs)
    yield made
    await made.close()


async def allowed(arena, verbs="get create"):
    if isinstance(arena, RealArena):
        await grant(arena.api, arena.garden, "exec", [objects.rule("", ["pods/exec"], verbs)])
        wanted = [Permission(verb, "", "pods/exec") for verb in verbs.split()]

        async def known():
            return await arena.access.missing(wanted) == ()

        await eventually(known, "exec is allowed", within=10, every=0.02)


async def with_pod(arena, name="a", **more):
    await arena.admin.create("Pod", pod(name, **more))
    await allowed(arena)


async def frames(execs, arena, *command, name="a", container="main"):
    async with execs.open(arena.namespace, name, container, command) as opened:
        return [frame async for frame in opened]


async def run(handlers, arena, *command, name="a", container="main", timeout=3.0):
    address = TargetAddress(arena.namespace, "10.0.0.1", name, container)
    return await handlers.run(EndpointProbeSpec("p", exec=Exec(command), timeout=timeout), address)


def say(arena, *command, **script):
    arena.servers.commands.say(*command, script=Script(**script))


# Both servers


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


async def test_without_an_upgrade_nothing_is_run(arena, wire):
    await with_pod(arena)
    path = f"/api/v1/namespaces/{arena.namespace}/pods/a/exec?container=main&command=true"
    answer = await wire.get(f"{path}&stdout=true")
    assert answer.status in {400, 404}, answer.text  # a real server finds no node first


# A real server without a kubelet


@real
@pytest.mark.parametrize(
    ("node", "reason"), [(None, "does not have a host"), ("node-1", "not found")]
)
async def test_where_no_kubelet_is_it_is_an_error_with_its_reason(arena, handlers, node, reason):
    await with_pod(arena, node=node)
    found = await run(handlers, arena, "true")
    assert found.outcome is ERROR
    assert reason in found.message


@real
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


@real
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


# The simulation's


@simulated
async def test_a_command_that_ends_well_passes_with_its_words_as_they_are(arena, execs, handlers):
    await with_pod(arena)
    command = ("/bin/sh", "-c", "echo $A; exit 0 # ä&b=c")
    say(arena, *command, stdout=b"out", stderr=b"err")
    said = await frames(execs, arena, *command)
    assert [(each.channel, each.data) for each in said[:2]] == [(1, b"out"), (2, b"err")]
    assert said[2].channel == 3
    assert arena.servers.commands.begun == [(arena.namespace, "a", "main", *command)]
    assert (await run(handlers, arena, *command)).outcome is SUCCESS


@simulated
async def test_another_exit_code_is_a_failure_with_what_it_said(arena, handlers):
    await with_pod(arena)
    say(arena, "check", exit_code=3, stdout=b"db\x1b[31m\nis down " + b"x" * 100_000)
    found = await run(handlers, arena, "check")
    assert found.outcome is FAILURE
    assert found.message.startswith("exit code 3: db [31m is down x")
    assert len(found.message) < 100


@simulated
async def test_a_command_that_cannot_be_started_is_an_error(arena, handlers):
    await with_pod(arena)
    found = await run(handlers, arena, "no-such-thing")
    assert found.outcome is ERROR
    assert "executable file not found" in found.message


@simulated
@pytest.mark.parametrize(
    "script",
    [{"seconds": 60.0}, {"ending": Ending.NEVER}, {"endless": True, "stdout": b"x"}],
    ids=["slow", "never", "endless"],
)
async def test_a_command_that_does_not_end_is_a_failure_and_its_connection_is_closed(
    arena, handlers, script
):
    await with_pod(arena)
    say(arena, "wait", **script)
    before = arena.clock.now()
    found = await run(handlers, arena, "wait", timeout=0.5)
    assert arena.clock.now() - before < 5
    assert (found.outcome, found.message) == (FAILURE, "the command did not end within 0.5 s")
    await until(lambda: arena.servers.commands.running == 0, "the server knows that we left")


@simulated
@pytest.mark.parametrize("ending", [Ending.UNTOLD, Ending.CUT])
async def test_a_stream_that_ends_without_a_status_is_an_error(arena, handlers, ending):
    await with_pod(arena)
    say(arena, "x", stdout=b"hello", ending=ending)
    assert (await run(handlers, arena, "x")).outcome is ERROR


@simulated
@pytest.mark.parametrize("verb", ["get", "create"])
async def test_both_rights_are_needed(arena, execs, handlers, verb):
    await with_pod(arena)
    say(arena, "x")
    trouble = Trouble(forbidden=True, verbs=frozenset({verb}), what=frozenset({"pods/exec"}))
    with arena.world.faults.seed_trouble(trouble):
        with pytest.raises(Forbidden):
            await frames(execs, arena, "x")
        found = await run(handlers, arena, "x")
    assert found.outcome is ERROR
    assert "403" in found.message
