"""Deletion as an API server does it: at once, except for a running pod, which its kubelet has to stop first."""

from typing import Any, Final, NamedTuple

import msgspec

from app.core.errors import Conflict
from app.core.model.instants import parse_rfc3339, rfc3339
from app.simulation.store import Object, ObjectKey, Store, merge, version_of

POD: Final = "Pod"
# The default of `terminationGracePeriodSeconds`.
_GRACE: Final = 30
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class Preconditions(msgspec.Struct, frozen=True):
    """What must be so of the object; None: whatever it is."""

    uid: str | None = None
    version: str | None = msgspec.field(default=None, name="resourceVersion")


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a deletion, as clients send them."""

    kind: str = "DeleteOptions"
    preconditions: Preconditions | None = None
    grace: int | None = msgspec.field(default=None, name="gracePeriodSeconds")
    """Seconds that a pod has to stop; None for the pod's own value."""
    dry_run: list[str] | None = msgspec.field(default=None, name="dryRun")


class DeletionState(NamedTuple):
    """The result of a deletion."""

    object: Object
    """The current object, or its last state."""
    gone: bool
    """Whether the object is gone; otherwise it is terminating."""


class PreconditionFailed(Conflict):
    """A precondition does not hold."""

    def __init__(self, obj: Object, what: str, wanted: str, found: str, suspicion: str) -> None:
        self.kind, self.name = str(obj["kind"]), str(obj["metadata"]["name"])
        self.group = str(obj.get("apiVersion", "")).rpartition("/")[0]
        title = f"{self.kind}.{self.group}" if self.group else self.kind
        super().__init__(
            f'Operation cannot be fulfilled on {title} "{self.name}": the {what} in the precondition '
            f"({wanted}) does not match the {what} in record ({found}). The object might have been "
            f"{suspicion}",
            status=409,
        )


def delete(
    store: Store, key: ObjectKey, now: float, options: DeleteOptions | None = None
) -> DeletionState:
    """Deletes an object, or makes a running pod terminate.

    A pod on a node stays, terminating, until its kubelet deletes it with a grace of 0. One that is terminating
    already can only be made to stop sooner.

    Args:
        store: where it is.
        key: its name.
        now: the instant of the deletion.
        options: preconditions and grace.

    Raises:
        NotFound: there is none.
        Conflict: a precondition does not hold.
    """
    options = options or DeleteOptions()
    current = store.get(key)
    if options.preconditions is not None:
        _check(current, options.preconditions)
    if key.kind != POD:
        return DeletionState(store.delete(key), gone=True)
    mark = _mark(current, options.grace, now)
    marked = store.patch(key, mark) if mark else current
    if mark and marked["metadata"]["deletionGracePeriodSeconds"] == 0:
        store.delete(key)
        versioned = {"metadata": {"resourceVersion": str(store.version)}}
        return DeletionState(merge(marked, versioned), gone=True)
    return DeletionState(marked, gone=False)


def _check(current: Object, wanted: Preconditions) -> None:
    uid, version = str(current["metadata"]["uid"]), version_of(current)
    if wanted.uid not in (None, uid):
        recreated = "deleted and then recreated"
        raise PreconditionFailed(current, "UID", str(wanted.uid), uid, recreated)
    if wanted.version not in (None, version):
        asked = str(wanted.version)
        raise PreconditionFailed(current, "ResourceVersion", asked, version, "modified")


def _mark(pod: Object, grace: int | None, now: float) -> dict[str, Any]:
    """Returns the patch that makes a pod terminate, or terminate sooner; empty if it changes nothing."""
    metadata, period = pod["metadata"], _grace(pod, grace)
    since = parse_rfc3339(metadata.get("deletionTimestamp"))
    if since is None:
        return _terminating(now + period, period)
    before = int(metadata.get("deletionGracePeriodSeconds", 0))
    if grace is None or period >= before:
        return {}
    return _terminating(since - before + period, period)


def _grace(pod: Object, wanted: int | None) -> int:
    """Returns the seconds that a pod has to stop; 0 if no kubelet has to stop anything."""
    spec = pod.get("spec", {})
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in _FINISHED:
        return 0
    own = spec.get("terminationGracePeriodSeconds")
    period = wanted if wanted is not None else _GRACE if own is None else int(own)
    return 1 if period < 0 else period


def _terminating(at: float, period: int) -> dict[str, Any]:
    times = {"deletionTimestamp": rfc3339(at), "deletionGracePeriodSeconds": period}
    return {"metadata": times}
