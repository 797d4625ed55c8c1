"""When an endpoint probe with several targets counts as well."""

import pytest

from app.core.model.endpoints import Effect, ProbeType
from app.prober.endpoints.results import Target
from app.prober.endpoints.views import EndpointView
from app.prober.rules.endpoints import Result
from app.service.endpointmetrics import succeeded

WELL, ILL, UNKNOWN = Result.SUCCESS, Result.FAILURE, Result.UNKNOWN


def view(result, *, counted=True, name="etcd", pod="etcd-0"):
    target = Target(uid=pod, pod=pod, container="etcd")
    return EndpointView(
        name, ProbeType.READINESS, Effect.OBSERVE, target, result, counted, since=None
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
