"""Certificate authorities and the certificates that they sign.

Keys are elliptic curves, so that three hundred certificates take only a second. Subject and authority key identifiers
are set because Python 3.13 and later verify strictly.
"""

import datetime as dt
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.core.clock import wall_clock

_DAY: Final = dt.timedelta(days=1)
# Days.
_VALID: Final = 2.0
LOCAL: Final = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class CertificateAuthority:
    """A certificate authority; `pem` is its certificate, which clients trust."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def create(cls, name: str = "ca") -> Self:
        """Creates a new authority."""
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
        subject = named(name)
        certificate = (
            _begin(subject, subject, key.public_key(), key.public_key(), days=_VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    def server(self, hosts: Iterable[str] = LOCAL, *, days: float = _VALID) -> Pair:
        """Issues a server certificate for `hosts`, valid from two days ago for a number of days."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self.leaf(named("server"), [names, purpose], days=days)

    def leaf(
        self,
        subject: x509.Name,
        extensions: Sequence[x509.ExtensionType],
        *,
        days: float = _VALID,
    ) -> Pair:
        """Issues a certificate for `subject` with these extensions."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self._certificate.subject
        builder = _begin(
            subject, issuer, key.public_key(), self._key.public_key(), days=days
        ).add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Returns `key` as unencrypted PKCS #8 in PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def named(common: str, groups: Iterable[str] = ()) -> x509.Name:
    """Returns the subject of a user or server, with its groups as organizations."""
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    *,
    days: float,
) -> x509.CertificateBuilder:
    # Clients verify TLS by the machine's clock, whatever the time line of the world is.
    now = dt.datetime.fromtimestamp(wall_clock(), dt.UTC)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(authority, critical=False)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
