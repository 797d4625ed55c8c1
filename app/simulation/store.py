"""The storage of a simulated API server: resourceVersions, generations, patches, conflicts, deletions, a bounded log.

It reads no clock and runs no tasks. An object is JSON data and is never modified in place: a reference to one remains a
snapshot. Watches read the log of changes; once a version has dropped out of it, watching from there raises Expired, as
a real server answers 410.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, takewhile
from typing import Any, Final, NamedTuple

import msgspec

from app.core.errors import Conflict, Expired, NotFound
from app.core.model.instants import parse_rfc3339, rfc3339
from app.simulation.definitions import Definition, Rejected, completed, validate

Object = Mapping[str, Any]
"""One API object as JSON data."""

_SERVER_OWNED: Final = frozenset(
    {"resourceVersion", "uid", "generation", "creationTimestamp", "name", "namespace"}
)


class ObjectKey(NamedTuple):
    """The identity of an object; `namespace` is empty for cluster-scoped objects."""

    kind: str
    namespace: str
    name: str


class Happened(StrEnum):
    """The type of a change, as in watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One change of one object."""

    version: int
    happened: Happened
    key: ObjectKey
    object: Object
    """The object after the change; the last state of a deleted one."""
    before: Object | None = None
    """The object before the change; None if it was added."""


Listener = Callable[[StoreEvent], None]


class StartedList(NamedTuple):
    """A list that a client reads page by page."""

    about: object
    """What the client asked for."""
    kind: str
    items: tuple[Object, ...]
    version: int


def merge(target: object, patch: Object) -> dict[str, Any]:
    """Applies the JSON merge patch `patch` (RFC 7386) to `target`: null removes, objects merge, the rest replaces."""
    merged: dict[str, Any] = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = merge(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def version_of(obj: Object) -> str:
    """Returns the resourceVersion of an object."""
    return str(obj["metadata"]["resourceVersion"])


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


class Store:
    """All objects of one cluster, with one version counter for all kinds and a log of changes for each kind."""

    def __init__(self, *, history: int = 1000) -> None:
        """Creates an empty store that keeps the last `history` changes of each kind."""
        self._objects: dict[str, dict[str, dict[str, Object]]] = {}
        self._history = history
        self._logs: dict[str, deque[StoreEvent]] = {}
        self._version = 1
        self._compacted = 1
        self._forgotten: dict[str, int] = {}
        self._uids = count(1)
        self._listeners: list[Listener] = []
        self.definitions: dict[str, Definition] = {}
        """The custom resources that are served by their definition, by kind."""
        self.started_lists: OrderedDict[str, StartedList] = OrderedDict()
        """Those with further pages, by their numbers, the one that was asked for last at the end."""
        self.list_numbers = count(1)

    @property
    def version(self) -> int:
        """The resourceVersion of the last change."""
        return self._version

    def define(self, definition: Definition) -> None:
        """Begins to serve a custom resource."""
        self.definitions[definition.kind] = definition

    def undefine(self, kind: str) -> None:
        """Ends serving a custom resource: its objects go first."""
        for each in self.list(kind):
            self.delete(ObjectKey(kind, each["metadata"]["namespace"], each["metadata"]["name"]))
        self.definitions.pop(kind, None)

    def subscribe(self, listener: Listener) -> None:
        """Calls `listener` with each change, before the write returns."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def find(self, key: ObjectKey) -> Object | None:
        """Returns the object; None if it does not exist."""
        return self._objects.get(key.kind, {}).get(key.namespace, {}).get(key.name)

    def get(self, key: ObjectKey) -> Object:
        """Returns the object.

        Raises:
            NotFound: it does not exist.
        """
        found = self.find(key)
        if found is None:
            raise NotFound(f'{key.kind} "{key.name}" not found', status=404)
        return found

    def list(self, kind: str, namespace: str | None = None) -> tuple[Object, ...]:
        """Returns the objects of a kind, in one namespace or in all, ordered by namespace and name."""
        spaces = self._objects.get(kind, {})
        chosen = sorted(spaces) if namespace is None else [namespace]
        return tuple(obj for ns in chosen for _, obj in sorted(spaces.get(ns, {}).items()))

    def kinds(self) -> tuple[str, ...]:
        """Returns the kinds of all objects that have ever existed."""
        return tuple(self._objects)

    def create(self, key: ObjectKey, body: Object) -> Object:
        """Stores a new object.

        Raises:
            Conflict: an object of this name exists.
            Invalid: `body` has wrong values.
        """
        if self.find(key) is not None:
            raise Conflict(f'{key.kind} "{key.name}" already exists', status=409)
        metadata = {
            **body.get("metadata", {}),
            "name": key.name,
            "namespace": key.namespace,
            "uid": f"{next(self._uids):08x}-0000-4000-8000-000000000000",
            "generation": 1,
        }
        whole = {**body, "kind": key.kind, "metadata": metadata}
        return self._put(Happened.ADDED, key, self._completed(key.kind, whole))

    def replace(self, key: ObjectKey, body: Object) -> Object:
        """Replaces the object by `body`, in which a resourceVersion is a precondition.

        Raises:
            NotFound: the object does not exist.
            Conflict: the precondition does not hold.
            Invalid: `body` has wrong values.
        """
        current = self.get(key)
        _check(key, current, body.get("metadata", {}).get("resourceVersion"))
        owned = {name: each for name, each in current["metadata"].items() if name in _SERVER_OWNED}
        metadata = owned | _user_owned(body.get("metadata", {}))
        return self._update(key, current, {**body, "kind": key.kind, "metadata": metadata})

    def patch(self, key: ObjectKey, patch: Object, *, status: bool = False) -> Object:
        """Merges `patch` into the object, or only into its status; a resourceVersion in `patch` is a precondition.

        As on a real server, a patch of the object itself does not change its status.

        Raises:
            NotFound: the object does not exist.
            Conflict: the precondition does not hold.
            Invalid: the result has wrong values.
        """
        current = self.get(key)
        metadata = patch.get("metadata", {})
        _check(key, current, metadata.get("resourceVersion"))
        if status:
            cut: dict[str, Any] = {name: patch[name] for name in ("status",) if name in patch}
        else:
            cut = {name: value for name, value in patch.items() if name != "status"}
            if metadata:
                cut["metadata"] = _user_owned(metadata)
        return self._update(key, current, merge(current, cut))

    def delete(self, key: ObjectKey) -> Object:
        """Removes the object; returns its last state.

        Raises:
            NotFound: the object does not exist.
        """
        current = self.get(key)
        spaces = self._objects[key.kind]
        del spaces[key.namespace][key.name]
        if not spaces[key.namespace]:
            del spaces[key.namespace]
        self._version += 1
        metadata = {**current["metadata"], "resourceVersion": str(self._version)}
        last = {**current, "metadata": metadata}
        self._tell(StoreEvent(self._version, Happened.DELETED, key, last, current))
        return last

    def request_deletion(
        self, key: ObjectKey, now: float, options: DeleteOptions | None = None
    ) -> Object:
        """Deletes an object as an API server does: at once, except for a running pod.

        A pod on a node stays, terminating, until its kubelet deletes it with a grace of 0. One that is terminating
        already can only be made to stop sooner.

        Args:
            key: its name.
            now: the instant of the deletion.
            options: preconditions and grace.

        Returns:
            The object as it terminates, or its last state.

        Raises:
            NotFound: there is none.
            Conflict: a precondition does not hold.
        """
        options = options or DeleteOptions()
        current = self.get(key)
        if options.preconditions is not None:
            _check_preconditions(current, options.preconditions)
        if key.kind != POD:
            return self.delete(key)
        mark = _mark(current, options.grace, now)
        marked = self.patch(key, mark) if mark else current
        if mark and marked["metadata"]["deletionGracePeriodSeconds"] == 0:
            return self.delete(key)
        return marked

    def empty(self, namespace: str) -> None:
        """Removes all objects of a namespace."""
        for kind, spaces in self._objects.items():
            for name in tuple(spaces.get(namespace, ())):
                self.delete(ObjectKey(kind, namespace, name))

    def forgotten(self, kind: str) -> int:
        """Returns the latest version up to which changes of a kind have dropped out of the log."""
        return max(self._compacted, self._forgotten.get(kind, 0))

    def since(self, version: int, kind: str) -> tuple[StoreEvent, ...]:
        """Returns the changes of a kind after `version`.

        Raises:
            Expired: some of the changes have dropped out of the log.
        """
        forgotten = self.forgotten(kind)
        if version < forgotten:
            raise Expired(f"too old resource version: {version} ({forgotten})", status=410)
        newest_first = reversed(self._logs.get(kind, ()))
        newer = list(takewhile(lambda event: event.version > version, newest_first))
        return tuple(reversed(newer))

    def compact(self, kind: str | None = None) -> None:
        """Clears the log of one kind or of all: from any older version neither watches nor lists go on."""
        if kind is None:
            self._logs.clear()
            self._compacted = self._version
        else:
            self._logs.pop(kind, None)
            self._forgotten[kind] = self._version
        for token, each in tuple(self.started_lists.items()):
            if each.version < self.forgotten(each.kind):
                del self.started_lists[token]

    def _update(self, key: ObjectKey, current: Object, changed: dict[str, Any]) -> Object:
        changed = self._completed(key.kind, changed)
        if changed == current:
            return current  # as on a real server, a write without effect creates no new version
        if _begins_generation(key.kind, current, changed):
            generation = current["metadata"]["generation"] + 1
            changed["metadata"] = {**changed["metadata"], "generation": generation}
        return self._put(Happened.MODIFIED, key, changed, current)

    def _put(
        self, happened: Happened, key: ObjectKey, body: dict[str, Any], before: Object | None = None
    ) -> Object:
        known = self.definitions.get(key.kind)
        if known is None:
            validate(key.kind, key.name, body)
        elif problems := known.problems(body, before):
            raise Rejected(key.kind, key.name, *problems[0], *problems[1:])
        self._version += 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self._version)}
        self._objects.setdefault(key.kind, {}).setdefault(key.namespace, {})[key.name] = body
        self._tell(StoreEvent(self._version, happened, key, body, before))
        return body

    def _completed(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        known = self.definitions.get(kind)
        return completed(kind, body) if known is None else known.completed(body)

    def _tell(self, event: StoreEvent) -> None:
        log = self._logs.setdefault(event.key.kind, deque(maxlen=self._history))
        if len(log) == log.maxlen:
            self._forgotten[event.key.kind] = log[0].version
        log.append(event)
        for listener in tuple(self._listeners):
            listener(event)


def _check(key: ObjectKey, current: Object, expected: object) -> None:
    if expected is not None and str(expected) != version_of(current):
        raise Conflict(
            f'{key.kind} "{key.name}": the object has been modified; it is at '
            f"{version_of(current)}, not {expected}",
            status=409,
        )


def _begins_generation(kind: str, before: Object, after: Object) -> bool:
    """Returns whether a change increments the generation.

    A new spec does; for a Deployment new annotations do as well, because they are copied to its ReplicaSets. For an
    EndpointSlice, endpoints, ports and labels count as its spec.
    """
    if kind == "EndpointSlice":
        return _without_metadata(before) != _without_metadata(after)
    if before.get("spec") != after.get("spec"):
        return True
    annotations = [each["metadata"].get("annotations") or {} for each in (before, after)]
    return kind == "Deployment" and annotations[0] != annotations[1]


def _without_metadata(obj: Object) -> dict[str, Any]:
    labels = obj["metadata"].get("labels") or {}
    return {**obj, "metadata": {"labels": labels}}


def _user_owned(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in _SERVER_OWNED}


def _check_preconditions(current: Object, wanted: Preconditions) -> None:
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
