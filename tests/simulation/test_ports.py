"""What the ports show of a simulated world, and what they do when it is in trouble."""

from typing import Any

import pytest

from app.core.errors import (
    CertificateUntrusted,
    Conflict,
    CredentialRefused,
    Forbidden,
    NotFound,
    ServerFault,
    Throttled,
    Unauthorized,
    Unreachable,
)
from app.core.model import workloads as ann
from app.core.model.shoots import SecretView, ShootView, Undecodable
from app.core.model.workloads import Patch, ResourceRef
from app.core.ports import (
    AccessReviewer,
    Leadership,
    Permission,
    SeedChange,
    SeedCluster,
    ShootCluster,
    ShootConnector,
    Watched,
)
from app.simulation.actors import KCM
from app.simulation.cluster import WATCHDOG
from app.simulation.leadership import SimulatedLeadership
from app.simulation.manifests import SECRET_NAME
from app.simulation.reflection import SILENCE
from app.simulation.store import ObjectKey
from app.simulation.traffic import Host, Storage, Trouble
from app.simulation.truth import reference
from tests.simulation.worlds import about, simulated

A = "shoot--local--a"
ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")


def server(world):
    return world.add_shoot(A, nodes=4)


def shoot(world) -> ShootCluster:
    if world.store.find(ObjectKey("Secret", A, SECRET_NAME)) is None:
        server(world)
    cluster: ShootCluster = world.connect(A)
    return cluster


in_a_world = simulated(server=server, shoot=shoot)


def as_ports(world) -> tuple[SeedCluster, ShootConnector, Leadership, AccessReviewer]:
    return world.seed, world.connector, world.leadership, world.access  # mypy is the test


# The shoot.


@in_a_world
async def test_each_request_takes_its_latency(shoot, clock):
    before = clock.now()
    await shoot.version()
    assert clock.now() - before == about(0.02)


@in_a_world
async def test_a_reading_says_when_it_was_sent_and_when_it_had_arrived(shoot, clock):
    before = clock.now()
    reading = await shoot.leases()
    assert reading.sent == before
    assert reading.received == about(before + 0.02)
    assert [lease.name for lease in reading.leases] == ["node-0", "node-1", "node-2", "node-3"]
    assert all(0 <= before - lease.renew_time <= 10.4 for lease in reading.leases)
    assert {lease.duration for lease in reading.leases} == {40}


@in_a_world
async def test_leases_come_in_pages_of_500_each_a_request(world, clock):
    world.add_shoot(A, nodes=1001, replicas={})
    shoot = world.connect(A)
    reading = await shoot.leases()
    assert len(reading.leases) == 1001
    assert world.requests.total(Host.SHOOT, "list", "leases") == 3
    assert reading.received - reading.sent == about(0.06)


@in_a_world
async def test_a_lease_without_renew_time_and_one_of_a_node_that_is_gone_are_read(world, shoot):
    world.add_lease(A, "gone", 1.0)
    world.add_lease(A, "odd", None)
    leases = {lease.name: lease.renew_time for lease in (await shoot.leases()).leases}
    assert (leases["gone"], leases["odd"]) == (1.0, None)


@in_a_world
async def test_nodes_show_pool_zone_conditions_and_who_manages_them(world):
    world.add_shoot(A, nodes=2, unmanaged=1)
    shoot = world.connect(A)
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
    world.patch_node(A, "node-1", {"status": {"conditions": conditions}})
    first, second = await shoot.nodes()
    assert (first.pool, first.zone, first.not_managed) == ("worker", "zone-a", True)
    assert (second.not_managed, second.conditions) == (False, {"Ready", "DiskPressure"})


@pytest.mark.parametrize("how", Storage)
@in_a_world
async def test_version_and_cached_nodes_answer_while_the_storage_is_away(world, shoot, how):
    with world.faults.storage_away(A, how):
        assert (await shoot.version()).startswith("v1.")
        assert len(await shoot.nodes()) == 4


@in_a_world
async def test_consistent_reads_hang_until_their_limit_while_the_storage_hangs(world, shoot, clock):
    with world.faults.storage_away(A):
        before = clock.now()
        for read in (shoot.leases, shoot.contact):
            with pytest.raises(Unreachable):
                await read()
        assert clock.now() - before == about(10)
        with pytest.raises(Unreachable):
            await shoot.nodes(consistent=True)


@in_a_world
async def test_consistent_reads_fail_at_once_while_the_storage_fails(world, shoot, clock):
    with world.faults.storage_away(A, Storage.FAILS):
        before = clock.now()
        with pytest.raises(ServerFault):
            await shoot.leases()
        assert clock.now() - before < 0.1


@in_a_world
async def test_a_read_that_hangs_is_answered_when_the_storage_is_back_in_time(
    world, shoot, clock, tasks
):
    fault = world.faults.storage_away(A)

    async def later() -> None:
        await clock.sleep(3)
        fault.lift()

    lifting = tasks.once(later, "lift")
    reading = await shoot.leases()
    await lifting
    assert reading.received - reading.sent == pytest.approx(3.01, abs=0.02)


@in_a_world
async def test_leases_do_not_move_while_the_storage_is_away(world, shoot, clock):
    fault = world.faults.storage_away(A, Storage.FAILS)
    begin = clock.now()
    await clock.sleep(100)
    fault.lift()
    reading = await shoot.leases()
    assert all(lease.renew_time <= begin for lease in reading.leases)
    await clock.sleep(8)
    assert all(lease.renew_time > begin + 100 for lease in (await shoot.leases()).leases)


@in_a_world
async def test_a_path_that_is_cut_stops_the_kubelets_and_not_us(world, shoot, clock):
    world.faults.path_cut(A)
    begin = clock.now()
    await clock.sleep(120)
    assert all(lease.renew_time <= begin for lease in (await shoot.leases()).leases)


@in_a_world
async def test_a_server_that_is_down_refuses_and_one_that_hangs_is_given_up_on(world, shoot, clock):
    before = clock.now()
    with world.faults.api_down(A), pytest.raises(Unreachable, match="refused"):
        await shoot.version()
    assert clock.now() - before < 0.1
    with world.faults.api_hanging(A), pytest.raises(Unreachable, match="no answer within 8 s"):
        await shoot.version()
    assert await shoot.version()


@in_a_world
async def test_a_rotated_token_is_unauthorized_until_the_secret_is_read_again(world, shoot, clock):
    world.faults.rotate_token(A)
    with pytest.raises(Unauthorized):
        await shoot.version()
    secret = await world.seed.read_secret(A)
    assert await (await world.connector.connect(secret)).version()


@in_a_world
async def test_a_token_that_overlaps_is_accepted_until_its_time_is_over(world, shoot, clock):
    world.faults.rotate_token(A, overlap=30)
    await clock.sleep(29)
    assert await shoot.version()
    await clock.sleep(2)
    with pytest.raises(Unauthorized):
        await shoot.leases()


@in_a_world
async def test_a_server_with_another_authority_is_not_trusted(world, shoot):
    with world.faults.certificate_untrusted(A), pytest.raises(CertificateUntrusted):
        await shoot.version()
    assert await shoot.version()
    world.faults.rotate_ca(A)
    with pytest.raises(CertificateUntrusted):
        await shoot.nodes()
    assert await (await world.connector.connect(await world.seed.read_secret(A))).version()


@in_a_world
async def test_kubeconfigs_that_may_not_be_used_are_refused_with_a_reason(world, server, clock):
    async def reason() -> str:
        with pytest.raises(CredentialRefused) as caught:
            await world.connector.connect(await world.seed.read_secret(A))
        return caught.value.reason

    with world.faults.kubeconfig_refused(A):
        assert await reason() == "exec"
    with world.faults.kubeconfig_without_token(A):
        assert await reason() == "no-token"
    assert await world.connector.connect(await world.seed.read_secret(A))


@in_a_world
async def test_what_is_no_kubeconfig_is_refused(shoot, world, clock):
    for content, reason in (
        (None, "no-kubeconfig"),
        (b"", "malformed"),
        (b'{"users": []}', "malformed"),
    ):
        with pytest.raises(CredentialRefused) as caught:
            await world.connector.connect(SecretView(A, "1", content))
        assert caught.value.reason == reason
    key = ObjectKey("Secret", A, SECRET_NAME)
    world.store.patch(key, {"data": {"kubeconfig": "not base64!"}})
    assert (await world.seed.read_secret(A)).kubeconfig is None


@in_a_world
async def test_a_secret_that_is_deleted_is_none_until_it_is_back(world, shoot, clock):
    with world.faults.kubeconfig_absent(A):
        assert await world.seed.read_secret(A) is None
        await clock.sleep(1)
        assert world.seed.secret(A) is None
    await clock.sleep(1)
    assert world.connect(A) is shoot


@in_a_world
async def test_the_same_content_is_the_same_connection_and_forgetting_closes_it(world, shoot):
    secret = world.seed.secret(A)
    assert await world.connector.connect(secret) is shoot
    world.connector.forget(A)
    assert world.connector.connected == frozenset()
    assert await world.connector.connect(secret) is not shoot


@in_a_world
async def test_429_says_how_long_to_wait_where_the_server_does(world, shoot):
    with world.faults.throttled(A), pytest.raises(Throttled) as caught:
        await shoot.leases()
    assert caught.value.retry_after is None
    with world.faults.throttled(A, 30), pytest.raises(Throttled) as caught:
        await shoot.version()
    assert caught.value.retry_after == 30


@in_a_world
async def test_a_throttled_server_still_serves_its_kubelets(world, server, clock):
    with world.faults.throttled(A):
        await clock.sleep(300)
        assert world.not_ready_nodes(A) == ()


@in_a_world
async def test_trouble_of_some_requests_is_not_that_of_kubelets(world, shoot, clock):
    with world.faults.trouble(A, Trouble(refused=True, what=frozenset({"nodes"}))):
        with pytest.raises(Unreachable):
            await shoot.nodes()
        await clock.sleep(300)
        assert await shoot.leases()
        assert world.journal.of(KCM) == ()


@in_a_world
async def test_about_a_fifth_of_the_requests_fails_at_an_error_rate_of_a_fifth(world, shoot):
    failed = 0
    with world.faults.errors(A, 0.2):
        for _ in range(500):
            try:
                await shoot.version()
            except ServerFault:
                failed += 1
    assert 70 < failed < 130


@in_a_world
async def test_more_latency_than_the_limit_is_no_answer(world, shoot, clock):
    with world.faults.latency(A, 2):
        before = clock.now()
        await shoot.leases()
        assert clock.now() - before == about(2.02)
    with world.faults.latency(A, 6), pytest.raises(Unreachable):
        await shoot.leases()


@in_a_world
async def test_one_right_can_be_missing_in_the_shoot(world, shoot):
    with world.faults.forbidden(A, "list", "nodes"):
        with pytest.raises(Forbidden, match="list nodes"):
            await shoot.nodes()
        assert await shoot.leases()


@in_a_world
async def test_the_storms_of_two_faults_add_up_and_end_one_by_one(world, shoot, clock):
    first, second = world.faults.latency(A, 1), world.faults.latency(A, 1)
    for expected in (2.02, 1.02, 0.02):
        before = clock.now()
        await shoot.version()
        assert clock.now() - before == about(expected)
        (first if expected > 2 else second).lift()
    second.lift()


# The seed.


@in_a_world
async def test_a_change_is_seen_by_the_watch_after_its_delay_and_live_at_once(world, server, clock):
    heard: list[SeedChange] = []
    world.seed.subscribe(heard.append)
    world.patch(A, KCM, {"spec": {"replicas": 0}})
    ref = reference(KCM)
    assert world.seed.dependent(A, ref).replicas == 1
    assert (await world.seed.read_dependent(A, ref)).replicas == 0
    await clock.sleep(0.02)
    assert heard == []
    await clock.sleep(0.02)
    assert world.seed.dependent(A, ref).replicas == 0
    assert heard == [SeedChange(Watched.DEPENDENTS, A)]


@pytest.mark.parametrize("what", Watched)
@in_a_world
async def test_a_stalled_watch_freezes_and_its_contact_grows_old(world, server, clock, what):
    fault = world.faults.watch_stalled(what)
    begin = clock.now()
    world.patch(A, KCM, {"spec": {"replicas": 0}})
    world.patch_cluster(A, {"spec": {"hibernation": {"enabled": True}}})
    world.faults.rotate_token(A)
    world.machine_phase(A, "machine-0", "Failed")
    before = seen(world)
    await clock.sleep(91)
    state = world.seed.watch_state(what)
    assert (state.last_contact, state.stale(clock.now())) == (begin, True)
    assert seen(world)[what] == before[what]
    others = [other for other in Watched if other is not what]
    assert all(seen(world)[other] != before[other] for other in others)
    assert not any(world.seed.watch_state(other).stale(clock.now()) for other in others)
    fault.lift()
    assert seen(world)[what] != before[what]
    assert not world.seed.watch_state(what).stale(clock.now())


def seen(world) -> dict[Watched, object]:
    return {
        Watched.CLUSTERS: dict(world.seed.clusters()),
        Watched.SECRETS: world.seed.secret(A).resource_version,
        Watched.MACHINES: world.seed.machines(A),
        Watched.DEPENDENTS: world.seed.dependent(A, reference(KCM)).replicas,
    }


@pytest.mark.parametrize("what", Watched)
@in_a_world
async def test_a_mute_watch_shows_what_is_new_after_each_silence(world, server, clock, what):
    with world.faults.watch_mute(what):
        before, begin = seen(world), clock.now()
        world.patch(A, KCM, {"spec": {"replicas": 0}})
        world.patch_cluster(A, {"spec": {"hibernation": {"enabled": True}}})
        world.faults.rotate_token(A)
        world.machine_phase(A, "machine-0", "Failed")
        await clock.sleep(SILENCE - 1)
        assert seen(world)[what] == before[what]
        assert world.seed.watch_state(what).last_contact == begin
        await clock.sleep(2)
        assert seen(world)[what] != before[what]
        for _ in range(300):
            await clock.sleep(1)
            assert clock.now() - world.seed.watch_state(what).last_contact <= SILENCE + 1
    world.patch(A, KCM, {"spec": {"replicas": 5}})
    await clock.sleep(1)
    assert seen(world)[Watched.DEPENDENTS] == 5
    assert world.seed.watch_state(what).last_contact == clock.now()


@in_a_world
async def test_a_watch_that_missed_more_than_the_log_holds_lists_anew(world, server, clock):
    heard: list[SeedChange] = []
    with world.faults.watch_stalled(Watched.CLUSTERS):
        world.faults.cluster_gone(A)
        world.add_shoot("shoot--local--b", nodes=0)
        await clock.sleep(1)
        world.store.compact()
        world.seed.subscribe(heard.append)
        assert set(world.seed.clusters()) == {A}
    assert set(world.seed.clusters()) == {"shoot--local--b"}
    assert set(heard) == {
        SeedChange(Watched.CLUSTERS, A),
        SeedChange(Watched.CLUSTERS, "shoot--local--b"),
    }


@in_a_world
async def test_a_stall_may_have_begun_long_ago(world, server, clock):
    with world.faults.watch_stalled(Watched.MACHINES, contact_ago=95):
        assert world.seed.watch_state(Watched.MACHINES).stale(clock.now())


@in_a_world
async def test_a_watch_that_never_listed_is_empty_and_not_synced(world, server, clock):
    with world.faults.watch_not_synced(Watched.CLUSTERS):
        state = world.seed.watch_state(Watched.CLUSTERS)
        assert (state.synced, state.last_contact, dict(world.seed.clusters())) == (False, None, {})
    assert world.seed.watch_state(Watched.CLUSTERS).synced
    assert set(world.seed.clusters()) == {A}


@in_a_world
async def test_one_patch_writes_count_and_keys_together(world, server, clock):
    ref = reference(KCM)
    view = world.seed.dependent(A, ref)
    patch = Patch(view.resource_version, 0, {ann.REPLICAS: "1", ann.MELTDOWN: ""})
    sent = clock.now()
    answer = await world.seed.patch_dependent(A, ref, patch, urgent=True)
    assert (answer.replicas, answer.protected, answer.generation) == (0, True, 2)
    assert world.replicas(A, KCM) == 0
    assert world.annotations(A, KCM) == {ann.REPLICAS: "1", ann.MELTDOWN: ""}
    assert world.protected(A)
    (write,) = world.journal.of(WATCHDOG, A, KCM)
    assert (write.sent, write.patch) == (sent, patch.body())
    assert write.at == about(sent + 0.01)


@in_a_world
async def test_a_patch_on_an_old_version_conflicts_and_is_not_in_the_journal(world, server):
    ref = reference(KCM)
    old = world.seed.dependent(A, ref).resource_version
    world.patch(A, KCM, {"metadata": {"annotations": {ann.IGNORE_SCALING: "true"}}})
    with pytest.raises(Conflict):
        await world.seed.patch_dependent(A, ref, Patch(old, 0))
    assert world.replicas(A, KCM) == 1
    assert world.journal.of(WATCHDOG) == ()


@in_a_world
async def test_what_is_gone_is_none_to_read_and_not_found_to_patch(world, server):
    world.delete(A, KCM)
    ref = reference(KCM)
    assert await world.seed.read_dependent(A, ref) is None
    assert await world.seed.read_cluster("nowhere") is None
    with pytest.raises(NotFound):
        await world.seed.patch_dependent(A, ref, Patch("1", 0))
    with pytest.raises(NotFound):
        await world.seed.read_scale(A, ref)


@in_a_world
async def test_another_kind_is_scaled_through_scale_with_the_version_of_the_answer_before(
    world, server
):
    world.add_dependent(A, ETCD, 3)
    view = await world.seed.read_dependent(A, ETCD)
    noted = await world.seed.patch_dependent(
        A, ETCD, Patch(view.resource_version, annotations={ann.REPLICAS: "3"})
    )
    with pytest.raises(Conflict):
        await world.seed.patch_scale(A, ETCD, Patch(view.resource_version, 0))
    scale = await world.seed.patch_scale(A, ETCD, Patch(noted.resource_version, 0))
    assert (scale.replicas, scale.current) == (0, 3)
    assert world.replicas(A, ETCD) == 0
    assert [write.verb for write in world.journal.of(WATCHDOG)] == ["patch", "scale"]


@in_a_world
async def test_machines_are_read_live(world, server):
    world.machine_phase(A, "machine-0", "Failed")
    world.delete_machine(A, "machine-1")
    machines = await world.seed.read_machines(A, urgent=True)
    assert [(m.node, m.alive) for m in machines] == [
        ("node-0", False),
        ("node-2", True),
        ("node-3", True),
    ]


@in_a_world
async def test_a_forbidden_patch_is_forbidden_and_reads_go_on(world, server):
    ref = reference(KCM)
    with world.faults.patch_forbidden("deployments"):
        with pytest.raises(Forbidden, match="patch deployments"):
            await world.seed.patch_dependent(A, ref, Patch("1", 0))
        assert await world.seed.read_dependent(A, ref)
    assert world.replicas(A, KCM) == 1


@in_a_world
async def test_a_seed_in_trouble_fails_live_reads_and_not_what_is_watched(world, server, clock):
    with world.faults.seed_down(), pytest.raises(Unreachable):
        await world.seed.read_cluster(A)
    with world.faults.seed_errors(), pytest.raises(ServerFault):
        await world.seed.read_machines(A)
    assert set(world.seed.clusters()) == {A}


@in_a_world
async def test_urgent_requests_are_given_up_on_sooner(world, server, clock):
    with world.faults.seed_trouble(Trouble(silent=True)):
        for urgent, limit in ((True, 5), (False, 10)):
            before = clock.now()
            with pytest.raises(Unreachable):
                await world.seed.read_cluster(A, urgent=urgent)
            assert clock.now() - before == about(limit)


@in_a_world
async def test_a_write_that_was_not_sent_through_in_time_did_not_happen(world, server, clock):
    ref = reference(KCM)
    version = world.seed.dependent(A, ref).resource_version
    with world.faults.seed_trouble(Trouble(silent=True)), pytest.raises(Unreachable):
        await world.seed.patch_dependent(A, ref, Patch(version, 0), urgent=True)
    await clock.sleep(60)
    assert world.replicas(A, KCM) == 1


@in_a_world
async def test_a_write_whose_answer_came_too_late_did_happen(world, server, clock):
    ref = reference(KCM)
    version = world.seed.dependent(A, ref).resource_version
    with world.faults.seed_trouble(Trouble(latency=6)), pytest.raises(Unreachable):
        await world.seed.patch_dependent(A, ref, Patch(version, 0), urgent=True)
    assert world.replicas(A, KCM) == 0


@in_a_world
async def test_the_life_of_a_shoot_is_told_by_its_cluster(world, server):
    def clusters():
        world.faults.watch_not_synced(Watched.CLUSTERS).lift()
        return world.seed.clusters()

    def shoot() -> Any:
        return clusters()[A].shoot

    assert clusters()[A].shoot.last_operation.type == "Reconcile"
    with world.faults.hibernated(A):
        assert shoot().hibernation_enabled
    assert not shoot().hibernation_enabled
    with world.faults.migrating(A):
        assert shoot().last_operation.type == "Migrate"
    assert shoot().last_operation.state == "Succeeded"
    with world.faults.deleted(A):
        assert clusters()[A].deleting
    assert not clusters()[A].deleting
    with world.faults.undecodable(A):
        assert isinstance(clusters()[A].shoot, Undecodable)
    assert isinstance(shoot(), ShootView)
    with world.faults.cluster_gone(A):
        assert A not in clusters()
    assert A in clusters()


@in_a_world
async def test_a_cluster_shows_the_grace_and_the_conditions_of_its_pools(world):
    world.add_shoot(A, grace="1m40s", nodes=0)
    workers = [{"name": "x", "machineControllerManager": {"nodeConditions": ["Broken"]}}]
    world.patch_cluster(A, {"spec": {"provider": {"workers": workers}}})
    view = (await world.seed.read_cluster(A)).shoot
    assert view.node_monitor_grace == 100
    assert view.workers[0].node_conditions == {"Broken"}


# The rest.


@in_a_world
async def test_requests_are_counted_by_host_verb_and_what_failed_ones_too(world, shoot):
    await shoot.version()
    await shoot.leases(new_connection=True)
    await shoot.contact()
    with world.faults.api_down(A), pytest.raises(Unreachable):
        await shoot.contact()
    await world.seed.read_machines(A)
    total = world.requests.total
    assert total(Host.SHOOT) == 4
    assert total(Host.SHOOT, "list", "contact") == 2
    assert total(Host.SEED, "list", "machines", A) == 1
    assert total(namespace="shoot--local--b") == 0
    assert world.requests.connections == {A: 1}
    world.requests.reset()
    assert total() == 0


async def test_whoever_listens_hears_when_leadership_changes_and_only_then():
    leadership, heard = SimulatedLeadership(), []
    leadership.subscribe(lambda: heard.append((leadership.leading, leadership.may_probe)))
    leadership.become(leading=True, may_probe=False)
    leadership.become(leading=False)
    leadership.become(leading=False, may_probe=False)
    assert heard == [(False, True), (False, False)]


@in_a_world
async def test_a_right_that_is_denied_is_missing(world):
    right = Permission("patch", "apps", "deployments")
    other = Permission("get", "apps", "deployments")
    world.access.denied.add(right)
    assert await world.access.missing([other, right]) == (right,)
