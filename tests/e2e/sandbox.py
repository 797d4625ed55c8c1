"""A pod's own network: a network namespace, so that each pod has all ports for itself, with ways in and out.

Processes of a pod get the arguments of their Deployment as they are; two of them would not find their ports free on one
machine. Nothing of the machine's network changes: bytes are carried between sockets of both sides.
"""

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import pytest

from tests.e2e.proxies import Streams, TcpProxy

T = TypeVar("T")

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET: Final = 0x40000000
_SET_FLAGS, _SET_ADDRESS, _IFF_UP = 0x8914, 0x8916, 0x1


class Sandbox:
    """The network of one pod.

    Args:
        address: the pod's, beside the whole of 127.0.0.0/8.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        # sockets belong to the namespace of the thread that makes them: this one lives in the pod's
        self._inside = ThreadPoolExecutor(max_workers=1)
        self._namespace: int | None = None
        self._ways: list[TcpProxy] = []

    async def open(self) -> None:
        """Makes it; the test is skipped where that is not allowed."""
        try:
            self._namespace = await self._there(self._set_up)
        except PermissionError:
            pytest.skip("no network namespaces here: they need root")

    def _set_up(self) -> int:
        if _LIBC.unshare(_CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            up = struct.pack("16sh14x", b"lo", _IFF_UP)
            fcntl.ioctl(any_socket, _SET_FLAGS, up)
            own = struct.pack(
                "16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(self.address)
            )
            fcntl.ioctl(any_socket, _SET_ADDRESS, own)
        return os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)

    @property
    def words(self) -> tuple[str, ...]:
        """What stands before a command that is to run in it."""
        assert self._namespace is not None, "not open"
        return "nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespace}"

    async def lets_out(self, host: str, port: int, beyond: int) -> None:
        """Who connects to host and port inside of it reaches that port of 127.0.0.1 of the machine."""
        listening = await self._there(lambda: socket.create_server((host, port)))
        await self._begin(TcpProxy(beyond, listening=listening))

    async def lets_in(self, port: int, *, forwarded: bool = False) -> int:
        """A port of 127.0.0.1 of the machine; who connects to it reaches `port` of the pod.

        At the pod's address, as a Service or a probe does; `forwarded`: at its loopback, as `kubectl port-forward`.
        """
        inside = ("127.0.0.1" if forwarded else self.address, port)

        async def onward() -> Streams:
            made = await self._there(lambda: socket.create_connection(inside, timeout=1))
            made.setblocking(False)
            return await asyncio.open_connection(sock=made)

        return await self._begin(TcpProxy(onward=onward))

    async def _begin(self, way: TcpProxy) -> int:
        await way.start()
        self._ways.append(way)
        return way.port

    async def close(self) -> None:
        """Ends all connections; the namespace goes with its last process."""
        for way in self._ways:
            await way.stop()
        self._inside.shutdown()
        if self._namespace is not None:
            os.close(self._namespace)
            self._namespace = None

    async def _there(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._inside, job)
