"""Short names for the facts that the weeder's rules are asked about."""

from app.core.model.weeding import (
    CRASH_LOOP,
    ContainerView,
    OwnerView,
    PodView,
    SliceEndpoint,
    SliceView,
)

NOW = 1_800_000_000.0
NAMESPACE = "shoot--a--b"


def owner(uid="rs-1", kind="ReplicaSet"):
    return OwnerView("apps/v1", kind, f"kube-scheduler-{uid}", uid)


OWNER = owner()


def crashed(name="main", restarts=6, ago=0.0, *, init=False, backoff=None):
    """A container that waits in CrashLoopBackOff and exited `ago` seconds before NOW, or at a time not told."""
    exited = None if ago is None else NOW - ago
    return ContainerView(name, CRASH_LOOP, restarts, exited, init, backoff)


def running(name="side"):
    return ContainerView(name, None, 0)


def pod(uid="p-1", *containers, owner=OWNER, labels=None, terminating=False, ready_since=None):
    """A pod; one that crashed just now where no containers are given."""
    return PodView(
        NAMESPACE,
        f"pod-{uid}",
        uid,
        "7",
        labels or {},
        owner,
        terminating,
        containers or (crashed(),),
        ready_since,
    )


def piece(*endpoints, name="s", service="kube-apiserver"):
    """A slice; endpoints are names of ready pods, or EndpointViews."""
    views = tuple(e if isinstance(e, SliceEndpoint) else SliceEndpoint(True, e) for e in endpoints)
    return SliceView(NAMESPACE, name, service, "7", views)


def down(name="down"):
    """An endpoint that is not ready."""
    return SliceEndpoint(ready=False, pod=name)
