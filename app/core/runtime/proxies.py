"""Whom a request comes from, where a proxy stands between: only proxies that are named are believed.

Each proxy adds the address that it was asked from at the end of `X-Forwarded-For`; what stands before the first one
that a named proxy has added may be anybody's invention.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

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
