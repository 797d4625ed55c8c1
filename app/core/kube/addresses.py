"""Which addresses an external API server may have (threat T5); pure.

The owner of a shoot may control the name in an external kubeconfig and its DNS zone. Neither may direct a request to
this machine, to the metadata service of the cloud, or to a multicast group.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.core.errors import AddressForbidden

FLAG: Final = "--external-server-pattern"

# Unspecified (connecting to 0.0.0.0 reaches this machine) and other addresses that no host can have.
_THIS_NETWORK: Final = ipaddress.IPv4Network("0.0.0.0/8")
# IPv6 prefixes whose last 32 bits are an IPv4 address.
_HOLDING_IPV4: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "::/96",  # "compatible", of old
        "::ffff:0:0/96",  # mapped
        "::ffff:0:0:0/96",  # translated
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64 within one network
    )
)
_LAST_32_BITS: Final = 0xFFFF_FFFF


def is_literal(host: str) -> bool:
    """Returns whether a host is an IP address literal, without brackets."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_forbidden(text: str) -> bool:
    """Returns whether an address is loopback, link-local, multicast or unspecified, also as IPv6 with embedded IPv4.

    Text that is not an address is forbidden, too.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return True
    return any(_is_special(each) for each in (address, *_within(address)))


def _is_special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    unspecified = address.is_unspecified or address in _THIS_NETWORK
    return address.is_loopback or address.is_link_local or address.is_multicast or unspecified


def _within(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> tuple[ipaddress.IPv4Address, ...]:
    """Returns the IPv4 addresses that are embedded in an IPv6 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [ipaddress.IPv4Address(int(address) & _LAST_32_BITS)]
    if not any(address in prefix for prefix in _HOLDING_IPV4):
        found.clear()
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.append(address.teredo[1])
    return tuple(found)


@dataclass(frozen=True, slots=True)
class AddressRule:
    """The addresses that may be connected to."""

    literals: bool = False
    """Whether a server that is named by an address may have any: the flag is set and matches it as written."""

    def check(self, host: str) -> None:
        """Checks a server that is named by an address.

        Raises:
            AddressForbidden: the address is not allowed.
        """
        if not self.literals and is_literal(host) and is_forbidden(host):
            raise _forbidden("the server's address is")

    def allowed(self, addresses: Iterable[str]) -> frozenset[str]:
        """Returns the addresses of a name that may be connected to.

        Raises:
            AddressForbidden: none of them may.
        """
        found = frozenset(each for each in addresses if not is_forbidden(each))
        if not found:
            raise _forbidden("the server's name leads to")
        return found


def _forbidden(subject: str) -> AddressForbidden:
    return AddressForbidden(
        f"{subject} an address that is loopback, link-local, multicast or unspecified (see {FLAG})"
    )
