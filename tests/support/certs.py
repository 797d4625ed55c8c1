"""Certificates for servers and clients of the tests: those of the simulation, and some that it has no use for."""

import ssl
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from app.core.tls import load_chain
from app.simulation.server import certificates
from app.simulation.server.certificates import LOCAL, Pair, named, private_pem

__all__ = ["LOCAL", "Authority", "Pair", "server_context", "signing_pair"]


class Authority(certificates.CertificateAuthority):
    """A certificate authority; `pem` is what its clients trust."""

    def server(
        self, hosts: Iterable[str] = LOCAL, *, days: float = 2.0, expired: bool = False
    ) -> Pair:
        """A certificate of a server that is reached under `hosts`."""
        return super().server(hosts, days=-1.0 if expired else days)

    def client(self, user: str, groups: Iterable[str] = ()) -> Pair:
        """A certificate that makes its owner `user`, in `groups`."""
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self.leaf(named(user, groups), [purpose])


def server_context(pair: Pair) -> ssl.SSLContext:
    """For a server that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_chain(context, pair.certificate + pair.key)
    return context


def signing_pair() -> tuple[bytes, bytes]:
    """A private key for ServiceAccount tokens, and the public key that checks them."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private_pem(key), public
