"""Names become addresses, in threads that hold up nobody else."""

import asyncio
import socket

import pytest

from app.core import name_lookup
from app.core.handlers.runs import HandlerRun, Lookup, NoAddress
from app.core.model.endpoints import HttpGet, ProbeOutcome, TcpSocket
from app.core.name_lookup import IpAddress
from tests.core.handlers.targets import at, handlers, probe, serving
from tests.core.kube.server import Asked
from tests.support.resolver import HERE, Resolver

pytestmark = pytest.mark.looptime(False)


@pytest.fixture
def resolver(monkeypatch):
    made = Resolver()
    made.answers = {
        "nobody": socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        "nowhere": (),
    }
    made.instead_of_the_systems(monkeypatch)
    yield made
    made.end()


def a_run(timeout=0.2):
    return HandlerRun(probe(TcpSocket(80), timeout), at())


async def addresses(names, host, run=None, within=5.0):
    run = run or a_run()
    async with asyncio.timeout(within):
        return await names.addresses(host, run)


@pytest.mark.parametrize(
    ("host", "found", "asked"),
    [
        ("10.0.0.1", (IpAddress(socket.AF_INET, "10.0.0.1"),), []),
        ("fd00::1", (IpAddress(socket.AF_INET6, "fd00::1"),), []),
        ("example.org", HERE, ["example.org"]),
        ("1.2.3", HERE, ["1.2.3"]),
    ],
)
async def test_an_address_needs_no_lookup(resolver, host, found, asked):
    assert await addresses(Lookup(), host) == found
    assert resolver.asked == asked


@pytest.mark.parametrize("host", ["nobody", "nowhere"])
async def test_a_name_that_has_no_address_is_told_from_one_that_is_slow(resolver, host):
    with pytest.raises(NoAddress):
        await addresses(Lookup(), host)
    run = a_run()
    with pytest.raises(TimeoutError):
        await addresses(Lookup(), "slow", run, 0.2)
    assert run.late.outcome is ProbeOutcome.FAILURE
    assert "not resolved" in run.late.message


async def test_a_lookup_that_was_not_begun_in_time_says_nothing_about_the_target(resolver):
    names = Lookup(threads=2)
    slow = [asyncio.ensure_future(addresses(names, f"slow{n}", within=5)) for n in range(2)]
    await asyncio.sleep(0.01)
    run = a_run()
    with pytest.raises(TimeoutError):
        await addresses(names, "third", run, 0.2)
    assert run.late.outcome is ProbeOutcome.ERROR
    resolver.open.set()
    await asyncio.gather(*slow)
    assert resolver.asked == ["slow0", "slow1"]  # nobody waits for the third any more
    assert await addresses(names, "third") == HERE


async def test_names_that_were_slow_before_fail_again_as_many_as_there_are_threads(
    resolver, monkeypatch
):
    monkeypatch.setattr(name_lookup, "SLOW", 0.0)
    names, hosts = Lookup(threads=3), ["slow0", "slow1", "slow2"]
    resolver.open.set()
    await asyncio.gather(*(addresses(names, host) for host in hosts))
    resolver.open.clear()
    runs = [a_run() for _ in hosts]
    late = (addresses(names, host, run, 0.2) for host, run in zip(hosts, runs, strict=True))
    assert all(await asyncio.gather(*late, return_exceptions=True))
    assert [run.late.outcome for run in runs] == [ProbeOutcome.FAILURE] * 3


async def test_after_the_lookup_it_is_the_connection_that_is_late(resolver):
    async with serving(Asked.hang) as target, handlers() as made:
        found = await made.run(probe(HttpGet(target.port), 0.2), at("a.example"))
    assert found.message == "no connection within 0.2 s"
