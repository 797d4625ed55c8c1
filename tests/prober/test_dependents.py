"""Dependents as people see and mark them: live reads, ignore-scaling, If-Match, races."""

import asyncio
from dataclasses import replace

import pytest

from app.core import errors
from app.core.model import workloads
from app.core.model import workloads as ann
from app.core.model.overrides import IgnoreRequest
from app.core.ports import Watched
from app.prober.scaling.operations import PATIENCE, Dependents
from app.simulation.traffic import Trouble
from tests.support.harness import CA, ETCD, GARDENER, KCM, MCM, SHOOT, WITH_ETCD


def order(ref=KCM, *, ignored=True, **more):
    reason = "I look after it" if ignored else None
    return IgnoreRequest(SHOOT, ref, ignored=ignored, author="alice", reason=reason, **more)


def annotation(harness, ref=KCM):
    return harness.world.annotations(SHOOT, ref).get(ann.IGNORE_SCALING)


@pytest.fixture
async def harness(lab):
    """A prober that has not probed its shoot yet."""
    return lab.prober(lab.with_shoot())


@pytest.fixture
def dependents(harness):
    return Dependents(harness.environment)


class Racing:
    """A seed at which something happens right before each patch, or after it."""

    def __init__(self, seed, *, before=None, after=None):
        self._seed, self._before, self._after = seed, before, after
        self.patches = 0
        self.urgent = False

    def __getattr__(self, name):
        return getattr(self._seed, name)

    async def patch_dependent(self, *args, **more):
        self.patches += 1
        self.urgent |= more.get("urgent", False)
        if self._before is not None:
            self._before(self.patches)
        written = await self._seed.patch_dependent(*args, **more)
        if self._after is not None:
            self._after(self.patches)
        return written


def racing(harness, **hooks):
    seed = Racing(harness.environment.seed, **hooks)
    return Dependents(replace(harness.environment, seed=seed)), seed


# Reading.


async def test_each_configured_dependent_is_read_as_it_is_now(harness, dependents):
    with harness.faults.watch_stalled(Watched.DEPENDENTS):
        harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 4}})
        views = await dependents.live(SHOOT)
    assert list(views) == [KCM, MCM, CA]
    assert [view and view.replicas for view in views.values()] == [4, 1, 1]


async def test_one_that_does_not_exist_is_none(harness, dependents):
    harness.world.delete(SHOOT, CA)
    assert (await dependents.live(SHOOT))[CA] is None


async def test_sizes_that_only_scale_knows_are_read_and_the_version_stays_that_of_the_object(lab):
    world = lab.world()
    world.add_shoot(SHOOT, replicas={KCM: 1, MCM: 1, CA: 1, ETCD: 3})
    harness = lab.prober(world, dependents=WITH_ETCD)
    found = Dependents(harness.environment)
    view = (await found.live(SHOOT))[ETCD]
    assert view is not None
    assert view.replicas == 3
    before, after = await found.set_ignored(order(ETCD))
    assert (before.replicas, after.replicas) == (3, 3)
    assert annotation(harness, ETCD) == "true"


async def test_a_read_that_fails_is_the_error_of_all(harness, dependents):
    with harness.faults.seed_down(), pytest.raises(errors.ClusterError):
        await dependents.live(SHOOT)


# Writing and removing.


async def test_ignore_scaling_is_written_and_told_with_an_event(harness, dependents):
    before, after = await dependents.set_ignored(order())
    assert annotation(harness) == "true"
    assert (ann.IGNORE_SCALING in before.annotations, after.annotations[ann.IGNORE_SCALING]) == (
        False,
        "true",
    )
    (notice,) = harness.told("OverrideSet")
    assert (notice.kind, notice.resource, notice.event) == ("Override", KCM, notice.message)
    assert (notice.resource_uid, notice.action) == (after.uid, "SetOverride")
    assert (notice.at, notice.override, notice.author, notice.replicas) == (
        harness.now,
        "ignore-scaling",
        "alice",
        1,
    )
    assert notice.message == (
        "alice set ignore-scaling of Deployment/kube-controller-manager: I look after it"
    )


async def test_it_is_removed_whatever_its_value(harness, dependents):
    for value in ("true", "false", "nonsense"):
        harness.annotate(KCM, ignore_scaling=value)
        _, after = await dependents.set_ignored(order(ignored=False))
        assert annotation(harness) is None
        assert ann.IGNORE_SCALING not in after.annotations
    assert [(each.action, each.message) for each in harness.told("OverrideEnded")] == [
        ("EndOverride", "alice removed ignore-scaling of Deployment/kube-controller-manager")
    ] * 3


@pytest.mark.parametrize("ignored", [True, False])
async def test_a_dry_run_shows_what_would_come_of_it_and_writes_nothing(
    harness, dependents, ignored
):
    there = None if ignored else "true"
    harness.annotate(KCM, ignore_scaling=there, replicas="7")
    before, after = await dependents.set_ignored(order(ignored=ignored, dry_run=True))
    new = {ann.IGNORE_SCALING: "true"} if ignored else {}
    assert after == replace(before, annotations={ann.REPLICAS: "7", **new})
    assert annotation(harness) == there
    assert not harness.notices


@pytest.mark.parametrize("value", ["false", "nonsense"])
async def test_a_value_that_is_not_heeded_is_written_over(harness, dependents, value):
    harness.annotate(KCM, ignore_scaling=value)
    await dependents.set_ignored(order())
    assert annotation(harness) == "true"


@pytest.mark.parametrize(("ignored", "value"), [(True, "T"), (False, None)])
async def test_where_there_is_nothing_to_do_nothing_is_written_or_told(
    harness, dependents, ignored, value
):
    if value is not None:
        harness.annotate(KCM, ignore_scaling=value)
    before, after = await dependents.set_ignored(order(ignored=ignored))
    assert before == after
    assert annotation(harness) == value
    assert not harness.writes(KCM)
    assert not harness.told("OverrideSet") + harness.told("OverrideEnded")


# Refusals: nothing is written.


async def test_at_0_it_is_refused_without_force(harness, dependents):
    harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    with pytest.raises(errors.Refused, match=r"is at 0 and would stay there.* use force$"):
        await dependents.set_ignored(order())
    assert not harness.writes(KCM)
    await dependents.set_ignored(order(force=True))
    assert annotation(harness) == "true"


async def test_what_is_ignored_at_0_already_needs_no_force(harness, dependents):
    harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    harness.annotate(KCM, ignore_scaling="true")
    await dependents.set_ignored(order())
    await dependents.set_ignored(order(ignored=False))
    assert annotation(harness) is None


@pytest.mark.parametrize("ignored", [True, False])
async def test_what_does_not_exist_is_not_found(harness, dependents, ignored):
    harness.world.delete(SHOOT, CA)
    with pytest.raises(errors.NotFound, match="has no dependent Deployment/cluster-autoscaler"):
        await dependents.set_ignored(order(CA, ignored=ignored))


async def test_what_is_not_configured_is_not_found_and_not_even_read(harness):
    others = tuple(each for each in GARDENER.dependents if each.ref != CA)
    policy = replace(GARDENER, dependents=others)
    found = Dependents(replace(harness.environment, policy=policy))
    with pytest.raises(errors.NotFound):
        await found.set_ignored(order(CA))
    assert annotation(harness, CA) is None


async def test_a_missing_right_is_told_and_nothing_is_so(harness, dependents):
    with harness.faults.patch_forbidden(), pytest.raises(errors.Forbidden):
        await dependents.set_ignored(order())
    assert annotation(harness) is None
    assert not harness.told("OverrideSet")


# If-Match.


@pytest.mark.parametrize("which", ["one", "all", "any", "list"])
async def test_the_etag_of_the_resource_and_that_of_all_are_accepted(harness, dependents, which):
    views = await dependents.live(SHOOT)
    one, every = workloads.resource_etag(views[KCM]), workloads.list_etag(views)
    tag = {"one": one, "all": every, "any": "*", "list": f'"x", {every}'}[which]
    await dependents.set_ignored(order(if_match=tag))
    assert annotation(harness) == "true"


@pytest.mark.parametrize("tag", ['"x", "y"', "", "x"])
async def test_another_etag_is_refused(harness, dependents, tag):
    with pytest.raises(errors.VersionChanged, match="is not what If-Match names"):
        await dependents.set_ignored(order(if_match=tag))
    assert annotation(harness) is None


async def test_the_etag_of_all_is_old_when_another_resource_has_changed(harness, dependents):
    views = await dependents.live(SHOOT)
    harness.world.patch(SHOOT, MCM, {"spec": {"replicas": 3}})
    with pytest.raises(errors.VersionChanged):
        await dependents.set_ignored(order(if_match=workloads.list_etag(views)))
    await dependents.set_ignored(order(if_match=workloads.resource_etag(views[KCM])))
    assert annotation(harness) == "true"


# Races: what is written was judged on what is there.


def label(harness, number):
    harness.world.patch(SHOOT, KCM, {"metadata": {"labels": {"n": str(number)}}})


async def test_a_conflict_is_judged_anew_once(harness):
    found, seed = racing(harness, before=lambda n: label(harness, n) if n == 1 else None)
    await found.set_ignored(order())
    assert annotation(harness) == "true"
    assert seed.patches == 2
    assert len(harness.told("OverrideSet")) == 1


async def test_a_second_conflict_is_told(harness):
    found, seed = racing(harness, before=lambda n: label(harness, n))
    with pytest.raises(errors.Conflict):
        await found.set_ignored(order())
    assert annotation(harness) is None
    assert seed.patches == 2


async def test_who_names_what_he_saw_is_told_when_that_changes_before_the_write(
    harness, dependents
):
    tag = workloads.resource_etag((await dependents.live(SHOOT))[KCM])

    def scale(number):
        harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 1 + number}})

    found, seed = racing(harness, before=scale)
    with pytest.raises(errors.VersionChanged):
        await found.set_ignored(order(if_match=tag))
    assert annotation(harness) is None
    assert seed.patches == 1


async def test_one_that_goes_to_0_between_check_and_write_is_refused(harness):
    def at_zero(number):
        if number == 1:
            harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})

    found, seed = racing(harness, before=at_zero)
    with pytest.raises(errors.Refused):
        await found.set_ignored(order())
    assert annotation(harness) is None
    assert seed.patches == 1


async def test_a_write_whose_answer_is_lost_counts_where_it_was_done(harness):
    def lost(number):
        raise errors_after[number]

    errors_after = {1: errors.Unreachable("cut")}
    found, seed = racing(harness, after=lost)
    _, after = await found.set_ignored(order())
    assert after.annotations[ann.IGNORE_SCALING] == "true"
    assert seed.patches == 1
    assert len(harness.told("OverrideSet")) == 1


async def test_a_write_whose_answer_is_lost_and_that_was_not_done_fails(harness, dependents):
    trouble = Trouble(error_rate=1.0, verbs=frozenset({"patch"}))
    with harness.faults.seed_trouble(trouble), pytest.raises(errors.ClusterError):
        await dependents.set_ignored(order())
    assert annotation(harness) is None
    assert not harness.told("OverrideSet")


async def test_it_is_a_request_of_the_normal_budget(harness):
    found, seed = racing(harness)
    await found.set_ignored(order())
    assert seed.patches == 1
    assert not seed.urgent


class Budgeted:
    """A seed with a budget of so many spare reads; each takes a tenth of a second."""

    def __init__(self, harness, left=1_000):
        self._seed, self._clock, self.left = harness.environment.seed, harness.clock, left
        self.spare, self.normal, self.in_flight, self.most = 0, 0, 0, 0
        self.error = errors.Throttled("not sent: the request budget for the seed is used up")

    def __getattr__(self, name):
        return getattr(self._seed, name)

    async def read_dependent(self, namespace, ref, *, spare=False):
        await self._count(spare=spare)
        return await self._seed.read_dependent(namespace, ref)

    async def read_scale(self, namespace, ref, *, spare=False):
        await self._count(spare=spare)
        return await self._seed.read_scale(namespace, ref)

    async def _count(self, *, spare):
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await self._clock.sleep(0.1)
        self.in_flight -= 1
        if spare and not self.left:
            raise self.error
        self.left, self.spare = self.left - spare, self.spare + spare
        self.normal += not spare


@pytest.fixture
async def budgeted(lab):
    """The dependents, of which one has its replicas in `scale` alone; and their seed."""
    world = lab.world()
    world.add_shoot(SHOOT, replicas={KCM: 1, MCM: 1, CA: 1, ETCD: 3})
    harness = lab.prober(world, dependents=WITH_ETCD)
    seed = Budgeted(harness)
    return Dependents(replace(harness.environment, seed=seed)), seed, harness


async def test_whoever_wants_to_see_takes_what_is_left_of_the_budget_two_reads_at_a_time(budgeted):
    dependents, seed, _ = budgeted
    await asyncio.gather(*(dependents.live(SHOOT) for _ in range(10)))
    assert (seed.spare, seed.normal, seed.most) == (10 * (len(WITH_ETCD) + 1), 0, 2)


async def test_a_probe_waits_for_the_budget_a_moment(budgeted):
    dependents, seed, harness = budgeted
    seed.left = 2
    look = asyncio.ensure_future(dependents.live(SHOOT))
    await harness.run(1)
    assert not look.done()
    seed.left = 100
    assert len(await look) == len(WITH_ETCD)
    assert seed.spare == len(WITH_ETCD) + 1  # what was read is not read again


async def test_where_nothing_is_left_no_probe_waits_for_long_and_a_write_does_not_care(budgeted):
    dependents, seed, harness = budgeted
    seed.left = 0
    began = harness.now
    probes = [asyncio.ensure_future(dependents.live(SHOOT)) for _ in range(5)]
    await dependents.set_ignored(order(if_match="*"))
    assert harness.now - began < 1
    assert seed.normal == len(WITH_ETCD) + 1
    found = await asyncio.gather(*probes, return_exceptions=True)
    assert {type(each) for each in found} == {errors.Throttled}
    assert harness.now - began < PATIENCE + 3


async def test_a_seed_that_asks_for_a_pause_gets_it(budgeted):
    dependents, seed, harness = budgeted
    seed.left, seed.error = 0, errors.Throttled("slow down", status=429, retry_after=7.0)
    began = harness.now
    with pytest.raises(errors.Throttled, match="slow down"):
        await dependents.live(SHOOT)
    assert harness.now - began < 1
