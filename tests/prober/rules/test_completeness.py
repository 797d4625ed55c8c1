"""Whether a dependent is where a scaling run leaves it: then what that could not do is no failure any more."""

from dataclasses import replace

import pytest

from app.core.model import workloads as ann
from app.core.model.policy import DependentPolicy
from app.core.model.workloads import Direction
from app.prober.rules import scaling
from tests.prober.rules.facts import KCM, NOW, protected, workload

UP, DOWN = Direction.UP, Direction.DOWN


def complete(view, direction=UP, *, optional=False):
    dependent = DependentPolicy(KCM, optional=optional)
    pending = scaling.pending_writes([dependent], {KCM: view}, NOW)
    ((planned,),) = pending.plans[direction]
    return scaling.complete(planned, direction)


def with_pods(view, pods):
    return replace(view, ready=pods, current=pods, generation=1, observed_generation=1)


def test_on_the_way_up_it_is_up_with_a_pod_that_is_ready_and_without_keys():
    assert complete(with_pods(workload(2), 2))
    assert not complete(with_pods(workload(2), 0))
    assert not complete(with_pods(protected(0, "2"), 0))
    assert not complete(with_pods(workload(2, {ann.REPLICAS: "2"}), 2))


def test_on_the_way_down_it_is_at_0_and_its_pods_are_gone():
    assert complete(with_pods(protected(0, "2"), 0), DOWN)
    assert not complete(with_pods(protected(0, "2"), 2), DOWN)
    assert not complete(with_pods(workload(2), 2), DOWN)


@pytest.mark.parametrize("direction", Direction)
def test_what_is_skipped_does_not_matter(direction):
    assert complete(None, direction, optional=True)
    assert complete(workload(0, {ann.IGNORE_SCALING: "true"}), direction)


@pytest.mark.parametrize("direction", Direction)
def test_what_is_missing_and_not_optional_is_not_complete(direction):
    assert not complete(None, direction)
