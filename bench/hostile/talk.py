"""One connection of a hostile API server, every byte and every TLS record of it decided by its kind.

Blocking, in a thread of its own, with OpenSSL on memory: a record of one byte costs the server 1.5 µs, as it costs who
reads it.
"""

import ctypes
import functools
import json
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Final

from app.core.model.instants import rfc3339

LIBSSL: Final = "libssl.so.3"
_PIECE: Final = 1 << 18
_RENEWED: Final = rfc3339(time.time() - 3600.0)
"""The same at each probe: what moves on is renewed, by a clock that is an hour behind."""


class Gone(Exception):
    """The other side has ended the connection."""


def change_keys(tls: ssl.SSLObject) -> None:
    """Makes new keys for what this side sends (TLS 1.3), which Python has no word for."""
    library, session = _openssl(tls)
    library.SSL_key_update(session, 0)
    library.SSL_do_handshake(session)


def renegotiate(tls: ssl.SSLObject) -> None:
    """Asks for another handshake (TLS 1.2), which Python has no word for."""
    library, session = _openssl(tls)
    library.SSL_renegotiate(session)
    library.SSL_do_handshake(session)


def _openssl(tls: ssl.SSLObject) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """OpenSSL's own object, which Python does not give away: the second pointer of its wrapper."""
    head = object.__basicsize__
    wrapper = id(vars(tls)["_sslobj"])
    address = ctypes.c_void_p.from_address(wrapper + head + ctypes.sizeof(ctypes.c_void_p))
    return ctypes.CDLL(LIBSSL), ctypes.c_void_p(address.value)


class Talk:
    """One connection: what was asked last, and the means to answer it."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self._connection = connection
        connection.settimeout(60.0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._heard = b""
        self.path = ""

    def shake_hands(self) -> None:
        """Until there is TLS."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._hear()
            else:
                self._flush()
                return

    def next_request(self) -> None:
        """Waits for the head of the next one; no request to a shoot has a body."""
        while b"\r\n\r\n" not in self._heard:
            try:
                part = self._tls.read(1 << 16)
                if not part:
                    raise Gone
                self._heard += part
            except ssl.SSLWantReadError:
                self._flush()
                self._hear()
        head, self._heard = self._heard.split(b"\r\n\r\n", 1)
        self.path = head.split(b" ", 2)[1].decode()

    def _hear(self) -> None:
        data = self._connection.recv(1 << 16)
        if not data:
            raise Gone
        self._incoming.write(data)

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._connection.sendall(data)

    # What it says.

    def send(self, data: bytes) -> None:
        """In as few TLS records as that takes."""
        for start in range(0, len(data), _PIECE):
            self._tls.write(data[start : start + _PIECE])
            self._flush()

    def records(self, data: bytes, size: int = 1) -> None:
        """In TLS records of `size` bytes, as fast as they are taken."""
        for number, start in enumerate(range(0, len(data), size)):
            self._tls.write(data[start : start + size])
            if number % 2048 == 0:
                self._flush()
        self._flush()

    def segments(self, data: bytes, size: int, every: float) -> None:
        """In TLS records of `size` bytes, each sent by itself, so many seconds apart."""
        for start in range(0, len(data), size):
            self._tls.write(data[start : start + size])
            self._flush()
            time.sleep(every)

    def plain(self, data: bytes) -> None:
        """Beside TLS."""
        self._connection.sendall(data)

    def nothing(self) -> None:
        """Says nothing more until the other side has gone."""
        while True:
            self._hear()

    def end(self) -> None:
        """Ends the connection, without a word."""
        raise Gone

    def key_update(self) -> None:
        """Changes the keys (TLS 1.3)."""
        change_keys(self._tls)
        if self._outgoing.pending > _PIECE:
            self._flush()

    def renegotiate(self) -> None:
        """Asks for another handshake (TLS 1.2)."""
        renegotiate(self._tls)
        self._flush()

    # What an API server would say.

    @property
    def asked(self) -> str:
        """`version`, `leases` or `nodes`."""
        return self.path.split("?", 1)[0].rsplit("/", 1)[-1]

    def answer(self, body: bytes, status: str = "200 OK", **headers: str) -> None:
        """A whole answer."""
        self.send(head(status, {"Content-Length": str(len(body)), **headers}) + body)

    def behave(self) -> None:
        """What an API server would answer, of two nodes that have not been heard of for an hour."""
        self.answer(good(self.asked))


def head(status: str, headers: Mapping[str, str]) -> bytes:
    """The head of an answer."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{lines}\r\n".encode()


CHUNKED: Final = head("200 OK", {"Transfer-Encoding": "chunked"})


@functools.cache  # an attacker would have it ready
def crumbs(data: bytes, size: int = 1, extension: bytes = b"") -> bytes:
    """`data` as the chunks of a body."""
    parts = (data[start : start + size] for start in range(0, len(data), size))
    return b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)


def good(asked: str) -> bytes:
    """What an API server would answer."""
    match asked:
        case "leases":
            return lease_list(["node-1", "node-2"])
        case "nodes":
            return node_list(["node-1", "node-2"])
        case _:
            return b'{"major": "1", "minor": "33", "gitVersion": "v1.33.3"}'


def lease_list(names: Iterable[str], *, more: str = "") -> bytes:
    """Leases that were renewed an hour ago, so that their nodes have to be looked at."""
    spec = {"leaseDurationSeconds": 40, "renewTime": _RENEWED, "holderIdentity": "x"}
    items = [
        {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec} for name in names
    ]
    metadata = {"resourceVersion": "1", "continue": more}
    return listed("LeaseList", items, metadata)


def node_list(names: Iterable[str], *, more: str = "", **status: object) -> bytes:
    """Nodes that are well."""
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    items = [
        {"metadata": {"name": name}, "status": {"conditions": conditions, **status}}
        for name in names
    ]
    return listed("NodeList", items, {"resourceVersion": "1", "continue": more})


def listed(kind: str, items: list[dict[str, object]], metadata: Mapping[str, str]) -> bytes:
    """A list as kube-apiserver writes it."""
    found = {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items}
    return json.dumps(found, separators=(",", ":")).encode()
