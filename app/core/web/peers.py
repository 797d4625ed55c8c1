"""Who holds how many connections: an IPv4 address, or the /64 that one machine may choose its IPv6 addresses from."""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol

from app.core.limits import Bucket

_CONNECTS: Final = 200.0
"""New connections a second that one peer may open over time."""
_CONNECTS_AT_ONCE: Final = 400.0
_REQUESTS: Final = 300.0
"""Requests a second of one peer over time; more are read later."""
_REQUESTS_AT_ONCE: Final = 600.0
_REMEMBERED: Final = 1_024
"""Peers without a connection whose pace is remembered."""
_NETWORK: Final = 64


@lru_cache(maxsize=1_024)
def peer_of(host: str) -> str:
    """The peer that a connection from this address is counted for."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:100]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _NETWORK), strict=False))


class Held(Protocol):
    """A connection, as far as the question goes which one to give up."""

    @property
    def waiting(self) -> bool:
        """Whether no request of it is being answered: nothing is lost when it ends."""
        ...

    def drop(self) -> None:
        """Ends it at once."""
        ...


class _Peer:
    """The connections of one peer, oldest first, and what it has done lately."""

    __slots__ = ("connects", "held", "requests")

    def __init__(self, now: float) -> None:
        self.held: dict[Held, None] = {}
        self.connects = Bucket(_CONNECTS, _CONNECTS_AT_ONCE, now)
        self.requests = Bucket(_REQUESTS, _REQUESTS_AT_ONCE, now)

    def drop_oldest(self) -> bool:
        """Ends the connection that has waited longest, if one does."""
        for held in self.held:
            if held.waiting:
                del self.held[held]
                held.drop()
                return True
        return False


class Peers:
    """All connections of one server, by peer.

    A newcomer takes the place of the oldest connection that waits: of its own peer where that holds its maximum, of
    the peer that holds the most where there is no place at all.  So lines that are held open and ask for nothing keep
    nobody out, not even others of the same address.

    Args:
        most: connections in all.
        each: connections of one peer.
        now: the instant that it is, in seconds.
    """

    def __init__(self, most: int, each: int, now: Callable[[], float]) -> None:
        self._most, self._each, self._now = most, each, now
        self._peers: dict[str, _Peer] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def connects(self, name: str) -> bool:
        """Whether this peer may open another connection now, after those that it has opened lately."""
        return self._peer(name).connects.take(self._now())

    def admit(self, name: str, connection: Held, *, many: bool = False) -> bool:
        """Takes up a connection, if there is or can be made a place for it; `release` is owed then.

        Args:
            name: the peer.
            connection: that it wants.
            many: whether it may hold any number of them, as long as others need none.
        """
        peer = self._peer(name)
        if not many and len(peer.held) >= self._each and not self._make_place([peer]):
            return False
        if self._count >= self._most and not self._make_place(self._by_size()):
            return False
        peer.held[connection] = None
        self._count += 1
        return True

    def release(self, name: str, connection: Held) -> None:
        """The connection has ended; nothing where it had been given up."""
        peer = self._peers.get(name)
        if peer is not None and connection in peer.held:
            del peer.held[connection]
            self._count -= 1

    def pace(self, name: str) -> float:
        """Counts a request; returns the seconds for which the peer's connection should not be read."""
        return self._peer(name).requests.owe(self._now())

    def _by_size(self) -> list[_Peer]:
        return sorted(self._peers.values(), key=lambda each: len(each.held), reverse=True)

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
            peer = self._peers[name] = _Peer(self._now())
        return peer


# Whom a request comes from, where a proxy stands between: only proxies that are named are believed.
#
# Each proxy adds the address that it was asked from at the end of `X-Forwarded-For`; what stands before the first one
# that a named proxy has added may be anybody's invention.


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HEADER: Final = b"x-forwarded-for"
_MOST: Final = 20
"""Proxies in a row that are believed."""


class Proxies:
    """The proxies that are named.

    Args:
        networks: their addresses.
    """

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)

    def __contains__(self, host: str) -> bool:
        """Whether who asks from this address is one of them."""
        address = _address(host) if self._networks else None
        return address is not None and self._trusts(address)

    def client(self, proxy: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The address that one of them was asked from; its own, where it does not say so.

        Args:
            proxy: the address of the one that asks.
            headers: of the request, as ASGI has them.
        """
        found = proxy
        for text in reversed(_forwarded(headers)[-_MOST:]):
            address = _address(text)
            if address is None:
                return found
            found = str(address)
            if not self._trusts(address):
                return found
        return found

    def _trusts(self, address: _Address) -> bool:
        return any(address in each for each in self._networks)


def _forwarded(headers: Iterable[tuple[bytes, bytes]]) -> Sequence[str]:
    values = [value.decode("latin-1") for name, value in headers if name == _HEADER]
    return [each.strip() for value in values for each in value.split(",")]


def _address(text: str) -> _Address | None:
    """An address as proxies write it: some with a port, in brackets where it is IPv6; an IPv4 one as what it is."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
