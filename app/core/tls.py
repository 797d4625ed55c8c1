"""Certificates with their keys, loaded from memory: OpenSSL wants a file, and the root file system is read-only."""

import mmap
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """Loads a certificate chain and its private key, one after the other in `pem`.

    Raises:
        ssl.SSLError: they are no pair.
        ValueError: the key is encrypted.
    """
    with as_file(pem) as path:
        context.load_cert_chain(path, password=no_password)


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """The path of a file of this content, in memory and readable by us alone, for as long as the context lasts."""
    if not hasattr(os, "memfd_create"):  # not on Linux: a file that only we can read, for a moment
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
    """Refuses a key that is encrypted; without this OpenSSL would ask on the terminal, and wait."""
    raise ValueError("the key is encrypted")
