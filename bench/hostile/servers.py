"""Hostile API servers as a process of their own.

`python -m bench.hostile.servers FILE` says `ready` in one line, and serves until its input ends. The file has a list
of JSON objects: of each server the kind, the port, and certificate and key as PEM.
"""

import contextlib
import ctypes
import json
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Final

from app.core.tls import load_chain
from bench.hostile.kinds import KINDS, Kind
from bench.hostile.talk import LIBSSL, Gone, Talk

HOST: Final = "127.0.0.1"
_BACKLOG: Final = 64
_SET_GROUPS: Final = 92
"""SSL_CTRL_SET_GROUPS_LIST, of OpenSSL."""


def context_of(kind: str, pair: bytes) -> ssl.SSLContext:
    """What the server of this kind shakes hands with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_chain(context, pair)
    match kind:
        case "tickets":
            context.num_tickets = 20_000
        case "handshakes-again":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        case "a-large-group":
            offer_only(context, b"ffdhe8192")
        case _:
            pass
    return context


def offer_only(context: ssl.SSLContext, group: bytes) -> None:
    """Keys are agreed on in this group alone, which Python has no word for."""
    wrapped = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    address = ctypes.c_void_p(wrapped.value)
    ctypes.CDLL(LIBSSL).SSL_CTX_ctrl(address, _SET_GROUPS, 0, group)


def serve(kind: str, port: int, pair: bytes) -> None:
    """Answers on one port for ever."""
    context, answer = context_of(kind, pair), KINDS[kind]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_talk, args=(connection, context, answer), daemon=True).start()


def _talk(connection: socket.socket, context: ssl.SSLContext, answer: Kind) -> None:
    with contextlib.suppress(OSError, Gone, ssl.SSLError), connection:
        talk = Talk(connection, context)
        talk.shake_hands()
        while True:
            talk.next_request()
            answer(talk)


def main() -> None:
    for each in json.loads(Path(sys.argv[1]).read_text()):
        pair = (each["certificate"] + each["key"]).encode()
        asked = each["kind"], each["port"], pair
        threading.Thread(target=serve, args=asked, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
