"""TLS contexts that trust one CA bundle and nothing else (threat T4)."""

import ssl

from app.core.errors import CredentialRefused
from app.core.kube.kubeconfig import ClientCertificate
from app.core.bounded_tls import BoundedContext, agree_cheaply
from app.core.tls import as_file, load_chain
from app.core.fair_queue import Consumer


def client_context(
    ca: str, client: ClientCertificate | None = None, consumer: Consumer | None = None
) -> BoundedContext:
    """A context for servers whose certificate the bundle `ca` (PEM) vouches for; host names are checked.

    What a stranger wrote is for another thread.

    Args:
        ca: the bundle.
        client: what we show.
        consumer: who is charged for what the servers answer.

    Raises:
        CredentialRefused: the bundle, the client certificate or its key is none.
    """
    context = BoundedContext(consumer)
    agree_cheaply(context)
    try:
        # as a file: only then does Python let others run meanwhile, and a hundred certificates take 10 to 30 ms
        with as_file(ca.encode()) as path:
            context.load_verify_locations(cafile=path)
    except (ssl.SSLError, ValueError):
        # the cause may quote what it could not read
        raise CredentialRefused("malformed", "certificate-authority-data is no CA bundle") from None
    if client is not None:
        _load(context, client)
    return context


def _load(context: ssl.SSLContext, client: ClientCertificate) -> None:
    try:
        load_chain(context, client.certificate + b"\n" + client.key)
    except (ssl.SSLError, ValueError):
        message = "client-certificate-data and client-key-data are no pair that can be used"
        raise CredentialRefused("malformed", message) from None
