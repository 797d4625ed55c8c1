"""The Lease of the leader election as an API object: read, acquire, renew, release."""

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from app.core.errors import BadAnswer, NotFound
from app.core.kube.client import ApiRequest
from app.core.kube.decoding import Raw
from app.core.kube.failures import RequestedRight
from app.core.kube.resources import LEASES
from app.core.kube.seed_api import Budget, SeedApi
from app.core.model.instants import parse_rfc3339, rfc3339

CLOCK_RESOLUTION: Final = 1.5
"""Seconds by which times of the API server may be off: its timestamps and `Date` are in whole seconds."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The relevant fields of a Lease; `whole` is the complete object, for writing it back."""

    version: str
    holder: str
    """Empty if nobody holds it."""
    duration: float | None
    """Seconds after which a holder that has not renewed may be replaced."""
    renewed: str
    """`renewTime` as text, by the holder's clock."""
    transitions: int
    whole: dict[str, Any]
    written: float | None = None
    """When the API server received the last change, by its own clock in whole seconds; None if unknown."""
    read: float | None = None
    """When it answered, by the same clock, to half a second."""

    @property
    def age(self) -> float | None:
        """Seconds from the last change to the answer, by the API server's clock; None if unknown."""
        if self.written is None or self.read is None:
            return None
        return self.read - self.written


@dataclass(frozen=True, slots=True)
class LeaseUpdate:
    """The fields that a holder writes."""

    holder: str
    duration: float
    transitions: int
    now: float
    acquired: bool
    """Whether this begins a new term, so that `acquireTime` is now."""

    def spec(self, before: dict[str, Any]) -> dict[str, Any]:
        """Returns the new `spec`, given the one before."""
        text = rfc3339(self.now, micro=True)
        acquired = text if self.acquired else before.get("acquireTime") or text
        return before | {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": max(round(self.duration), 1),
            "leaseTransitions": self.transitions,
            "acquireTime": acquired,
            "renewTime": text,
        }


class LeaseStore:
    """Reads and writes one Lease."""

    def __init__(self, api: SeedApi, namespace: str, name: str) -> None:
        self._api = api
        self.name = name
        self._namespace = namespace
        self._fresh = False

    async def read(self, within: float) -> LeaseRecord | None:
        """Reads the Lease; returns None if it does not exist."""
        try:
            return await self._ask(
                "get", "GET", LEASES.path(self._namespace, self.name), None, within
            )
        except NotFound:
            return None

    async def create(self, update: LeaseUpdate, within: float) -> LeaseRecord:
        """Creates the Lease.

        Raises:
            Conflict: it exists already.
        """
        body = {
            "apiVersion": f"{LEASES.group}/{LEASES.version}",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self._namespace},
            "spec": update.spec({}),
        }
        return await self._ask("create", "POST", LEASES.path(self._namespace), body, within)

    async def replace(self, record: LeaseRecord, update: LeaseUpdate, within: float) -> LeaseRecord:
        """Replaces the `spec` of the Lease, under the resourceVersion of `record`.

        Raises:
            Conflict: the Lease has changed since.
        """
        body = record.whole | {"spec": update.spec(record.whole.get("spec") or {})}
        return await self._ask(
            "update", "PUT", LEASES.path(self._namespace, self.name), body, within
        )

    async def _ask(
        self, verb: str, method: str, path: str, body: object, within: float
    ) -> LeaseRecord:
        asked = RequestedRight(verb, "leases", f"{self._namespace}/{self.name}")
        request = ApiRequest(asked, path, within, method=method, body=body)
        # a write is never repeated, so after a failure the next request does not trust kept-alive connections
        fresh, self._fresh = self._fresh, True
        record = await self._api.call(request, _record, Budget.LEASE, new_connection=fresh)
        self._fresh = False
        return replace(record, read=self._api.server_time)


class _Manager(msgspec.Struct):
    time: str | None = None


class _LeaseMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion")
    managers: list[_Manager] | None = msgspec.field(default=None, name="managedFields")


class _ElectionSpec(msgspec.Struct):
    holder: str | None = msgspec.field(default=None, name="holderIdentity")
    duration: int | None = msgspec.field(default=None, name="leaseDurationSeconds")
    renewed: str | None = msgspec.field(default=None, name="renewTime")
    transitions: int | None = msgspec.field(default=None, name="leaseTransitions")


class _ElectionLease(msgspec.Struct):
    kind: str
    metadata: _LeaseMeta
    spec: _ElectionSpec | None = None


_decoder: Final = msgspec.json.Decoder(_ElectionLease)


def _record(raw: Raw) -> LeaseRecord:
    lease = _decoder.decode(raw)
    if lease.kind != "Lease":
        raise BadAnswer("the answer is not a Lease")
    spec = lease.spec or _ElectionSpec()
    written = [parse_rfc3339(each.time or "") for each in lease.metadata.managers or ()]
    return LeaseRecord(
        version=lease.metadata.version,
        holder=spec.holder or "",
        duration=None if spec.duration is None else float(spec.duration),
        renewed=spec.renewed or "",
        transitions=spec.transitions or 0,
        whole=msgspec.json.decode(raw),
        written=max(filter(None, written), default=None),
    )
