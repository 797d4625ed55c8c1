"""Endpoint mode as the loop of a shoot plays it: two paths, their counts, and what comes of them."""

from dataclasses import replace

import pytest

from app.core.errors import Unreachable
from app.core.model.endpoints import Effect, EndpointProbeSpec, TcpSocket
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.model.shoots import Route
from app.core.ports import Watched
from app.simulation.manifests import EXTERNAL_SECRET_NAME
from app.simulation.traffic import ConnectionLoss, Host, Trouble
from tests.support.harness import GARDENER, SHOOT

INTERNAL, EXTERNAL = Route.INTERNAL, Route.EXTERNAL
POLICY = replace(
    GARDENER, external_secret=EXTERNAL_SECRET_NAME, failure_threshold=3, success_threshold=1
)
CANARY = EndpointProbeSpec(
    "canary",
    tcp_socket=TcpSocket(443),
    host="www.example.org",
    period=2,
    effect=Effect.GATE_SCALE_DOWN,
)


async def probed(lab, **changes):
    """A prober in endpoint mode that has probed a healthy shoot for a minute."""
    world = lab.world(external_secret_name=EXTERNAL_SECRET_NAME)
    return await lab.healthy(world, policy=POLICY, **changes)


@pytest.fixture
async def harness(lab, virtual_time):
    with virtual_time():
        return await probed(lab)


def asked(harness, route):
    requests = harness.world.requests
    return requests.total(Host.SHOOT, namespace=SHOOT, route=route) + requests.refused[SHOOT, route]


# Well.


async def test_a_healthy_shoot_is_asked_by_both_paths_and_scaled_up(harness):
    assert harness.decision().verdict is Verdict.SCALE_UP
    assert harness.reason() is VerdictReason.EXTERNAL_REACHABLE
    assert harness.state() is ShootState.HEALTHY
    assert asked(harness, INTERNAL) == asked(harness, EXTERNAL) >= 5
    assert harness.condition("ExternalPathReachable").status == "True"
    assert harness.condition("APIServerReachable").status == "True"


async def test_no_machine_node_or_lease_is_read(harness):
    await harness.survive_an_outage()
    await harness.until(lambda: harness.state() is ShootState.HEALTHY, within=240)
    assert not harness.world.requests.live(Host.SEED, what="machines")
    for what in ("nodes", "leases", "contact"):
        assert not harness.world.requests.total(Host.SHOOT, what=what)
    assert harness.status().tally is None


# The load balancer is away.


@pytest.mark.parametrize("how", ConnectionLoss)
async def test_a_load_balancer_that_is_away_is_an_outage_however_it_is_away(harness, how):
    with harness.faults.path_cut(SHOOT, how=how):
        await harness.protect()
        assert harness.replicas() == (0, 0, 0)
        assert harness.decision().verdict is Verdict.SCALE_DOWN
        assert harness.condition("ExternalPathReachable").status == "False"
    await harness.until(lambda: harness.replicas() == (1, 1, 1), within=180)
    await harness.until(lambda: harness.state() is ShootState.HEALTHY)


async def test_an_attempt_ends_after_five_seconds_and_an_outage_that_swallows_within_twenty(
    harness,
):
    with harness.faults.route_cut(SHOOT, EXTERNAL):
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING)
        seen = {each.route: each for each in harness.status().paths}[EXTERNAL]
        assert 4.5 <= seen.seconds <= 5.0
        first = seen.at - seen.seconds
        await harness.until(harness.writes)
    assert harness.now - first <= 16.0


async def test_from_the_third_failure_to_the_first_write_it_takes_no_time(harness):
    with harness.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await harness.until(lambda: "2 of 3" in harness.decision().message)
        await harness.until(
            lambda: harness.status().paths[1].at > harness.now - 0.02 and harness.writes()
        )
        third = harness.status().paths[1].at
    assert harness.writes()[0].at - third <= 0.5


# What says nothing about the path.

# What answers and errors mean is in `test_path_attempts`, which of them count in `rules.test_paths`.


async def test_what_says_nothing_about_the_external_path_scales_nothing_and_ends_no_protection(
    harness,
):
    cut = harness.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED)
    await harness.protect()
    with harness.faults.page_instead(SHOOT):
        cut.lift()
        await harness.run(120)
        assert harness.replicas() == (0, 0, 0)
        assert harness.decision().verdict is Verdict.HOLD
        assert harness.condition("ExternalPathReachable").status == "Unknown"
    await harness.until(lambda: harness.state() is ShootState.HEALTHY, within=240)
    written = len(harness.writes())
    with harness.faults.page_instead(SHOOT):
        await harness.run(120)
        assert len(harness.writes()) == written
        assert harness.reason() is VerdictReason.BAD_ANSWER
        assert harness.state() is ShootState.FAILING


@pytest.mark.parametrize("route", Route)
async def test_a_429_on_one_path_holds_for_both(harness, route):
    with harness.faults.route_trouble(SHOOT, route, Trouble(throttled=True, retry_after=30.0)):
        await harness.until(lambda: harness.reason() is VerdictReason.THROTTLED)
        harness.world.requests.reset()
        harness.prober.registry.runner(SHOOT).wake()
        await harness.run(29)
        assert not asked(harness, INTERNAL)
        assert not asked(harness, EXTERNAL)


# The internal path.


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(lost=ConnectionLoss.SWALLOWED),
        Trouble(lost=ConnectionLoss.REFUSED),
        Trouble(page=503),
    ],
    ids=["swallowed", "refused", "page"],
)
async def test_an_internal_path_that_fails_holds_and_the_external_one_is_not_tried(
    harness, trouble
):
    with harness.faults.route_trouble(SHOOT, INTERNAL, trouble):
        await harness.until(lambda: harness.decision().verdict is Verdict.HOLD)
        harness.world.requests.reset()
        seen = len(harness.probes())
        await harness.run(300)
        assert not asked(harness, EXTERNAL)
        assert harness.condition("ExternalPathReachable").status == "Unknown"
        assert not harness.writes()
        assert len(harness.probes()) - seen == pytest.approx(300 / 30, abs=2)
    await harness.until(lambda: harness.state() is ShootState.HEALTHY)


@pytest.mark.parametrize("route", Route)
async def test_an_attempt_that_says_nothing_about_its_path_asks_for_no_backoff(harness, route):
    with harness.faults.route_trouble(SHOOT, route, Trouble(forbidden=True)):
        await harness.until(lambda: harness.reason() is VerdictReason.CREDENTIALS_INVALID)
        seen = len(harness.probes())
        await harness.run(60)
        assert len(harness.probes()) - seen >= 5
        refused = harness.condition("APIServerReachable")
        expected = ("Unknown", "CredentialsInvalid") if route is INTERNAL else ("True", "Answered")
        assert (refused.status, refused.reason) == expected


async def test_an_internal_path_that_dies_while_the_outage_is_confirmed_holds(harness):
    """The third attempt on the external path swallows 5 s; meanwhile the internal one goes."""
    with harness.faults.route_cut(SHOOT, EXTERNAL):
        await harness.until(lambda: "2 of 3" in harness.decision().message)
        await harness.until(lambda: harness.status().paths[0].at > harness.now - 0.05)
        with harness.faults.route_cut(SHOOT, INTERNAL, how=ConnectionLoss.REFUSED):
            await harness.until(lambda: harness.reason() is VerdictReason.UNREACHABLE)
            assert not harness.writes()
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING, within=60)
        assert "1 of 3" in harness.decision().message, "it begins anew"


async def test_an_outage_is_confirmed_by_the_internal_path_where_nothing_is_to_be_written_too(
    harness,
):
    with harness.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await harness.protect()
        await harness.run(20)
        harness.world.requests.reset()
        await harness.run(30)
        assert asked(harness, INTERNAL) == 2 * asked(harness, EXTERNAL) > 0


# The same as in lease mode: holds, gates, stale watches, flapping, scaling runs.


@pytest.mark.parametrize("watch", ["clusters", "secrets"])
async def test_a_scale_down_reads_live_what_is_stale_and_no_machines(harness, watch):
    harness.faults.watch_stalled(Watched(watch))
    await harness.run(91)
    harness.world.requests.reset()
    with harness.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await harness.protect()
    reads = 2 if watch == "secrets" else 1
    assert harness.world.requests.live(Host.SEED, what=watch) >= reads
    assert not harness.world.requests.live(Host.SEED, what="machines")


class FormerAddress:
    """Where an external kubeconfig led to before the load balancer was moved."""

    async def version(self, **_):
        raise Unreachable("get /version: no connection")


async def test_failures_of_an_external_secret_that_is_another_one_now_scale_nothing(
    harness, monkeypatch
):
    connector, seed = harness.environment.connector, harness.environment.seed
    former, connect = seed.secret(SHOOT, EXTERNAL).kubeconfig, connector.connect

    async def connected(secret):
        outdated = secret.route is EXTERNAL and secret.kubeconfig == former
        return FormerAddress() if outdated else await connect(secret)

    harness.faults.watch_stalled(Watched.SECRETS)
    await harness.run(91)
    harness.faults.rotate_token(SHOOT, overlap=600.0)
    monkeypatch.setattr(connector, "connect", connected)
    await harness.until(lambda: harness.reason() is VerdictReason.SEED_STALE)
    assert "external path has changed" in harness.decision().message
    await harness.until(lambda: harness.decision().verdict is Verdict.SCALE_UP)
    assert not harness.writes()


# The seed's own network is away, and a gate that knows.


async def test_without_a_gate_a_seed_without_network_takes_everything_down(harness):
    """What endpoint mode cannot see by itself, and why docs/endpoints.md says to pair it with a gate."""
    with harness.faults.seed_network_cut():
        await harness.protect()


async def test_with_a_gate_a_false_alarm_of_the_seeds_network_scales_nothing(lab):
    harness = await probed(lab, endpoint_probes=(CANARY,))
    with harness.faults.seed_network_cut():
        await harness.until(lambda: harness.reason() is VerdictReason.GATED)
        await harness.run(300)
        assert not harness.writes()
        assert "canary" in harness.decision().message
    await harness.until(lambda: harness.state() is ShootState.HEALTHY)


# A process that was frozen.


async def test_failures_from_before_the_process_stood_still_are_not_in_a_row_with_those_after(
    harness,
):
    with harness.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await harness.until(lambda: "2 of 3" in harness.decision().message)
        agenda = harness.prober.registry.runner(SHOOT)._schedule
        due, agenda.next_at = agenda.next_at, harness.now + 3600
        agenda.rouse()
        await harness.run(60)
        agenda.next_at = due  # it was due a minute ago
        agenda.rouse()
        seen = len(harness.probes())
        await harness.until(lambda: len(harness.probes()) > seen)
        assert "1 of 3" in harness.decision().message
        assert not harness.writes()
