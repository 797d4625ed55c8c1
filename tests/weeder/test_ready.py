"""When a service is ready, and what of its slices is a change."""

from app.core.model.weeding import Cause, ServiceKey
from app.simulation.store import ObjectKey
from app.simulation.workloads import Workload
from tests.support.weeding import API, NAMESPACE, SCHEDULER


async def test_what_is_not_told_of_readiness_counts_as_ready(harness):
    fault = await harness.lose()
    harness.crash(SCHEDULER)
    harness.world.faults.readiness_untold(*API)
    await harness.run(1)
    assert harness.status().ready
    assert len(harness.names()) == 1
    fault.lift()


async def test_a_change_within_a_burst_is_seen(harness):
    """Not ready, ready, within one batch of the watch: dependants may have crashed in between."""
    await harness.run(5)
    (only,) = harness.world.slices(*API)
    key = ObjectKey("EndpointSlice", NAMESPACE, only.name)
    body = harness.world.store.get(key)
    none_ready = [{**each, "conditions": {"ready": False}} for each in body["endpoints"]]
    harness.crash(SCHEDULER)
    harness.world.store.patch(key, {"endpoints": none_ready})
    harness.world.store.patch(key, {"endpoints": body["endpoints"]})
    await harness.run(1)
    assert harness.recovery().cause is Cause.BECAME_READY
    assert len(harness.names()) == 1


async def test_a_service_that_nobody_configured_is_none_of_ours(lab):
    world = lab.world()
    world.add_workload(Workload(NAMESPACE, "other", service="other"))
    harness = lab.weeder(world)
    fault = world.faults.service_unready(NAMESPACE, "other")
    await harness.run(2)
    fault.lift()
    await harness.run(2)
    assert harness.weeder.registry.services() == ()
    assert harness.weeder.controller.status(ServiceKey(NAMESPACE, "other")) is None
