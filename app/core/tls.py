"""Loads certificates and keys from memory: OpenSSL needs a file, and the root file system is read-only."""

import mmap
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


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
