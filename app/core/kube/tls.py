"""TLS contexts that trust one CA bundle and nothing else (threat T4)."""

import mmap
import os
import ssl

from app.core.errors import CredentialRefused
from app.core.kube.credentials import ClientCertificate


def client_context(ca: str, client: ClientCertificate | None = None) -> ssl.SSLContext:
    """A context for servers whose certificate the bundle `ca` (PEM) vouches for; host names are checked.

    Raises:
        CredentialRefused: the bundle, the client certificate or its key is none.
    """
    context = ssl.SSLContext(
        ssl.PROTOCOL_TLS_CLIENT
    )  # checks host names and certificates from the start
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=ca)
    except (ssl.SSLError, ValueError):
        # the cause may quote what it could not read
        raise CredentialRefused("malformed", "certificate-authority-data is no CA bundle") from None
    if client is not None:
        _load(context, client)
    return context


def _load(context: ssl.SSLContext, client: ClientCertificate) -> None:
    """Loads the client certificate from memory: OpenSSL wants a file, and the root file system is read-only."""
    pem = client.certificate + b"\n" + client.key
    descriptor = os.memfd_create("client", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, len(pem))
        with mmap.mmap(descriptor, len(pem)) as memory:
            memory[:] = pem
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=no_password)
    except (ssl.SSLError, ValueError):
        message = "client-certificate-data and client-key-data are no pair that can be used"
        raise CredentialRefused("malformed", message) from None
    finally:
        os.close(descriptor)


def no_password() -> str:
    """Refuses a key that is encrypted; without this OpenSSL would ask on the terminal, and wait."""
    raise ValueError("the key is encrypted")
