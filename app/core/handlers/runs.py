"""One run of a probe as it goes."""

import asyncio
from collections.abc import Mapping
from typing import Final, NoReturn

from app.core.errors import trimmed
from app.core.model.endpoints import EndpointProbe, Port, ProbeOutcome, Ran, TargetAddress

MOST_READ: Final = 10 * 1024
"""Bytes of a body, or of a command's output, that are read or kept: as the kubelet has it."""
_MOST_SAID: Final = 160
_MOST_WAITED: Final = 0.1
"""Of the time of a run, what it may have waited for its place and still be late by its target's doing."""
_PORTS: Final = range(1, 65536)


def success(message: str) -> Ran:
    """The target does what it should."""
    return Ran(ProbeOutcome.SUCCESS, trimmed(message, _MOST_SAID))


def failure(message: str) -> Ran:
    """It does not."""
    return Ran(ProbeOutcome.FAILURE, trimmed(message, _MOST_SAID))


def error(message: str) -> Ran:
    """Nobody knows: the probe could not be run."""
    return Ran(ProbeOutcome.ERROR, trimmed(message))


class CannotRun(Exception):
    """The probe cannot be run against this target; the message says why."""


class HandlerRun:
    """One run: what is asked of whom, and what it has come to if its time is over now."""

    __slots__ = ("_begun", "_created", "address", "late", "probe")

    def __init__(self, probe: EndpointProbe, address: TargetAddress) -> None:
        self.probe, self.address = probe, address
        self.late = error("not run: too many probes run at once")
        self._created = self._begun = asyncio.get_running_loop().time()

    def begins(self) -> None:
        """It has a place."""
        self._begun = asyncio.get_running_loop().time()

    def port(self, port: Port) -> int:
        """The number of `port`, which may be the name of a port of the container.

        Raises:
            CannotRun: the container has no port of this name, or the number is none.
        """
        number = port if isinstance(port, int) else _numbered(port, self.address.ports)
        if number not in _PORTS:
            raise CannotRun(f"{number} is no port")
        return number

    def fails_if_late(self, what: str) -> None:
        """From now on a run whose time is over has failed: so long it took `what`."""
        waited, timeout = self._begun - self._created, self.probe.timeout
        if waited > timeout * _MOST_WAITED:
            self.late = error(
                f"{what} in what was left of {timeout} s: too many probes run at once"
            )
        else:
            self.late = failure(f"{what} within {timeout} s")

    def errs_if_late(self, what: str) -> None:
        """From now on a run whose time is over says nothing about its target."""
        self.late = error(f"{what} within {self.probe.timeout} s")


def _numbered(name: str, ports: Mapping[str, int]) -> int:
    if name in ports:
        return ports[name]
    if name.isascii() and name.isdigit():  # the kubelet takes a number in quotes for one, too
        return int(name[:6])
    return _no_such_port(name)


def _no_such_port(name: str) -> NoReturn:
    raise CannotRun(f"the container has no port {name!r}")
