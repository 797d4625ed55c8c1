"""The kubeconfig of a shoot: rotated, absent, refused, untrusted."""

import pytest

from app.core.model.probing import ShootState, VerdictReason
from app.core.ports import Watched
from app.simulation.traffic import Host
from tests.support.stands import SHOOT


async def test_a_rotated_token_is_used_as_soon_as_the_secret_has_it(stand):
    await stand.run(60)
    stand.world.faults.rotate_token(SHOOT)
    await stand.run(60)
    assert not [n for n in stand.notices if n.kind == "Look" and n.numbers["failed"]]
    assert stand.world.requests.live(Host.SEED) == 0


async def test_on_a_401_the_secret_is_read_live_once_and_the_probe_succeeds(stand):
    """The watch has not shown the new token yet."""
    await stand.run(60)
    with stand.world.faults.watch_stalled(Watched.SECRETS):
        stand.world.faults.rotate_token(SHOOT)
        stand.world.requests.reset()
        await stand.run(60)
    assert stand.state() is ShootState.HEALTHY
    assert stand.world.requests.live(Host.SEED, "get", "secrets") == 1


async def test_a_401_that_the_live_secret_does_not_mend_is_failing(stand):
    await stand.run(60)
    stand.world.shoot(SHOOT).retire(until=stand.now)
    stand.world.requests.reset()
    await stand.run(30)
    assert stand.state() is ShootState.FAILING
    assert stand.reason() is VerdictReason.CREDENTIALS_INVALID
    failed = len([n for n in stand.notices if n.kind == "Look" and n.numbers["failed"]])
    assert stand.world.requests.live(Host.SEED, "get", "secrets") == failed, "once for each look"


async def test_a_401_and_a_seed_that_does_not_answer_is_failing_not_a_crash(stand):
    await stand.run(60)
    with stand.world.faults.seed_down():
        stand.world.shoot(SHOOT).retire(until=stand.now)
        await stand.run(30)
    assert stand.reason() is VerdictReason.CREDENTIALS_INVALID
    assert not stand.told("RunnerFailed")


async def test_a_401_on_leases_alone_reads_the_secret_live_too(stage):
    """The token runs out between `/version` and Leases."""
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world)
    await stand.run(60)
    start = await stand.until(lambda: stand.status().next_probe - stand.now < 0.02)
    with world.faults.watch_stalled(Watched.SECRETS):
        world.faults.rotate_token(SHOOT, overlap=stand.status().next_probe - start + 0.01)
        await stand.run(1)
    assert stand.state() is ShootState.HEALTHY
    assert world.requests.live(Host.SEED, "get", "secrets") == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("kubeconfig_absent", VerdictReason.CREDENTIALS_MISSING),
        ("kubeconfig_without_token", VerdictReason.CREDENTIALS_MISSING),
        ("kubeconfig_refused", VerdictReason.CREDENTIALS_REFUSED),
        ("certificate_untrusted", VerdictReason.CERTIFICATE_UNTRUSTED),
    ],
)
async def test_bad_credentials_are_failing_with_their_reason_and_never_scale(stand, fault, reason):
    await stand.run(60)
    with (
        stand.world.faults.path_cut(SHOOT),
        getattr(stand.world.faults, fault)(SHOOT),
    ):
        await stand.run(180)
        assert stand.state() is ShootState.FAILING
        assert stand.reason() is reason
        assert not stand.writes()


@pytest.mark.parametrize(
    "fault", ["kubeconfig_absent", "kubeconfig_without_token", "kubeconfig_refused"]
)
async def test_a_secret_that_comes_back_is_looked_at_at_once(stand, fault):
    await stand.run(60)
    wrong = getattr(stand.world.faults, fault)(SHOOT)
    await stand.run(90)
    looked = stand.status().probes
    wrong.lift()
    await stand.run(0.5)
    assert stand.status().probes == looked + 1
    assert stand.state() is not ShootState.FAILING


async def test_a_new_ca_in_the_secret_is_looked_at_at_once(stand):
    await stand.run(60)
    stand.world.faults.certificate_untrusted(SHOOT)
    await stand.run(90)
    assert stand.state() is ShootState.FAILING
    looked = stand.status().probes
    stand.world.faults.rotate_ca(SHOOT)
    await stand.run(0.5)
    assert stand.status().probes == looked + 1
    assert stand.reason() is not VerdictReason.CERTIFICATE_UNTRUSTED


async def test_a_new_token_after_401_is_looked_at_at_once(stand):
    await stand.run(60)
    stand.world.shoot(SHOOT).retire(until=stand.now)
    await stand.run(90)
    looked = stand.status().probes
    stand.world.faults.rotate_token(SHOOT)
    await stand.run(0.5)
    assert stand.status().probes == looked + 1
    assert stand.reason() is not VerdictReason.CREDENTIALS_INVALID


@pytest.mark.on_ports  # over connections in memory a handshake takes no time
async def test_a_ca_that_changes_while_the_failing_probe_still_runs_is_looked_at_at_once(stand):
    await stand.run(60)
    stand.world.faults.certificate_untrusted(SHOOT)
    await stand.run(90)
    with stand.world.faults.latency(SHOOT, 2.0):
        await stand.until(lambda: stand.now > stand.status().next_probe + 0.2)
        stand.world.faults.rotate_ca(SHOOT)
        await stand.run(7)
        assert stand.reason() is not VerdictReason.CERTIFICATE_UNTRUSTED


async def test_a_secret_that_changes_after_good_probes_causes_no_probe(stand):
    await stand.run(60)
    looked = stand.status().probes
    await stand.until(lambda: stand.status().probes == looked + 1)
    stand.world.faults.rotate_token(SHOOT)
    await stand.run(5)
    assert stand.status().probes == looked + 1


async def test_a_shoot_without_secret_from_the_start_is_failing_and_recovers(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    absent = world.faults.kubeconfig_absent(SHOOT)
    await stage.clock.sleep(1)
    stand = stage.prober(world)
    await stand.run(60)
    assert stand.reason() is VerdictReason.CREDENTIALS_MISSING
    absent.lift()
    await stand.run(60)
    assert stand.state() is ShootState.HEALTHY


@pytest.mark.parametrize(("verb", "what"), [("get", "version"), ("list", "leases")])
async def test_a_403_is_failing_and_names_the_verb(stand, verb, what):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT), stand.world.faults.forbidden(SHOOT, verb, what):
        await stand.run(120)
        assert stand.state() is ShootState.FAILING
        assert stand.reason() is VerdictReason.CREDENTIALS_INVALID
        assert verb in stand.decision().message
        assert not stand.writes()


async def test_credentials_that_fail_do_not_end_an_active_protection(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        with stand.world.faults.kubeconfig_absent(SHOOT):
            await stand.run(300)
            assert stand.replicas() == (0, 0, 0)
            assert stand.state() is ShootState.PROTECTED


async def test_no_token_appears_in_what_is_told(stand):
    await stand.run(60)
    stand.world.shoot(SHOOT).retire(until=stand.now)
    stand.world.faults.kubeconfig_refused(SHOOT)
    await stand.run(60)
    assert not [n for n in stand.notices if "token-" in n.message]
