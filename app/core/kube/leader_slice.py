"""The EndpointSlice that says where the leader is, as an API object: read, and written back with another address."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from app.core.errors import BadAnswer
from app.core.kube.byte_budget import MIB
from app.core.kube.client import Request
from app.core.kube.failures import Asked
from app.core.kube.resources import ENDPOINT_SLICES
from app.core.kube.seed_api import WITHIN, SeedApi
from app.core.kube.decoding import Raw
from app.core.ports import Starting

_MOST: Final = 2 * MIB
"""Bytes of an answer: a slice has up to 1,000 endpoints."""
_PORT_NAME: Final = "api"
"""Of a slice that came without ports; otherwise the name stays, as it must be that of the Service's port."""


class Place(NamedTuple):
    """Where an API is."""

    ip: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class LeaderSlice:
    """What matters of the slice; `whole` is the object as it was, for writing it back."""

    place: Place | None
    """Where it sends to, if that is one place."""
    exact: bool
    """Whether that is all it says: one endpoint, that is ready, and one port."""
    whole: dict[str, Any]

    def leading_to(self, place: Place) -> dict[str, Any]:
        """The object that sends everybody to this place, and is the same in all else."""
        ports = self.whole.get("ports") or [{"name": _PORT_NAME, "protocol": "TCP"}]
        endpoint = {"addresses": [place.ip], "conditions": {"ready": True}}
        return self.whole | {"endpoints": [endpoint], "ports": [ports[0] | {"port": place.port}]}


class LeaderSliceStore:
    """One EndpointSlice.  It is not made here: the chart does that, with the Service that it belongs to."""

    def __init__(self, api: SeedApi, namespace: str, name: str) -> None:
        self._api, self._where = api, f"{namespace}/{name}"
        self._path = ENDPOINT_SLICES.path(namespace, name)

    def __str__(self) -> str:
        return f"EndpointSlice {self._where}"

    async def read(self) -> LeaderSlice:
        """The slice as it is now.

        Raises:
            NotFound: there is none.
            Forbidden: we may not.
        """
        asked = Asked("get", ENDPOINT_SLICES.plural, self._where)
        return await self._api.call(Request(asked, self._path, WITHIN, most=_MOST), _slice)

    async def replace(self, found: LeaderSlice, place: Place, starting: Starting) -> LeaderSlice:
        """Writes a place into the slice as it was read.

        Raises:
            Conflict: it has changed since.
            Forbidden: we may not.
            Invalid: its `addressType` is of another kind than the address.
        """
        asked = Asked("update", ENDPOINT_SLICES.plural, self._where)
        request = Request(
            asked, self._path, WITHIN, method="PUT", body=found.leading_to(place), most=_MOST
        )
        return await self._api.call(request, _slice, new_connection=True, starting=starting)


class _Conditions(msgspec.Struct):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None

    @property
    def well(self) -> bool:
        return self.ready is True and self.serving is not False and not self.terminating


class _Endpoint(msgspec.Struct):
    addresses: list[str]
    conditions: _Conditions | None = None


class _Port(msgspec.Struct):
    port: int | None = None


class _Slice(msgspec.Struct):
    kind: str
    endpoints: list[_Endpoint] | None = None
    ports: list[_Port] | None = None


_decoder: Final = msgspec.json.Decoder(_Slice)


def _slice(raw: Raw) -> LeaderSlice:
    got = _decoder.decode(raw)
    if got.kind != "EndpointSlice":
        raise BadAnswer("the answer is no EndpointSlice")
    whole = msgspec.json.decode(raw)
    endpoints, ports = got.endpoints or [], got.ports or []
    if len(endpoints) != 1 or len(ports) != 1 or not ports[0].port or not endpoints[0].addresses:
        return LeaderSlice(None, exact=False, whole=whole)
    addresses, conditions = endpoints[0].addresses, endpoints[0].conditions or _Conditions()
    place = Place(addresses[0], ports[0].port)
    return LeaderSlice(place, exact=conditions.well and len(addresses) == 1, whole=whole)
