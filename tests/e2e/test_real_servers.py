"""What the real servers of a shoot do: a CA that is rotated, a storage that is slow, or dies and comes back.

What each of them must not do to the shoot, and what must have happened when, is in docs/failures.md.
"""

import asyncio
import itertools
import time

from tests.e2e.api import LEASES
from tests.e2e.audit import Request
from tests.e2e.controlplane import ControlPlane
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage

FIRST_WRITE = 3.0  # seconds after an outage can be known, with all scenarios on one machine


async def protects(stage: Stage, within: float = 40) -> None:
    """An outage is seen in time, and the counts are kept."""
    down = await stage.outage(within)
    late = stage.writes()[0].at - stage.shoot.known_at()
    stage.figure(f"first write {late:.2f} s after the outage could be known")
    assert -0.1 < late <= FIRST_WRITE
    assert {each.saved for each in down.values()} == {"1"}


# The CA is rotated.


async def new_connection(stage: Stage, prober: Program, former: set[int], within: float) -> float:
    """Waits until the connections `former` are gone and another one is there; returns the seconds."""
    began = time.monotonic()

    async def replaced() -> bool:
        now = prober.connections_to(stage.plane.port)
        return bool(now) and not now & former

    await eventually(replaced, "connections made with the former CA are closed", within=within)
    return time.monotonic() - began


def longest_absence(contacts: list[Request]) -> float:
    """The longest time between two reads of Leases that the server answered."""
    good = [each.at for each in contacts if each.resource == "leases" and each.code == 200]
    return max(later - earlier for earlier, later in itertools.pairwise(good))


@scenario()
async def test_a_rotated_ca_fails_no_probe_and_an_outage_right_after_it_is_protected(
    stage: Stage,
) -> None:
    """First the Secret has the old CA and the new one, then the server a new certificate, then the Secret the new CA.

    No probe fails, nothing is scaled. What was connected with the former bundle is closed by the next contact, and
    only then; an outage that begins right after is seen in time."""
    plane, shoot = stage.plane, stage.shoot
    await shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    former = prober.connections_to(plane.port)
    began, expiry = time.time(), 0.375 * shoot.grace
    both = plane.authority.pem + plane.successor.pem
    await shoot.write_secret(token=shoot.token, ca=both)
    first = await new_connection(stage, prober, former, within=expiry)
    kept = prober.connections_to(plane.port)
    await plane.present(plane.successor)
    await asyncio.sleep(expiry)
    assert prober.connections_to(plane.port) == kept, "the Secret has not changed"
    await shoot.write_secret(token=shoot.token, ca=plane.successor.pem)
    second = await new_connection(stage, prober, kept, within=expiry)
    stage.figure(f"connections of the former CA closed after {first:.1f} s and {second:.1f} s")
    await stage.stays_unharmed(5)
    absence = longest_absence(stage.requests_to_shoot(began))
    stage.figure(f"{absence:.1f} s at most between two contacts while the CA was rotated")
    assert absence <= 0.375 * shoot.grace, "no gap: the ages of the leases go on counting"
    assert not await failed_looks(stage, prober)
    await protects(stage)


@scenario()
async def test_a_ca_that_nobody_announced_is_failing_until_the_secret_has_it(stage: Stage) -> None:
    """The server is started with a certificate of a CA that the Secret does not have.

    Nothing is scaled on it, it is `Failing` and named, and it is looked at again as soon as the Secret changes.
    """
    plane, shoot = stage.plane, stage.shoot
    await shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    await plane.child.stop()
    await plane.present(plane.successor)
    await plane.start()
    found = await stage.until_state(prober, "Failing", within=15)
    assert found["reason"] == "CertificateUntrusted"
    await stage.stays_unharmed(15)
    assert (await prober.shoot(shoot.namespace))["reason"] == "CertificateUntrusted"
    written = time.monotonic()
    await shoot.write_secret(token=shoot.token, ca=plane.successor.pem)
    await stage.until_state(prober, "Healthy", within=3)
    stage.figure(f"healthy {time.monotonic() - written:.1f} s after the Secret had the new CA")
    await stage.stays_unharmed(shoot.expiry)
    await protects(stage)


# The storage is slow.


@scenario(own_storage=True, limit=360)
async def test_an_outage_with_storage_of_2_seconds_a_request_is_protected_and_ended(
    stage: Stage,
) -> None:
    """Looks get slower, and none fails; nothing is scaled on that.

    An outage is protected, after the five reads that it takes, and its end is seen, all at 2 seconds a request.
    """
    await stage.shoot.build()
    prober = await stage.healthy()
    await asyncio.sleep(15)
    stage.plane.storage.slow(2.0)
    await stage.stays_unharmed(50)
    assert not await failed_looks(stage, prober)
    await stage.outage(within=60)
    late = stage.writes()[0].at - stage.shoot.known_at()
    stage.figure(f"storage of 2 s a request: first write {late:.1f} s after it could be known")
    assert -0.1 < late <= SLOW_READS * 2 + FIRST_WRITE
    restored = stage.shoot.kubelets.path.restore()
    await stage.until_up()
    back = time.time() - restored
    stage.figure(f"storage of 2 s a request: all back {back:.0f} s after the end of the outage")


SLOW_READS = 6
"""Leases; Nodes are in the cache, Leases again; to confirm, Nodes (of which the server takes two) and Leases."""


async def failed_looks(stage: Stage, prober: Program) -> float | None:
    metric, namespace = "dwd_shoot_probe_failures_total", stage.shoot.namespace
    return await prober.metric(metric, namespace=namespace)


# The storage dies, or is away.


async def storage_dies(plane: ControlPlane, seconds: float) -> float:
    """Kills the storage, starts it again after so long; returns when that was.

    The API server is not waited for: it answers about Leases long before it calls itself ready again.
    """
    await plane.storage.child.kill()
    await asyncio.sleep(seconds)
    back = time.time()
    await plane.storage.start()
    return back


async def just_looked(stage: Stage) -> None:
    """Returns right after a probe: few Leases are renewed, unseen, before the next thing happens.

    One that was has an unknown offset until it is seen to move again, and counts as fresh: that would hide what is
    tested.
    """
    since = time.time()

    async def looked() -> bool:
        return any(each.resource == "/version" for each in stage.requests_to_shoot(since))

    await eventually(looked, "a look", within=40)
    await asyncio.sleep(0.2)


async def first_contact(stage: Stage, back: float) -> float:
    """Waits until the Leases can be read again; returns when that was asked for."""

    async def answered() -> float | None:
        asked = stage.requests_to_shoot(back - 5)  # it may have been on its way
        found = (each.at for each in asked if each.resource == "leases" and each.code == 200)
        return next(found, None)

    contact = await eventually(answered, "the Leases are read", within=30)
    assert contact is not None
    return contact


@scenario(own_storage=True)
async def test_storage_that_died_and_came_back_after_40_seconds_changes_nothing(
    stage: Stage,
) -> None:
    """No kubelet can renew meanwhile, and they come back as late as real ones do, up to 17 s after the storage."""
    await stage.shoot.build()
    prober = await stage.healthy()
    await just_looked(stage)
    stage.shoot.kubelets.path.cut()
    back = await storage_dies(stage.plane, 40)
    contact = await first_contact(stage, back)
    await asyncio.sleep(contact + 7 - time.time())
    stage.shoot.kubelets.path.restore()
    await stage.until_state(prober, "Healthy", within=40)
    stage.figure(
        f"storage that died: Leases are read {contact - back:.1f} s after its start, "
        f"healthy {time.time() - contact:.1f} s after that"
    )
    await stage.stays_unharmed(40)


@scenario(own_storage=True)
async def test_storage_that_dies_in_mid_outage_does_not_end_the_protection(stage: Stage) -> None:
    """Nothing is written from the protection on, until the nodes are back."""
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    await asyncio.sleep(8)
    await stage.outage(within=40)
    protected = time.time()
    await storage_dies(stage.plane, 25)
    await asyncio.sleep(25)
    assert set((await stage.shoot.replicas()).values()) == {0}
    stage.assert_nothing_was_scaled(protected)
    restored = stage.shoot.kubelets.path.restore()
    await stage.until_up(within=60)
    stage.figure(f"all back {time.time() - restored:.1f} s after the end of the outage")
    await stage.until_state(prober, "Healthy", within=20)


@scenario(own_storage=True)
async def test_an_outage_that_begins_while_the_storage_is_away_is_protected_once_that_is_sure(
    stage: Stage,
) -> None:
    """Leases that nobody could renew prove nothing: their ages count from the first contact with the storage."""
    await stage.shoot.build(grace=16, duration=16)
    await stage.healthy(quick())
    await asyncio.sleep(5)
    await just_looked(stage)
    stage.plane.storage.child.pause()
    stage.shoot.kubelets.path.cut()
    await stage.stays_unharmed(30)
    back = time.time()
    stage.plane.storage.child.resume()
    contact = await first_contact(stage, back)
    await stage.until_down(within=40)
    first = stage.writes()[0].at
    stage.figure(f"first write {first - back:.1f} s after the storage was back, in mid-outage")
    assert stage.shoot.expiry <= first - contact <= stage.shoot.expiry + 4


# What looks like an outage and is none, or hides one.


@scenario()
async def test_an_api_server_that_hangs_or_is_down_changes_nothing(stage: Stage) -> None:
    await stage.shoot.build(grace=16, duration=16)
    prober = await stage.healthy(quick())
    stage.plane.child.pause()
    await stage.until_state(prober, "Unreachable", within=30)
    await stage.stays_unharmed(15)
    stage.plane.child.resume()
    await stage.stays_unharmed(15)
    await stage.until_state(prober, "Healthy", within=15)
    await stage.plane.child.stop()
    await stage.until_state(prober, "Unreachable", within=20)
    await stage.stays_unharmed(15)
    await stage.plane.start()
    await stage.stays_unharmed(15)
    await stage.until_state(prober, "Healthy", within=10)


@scenario(own_storage=True)
async def test_storage_that_is_away_for_60_seconds_changes_nothing(stage: Stage) -> None:
    """The storage of a shoot stops for so long, at the grace period that shoots have.

    What the kubelets had asked for meanwhile is lost: they come back one by one, after their time limits and pauses,
    and a prober that looks at once sees Leases that are older than any limit.
    """
    await stage.shoot.build()
    prober = await stage.healthy()
    await asyncio.sleep(15)
    stage.plane.storage.child.pause()
    stage.shoot.kubelets.path.cut()
    for _ in range(12):
        assert await stage.plane.api.answers("/version"), "the API server goes on answering"
        await asyncio.sleep(5)
    stage.assert_nothing_was_scaled()
    stage.plane.storage.child.resume()
    stage.shoot.kubelets.path.restore()
    await stage.stays_unharmed(40)
    await stage.until_state(prober, "Healthy", within=25)
    assert len(await stage.plane.api.items(LEASES)) == len(stage.shoot.nodes)
