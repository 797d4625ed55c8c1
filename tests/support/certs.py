"""Certificates for servers and clients of the tests: elliptic curves, so that they cost milliseconds.

Subject and authority key identifiers are set: Python 3.13 and later verify strictly.
"""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = dt.timedelta(days=1)
LOCAL = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority; `pem` is what its clients trust."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def create(cls, name: str = "test-ca") -> Self:
        """A new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _begin(_name(name), _name(name), key.public_key(), key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    def server(self, hosts: Iterable[str] = LOCAL, *, expired: bool = False) -> Pair:
        """A certificate of a server that is reached under `hosts`."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self._leaf(_name("server"), [names, purpose], expired=expired)

    def client(self, user: str, groups: Iterable[str] = ()) -> Pair:
        """A certificate that makes its owner `user`, in `groups`."""
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._leaf(_name(user, groups), [purpose])

    def _leaf(
        self, subject: x509.Name, extensions: list[x509.ExtensionType], *, expired: bool = False
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self._certificate.subject
        builder = _begin(
            subject, issuer, key.public_key(), self._key.public_key(), expired=expired
        ).add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """`key` as unencrypted PKCS #8."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def signing_pair() -> tuple[bytes, bytes]:
    """A private key for ServiceAccount tokens, and the public key that checks them."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private_pem(key), public


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    *,
    expired: bool = False,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    until = now - _DAY if expired else now + 2 * _DAY
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(authority, critical=False)
    )


def _name(common: str, groups: Iterable[str] = ()) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
