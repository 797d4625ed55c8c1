"""Counts connections and requests by peer: an IPv4 address, or an IPv6 /64.

A machine may choose its IPv6 addresses from a /64.
"""

import ipaddress
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from app.core.fair_queue import Consumer, FairQueue
from app.core.limits import Bucket

if TYPE_CHECKING:
    from app.core.web.connections import Line

# New connections per second that one peer may open over time.
_CONNECTS: Final = 200.0
_CONNECTS_AT_ONCE: Final = 400.0
# Requests per second of one peer over time; further ones are read later.
_REQUESTS: Final = 300.0
_REQUESTS_AT_ONCE: Final = 600.0
# Peers without a connection whose rates are remembered.
_REMEMBERED: Final = 1_024
_NETWORK: Final = 64


@lru_cache(maxsize=1_024)
def peer_of(host: str) -> str:
    """Returns the peer that a connection from this address is counted for."""
    address = _parsed(host)
    if address is None:
        return host[:100]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, _NETWORK), strict=False))


class _Peer:
    """The connections of one peer, oldest first, its recent rates, and its share of the event loop."""

    __slots__ = ("connects", "consumer", "held", "requests")

    def __init__(self, now: float, queue: FairQueue) -> None:
        self.consumer = Consumer(queue)
        self.held: dict[Line, None] = {}
        self.connects = Bucket(_CONNECTS, _CONNECTS_AT_ONCE, now)
        self.requests = Bucket(_REQUESTS, _REQUESTS_AT_ONCE, now)

    def drop_oldest(self) -> bool:
        """Aborts the oldest waiting connection; returns whether there was one."""
        for held in self.held:
            if held.waiting:
                del self.held[held]
                held.drop()
                return True
        return False


class Peers:
    """All connections of one server, by peer.

    A new connection takes the place of the oldest one that is waiting: of its own peer if that has its maximum, of the
    peer with the most connections if the server is full. So idle connections that are held open keep nobody out, not
    even others from the same address.

    Args:
        most: maximum number of connections.
        each: maximum number of connections of one peer.
        now: returns the current instant in seconds.
    """

    def __init__(self, most: int, each: int, now: Callable[[], float]) -> None:
        self._most, self._each, self._now = most, each, now
        self._queue = FairQueue()
        self._peers: dict[str, _Peer] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def admit(self, name: str, connection: "Line", *, many: bool = False) -> bool:
        """Admits a connection if there is room or can be made; if so, `release` has to be called.

        Args:
            name: the peer.
            connection: the new connection.
            many: whether the peer may have any number of them, as fast as it likes, while others need no room.
        """
        peer = self._peer(name)
        if not many and not peer.connects.take(self._now()):
            return False
        if not many and len(peer.held) >= self._each and not self._make_place([peer]):
            return False
        if self._count >= self._most:
            by_size = sorted(self._peers.values(), key=lambda each: len(each.held), reverse=True)
            if not self._make_place(by_size):
                return False
        peer.held[connection] = None
        self._count += 1
        return True

    def release(self, name: str, connection: "Line") -> None:
        """Removes a connection that has ended; does nothing if it was given up before."""
        peer = self._peers.get(name)
        if peer is not None and connection in peer.held:
            del peer.held[connection]
            self._count -= 1

    def pace(self, name: str) -> float:
        """Counts a request; returns the seconds for which the peer's connection should not be read."""
        return self._peer(name).requests.owe(self._now())

    def consumer(self, name: str, *, many: bool = False) -> Consumer:
        """Returns who is charged for the event-loop time of a connection: the peer, unless it stands for `many`."""
        return Consumer(self._queue) if many else self._peer(name).consumer

    def _make_place(self, candidates: Iterable[_Peer]) -> bool:
        if any(each.drop_oldest() for each in candidates):
            self._count -= 1
            return True
        return False

    def _peer(self, name: str) -> _Peer:
        peer = self._peers.get(name)
        if peer is None:
            if len(self._peers) >= self._most + _REMEMBERED:
                self._peers = {name: each for name, each in self._peers.items() if each.held}
            peer = self._peers[name] = _Peer(self._now(), self._queue)
        return peer


# The origin of a request behind proxies: only named proxies are believed.
#
# Each proxy appends the address that it was called from to `X-Forwarded-For`; everything before the first address that
# a named proxy appended may be forged.


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HEADER: Final = b"x-forwarded-for"
# Maximum number of consecutive proxies that are believed.
_MOST: Final = 20


class Proxies:
    """The named proxies.

    Args:
        networks: their addresses.
    """

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)

    def __contains__(self, host: str) -> bool:
        """Whether this address belongs to one of them."""
        address = _address(host) if self._networks else None
        return address is not None and self._trusts(address)

    def client(self, proxy: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Returns the address that a proxy was called from; the proxy's own if it does not say.

        Args:
            proxy: the address of the proxy.
            headers: the headers of the request, as in ASGI.
        """
        found = proxy
        values = [value.decode("latin-1") for name, value in headers if name == _HEADER]
        named = [each.strip() for value in values for each in value.split(",")]
        for text in reversed(named[-_MOST:]):
            address = _address(text)
            if address is None:
                return found
            found = str(address)
            if not self._trusts(address):
                return found
        return found

    def _trusts(self, address: _Address) -> bool:
        return any(address in each for each in self._networks)


def _address(text: str) -> _Address | None:
    """Parses an address as proxies write it: possibly with a port, IPv6 in brackets."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    return _parsed(host)


def _parsed(host: str) -> _Address | None:
    """Parses an address, whose zone does not count; IPv4 that is mapped to IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
