"""The bytes that a process has sent and received, by its open TCP connections; asked of the kernel (sock_diag)."""

import os
import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SOCK_DIAG, _DUMP_REQUEST, _BY_FAMILY, _DONE = 4, 0x301, 20, 3
_HEADER: Final = struct.Struct("=IHHII")
_ASK: Final = struct.Struct("=BBBBI48x")
_SHOWN: Final = struct.Struct("=4x2xH44x16xI")
"""Of an answer: the other side's port (big endian), the inode of the socket."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_INFO: Final = 2
_BYTES: Final = struct.Struct("=120xQQ")
"""Of `struct tcp_info`: the bytes of ours that were acknowledged, and those received."""
_ESTABLISHED: Final = 1 << 1
_ROOM: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Connection:
    """One open TCP connection."""

    port: int
    """Of the other side."""
    sent: int
    received: int


def connections(data: bytes) -> Iterator[tuple[int, Connection]]:
    """Inode and connection of each message of a dump."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if kind == _BY_FAMILY:
            port, inode = _SHOWN.unpack_from(data, at + _HEADER.size)
            sent, received = _traffic(data[at + _HEADER.size + _SHOWN.size : at + length])
            yield inode, Connection(socket.ntohs(port), sent, received)
        at += max(length + 3 & ~3, _HEADER.size)


def _traffic(attributes: bytes) -> tuple[int, int]:
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if kind == _INFO:
            sent, received = _BYTES.unpack_from(attributes, at + _ATTRIBUTE.size)
            return sent, received
        at += max(length + 3 & ~3, _ATTRIBUTE.size)
    return 0, 0


def of(pid: int, ports: Collection[int]) -> Mapping[int, Connection]:
    """The open connections of a process to these ports, by inode."""
    ours = {
        int(link.removeprefix("socket:[").rstrip("]"))
        for link in _links(Path("/proc", str(pid), "fd"))
        if link.startswith("socket:[")
    }
    return {inode: each for inode, each in _dump().items() if inode in ours and each.port in ports}


def _links(folder: Path) -> Iterator[str]:
    for each in folder.iterdir():
        try:
            yield str(each.readlink())
        except OSError:  # closed meanwhile
            continue


def _dump() -> dict[int, Connection]:
    found: dict[int, Connection] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        body = _ASK.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _ESTABLISHED)
        kernel.send(
            _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _DUMP_REQUEST, 1, os.getpid()) + body
        )
        while True:
            data = kernel.recv(_ROOM)
            found.update(connections(data))
            if _HEADER.unpack_from(data)[1] == _DONE or not data:
                return found


def moved(before: Mapping[int, Connection], after: Mapping[int, Connection]) -> tuple[int, int]:
    """Bytes sent and received between two probes, TLS included, TCP's own headers not.

    Of connections that were closed in between nothing is known.
    """
    none = Connection(0, 0, 0)
    sent = sum(each.sent - before.get(inode, none).sent for inode, each in after.items())
    received = sum(
        each.received - before.get(inode, none).received for inode, each in after.items()
    )
    return sent, received
