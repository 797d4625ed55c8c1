"""The addresses that the program is told to serve on: each is free, or the demo does not start."""

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from app.core.config.flags import flag_name
from app.core.config.flag_values import Address
from app.core.config.settings import DemoSettings
from app.core.web.serving import AddressUnavailable, listening

_SERVERS: Final = {
    "API": "api_bind_addr",
    "metrics": "metrics_bind_addr",
    "health": "health_bind_addr",
}
"""What is served, and the setting that says where."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the program serves, with ports that are no longer 0; held until it starts, so that nobody takes one."""

    api: Address
    flags: tuple[str, ...]
    """For the program."""
    _held: ExitStack

    def release(self) -> None:
        """Gives them back; a second time changes nothing."""
        self._held.close()


def claim(settings: DemoSettings) -> Addresses:
    """Takes the addresses of the flags, and a free port where one is 0.

    Raises:
        AddressUnavailable: one of them cannot be listened on; names the flag.
    """
    found: dict[str, Address] = {}
    with ExitStack() as held:
        for name, field in _SERVERS.items():
            wanted: Address = getattr(settings, field)
            port = held.enter_context(_listening(name, field, wanted)).getsockname()[1]
            found[field] = Address(wanted.host, port)
        flags = tuple(f"--{flag_name(field)}={address}" for field, address in found.items())
        return Addresses(found["api_bind_addr"], flags, held.pop_all())


def _listening(name: str, field: str, wanted: Address) -> socket.socket:
    try:
        return listening(name, wanted.host, wanted.port)
    except AddressUnavailable as error:
        hint = f"--{flag_name(field)} takes another address"
        raise AddressUnavailable(f"{error}; {hint}") from error
