"""The EndpointSlice that points to the leader's API (docs/decisions/0032): read, and written with another address."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from app.core.clock import Clock
from app.core.errors import (
    BadAnswer,
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    LeadershipLost,
    NotFound,
    Unreachable,
)
from app.core.kube.client import ApiRequest
from app.core.kube.connections import MIB
from app.core.kube.decoding.envelope import Raw
from app.core.kube.failures import RequestedRight
from app.core.kube.resources import ENDPOINT_SLICES
from app.core.kube.reviews import ADDRESS_FEATURE
from app.core.kube.seed_api import WITHIN, SeedApi
from app.core.metrics import Metrics
from app.core.ports import Leadership, Starting
from app.core.tasks import happens

# Maximum bytes of an answer: a slice has up to 1,000 endpoints.
_MOST: Final = 2 * MIB
# Name of the port of a slice without ports; otherwise the name is kept, because it has to match the Service's port.
_PORT_NAME: Final = "api"


class ApiEndpoint(NamedTuple):
    """The address and port of an API."""

    ip: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class LeaderSlice:
    """The relevant fields of the slice; `whole` is the complete object, for writing it back."""

    place: ApiEndpoint | None
    """The one address that it points to; None if there is not exactly one."""
    exact: bool
    """Whether it consists of exactly that: one ready endpoint and one port."""
    whole: dict[str, Any]

    def leading_to(self, place: ApiEndpoint) -> dict[str, Any]:
        """Returns the object with this address, and otherwise unchanged."""
        ports = self.whole.get("ports") or [{"name": _PORT_NAME, "protocol": "TCP"}]
        endpoint = {"addresses": [place.ip], "conditions": {"ready": True}}
        return self.whole | {"endpoints": [endpoint], "ports": [ports[0] | {"port": place.port}]}


class LeaderSliceStore:
    """Reads and writes one EndpointSlice, which the chart creates together with its Service."""

    def __init__(self, api: SeedApi, namespace: str, name: str) -> None:
        self._api, self._where = api, f"{namespace}/{name}"
        self._path = ENDPOINT_SLICES.path(namespace, name)

    def __str__(self) -> str:
        return f"EndpointSlice {self._where}"

    async def read(self) -> LeaderSlice:
        """Reads the slice.

        Raises:
            NotFound: it does not exist.
            Forbidden: the right is missing.
        """
        asked = RequestedRight("get", ENDPOINT_SLICES.plural, self._where)
        return await self._api.call(ApiRequest(asked, self._path, WITHIN, most=_MOST), _slice)

    async def replace(
        self, found: LeaderSlice, place: ApiEndpoint, starting: Starting
    ) -> LeaderSlice:
        """Writes an address into the slice, under the resourceVersion that was read.

        Raises:
            Conflict: the slice has changed since.
            Forbidden: the right is missing.
            Invalid: its `addressType` does not fit the address.
        """
        asked = RequestedRight("update", ENDPOINT_SLICES.plural, self._where)
        request = ApiRequest(
            asked, self._path, WITHIN, method="PUT", body=found.leading_to(place), most=_MOST
        )
        return await self._api.call(request, _slice, new_connection=True, starting=starting)


class _LeaderConditions(msgspec.Struct):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None

    @property
    def well(self) -> bool:
        return self.ready is True and self.serving is not False and not self.terminating


class _LeaderEndpoint(msgspec.Struct):
    addresses: list[str]
    conditions: _LeaderConditions | None = None


class _LeaderPort(msgspec.Struct):
    port: int | None = None


class _LeaderSliceBody(msgspec.Struct):
    kind: str
    endpoints: list[_LeaderEndpoint] | None = None
    ports: list[_LeaderPort] | None = None


_decoder: Final = msgspec.json.Decoder(_LeaderSliceBody)


def _slice(raw: Raw) -> LeaderSlice:
    got = _decoder.decode(raw)
    if got.kind != "EndpointSlice":
        raise BadAnswer("the answer is not an EndpointSlice")
    whole = msgspec.json.decode(raw)
    endpoints, ports = got.endpoints or [], got.ports or []
    if len(endpoints) != 1 or len(ports) != 1 or not ports[0].port or not endpoints[0].addresses:
        return LeaderSlice(None, exact=False, whole=whole)
    addresses, conditions = endpoints[0].addresses, endpoints[0].conditions or _LeaderConditions()
    place = ApiEndpoint(addresses[0], ports[0].port)
    return LeaderSlice(place, exact=conditions.well and len(addresses) == 1, whole=whole)


# The leader writes its address into an EndpointSlice, and standbys read it there.
#
# A leader that ends leaves its address behind; the next leader overwrites it at once.


log = structlog.get_logger(__name__)

# Seconds between two checks of the slice by the leader.
_CHECK_INTERVAL: Final = 60.0
# Seconds between two reads by a standby, and from a leader's failure to its next attempt.
_ASKS_EVERY: Final = 10.0
# Seconds for which a standby uses what it read last, if reading fails.
_BELIEVED: Final = 60.0
# Attempts of a leader whose write conflicts.
_TRIES: Final = 3
# Errors that only a person can resolve; all others pass.
_OFF: Final = (Forbidden, NotFound, Invalid)


class LeaderAddressOff:
    """Used if the leader's address is neither written nor read."""

    def __init__(self, off: str, metrics: Metrics) -> None:
        """Takes the reason why the feature is off."""
        self.off: str | None = off
        metrics.feature_off.labels(ADDRESS_FEATURE).set(1)
        log.info("the leader's address is not published", feature=ADDRESS_FEATURE, error=off)

    def address(self) -> str | None:
        """None: the address is not known."""
        return None


class LeaderAddress:
    """Keeps the slice up to date while we lead, and caches its address while we do not."""

    def __init__(
        self,
        store: LeaderSliceStore,
        own: ApiEndpoint,
        leadership: Leadership,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """Sends nothing yet.

        Args:
            store: the slice.
            own: the address of our API, as others reach it.
            leadership: says whether we lead.
            clock: times the checks.
            metrics: exports whether the feature is off.
        """
        self._store, self._own, self._leadership, self._clock = store, own, leadership, clock
        self._gauge = metrics.feature_off.labels(ADDRESS_FEATURE)
        self._changed = asyncio.Event()
        self._read: ApiEndpoint | None = None
        self._read_at = float("-inf")
        self.off: str | None = None
        """Why the feature is off; None while it works, or nothing is known yet."""
        leadership.subscribe(self._changed.set)

    def address(self) -> str | None:
        """`host:port` of the leader's API, from memory; None if it is not known."""
        if self._leadership.leading:
            return str(self._own)
        if self._read is None or self._clock.now() - self._read_at > _BELIEVED:
            return None
        return str(self._read)

    async def run(self) -> None:
        """Checks the slice until cancelled: at once after each change of leadership, and periodically."""
        while True:
            self._changed.clear()
            try:
                await self._check()
            except ClusterError as error:
                self._record_failure(error)
                pause = _CHECK_INTERVAL if isinstance(error, _OFF) else _ASKS_EVERY
            else:
                self._well()
                pause = _CHECK_INTERVAL if self._leadership.leading else _ASKS_EVERY
            _ = await happens(self._changed, pause)

    async def _check(self) -> None:
        for _ in range(_TRIES):
            found = await self._store.read()
            self._read, self._read_at = found.place, self._clock.now()
            if not self._leadership.leading or (found.exact and found.place == self._own):
                return
            if await self._write(found):
                return
        raise Unreachable(f"{self._store} keeps changing")

    async def _write(self, found: LeaderSlice) -> bool:
        """Writes our address; returns whether that is done, or no longer necessary."""
        try:
            await self._store.replace(found, self._own, self._leading_still)
        except Conflict:
            return False
        except LeadershipLost:
            return True
        log.info("the leader's address is written", slice=str(self._store), address=str(self._own))
        return True

    def _leading_still(self) -> None:
        if not self._leadership.leading:
            raise LeadershipLost("another instance leads")

    def _record_failure(self, error: ClusterError) -> None:
        problem = str(error)
        if not isinstance(error, _OFF):
            log.warning("the leader's address cannot be published at the moment", error=problem)
            return
        if self.off != problem:
            log.warning(
                "the leader's address is not published", feature=ADDRESS_FEATURE, error=problem
            )
        self.off = problem
        self._gauge.set(1)

    def _well(self) -> None:
        self.off = None
        self._gauge.set(0)
