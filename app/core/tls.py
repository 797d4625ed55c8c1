"""Loads certificates and keys from memory, and the TLS context of a server whose certificate files change.

OpenSSL loads a chain only from a file, and the root file system is read-only: the file is one in memory.
"""

import mmap
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from app.core.bounded_tls import agree_cheaply
from app.core.clock import Clock
from app.core.files import Reread, read_file, unusable


def load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """Loads a certificate chain and its private key, concatenated in `pem`.

    Raises:
        ssl.SSLError: they do not belong together.
        ValueError: the key is encrypted.
    """
    with as_file(pem) as path:
        context.load_cert_chain(path, password=no_password)


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """Yields the path of a file with this content, in memory and readable only by us, while the context lasts."""
    if not hasattr(os, "memfd_create"):  # not on Linux: a temporary file that only we can read
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("chain", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, len(content))
        with mmap.mmap(descriptor, len(content)) as memory:
            memory[:] = content
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def no_password() -> str:
    """Refuses an encrypted key; without this OpenSSL would prompt on the terminal and block."""
    raise ValueError("the key is encrypted")


_KEY: Final = b"PRIVATE KEY-----"
_REASONS: Final = {
    "KEY_VALUES_MISMATCH": "is the private key of another certificate",
    "KEY_TYPE_MISMATCH": "is the private key of another certificate",
}


class PemPair(NamedTuple):
    """The contents of the two files."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "PemPair(…)"


TlsFiles = Reread[PemPair, ssl.SSLContext]


async def load_tls(certificate: Path, key: Path, clock: Clock) -> TlsFiles:
    """Reads a certificate (with intermediates) and its private key, both in PEM.

    Raises:
        ConfigurationError: a file cannot be read, others may read the key, or the two do not belong together.
    """

    def read() -> PemPair:
        return PemPair(read_file(certificate, private=False), read_file(key, private=True))

    make = partial(_context, certificate, key)
    return await Reread.load("TLS certificate and key", read, make, clock)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Returns the context to listen with, which hands each new connection to the context of the current pair.

    A new pair is not loaded into the old context: if its key is of another type, OpenSSL would keep both certificates
    and present whichever the client prefers. A new listener would be a gap, or two that share a port.
    """

    # Any: an SSLObject or SSLSocket, depending on the server; called whether or not the client names a host
    def hand_on(connection: Any, name: str | None, outer: ssl.SSLContext) -> None:  # noqa: ANN401, ARG001 - see above
        connection.context = files.value

    context = _empty_context()
    context.sni_callback = hand_on
    return context


def _context(certificate: Path, key: Path, pair: PemPair) -> ssl.SSLContext:
    if _KEY in pair.certificate:
        raise unusable(certificate, "must hold certificates only, and holds a private key")
    if _KEY not in pair.key:
        raise unusable(key, "is not a private key in PEM")
    context = _empty_context()
    try:
        load_chain(context, pair.certificate + b"\n" + pair.key)
    except ssl.SSLError as error:
        other = f"cannot be used together with {certificate}: one of them is invalid"
        # not chained: OpenSSL's message may quote the file
        raise unusable(key, _REASONS.get(error.reason or "", other)) from None
    except ValueError as error:
        raise unusable(key, str(error)) from error
    return context


def _empty_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    agree_cheaply(context)
    return context
