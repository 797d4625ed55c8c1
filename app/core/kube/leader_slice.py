"""The EndpointSlice that points to the leader's API (docs/decisions/0032).

The leader writes its address into it, and standbys read it there. A leader that ends leaves its address behind; the
next leader overwrites it at once.
"""

import asyncio
from typing import Any, Final, NamedTuple

import msgspec
import structlog

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
from app.core.kube.connections import MIB
from app.core.kube.decoding.envelope import Raw
from app.core.kube.resources import ENDPOINT_SLICES
from app.core.kube.seed_api import SeedApi
from app.core.metrics import Metrics
from app.core.model.names import bracketed
from app.core.ports import ADDRESS_FEATURE, Leadership
from app.core.tasks import wait_until_set

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
# Maximum bytes of an answer: a slice has up to 1,000 endpoints.
_MOST: Final = 2 * MIB
# Name of the port of a slice without ports; otherwise the name is kept, because it has to match the Service's port.
_PORT_NAME: Final = "api"


class ApiEndpoint(NamedTuple):
    """The address and port of an API."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"{bracketed(self.ip)}:{self.port}"


class LeaderSlice(NamedTuple):
    """The slice, whole for writing it back, and where it points to."""

    whole: dict[str, Any]
    place: ApiEndpoint | None = None
    """The one address that it points to; None if there is not exactly one."""
    exact: bool = False
    """Whether it consists of exactly that: one ready endpoint and one port."""

    def leading_to(self, place: ApiEndpoint) -> dict[str, Any]:
        """Returns the object with this address, and otherwise unchanged."""
        ports = self.whole.get("ports") or [{"name": _PORT_NAME, "protocol": "TCP"}]
        endpoint = {"addresses": [place.ip], "conditions": {"ready": True}}
        return self.whole | {"endpoints": [endpoint], "ports": [ports[0] | {"port": place.port}]}


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
        return LeaderSlice(whole)
    addresses, conditions = endpoints[0].addresses, endpoints[0].conditions or _LeaderConditions()
    place = ApiEndpoint(addresses[0], ports[0].port)
    return LeaderSlice(whole, place, conditions.well and len(addresses) == 1)


class LeaderAddressOff:
    """Used if the leader's address is neither written nor read."""

    def __init__(self, off: str, metrics: Metrics) -> None:
        """Takes the reason why the feature is off."""
        self.off: str | None = off
        metrics.feature(ADDRESS_FEATURE, off=True)
        log.info("the leader's address is not published", feature=ADDRESS_FEATURE, error=off)

    def address(self) -> str | None:
        """None: the address is not known."""
        return None


class LeaderAddress:
    """Keeps the slice up to date while we lead, and caches its address while we do not."""

    def __init__(
        self, api: SeedApi, namespace: str, name: str, own: ApiEndpoint, leadership: Leadership
    ) -> None:
        """Sends nothing yet.

        Args:
            api: sends the requests.
            namespace: that of the slice, which the chart creates together with its Service.
            name: the name of the slice.
            own: the address of our API, as others reach it.
            leadership: says whether we lead.
        """
        self._api, self._clock, self._own, self._leadership = api, api.clock, own, leadership
        self._where, self._named = (namespace, name), f"EndpointSlice {namespace}/{name}"
        api.metrics.feature(ADDRESS_FEATURE, off=False)
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
                self.off = None
                self._api.metrics.feature(ADDRESS_FEATURE, off=False)
                pause = _CHECK_INTERVAL if self._leadership.leading else _ASKS_EVERY
            _ = await wait_until_set(self._changed, pause)

    async def _check(self) -> None:
        """Reads the slice, and writes our address into it if we lead and it says something else.

        Raises:
            Invalid: its `addressType` does not fit the address.
            ClusterError: it could not be read or written.
        """
        for _ in range(_TRIES):
            read = ENDPOINT_SLICES.request("get", *self._where, most=_MOST)
            found = await self._api.call(read, _slice)
            self._read, self._read_at = found.place, self._clock.now()
            if not self._leadership.leading or (found.exact and found.place == self._own):
                return
            try:
                body = found.leading_to(self._own)
                write = ENDPOINT_SLICES.request("update", *self._where, body=body, most=_MOST)
                await self._api.call(
                    write, _slice, new_connection=True, starting=self._leading_still
                )
            except Conflict:
                continue
            except LeadershipLost:
                return
            log.info("the leader's address is written", slice=self._named, address=str(self._own))
            return
        raise Unreachable(f"{self._named} keeps changing")

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
        self._api.metrics.feature(ADDRESS_FEATURE, off=True)
