"""When an endpoint probe with several targets counts as well."""

import pytest

from app.core.model.endpoints import CachedResult, Effect, ProbeType, Waiting
from app.prober.endpoints.worker import EndpointResultView, ProbeTarget
from app.service.loops import succeeded

WELL, ILL, UNKNOWN = CachedResult.SUCCESS, CachedResult.FAILURE, CachedResult.UNKNOWN


def view(result, *, kind=ProbeType.READINESS, counted=True, name="etcd", pod="etcd-0", **more):
    target = ProbeTarget(uid=pod, pod=pod, container="etcd")
    return EndpointResultView(
        name, kind, Effect.OBSERVE, target, result, counted, since=None, **more
    )


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        ([], {}),
        ([view(WELL)], {"etcd": True}),
        ([view(ILL)], {"etcd": False}),
        ([view(WELL), view(ILL, pod="etcd-1")], {"etcd": False}),
        ([view(ILL), view(WELL, pod="etcd-1")], {"etcd": False}),
        ([view(WELL), view(WELL, pod="etcd-1")], {"etcd": True}),
    ],
    ids=["no target", "well", "ill", "the second ill", "the first ill", "both well"],
)
def test_all_targets_of_a_probe_have_to_be_well(views, expected):
    assert succeeded(views) == expected


@pytest.mark.parametrize("initial", [WELL, ILL, UNKNOWN], ids=str)
def test_a_result_that_no_run_gave_says_nothing(initial):
    assert succeeded([view(initial, counted=False)]) == {}
    assert succeeded([view(initial, counted=False), view(WELL, pod="etcd-1")]) == {"etcd": True}
    assert succeeded([view(ILL), view(initial, counted=False, pod="etcd-1")]) == {"etcd": False}


def test_probes_are_judged_by_name():
    views = [view(ILL), view(WELL, name="canary"), view(WELL, pod="etcd-1")]
    assert succeeded(views) == {"etcd": False, "canary": True}


def stopped(**more):
    """What is seen of a target whose container is not running; so the worker has it."""
    return view(ILL, counted=False, waiting=Waiting.NOT_RUNNING, **more)


def test_a_container_that_is_not_running_is_not_ready():
    assert succeeded([stopped()]) == {"etcd": False}
    assert succeeded([stopped(), view(WELL, pod="etcd-1")]) == {"etcd": False}
    assert succeeded([view(WELL, pod="etcd-1"), stopped()]) == {"etcd": False}


@pytest.mark.parametrize("kind", [ProbeType.LIVENESS, ProbeType.STARTUP], ids=str)
def test_a_container_that_is_not_running_says_nothing_of_the_other_types(kind):
    assert succeeded([stopped(kind=kind)]) == {}


@pytest.mark.parametrize("waiting", sorted(set(Waiting) - {Waiting.NOT_RUNNING}), ids=str)
def test_a_target_that_waits_for_anything_else_and_was_never_seen_says_nothing(waiting):
    assert succeeded([view(ILL, counted=False, waiting=waiting)]) == {}
