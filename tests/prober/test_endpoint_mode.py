"""Endpoint mode as the loop of a shoot plays it: two paths, their counts, and what comes of them."""

from dataclasses import replace

import pytest

from app.core.errors import Unreachable
from app.core.model.endpoints import Effect, EndpointProbeSpec, TcpSocket
from app.core.model.policy import EndpointMode, ScalePolicy
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.model.shoots import Route
from app.core.ports import Watched
from app.prober.rules.schedule import NextProbe
from app.simulation.manifests import EXTERNAL_SECRET_NAME
from app.simulation.traffic import ConnectionLoss, Host, Trouble
from tests.prober.people import Hand
from tests.support.overrides import MemoryStore
from tests.support.stands import GARDENER, KCM, MCM, SHOOT, changed

INTERNAL, EXTERNAL = Route.INTERNAL, Route.EXTERNAL
POLICY = replace(
    GARDENER,
    endpoint_mode=EndpointMode(EXTERNAL_SECRET_NAME),
    failure_threshold=3,
    success_threshold=1,
)
CANARY = EndpointProbeSpec(
    "canary", TcpSocket(443), host="www.example.org", period=2, effect=Effect.GATE_SCALE_DOWN
)


def probed(stage, **changes):
    """A healthy shoot, and a prober in endpoint mode."""
    world = stage.world(external_secret_name=EXTERNAL_SECRET_NAME)
    world.add_shoot(SHOOT)
    return stage.prober(world, POLICY, **changes)


@pytest.fixture
async def stand(stage):
    return probed(stage)


def asked(stand, route):
    requests = stand.world.requests
    return requests.total(Host.SHOOT, namespace=SHOOT, route=route) + requests.refused[SHOOT, route]


def condition(stand, kind):
    return {c.type: c for c in stand.status().conditions}[kind]


# Well.


async def test_a_healthy_shoot_is_asked_by_both_paths_and_scaled_up(stand):
    await stand.run(60)
    assert stand.decision().verdict is Verdict.SCALE_UP
    assert stand.reason() is VerdictReason.EXTERNAL_REACHABLE
    assert stand.state() is ShootState.HEALTHY
    assert asked(stand, INTERNAL) == asked(stand, EXTERNAL) >= 5
    assert condition(stand, "ExternalPathReachable").status == "True"
    assert condition(stand, "APIServerReachable").status == "True"


async def test_no_machine_node_or_lease_is_read(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
    await stand.until(lambda: stand.state() is ShootState.HEALTHY, within=240)
    assert not stand.world.requests.live(Host.SEED, what="machines")
    for what in ("nodes", "leases", "contact"):
        assert not stand.world.requests.total(Host.SHOOT, what=what)
    assert stand.status().tally is None


# The load balancer is away.


@pytest.mark.parametrize("how", ConnectionLoss)
async def test_a_load_balancer_that_is_away_is_an_outage_however_it_is_away(stage, how):
    stand = probed(stage)
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT, how=how):
        await stand.protect()
        assert stand.replicas() == (0, 0, 0)
        assert stand.decision().verdict is Verdict.SCALE_DOWN
        assert condition(stand, "ExternalPathReachable").status == "False"
    await stand.until(lambda: stand.replicas() == (1, 1, 1), within=180)
    await stand.until(lambda: stand.state() is ShootState.HEALTHY)


async def test_it_takes_three_failures_five_seconds_apart(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: stand.reason() is VerdictReason.COUNTING)
        first = stand.now
        assert "1 of 3" in stand.decision().message
        await stand.until(lambda: "2 of 3" in stand.decision().message)
        await stand.until(stand.writes)
    assert stand.now - first == pytest.approx(10.0, abs=0.5)


async def test_an_attempt_ends_after_five_seconds_and_an_outage_that_swallows_within_twenty(stand):
    await stand.run(60)
    with stand.world.faults.route_cut(SHOOT, EXTERNAL):
        await stand.until(lambda: stand.reason() is VerdictReason.COUNTING)
        seen = {each.route: each for each in stand.status().paths}[EXTERNAL]
        assert 4.5 <= seen.seconds <= 5.0
        first = seen.at - seen.seconds
        await stand.until(stand.writes)
    assert stand.now - first <= 16.0


async def test_probe_timeout_ends_an_attempt_where_it_is_shorter(stage):
    stand = probed(stage, probe_timeout=2.0)
    await stand.run(60)
    with stand.world.faults.route_cut(SHOOT, EXTERNAL):
        await stand.until(lambda: stand.reason() is VerdictReason.COUNTING)
        seen = {each.route: each for each in stand.status().paths}[EXTERNAL]
        assert 1.7 <= seen.seconds <= 2.0
        await stand.until(stand.writes)


async def test_from_the_third_failure_to_the_first_write_it_takes_no_time(stage):
    stand = probed(stage)
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: "2 of 3" in stand.decision().message)
        await stand.until(lambda: stand.status().paths[1].at > stand.now - 0.02 and stand.writes())
        third = stand.status().paths[1].at
    assert stand.writes()[0].sent - third <= 0.5


async def test_one_answer_in_between_begins_the_count_anew(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: "2 of 3" in stand.decision().message)
    await stand.until(lambda: stand.decision().verdict is Verdict.SCALE_UP)
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: stand.reason() is VerdictReason.COUNTING)
        assert "1 of 3" in stand.decision().message
    assert not stand.writes()


# What says nothing about the path.

NEITHER = {
    "a token that nobody accepts": (
        lambda f: f.credentials_wrong(SHOOT, EXTERNAL),
        VerdictReason.CREDENTIALS_INVALID,
    ),
    "a user without token": (
        lambda f: f.secret_without_token(SHOOT, EXTERNAL),
        VerdictReason.CREDENTIALS_MISSING,
    ),
    "no Secret": (lambda f: f.secret_absent(SHOOT, EXTERNAL), VerdictReason.CREDENTIALS_MISSING),
    "an authority that vouches for nobody": (
        lambda f: f.route_untrusted(SHOOT, EXTERNAL),
        VerdictReason.CERTIFICATE_UNTRUSTED,
    ),
    "a name without address": (lambda f: f.name_gone(SHOOT), VerdictReason.NAME_UNRESOLVED),
    "403": (
        lambda f: f.route_trouble(SHOOT, EXTERNAL, Trouble(forbidden=True)),
        VerdictReason.CREDENTIALS_INVALID,
    ),
    "429": (
        lambda f: f.route_trouble(SHOOT, EXTERNAL, Trouble(throttled=True)),
        VerdictReason.THROTTLED,
    ),
    "a page of the load balancer": (lambda f: f.page_instead(SHOOT), VerdictReason.BAD_ANSWER),
    "500": (
        lambda f: f.route_trouble(SHOOT, EXTERNAL, Trouble(error_rate=1.0)),
        VerdictReason.BAD_ANSWER,
    ),
}


@pytest.mark.parametrize("what", NEITHER)
async def test_what_says_nothing_about_the_external_path_never_scales_anything(stage, what):
    begin, reason = NEITHER[what]
    stand = probed(stage)
    await stand.run(60)
    with begin(stand.world.faults):
        await stand.run(120)
        assert not stand.writes()
        assert stand.decision().verdict is Verdict.HOLD
        assert stand.reason() is reason
        assert stand.state() is ShootState.FAILING
        assert condition(stand, "ExternalPathReachable").status == "Unknown"
    await stand.until(lambda: stand.state() is ShootState.HEALTHY)


@pytest.mark.parametrize("what", NEITHER)
async def test_nor_does_it_end_a_protection(stage, what):
    begin, _ = NEITHER[what]
    stand = probed(stage)
    await stand.run(60)
    cut = stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED)
    await stand.protect()
    with begin(stand.world.faults):
        cut.lift()
        await stand.run(120)
        assert stand.replicas() == (0, 0, 0)
        assert stand.decision().verdict is Verdict.HOLD


@pytest.mark.parametrize("route", Route)
async def test_a_429_on_one_path_holds_for_both(stage, route):
    stand = probed(stage)
    await stand.run(60)
    with stand.world.faults.route_trouble(SHOOT, route, Trouble(throttled=True, retry_after=30.0)):
        await stand.until(lambda: stand.reason() is VerdictReason.THROTTLED)
        stand.world.requests.reset()
        stand.prober.registry.runner(SHOOT).wake()
        await stand.run(29)
        assert not asked(stand, INTERNAL)
        assert not asked(stand, EXTERNAL)


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
async def test_an_internal_path_that_fails_holds_and_the_external_one_is_not_tried(stage, trouble):
    stand = probed(stage)
    await stand.run(60)
    with stand.world.faults.route_trouble(SHOOT, INTERNAL, trouble):
        await stand.until(lambda: stand.decision().verdict is Verdict.HOLD)
        stand.world.requests.reset()
        seen = len(stand.probes())
        await stand.run(300)
        assert not asked(stand, EXTERNAL)
        assert not stand.writes()
        assert len(stand.probes()) - seen == pytest.approx(300 / 30, abs=2)
    await stand.until(lambda: stand.state() is ShootState.HEALTHY)


async def test_the_backoff_is_the_one_that_is_configured(stage):
    mode = EndpointMode(EXTERNAL_SECRET_NAME, internal_failure_backoff=7.0)
    stand = probed(stage, endpoint_mode=mode)
    await stand.run(60)
    with stand.world.faults.route_cut(SHOOT, INTERNAL, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: stand.decision().verdict is Verdict.HOLD)
        seen = len(stand.probes())
        await stand.run(70)
        assert len(stand.probes()) - seen in {9, 10}


@pytest.mark.parametrize("route", Route)
async def test_an_attempt_that_says_nothing_about_its_path_asks_for_no_backoff(stage, route):
    stand = probed(stage)
    await stand.run(60)
    with stand.world.faults.route_trouble(SHOOT, route, Trouble(forbidden=True)):
        await stand.until(lambda: stand.reason() is VerdictReason.CREDENTIALS_INVALID)
        seen = len(stand.probes())
        await stand.run(60)
        assert len(stand.probes()) - seen >= 5


async def test_an_answer_of_the_load_balancer_asks_for_no_backoff(stand):
    await stand.run(60)
    with stand.world.faults.page_instead(SHOOT):
        await stand.until(lambda: stand.reason() is VerdictReason.BAD_ANSWER)
        seen = len(stand.probes())
        await stand.run(60)
        assert len(stand.probes()) - seen >= 5


async def test_both_paths_dead_scale_nothing(stand):
    """The API server itself is away: no node can renew, and none of our business."""
    await stand.run(60)
    with stand.world.faults.api_down(SHOOT):
        await stand.run(300)
        assert not stand.writes()
        assert stand.state() is ShootState.UNREACHABLE


async def test_an_internal_path_that_dies_while_the_outage_is_confirmed_holds(stand):
    """The third attempt on the external path swallows 5 s; meanwhile the internal one goes."""
    await stand.run(60)
    with stand.world.faults.route_cut(SHOOT, EXTERNAL):
        await stand.until(lambda: "2 of 3" in stand.decision().message)
        await stand.until(lambda: stand.status().paths[0].at > stand.now - 0.05)
        with stand.world.faults.route_cut(SHOOT, INTERNAL, how=ConnectionLoss.REFUSED):
            await stand.until(lambda: stand.reason() is VerdictReason.UNREACHABLE)
            assert not stand.writes()
        await stand.until(lambda: stand.reason() is VerdictReason.COUNTING, within=60)
        assert "1 of 3" in stand.decision().message, "it begins anew"


async def test_after_internal_failures_success_threshold_answers_are_needed(stage):
    stand = probed(stage, success_threshold=3)
    await stand.run(60)
    with stand.world.faults.route_cut(SHOOT, INTERNAL, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: stand.decision().verdict is Verdict.HOLD)
        await stand.run(65)  # three failures, 30 s apart
    stand.world.requests.reset()
    await stand.until(lambda: stand.reason() is VerdictReason.COUNTING, within=60)
    assert "internal path has answered at 1 of 3" in stand.decision().message
    assert not asked(stand, EXTERNAL)
    await stand.until(lambda: asked(stand, EXTERNAL))
    assert asked(stand, INTERNAL) == 3


async def test_the_success_threshold_holds_for_both_paths_without_protection_too(stage):
    stand = probed(stage, success_threshold=3)
    await stand.run(1)
    await stand.until(lambda: stand.decision().verdict is Verdict.SCALE_UP)
    assert asked(stand, INTERNAL) == 5, "three of the internal path, the third of them begins"
    assert asked(stand, EXTERNAL) == 3, "three of the external one"


async def test_an_outage_is_confirmed_by_the_internal_path_where_nothing_is_to_be_written_too(
    stand,
):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.protect()
        await stand.run(20)
        stand.world.requests.reset()
        await stand.run(30)
        assert asked(stand, INTERNAL) == 2 * asked(stand, EXTERNAL) > 0


async def test_an_internal_path_that_failed_once_is_still_healthy_when_it_answers_again(stage):
    stand = probed(stage, success_threshold=3)
    await stand.run(60)
    with stand.world.faults.route_cut(SHOOT, INTERNAL, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: stand.decision().verdict is Verdict.HOLD)
    stand.world.requests.reset()
    await stand.until(lambda: asked(stand, EXTERNAL), within=60)
    assert asked(stand, INTERNAL) == 1


# The same as in lease mode: holds, gates, stale watches, flapping, scaling runs.


async def test_a_pause_holds_as_in_lease_mode(stage):
    store = MemoryStore(stage.clock)
    hand = Hand(probed(stage, store=store), store)
    stand = hand.stand
    await stand.run(60)
    await hand.pause()
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: stand.decision().would_be is Verdict.SCALE_DOWN)
        seen = len(stand.probes())
        await stand.run(60)
        assert not stand.writes()
        assert stand.reason() is VerdictReason.PAUSED
        assert len(stand.probes()) - seen >= 11, "every suspectProbeInterval while the path fails"


async def test_the_runs_keep_levels_and_delays(stage):
    slow = changed(KCM, scale_down=ScalePolicy(1, initial_delay=8.0))
    stand = probed(stage, dependents=slow)
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        begun = await stand.until(lambda: stand.writes(MCM))
        await stand.until(lambda: stand.writes(KCM))
        assert stand.now - begun == pytest.approx(8.0, abs=1.5)


@pytest.mark.parametrize("watch", ["clusters", "secrets"])
async def test_a_scale_down_reads_live_what_is_stale_and_no_machines(stage, watch):
    stand = probed(stage)
    await stand.run(60)
    stand.world.faults.watch_stalled(Watched(watch))
    await stand.run(91)
    stand.world.requests.reset()
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.protect()
    reads = 2 if watch == "secrets" else 1
    assert stand.world.requests.live(Host.SEED, what=watch) >= reads
    assert not stand.world.requests.live(Host.SEED, what="machines")


async def test_a_scale_down_is_held_where_a_stale_watch_cannot_be_read_live(stage):
    stand = probed(stage)
    await stand.run(60)
    stand.world.faults.watch_stalled(Watched.SECRETS)
    await stand.run(91)
    reads = Trouble(refused=True, verbs=frozenset({"get", "list"}))
    with (
        stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED),
        stand.world.faults.seed_trouble(reads),
    ):
        await stand.run(60)
        assert not stand.writes()
        assert stand.reason() is VerdictReason.SEED_STALE


class FormerAddress:
    """Where an external kubeconfig led to before the load balancer was moved."""

    async def version(self, **_):
        raise Unreachable("get /version: no connection")


async def test_failures_of_an_external_secret_that_is_another_one_now_scale_nothing(
    stage, monkeypatch
):
    stand = probed(stage)
    await stand.run(60)
    connector, seed = stand.environment.connector, stand.environment.seed
    former, connect = seed.secret(SHOOT, EXTERNAL).kubeconfig, connector.connect

    async def connected(secret):
        outdated = secret.route is EXTERNAL and secret.kubeconfig == former
        return FormerAddress() if outdated else await connect(secret)

    stand.world.faults.watch_stalled(Watched.SECRETS)
    await stand.run(91)
    stand.world.faults.rotate_token(SHOOT, overlap=600.0)
    monkeypatch.setattr(connector, "connect", connected)
    await stand.until(lambda: stand.reason() is VerdictReason.SEED_STALE)
    assert "external path has changed" in stand.decision().message
    await stand.until(lambda: stand.decision().verdict is Verdict.SCALE_UP)
    assert not stand.writes()


async def test_at_the_second_protection_within_an_hour_the_good_probes_must_last(stand):
    took = 0.0
    await stand.run(60)
    for _ in range(2):
        with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
            await stand.protect()
        back = stand.now
        await stand.until(lambda: stand.replicas() == (1, 1, 1), within=240)
        took = stand.now - back
        await stand.until(lambda: stand.state() is ShootState.HEALTHY, within=120)
    assert took >= 30.0 + 30.0, "30 s more, and MCM's delay"


async def test_a_token_that_rotates_is_used_at_once(stand):
    await stand.run(60)
    stand.world.faults.rotate_token(SHOOT, overlap=5.0)
    await stand.run(120)
    assert not [n for n in stand.notices if n.kind == "Look" and n.numbers["failed"]]


# The seed's own network is away, and a gate that knows.


async def test_without_a_gate_a_seed_without_network_takes_everything_down(stand):
    """What endpoint mode cannot see by itself, and why docs/endpoints.md says to pair it with a gate."""
    await stand.run(60)
    with stand.world.faults.seed_network_cut():
        await stand.protect()


async def test_with_a_gate_a_false_alarm_of_the_seeds_network_scales_nothing(stage):
    stand = probed(stage, endpoint_probes=(CANARY,))
    await stand.run(60)
    with stand.world.faults.seed_network_cut():
        await stand.until(lambda: stand.reason() is VerdictReason.GATED)
        await stand.run(300)
        assert not stand.writes()
        assert "canary" in stand.decision().message
    await stand.until(lambda: stand.state() is ShootState.HEALTHY)


async def test_a_gate_whose_canary_is_well_delays_nothing(stage):
    stand = probed(stage, endpoint_probes=(CANARY,))
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: stand.reason() is VerdictReason.COUNTING)
        first = stand.now
        await stand.until(stand.writes)
    assert stand.now - first == pytest.approx(10.0, abs=0.5)


# A process that was frozen.


async def test_failures_from_before_the_process_stood_still_are_not_in_a_row_with_those_after(
    stage,
):
    stand = probed(stage)
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT, how=ConnectionLoss.REFUSED):
        await stand.until(lambda: "2 of 3" in stand.decision().message)
        agenda = stand.prober.registry.runner(SHOOT)._schedule
        due, agenda.next = agenda.next, NextProbe(stand.now + 3600, "nobody looks")
        agenda.rouse()
        await stand.run(60)
        agenda.next = due  # it was due a minute ago
        agenda.rouse()
        seen = len(stand.probes())
        await stand.until(lambda: len(stand.probes()) > seen)
        assert "1 of 3" in stand.decision().message
        assert not stand.writes()
