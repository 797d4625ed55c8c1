"""The kubeconfig of a shoot: rotated, absent, refused, untrusted."""

import asyncio

import pytest

from app.core.model.probing import ShootState, VerdictReason
from app.core.model.shoots import Route
from app.core.ports import Watched
from app.simulation.traffic import Host
from tests.support import seed_lab
from tests.support.doubles import HookedConnector
from tests.support.harness import SHOOT


async def test_a_rotated_token_is_used_as_soon_as_the_secret_has_it(harness):
    harness.faults.rotate_token(SHOOT)
    await harness.run(60)
    assert not [n for n in harness.notices if n.kind == "Look" and n.failed]
    assert harness.world.requests.live(Host.SEED) == 0


async def test_on_a_401_the_secret_is_read_live_once_and_the_probe_succeeds(harness):
    """The watch has not shown the new token yet."""
    with harness.faults.watch_stalled(Watched.SECRETS):
        harness.faults.rotate_token(SHOOT)
        harness.world.requests.reset()
        await harness.run(60)
    assert harness.state() is ShootState.HEALTHY
    assert harness.world.requests.live(Host.SEED, "get", "secrets") == 1


async def test_a_401_that_the_live_secret_does_not_mend_is_failing(harness):
    harness.world.shoot(SHOOT).retire(until=harness.now)
    harness.world.requests.reset()
    await harness.run(130)
    assert harness.state() is ShootState.FAILING
    assert harness.reason() is VerdictReason.CREDENTIALS_INVALID
    failed = len([n for n in harness.notices if n.kind == "Look" and n.failed])
    read = harness.world.requests.live(Host.SEED, "get", "secrets")
    assert (failed > 5, read) == (True, 3), "at once, and once a minute"


async def test_many_shoots_with_a_401_keep_the_budget_from_nobody(lab, monkeypatch):
    monkeypatch.setattr(seed_lab, "AMPLE", {"kube_api_qps": 1.0, "kube_api_burst": 2})
    world = lab.world()
    others = [f"shoot--local--x{number}" for number in range(40)]
    for name in others:
        world.add_shoot(name, nodes=2)
    harness = await lab.healthy(world, settle=120)
    for name in others:
        harness.faults.credentials_wrong(name, Route.INTERNAL)
    await harness.run(100)
    assert {harness.reason(name) for name in others} == {VerdictReason.CREDENTIALS_INVALID}
    before = harness.world.requests.live(Host.SEED, "get", "secrets")
    await harness.run(100)
    assert harness.world.requests.live(Host.SEED, "get", "secrets") - before < 30


async def test_a_401_and_a_seed_that_does_not_answer_is_failing_not_a_crash(harness):
    with harness.faults.seed_down():
        harness.world.shoot(SHOOT).retire(until=harness.now)
        await harness.run(30)
    assert harness.reason() is VerdictReason.CREDENTIALS_INVALID
    assert not harness.told("RunnerFailed")


async def test_a_401_on_leases_alone_reads_the_secret_live_too(harness):
    """The token runs out between `/version` and Leases."""
    start = await harness.until(lambda: harness.status().next_probe - harness.now < 0.02)
    with harness.faults.watch_stalled(Watched.SECRETS):
        harness.faults.rotate_token(SHOOT, overlap=harness.status().next_probe - start + 0.01)
        await harness.run(1)
    assert harness.state() is ShootState.HEALTHY
    assert harness.world.requests.live(Host.SEED, "get", "secrets") == 1


@pytest.mark.parametrize(
    ("fault", "of", "reason", "named", "reachable"),
    [
        ("kubeconfig_absent", (), VerdictReason.CREDENTIALS_MISSING, "", "NotProbed"),
        ("kubeconfig_without_token", (), VerdictReason.CREDENTIALS_MISSING, "", "NotProbed"),
        ("kubeconfig_refused", (), VerdictReason.CREDENTIALS_REFUSED, "", "NotProbed"),
        ("certificate_untrusted", (), VerdictReason.CERTIFICATE_UNTRUSTED, "", None),
        # a 403 names the verb
        ("forbidden", ("get", "version"), VerdictReason.CREDENTIALS_INVALID, "get", None),
        ("forbidden", ("list", "leases"), VerdictReason.CREDENTIALS_INVALID, "list", "Answered"),
    ],
)
async def test_bad_credentials_are_failing_with_their_reason_and_never_scale(
    harness, fault, of, reason, named, reachable
):
    with harness.faults.path_cut(SHOOT), getattr(harness.faults, fault)(SHOOT, *of):
        await harness.run(180)
        assert harness.state() is ShootState.FAILING
        assert harness.reason() is reason
        assert named in harness.decision().message
        assert harness.condition("APIServerReachable").reason == (reachable or reason)
        assert not harness.writes()


@pytest.mark.parametrize(
    "fault", ["kubeconfig_absent", "kubeconfig_without_token", "kubeconfig_refused"]
)
async def test_a_secret_that_comes_back_is_looked_at_at_once(harness, fault):
    wrong = getattr(harness.faults, fault)(SHOOT)
    await harness.run(90)
    looked = harness.status().probes
    wrong.lift()
    await harness.run(0.5)
    assert harness.status().probes == looked + 1
    assert harness.state() is not ShootState.FAILING


async def test_a_new_ca_in_the_secret_is_looked_at_at_once(harness):
    harness.faults.certificate_untrusted(SHOOT)
    await harness.run(90)
    assert harness.state() is ShootState.FAILING
    looked = harness.status().probes
    harness.faults.rotate_ca(SHOOT)
    await harness.run(0.5)
    assert harness.status().probes == looked + 1
    assert harness.reason() is not VerdictReason.CERTIFICATE_UNTRUSTED


class SlowToConnect(HookedConnector):
    """One that takes two seconds, as a handshake over a bad path does."""

    async def before(self, secret):
        await asyncio.sleep(2.0)


async def test_a_ca_that_changes_while_the_failing_probe_still_runs_is_looked_at_at_once(lab):
    harness = await lab.healthy(connector=SlowToConnect())
    harness.faults.certificate_untrusted(SHOOT)
    await harness.run(90)
    assert harness.reason() is VerdictReason.CERTIFICATE_UNTRUSTED
    await harness.until(lambda: harness.now > harness.status().next_probe + 0.2)
    harness.faults.rotate_ca(SHOOT)
    await harness.run(7)
    assert harness.reason() is not VerdictReason.CERTIFICATE_UNTRUSTED


async def test_a_secret_that_changes_after_good_probes_causes_no_probe(harness):
    looked = harness.status().probes
    await harness.until(lambda: harness.status().probes == looked + 1)
    harness.faults.rotate_token(SHOOT)
    await harness.run(5)
    assert harness.status().probes == looked + 1


async def test_a_shoot_without_secret_from_the_start_is_failing_and_recovers(lab):
    world = lab.with_shoot()
    absent = world.faults.kubeconfig_absent(SHOOT)
    await lab.clock.sleep(1)
    harness = lab.prober(world)
    await harness.run(60)
    assert harness.reason() is VerdictReason.CREDENTIALS_MISSING
    absent.lift()
    await harness.run(60)
    assert harness.state() is ShootState.HEALTHY


async def test_no_token_appears_in_what_is_told(harness):
    harness.world.shoot(SHOOT).retire(until=harness.now)
    harness.faults.kubeconfig_refused(SHOOT)
    await harness.run(60)
    assert not [n for n in harness.notices if "token-" in n.message]
