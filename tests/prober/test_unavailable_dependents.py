"""Dependents of a kind that the seed does not serve, or that may not be listed: they fail, and hold up nothing else."""

import pytest

from app.core.errors import Forbidden, NotFound
from app.core.model.policy import DependentPolicy, OnFailure, ScalePolicy
from app.core.model.probing import ShootState, VerdictReason
from app.core.model.scaling_runs import OperationPhase, ScaleSpec
from app.core.model.workloads import Direction, ResourceRef
from app.core.ports import Watched
from app.simulation.traffic import Host
from tests.prober.people import with_operator
from tests.support.harness import CA, GARDENER, KCM, MCM, SHOOT

WIDGET = ResourceRef("example.org/v1", "Widget", "thing")
NOT_SERVED = NotFound("the seed serves no Widget of example.org/v1")
NOT_LISTED = Forbidden("list deployments: 403 (Forbidden)", status=403)
FIRST = (DependentPolicy(WIDGET, ScalePolicy(0), ScalePolicy(0)), *GARDENER.dependents)
"""The widget is in the first level of either direction: a failure that stopped a scaling run would stop all that
follows."""


@pytest.fixture(params=[OnFailure.CONTINUE, OnFailure.STOP])
async def unserved(request, lab):
    """A healthy shoot in a seed that serves no Widget, and a prober that is to scale one."""
    world = lab.with_shoot()
    fault = world.faults.dependent_unavailable(WIDGET, NOT_SERVED)
    policies = {"on_scale_down_failure": request.param, "on_scale_up_failure": request.param}
    harness = lab.prober(world, dependents=FIRST, **policies)
    harness.fault = fault
    return harness


async def test_all_others_are_protected_and_come_back(unserved):
    await unserved.run(60)
    assert unserved.state() is ShootState.HEALTHY
    with unserved.world.faults.path_cut(SHOOT):
        await unserved.protect()
        assert unserved.replicas() == (0, 0, 0)
    await unserved.run(120)
    assert unserved.replicas() == (1, 1, 1)
    assert unserved.state() is ShootState.HEALTHY


async def test_it_fails_once_in_each_run_and_says_why(unserved):
    await unserved.run(60)
    with unserved.world.faults.path_cut(SHOOT):
        await unserved.protect()
        await unserved.run(60)
        assert unserved.state() is ShootState.PROTECTED
        assert unserved.scaling() == ("False", f"{WIDGET}: {NOT_SERVED}")
    await unserved.run(120)
    assert [(each.resource, each.message) for each in unserved.told("ScalingFailed")] == [
        (WIDGET, f"scaling {WIDGET} down failed: {NOT_SERVED}"),
        (WIDGET, f"scaling {WIDGET} up failed: {NOT_SERVED}"),
    ]
    assert unserved.scaling() == ("False", f"{WIDGET}: {NOT_SERVED}")


async def test_no_run_asks_for_it(unserved):
    await unserved.run(60)
    unserved.world.requests.reset()
    await unserved.survive_an_outage()
    await unserved.run(120)
    assert not unserved.world.requests.live(Host.SEED, what="widgets")


async def test_it_takes_part_as_soon_as_it_is_served(unserved):
    await unserved.run(60)
    with unserved.world.faults.path_cut(SHOOT):
        await unserved.protect()
        unserved.world.add_dependent(SHOOT, WIDGET, 3)
        unserved.fault.lift()
        await unserved.until(lambda: unserved.world.replicas(SHOOT, WIDGET) == 0, within=40)
        await unserved.run(10)
        assert unserved.scaling()[0] == "True"
    await unserved.run(120)
    assert unserved.world.replicas(SHOOT, WIDGET) == 3
    assert unserved.replicas() == (1, 1, 1)
    assert unserved.state() is ShootState.HEALTHY


@pytest.mark.parametrize(
    ("ref", "in_the_outage"),
    [
        pytest.param(MCM, (0, 1, 0), id="with the right to read and to patch it"),
        pytest.param(CA, (0, 0, 1), id="though it is optional: it is not missing"),
    ],
)
async def test_what_may_not_be_listed_is_left_alone_as_nobody_would_see_it_come_back(
    lab, ref, in_the_outage
):
    world = lab.world()
    world.faults.dependent_unavailable(ref, NOT_LISTED)
    harness = await lab.healthy(world)
    with world.faults.path_cut(SHOOT):
        await harness.protect()
        assert harness.replicas() == in_the_outage
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)
    assert {each.resource for each in harness.told("ScalingFailed")} == {ref}


async def test_an_optional_one_of_a_kind_that_is_not_served_is_skipped(lab):
    optional = DependentPolicy(WIDGET, ScalePolicy(0), ScalePolicy(0), optional=True)
    harness = await lab.healthy(dependents=(optional, *GARDENER.dependents))
    async with harness.under_protection():
        assert harness.replicas() == (0, 0, 0)
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)
    assert not harness.told("ScalingFailed")


async def test_where_none_is_available_nothing_is_decided(lab):
    world = lab.with_shoot()
    for ref in (KCM, MCM, CA):
        world.faults.dependent_unavailable(ref, NOT_LISTED)
    world.faults.watch_not_opened(Watched.DEPENDENTS)
    harness = lab.prober(world)
    with world.faults.path_cut(SHOOT):
        await harness.run(90)
        assert harness.reason() is VerdictReason.NOT_SYNCED
        assert not harness.writes()


async def test_a_scale_up_by_hand_keeps_its_hold_though_it_fails_for_what_is_unavailable(lab):
    operator = await with_operator(
        lab, prepare=lambda world: world.faults.dependent_unavailable(CA, NOT_LISTED)
    )
    operation = await operator.ended((await operator.scale(Direction.DOWN)).id)
    assert operator.replicas() == (0, 0, 1)
    operation = await operator.ended((await operator.scale(Direction.UP)).id)
    assert operation.phase is OperationPhase.FAILED
    assert operation.message == (
        f"{CA}: list Deployment named {CA.name}: 403 (Forbidden): {NOT_LISTED}"
    )
    assert operator.replicas() == (1, 1, 1)
    await operator.run(5)
    held = operator.hold()
    assert held is not None
    assert held.operation == operation.id


async def test_people_see_and_scale_the_others(unserved):
    await unserved.run(60)
    views = await unserved.prober.dependents.live(SHOOT)
    assert {ref: view is None for ref, view in views.items()} == {
        WIDGET: True,
        KCM: False,
        MCM: False,
        CA: False,
    }
    spec = ScaleSpec(Direction.DOWN, "a test", "alice", 60.0, force=True)
    plan = await unserved.prober.scaling_runs.plan(SHOOT, spec)
    assert {each.resource: each.action for each in plan.steps}[WIDGET] == "Failed"
