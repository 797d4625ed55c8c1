"""The seam below the adapter: what makes the connections that all of its requests, watches and WebSockets use.

The network of the machine is one implementation, and needs nothing of this: it is what `connections` does without a
`Network`. The other one leads to the simulated API servers, in memory and on virtual time, so that tests and random
worlds run everything above a socket (docs/decisions/0044).
"""

import asyncio
import ssl
from typing import Protocol

from app.core.fair_queue import Consumer
from app.core.kube.kubeconfig import ClientCertificate
from app.core.name_lookup import Found


class Network(Protocol):
    """Resolves names, says whom to trust, and connects."""

    async def find(self, host: str) -> Found:
        """Returns the addresses of a name.

        Raises:
            OSError: the name has no address.
        """
        ...

    async def trusting(
        self, ca: str, client: ClientCertificate | None, consumer: Consumer | None
    ) -> ssl.SSLContext:
        """Returns a context that trusts the CA bundle `ca` and nothing else; it identifies the server in the pools.

        Raises:
            CredentialRefused: the bundle, or the client certificate, cannot be used.
        """
        ...

    async def connect(
        self, address: str, port: int, context: ssl.SSLContext | None, reader: asyncio.Protocol
    ) -> asyncio.Transport:
        """Connects `reader` to an address; returns the transport, which `reader` knows already.

        Raises:
            ssl.SSLCertVerificationError: the server shows a certificate that `context` does not trust.
            OSError: no connection could be made.
        """
        ...
