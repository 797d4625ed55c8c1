"""One run of a probe in progress."""

import asyncio
from collections.abc import Mapping
from typing import Final, NoReturn

from app.core.errors import trimmed
from app.core.model.endpoints import EndpointProbeSpec, Port, ProbeOutcome, Ran, TargetAddress

MOST_READ: Final = 10 * 1024
"""Bytes of a body or of a command's output that are read or kept, as in the kubelet."""
_MOST_SAID: Final = 160
# Share of a run's time that it may have waited for its slot, and still count as a failure of the target if it is late.
_MOST_WAITED: Final = 0.1
_PORTS: Final = range(1, 65536)


def success(message: str) -> Ran:
    """Returns the result that the target is healthy."""
    return Ran(ProbeOutcome.SUCCESS, trimmed(message, _MOST_SAID))


def failure(message: str) -> Ran:
    """Returns the result that the target is not healthy."""
    return Ran(ProbeOutcome.FAILURE, trimmed(message, _MOST_SAID))


def error(message: str) -> Ran:
    """Returns the result that the probe could not be run."""
    return Ran(ProbeOutcome.ERROR, trimmed(message))


class CannotRun(Exception):
    """The probe cannot be run against this target; the message says why."""


class HandlerRun:
    """One run: its probe, its target, and the result that it has if its time ends now (`late`)."""

    __slots__ = ("_begun", "_created", "address", "late", "probe")

    def __init__(self, probe: EndpointProbeSpec, address: TargetAddress) -> None:
        self.probe, self.address = probe, address
        self.late = error("not run: too many probes run at once")
        self._created = self._begun = asyncio.get_running_loop().time()

    def begins(self) -> None:
        """Records that the run has got its slot."""
        self._begun = asyncio.get_running_loop().time()

    def port(self, port: Port) -> int:
        """Returns the number of `port`, which may be the name of a port of the container.

        Raises:
            CannotRun: the container has no port of this name, or the number is not a port.
        """
        number = port if isinstance(port, int) else _numbered(port, self.address.ports)
        if number not in _PORTS:
            raise CannotRun(f"{number} is not a port")
        return number

    def fails_if_late(self, what: str) -> None:
        """Makes the run a failure if its time ends from now on; `what` says what took too long."""
        waited, timeout = self._begun - self._created, self.probe.timeout
        if waited > timeout * _MOST_WAITED:
            self.late = error(
                f"{what} in what remained of {timeout} s: too many probes run at once"
            )
        else:
            self.late = failure(f"{what} within {timeout} s")

    def errs_if_late(self, what: str) -> None:
        """Makes the run an error if its time ends from now on, which says nothing about the target."""
        self.late = error(f"{what} within {self.probe.timeout} s")


def _numbered(name: str, ports: Mapping[str, int]) -> int:
    if name in ports:
        return ports[name]
    if name.isascii() and name.isdigit():  # the kubelet accepts a quoted number, too
        return int(name[:6])
    return _no_such_port(name)


def _no_such_port(name: str) -> NoReturn:
    raise CannotRun(f"the container has no port {name!r}")
