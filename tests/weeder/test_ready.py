"""When a service is ready, and what of its slices is a change."""

from app.core.model.weeding import Cause, End
from app.simulation.store import ObjectKey
from app.simulation.workloads import Workload
from tests.support.weeding import API, NAMESPACE

SCHEDULER = "kube-scheduler"


async def test_a_service_is_ready_while_one_endpoint_in_any_of_its_slices_is(stand):
    stand.world.split_service(NAMESPACE, "kube-apiserver", 2)
    await stand.run(5)
    for pod in stand.world.pods(NAMESPACE, "kube-apiserver"):
        assert stand.status().ready
        key = ObjectKey("Pod", NAMESPACE, pod.name)
        conditions = [{"type": "Ready", "status": "False"}]
        stand.world.store.patch(key, {"status": {"conditions": conditions}}, status=True)
        await stand.run(1)
    assert not stand.status().ready
    assert stand.recoveries() == ()


async def test_what_is_not_told_of_readiness_counts_as_ready(stand):
    fault = await stand.lose()
    stand.crash(SCHEDULER)
    stand.world.faults.readiness_untold(*API)
    await stand.run(1)
    assert stand.status().ready
    assert len(stand.names()) == 1
    fault.lift()


async def test_without_endpoints_it_is_not_ready(stand):
    await stand.run(5)
    away = stand.world.faults.slices_gone(*API)
    await stand.run(1)
    assert stand.weeder.controller.status(API) is None, "nothing is known of it"
    stand.crash(SCHEDULER)
    away.lift()
    await stand.run(1)
    assert len(stand.names()) == 1


async def test_the_loss_of_one_of_two_slices_is_no_change(stand):
    stand.world.split_service(NAMESPACE, "kube-apiserver", 2)
    await stand.recover()
    stand.world.split_service(NAMESPACE, "kube-apiserver", 1)
    await stand.run(1)
    assert [each.end for each in stand.recoveries()] == [None]


async def test_a_deleted_slice_that_is_written_anew_is_a_loss_and_a_recovery(stand):
    await stand.recover()
    (only,) = stand.world.slices(*API)
    stand.crash(SCHEDULER)
    stand.world.delete_slice(NAMESPACE, only.name)
    await stand.run(1)
    assert [each.end for each in stand.recoveries()] == [None, End.LOST]
    assert len(stand.names()) == 1


async def test_a_change_within_a_burst_is_seen(stand):
    """Not ready, ready, within one batch of the watch: dependants may have crashed in between."""
    await stand.run(5)
    (only,) = stand.world.slices(*API)
    key = ObjectKey("EndpointSlice", NAMESPACE, only.name)
    body = stand.world.store.get(key)
    none_ready = [{**each, "conditions": {"ready": False}} for each in body["endpoints"]]
    stand.crash(SCHEDULER)
    stand.world.store.patch(key, {"endpoints": none_ready})
    stand.world.store.patch(key, {"endpoints": body["endpoints"]})
    await stand.run(1)
    assert stand.recovery().cause is Cause.BECAME_READY
    assert len(stand.names()) == 1


async def test_one_more_ready_endpoint_is_no_recovery(stand):
    await stand.run(5)
    pod, _ = stand.world.pods(NAMESPACE, "kube-apiserver")
    stand.world.delete_pod(NAMESPACE, pod.name)
    await stand.run(30)
    assert stand.status().ready
    assert stand.recoveries() == ()


async def test_a_slice_of_no_service_changes_nothing(stand):
    await stand.run(5)
    (only,) = stand.world.slices(*API)
    body = stand.world.store.get(ObjectKey("EndpointSlice", NAMESPACE, only.name))
    stray = {**body, "metadata": {"name": "stray", "namespace": NAMESPACE, "labels": {}}}
    stand.world.store.create(ObjectKey("EndpointSlice", NAMESPACE, "stray"), stray)
    fault = await stand.lose()
    assert not stand.status().ready
    fault.lift()


async def test_a_service_that_nobody_configured_is_none_of_ours(stage):
    world = stage.world()
    world.add_workload(Workload(NAMESPACE, "other", service="other"))
    stand = stage.weeder(world)
    fault = world.faults.service_unready(NAMESPACE, "other")
    await stand.run(2)
    fault.lift()
    await stand.run(2)
    assert stand.weeder.registry.services() == ()
