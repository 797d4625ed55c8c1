"""The Lease of a leader election on the simulated seed; candidates access it through `ApiServer.ask`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.core.clock import Clock
from app.core.model.instants import parse_rfc3339, rfc3339
from app.simulation.store import Object, ObjectKey, Store, version_of
from app.simulation.traffic import ApiServer, Host, SimulatedRequest


class SimulatedTerm(Protocol):
    """A term of a holder, which determines the next `spec` of the Lease."""

    def spec(self, before: dict[str, Any]) -> Mapping[str, Any]:
        """Returns the `spec` that follows `before`."""
        ...


class LeaseVersion(Protocol):
    """A Lease as it was read, which the next write is based on."""

    @property
    def whole(self) -> Mapping[str, Any]:
        """The object."""
        ...


@dataclass(frozen=True, slots=True)
class SimulatedRecord:
    """The parts of the Lease that an election uses."""

    version: str
    holder: str
    """`holderIdentity`; empty if there is no holder."""
    duration: float | None
    """`leaseDurationSeconds`."""
    renewed: str
    """`renewTime` as text."""
    transitions: int
    whole: dict[str, Any]
    """The complete object, for writing it back."""
    age: float | None
    """Seconds since the last write, from the whole-second timestamps in managedFields."""


class SimulatedLeaseStore:
    """One Lease of the simulated seed as one candidate accesses it; raises the errors of `ApiServer.ask`."""

    def __init__(
        self, api: ApiServer, store: Store, clock: Clock, namespace: str, name: str
    ) -> None:
        self.name = name
        self._api, self._store, self._clock = api, store, clock
        self._namespace = namespace
        self._key = ObjectKey("Lease", namespace, name)

    async def read(self, within: float) -> SimulatedRecord | None:
        """Reads the Lease; returns None if there is none.

        Args:
            within: seconds after which the read is given up.
        """

        def serve() -> SimulatedRecord | None:
            found = self._store.find(self._key)
            return None if found is None else self._record(found)

        return await self._api.ask(self._request("get"), serve, limit=within)

    async def create(self, term: SimulatedTerm, within: float) -> SimulatedRecord:
        """Creates the Lease.

        Raises:
            Conflict: another candidate created it first.
        """
        body = {"apiVersion": "coordination.k8s.io/v1", "spec": dict(term.spec({}))}
        return await self._api.ask(
            self._request("create"),
            lambda: self._record(self._store.create(self._key, self._stamped(body))),
            limit=within,
        )

    async def replace(
        self, record: LeaseVersion, term: SimulatedTerm, within: float
    ) -> SimulatedRecord:
        """Replaces the Lease that was read by a new term.

        Raises:
            NotFound: the Lease was deleted.
            Conflict: the Lease has changed since it was read.
        """
        before = dict(record.whole)
        body = {**before, "spec": dict(term.spec(dict(before.get("spec", {}))))}
        return await self._api.ask(
            self._request("update"),
            lambda: self._record(self._store.replace(self._key, self._stamped(body))),
            limit=within,
        )

    def _request(self, verb: str) -> SimulatedRequest:
        return SimulatedRequest(Host.SEED, verb, "leases", self._namespace)

    def _stamped(self, body: Object) -> Object:
        """Adds the time of the write to managedFields, cut to whole seconds as a real server does."""
        stamp = {"manager": "simulated", "time": rfc3339(math.floor(self._clock.now()))}
        return {**body, "metadata": {**body.get("metadata", {}), "managedFields": [stamp]}}

    def _record(self, obj: Object) -> SimulatedRecord:
        spec = obj.get("spec", {})
        duration = spec.get("leaseDurationSeconds")
        stamps = obj["metadata"].get("managedFields") or ()
        written = [parse_rfc3339(each["time"]) or 0.0 for each in stamps]
        age = math.floor(self._clock.now()) + 0.5 - max(written) if written else None
        return SimulatedRecord(
            version=version_of(obj),
            holder=spec.get("holderIdentity") or "",
            duration=None if duration is None else float(duration),
            renewed=spec.get("renewTime") or "",
            transitions=spec.get("leaseTransitions") or 0,
            whole=dict(obj),
            age=age,
        )
