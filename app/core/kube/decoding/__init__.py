"""Decodes the JSON of API servers into the records that rules read; pure, and the only place that knows the format.

Only the few needed fields are decoded; msgspec skips the rest without creating objects for it. Real servers send `null`
for what Go omits, so every optional member may be `null`, too.
"""

from app.core.kube.decoding.envelope import (
    Meta,
    Raw,
    RawPage,
    WatchEvent,
    bookmark,
    identity,
    raw_page,
    resource_list,
    status_error,
    status_message,
    watch_event,
)
from app.core.kube.decoding.overrides import pause, scale_request
from app.core.kube.decoding.pods import SERVICE_LABEL, accepted, endpoint_slice, pod, probed_pod
from app.core.kube.decoding.seed_objects import (
    cluster,
    machine,
    scale,
    secret,
    secret_of,
    workload,
)
from app.core.kube.decoding.shoot_objects import leases, nodes, version

__all__ = [
    "SERVICE_LABEL",
    "Meta",
    "Raw",
    "RawPage",
    "WatchEvent",
    "accepted",
    "bookmark",
    "cluster",
    "endpoint_slice",
    "identity",
    "leases",
    "machine",
    "nodes",
    "pause",
    "pod",
    "probed_pod",
    "raw_page",
    "resource_list",
    "scale",
    "scale_request",
    "secret",
    "secret_of",
    "status_error",
    "status_message",
    "version",
    "watch_event",
    "workload",
]
