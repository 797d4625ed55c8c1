"""The system's resolver, as a test wants it."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.core import name_lookup
from app.core.name_lookup import Found, IpAddress

HERE = (IpAddress(socket.AF_INET, "127.0.0.1"),)


def is_slow(host: str) -> bool:
    return host.startswith("slow")


class Resolver:
    """Is silent about some names until it is let go; every name has the address of this machine, or what is given."""

    def __init__(self, silent: Callable[[str], bool] = is_slow) -> None:
        self.silent = silent
        self.answers: dict[str, Any] = {}
        """Addresses of names, or what is raised; an iterator has one answer for each time."""
        self.asked: list[str] = []
        self.open = threading.Event()
        self.gates: dict[str, threading.Event] = {}
        """What lets a name go by itself."""
        self.threads: set[threading.Thread] = set()

    def __call__(self, host: str) -> Found:
        self.asked.append(host)
        self.threads.add(threading.current_thread())
        if self.silent(host):
            assert self.gates.get(host, self.open).wait(30)
        answer = self.answers.get(host, HERE)
        if isinstance(answer, Iterator):
            answer = next(answer)
        if isinstance(answer, Exception):
            raise answer
        return tuple(answer)

    def instead_of_the_systems(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(name_lookup, "look_up", self)

    def end(self) -> None:
        self.open.set()
        for thread in self.threads:
            thread.join(5)
