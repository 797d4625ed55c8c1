"""Watches, reads and writes the custom resources of one kind: Pauses or ScaleRequests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final, Generic, TypeVar

import structlog

from app.core.errors import BadAnswer, ClusterError, Conflict, NotFound
from app.core.kube.client import ApiRequest
from app.core.kube.connections import RequestedRight
from app.core.kube.decoding import envelope
from app.core.kube.decoding import overrides as codec
from app.core.kube.reflector import ObjectKey, Reflector, troubles
from app.core.kube.resources import PAUSES, SCALE_REQUESTS, ApiResource, WatchSource
from app.core.kube.seed_api import URGENT_WITHIN, Budget, SeedApi, or_none
from app.core.model.overrides import Pause, ScaleRequest
from app.core.ports import Starting, WatchState
from app.core.tasks import Tasks, tell

log = structlog.get_logger(__name__)

T = TypeVar("T", Pause, ScaleRequest)

# Seconds after which a version that the watch does not show is read again: somebody else may have changed it.
_WATCH_LAGS: Final = 30.0
_LOOKED_AT: Final = 5.0
PAGE: Final = 100
"""Objects on a page: a seed may have kept thousands that are over."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of custom resource: where it is, and how it is read and written."""

    resource: ApiResource
    decode: Callable[[envelope.Raw], T]
    spec: Callable[[T], Mapping[str, Any]]
    status: Callable[[T], Mapping[str, Any]]

    @property
    def source(self) -> WatchSource[T]:
        """The source of the objects of all namespaces: without the kind there is none of it."""
        return WatchSource(
            self.resource,
            self.decode,
            complaint=lambda found: found.problem,
            page=PAGE,
            dispensable=True,
            goes_with_kind=True,
        )


PAUSE: Final = Kind(PAUSES, codec.pause, codec.pause_spec, codec.pause_status)
SCALE_REQUEST: Final = Kind(
    SCALE_REQUESTS, codec.scale_request, codec.scale_spec, codec.scale_status
)


class CustomObjects(Generic[T]):
    """The objects of one kind, with a copy of them.

    A write of this process, or a live read, may know a version before the watch shows it. That version counts until the
    watch shows it or a later one, or a list that was asked for afterwards does not; meanwhile it is read again. So no
    watch that lags, or passes nothing on, brings back what was before: an acknowledged pause does not end, and a
    ScaleRequest that has ended is not carried out again.
    """

    def __init__(
        self,
        kind: Kind[T],
        api: SeedApi,
        identity: str,
        tasks: Tasks,
        random: Random,
    ) -> None:
        """Sends nothing yet.

        Args:
            kind: which kind.
            api: sends the requests.
            identity: of this process, for the annotation of what the API makes.
            tasks: owns the watch task; if it dies the process ends.
            random: spreads retries and the durations of watches.
        """
        self._kind: Kind[T] = kind
        self._api, self._identity = api, identity
        self._clock, self._tasks = api.clock, tasks
        self._listeners: list[Callable[[str | None, str], None]] = []
        self._learnt: dict[ObjectKey, tuple[T, bool, float]] = {}
        """Versions that the watch does not show yet: the object, whether it is gone, and since when that is known."""
        api.metrics.feature(kind.resource.plural, off=False)
        self._was_off: str | None = None
        self._reflector: Reflector[T] = Reflector(
            kind.source,
            api,
            random,
            self._changed,
            replaced=self._listed,
            refusal_changed=self._state_changed,
        )

    async def start(self) -> None:
        """Starts the watch; does not wait until it is synced."""
        name = self._kind.resource.plural
        _ = self._tasks.shared(self._reflector.run, f"watch {name}")
        _ = self._tasks.shared(self._read_again, f"{name} beside the watch")

    def troubles(self) -> Mapping[str, str]:
        """Returns why the watch does not work, by its name; empty if it does, or if the kind is not there."""
        return {} if self.off else troubles([self._reflector])

    @property
    def off(self) -> str | None:
        """Why there are no objects in this process; None while they are followed."""
        return self._reflector.forbidden or self._reflector.unavailable

    @property
    def answered_at(self) -> float | None:
        """When the seed first answered anything to this process; None before."""
        return self._api.answered_at

    def watch_state(self) -> WatchState:
        """Returns the state of the watch."""
        return self._reflector.state

    def of(self, namespace: str) -> Mapping[str, T]:
        """Returns the objects of a namespace by name, without a request."""
        shown = self._reflector.of(namespace)
        if not self._learnt:
            return shown  # the usual case
        found = dict(shown)
        for (where, name), (known, gone, _) in self._learnt.items():
            if where == namespace and gone:
                found.pop(name, None)
            elif where == namespace:
                found[name] = known
        return found

    def everything(self) -> Iterator[T]:
        """Yields the objects of all namespaces, without a request."""
        for each in self._reflector.everything():
            if (each.id.namespace, each.id.name) not in self._learnt:
                yield each
        yield from (known for known, gone, _ in self._learnt.values() if not gone)

    def subscribe(self, listener: Callable[[str | None, str], None]) -> None:
        """Calls `listener` with namespace and name after each change of an object, else with None and ""."""
        self._listeners.append(listener)

    # What changes.

    def _changed(self, namespace: str, name: str) -> None:
        key = (namespace, name)
        if (learnt := self._learnt.get(key)) is not None:
            known, gone, _ = learnt
            shown = self._reflector.of(namespace).get(name)
            behind = not self._passed(known) if shown is None else _older(shown, known)
            if not gone and behind:
                return
            if shown is not None and gone and shown.id.uid == known.id.uid:
                return
            del self._learnt[key]
        self._tell(namespace, name)

    def _listed(self, _since: float | None, news: tuple[ObjectKey, ...]) -> None:
        asked_at = self._reflector.nothing_missed or 0.0
        unserved = not self._reflector.state.synced  # with the kind, its objects are gone
        passed: set[ObjectKey] = {
            key for key, (_, _, at) in self._learnt.items() if unserved or at <= asked_at
        }
        for key in passed:
            del self._learnt[key]
        for key in (*news, *passed.difference(news)):
            self._changed(*key)
        self._state_changed()

    async def _read_again(self) -> None:
        """Reads what the watch has not shown for half a minute, for ever."""
        while True:
            await self._clock.sleep(_LOOKED_AT)
            for key, (_, _, at) in tuple(self._learnt.items()):
                if self._clock.now() - at <= _WATCH_LAGS:
                    continue
                try:
                    await self._confirm(key)
                except ClusterError as error:  # the others are read all the same
                    plural = self._kind.resource.plural
                    log.debug("not read again", resource=plural, error=str(error))

    async def _confirm(self, key: ObjectKey) -> None:
        before, now = self._learnt.get(key), self._clock.now()
        found = await self._get(*key)
        where, name = key
        if before is None or self._learnt.get(key) != before:
            return
        shown = self._reflector.of(where).get(name)
        if found is not None and (shown is None or _older(shown, found)):
            self._learnt[key] = (found, False, now)
        elif found is None and shown is not None:
            self._learnt[key] = (shown, True, now)
        else:
            del self._learnt[key]
        self._tell(where, name)

    def _learn(self, known: T, *, gone: bool = False) -> T:
        where, name = key = (known.id.namespace, known.id.name)
        shown, learnt = self._reflector.of(where).get(name), self._learnt.get(key)
        newest = shown if learnt is None else learnt[0]
        if newest is None:
            news = not gone and not self._passed(known)
        elif newest.id.uid == known.id.uid:
            # Nothing comes back under its uid: an answer may have been on its way when it was deleted.
            deleted = learnt is not None and learnt[1]
            news = not deleted and (gone or _older(newest, known))
        else:
            news = not gone and _older(newest, known)
        if news:
            self._learnt[key] = (known, gone, self._clock.now())
            self._tell(where, name)
        return known

    def _passed(self, known: T) -> bool:
        """Whether the watch has passed over this version: if it does not show the object, that is deleted by now.

        The answer to a write may come after the watch has shown that somebody deleted the object.
        """
        seen, version = self._reflector.version or "", known.id.version
        return seen.isdecimal() and version.isdecimal() and int(version) <= int(seen)

    def _state_changed(self) -> None:
        off, before = self.off, self._was_off
        self._was_off = off
        self._api.metrics.feature(self._kind.resource.plural, off=off is not None)
        if off is not None and before is None:
            log.error("a feature is off", feature=self._kind.resource.plural, error=off)
        elif off is None and before is not None:
            log.info("a feature is on again", feature=self._kind.resource.plural)
        self._tell(None, "")

    def _tell(self, namespace: str | None, name: str) -> None:
        tell(self._listeners, {"watch": self._kind.resource.plural}, namespace, name)

    # Requests.

    async def refresh(self, namespace: str, *, urgent: bool = True) -> None:
        """Reads the objects of a namespace live, if they were listed once and the watch is stale."""
        state = self._reflector.state
        if self.off is not None or not state.synced or not state.stale(self._clock.now()):
            return
        before = tuple(self.of(namespace).values())
        send = partial(self._api.call, budget=Budget.URGENT if urgent else Budget.NORMAL)
        found = await self._reflector.read(namespace, send=send, within=URGENT_WITHIN)
        for known in before:  # what came meanwhile need not be in it
            if (namespace, known.id.name) not in found:
                self._learn(known, gone=True)
        for each in found.values():
            self._learn(each)

    async def read(self, namespace: str, name: str, *, urgent: bool = False) -> T | None:
        """Reads an object live; returns None if it does not exist."""
        before = self.of(namespace).get(name)
        found = await self._get(namespace, name, Budget.of(urgent=urgent))
        if found is not None:
            return self._learn(found)
        if before is not None:
            self._learn(before, gone=True)
        return None

    async def _get(self, namespace: str, name: str, budget: Budget = Budget.NORMAL) -> T | None:
        request = self._request("get", namespace, name, within=budget.within)
        return await or_none(self._api.call(request, self._kind.decode, budget))

    async def create(self, wanted: T, *, starting: Starting | None = None) -> T:
        """Creates an object with the spec of `wanted`, marked as made by the API."""
        where, name = wanted.id.namespace, wanted.id.name
        metadata = {
            "name": name,
            "namespace": where,
            "annotations": {codec.CREATED_BY: self._identity},
        }
        body = {
            "apiVersion": self._kind.resource.api_version,
            "kind": self._kind.resource.kind,
            "metadata": metadata,
            "spec": self._kind.spec(wanted),
        }
        request = self._request("create", where, body=body)
        return await self._write(request, wanted, starting)

    async def change(self, known: T, wanted: T) -> T:
        """Gives an object the spec of `wanted`, marked as made by the API, if it is still as `known` says."""
        metadata = {**_precondition(known), "annotations": {codec.CREATED_BY: self._identity}}
        body = {"metadata": metadata, "spec": self._kind.spec(wanted)}
        return await self._patch(known, body)

    async def set_status(
        self, known: T, wanted: T, *, starting: Starting | None = None, spare: bool = False
    ) -> T:
        """Gives an object the status of `wanted`, if it is still as `known` says."""
        body = {"metadata": _precondition(known), "status": self._kind.status(wanted)}
        budget = Budget.SPARE if spare else Budget.NORMAL
        return await self._patch(known, body, "status", starting, budget)

    async def delete(self, known: T, *, unchanged: bool = False) -> None:
        """Deletes the object with the uid of `known`; with `unchanged` only if it is still as `known` says."""
        only = {"uid": known.id.uid} | (_precondition(known) if unchanged else {})
        body = {"preconditions": only}
        request = self._request("delete", known.id.namespace, known.id.name, body=body)
        # the answer is the object or a Status
        await self._api.call(request, lambda _: None, new_connection=True)
        self._learn(known, gone=True)

    async def _patch(
        self,
        known: T,
        body: Mapping[str, Any],
        subresource: str = "",
        starting: Starting | None = None,
        budget: Budget = Budget.NORMAL,
    ) -> T:
        where = (known.id.namespace, known.id.name, subresource)
        try:
            request = self._request("patch", *where, body=body)
            return await self._write(request, known, starting, budget)
        except NotFound as gone:
            raise Conflict(str(gone), status=gone.status) from gone

    async def _write(
        self,
        request: ApiRequest,
        known: T,
        starting: Starting | None,
        budget: Budget = Budget.NORMAL,
    ) -> T:
        """Writes on a new connection: a dead kept-alive one would cost seconds, and a write is never repeated here."""
        found = await self._api.call(
            request, self._kind.decode, budget, new_connection=True, starting=starting
        )
        if found.id.name != known.id.name:
            raise BadAnswer(f"the answer is not {self._kind.resource.kind} {known.id.name}")
        return self._learn(found)

    def _request(self, verb: str, namespace: str, *where: str, **more: Any) -> ApiRequest:  # noqa: ANN401
        """Returns the request for this verb; messages name the namespace and not the object."""
        resource = self._kind.resource
        made = resource.request(verb, namespace, *where, **more)
        return replace(made, asked=RequestedRight(verb, resource.plural, namespace))


def _precondition(known: Pause | ScaleRequest) -> dict[str, Any]:
    """The resourceVersion suffices: no other object, not even one of the same name, ever has it."""
    return {"resourceVersion": known.id.version}


def _older(one: Pause | ScaleRequest, other: Pause | ScaleRequest) -> bool:
    """Returns whether `one` is older; resourceVersions of kube-apiserver are numbers that grow over all objects.

    Versions that are not numbers cannot be compared: the one received last counts.
    """
    mine, others = one.id.version, other.id.version
    if mine.isdecimal() and others.isdecimal():
        return int(mine) < int(others)
    return mine != others
