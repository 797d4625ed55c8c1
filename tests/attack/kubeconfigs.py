"""Kubeconfigs that are there to cost time, memory or an answer on the terminal; each below what a Secret takes."""

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import NameOID, ObjectIdentifier

from tests.support.certs import Authority
from tests.support.kubeconfigs import kubeconfig_of

NAMESPACE: Final = "shoot--dev--one"
SERVER: Final = f"https://kube-apiserver.{NAMESPACE}.svc"
LONG: Final = 380_000
"""Bytes of most of them."""


def kubeconfig(
    *,
    server: str = SERVER,
    ca: bytes | str | None = None,
    user: Mapping[str, str] | None = None,
    more: str = "",
) -> bytes:
    """One that is as it should be, but for what is given; `more` is YAML at its end."""
    cluster = {"server": server, "certificate-authority-data": _text(ca)}
    document = kubeconfig_of("c", cluster, {"token": "t"} if user is None else dict(user))
    lines = [f"{key}: {json.dumps(value)}" for key, value in document.items()]
    return "\n".join([*lines, more]).encode()


def _text(ca: bytes | str | None) -> str:
    if isinstance(ca, str):
        return ca
    return base64.b64encode(_authority().pem if ca is None else ca).decode()


@cache
def _authority() -> Authority:
    return Authority.create()


@cache
def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def unsigned(
    number: int,
    subject: x509.Name,
    issuer: x509.Name,
    key: CertificatePublicKeyTypes,
    *,
    ca: bool = True,
) -> x509.CertificateBuilder:
    """A certificate with this serial number, of an authority or a server, that is to be signed."""
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(number)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=9_999))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )


def certificate(number: int = 1, *, names: int = 1, set_of: int = 0, others: int = 0) -> bytes:
    """A certificate, PEM, of an authority that signed itself.

    Args:
        number: tells them apart.
        names: attributes of its subject, each on its own.
        set_of: attributes of its subject in one set.
        others: so many alternative names.
    """
    common = [
        x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COMMON_NAME, f"{number}-{n}")])
        for n in range(names)
    ]
    if set_of:
        kinds = (ObjectIdentifier(f"1.2.3.{n}") for n in range(set_of))
        common.append(x509.RelativeDistinguishedName(x509.NameAttribute(k, "a") for k in kinds))
    name = x509.Name(common)
    made = unsigned(number, name, name, _key().public_key())
    if others:
        alternatives = x509.SubjectAlternativeName(x509.DNSName(f"a{n}.b") for n in range(others))
        made = made.add_extension(alternatives, critical=False)
    return made.sign(_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def bundle(number: int) -> bytes:
    """So many valid certificates."""
    return b"".join(certificate(n + 1) for n in range(number))


def _encrypted_certificate() -> bytes:
    """OpenSSL asks for its password."""
    head, _, body = certificate().partition(b"\n")
    vector = b"0" * 32
    return head + b"\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC," + vector + b"\n\n" + body


def _user_of(certificates: bytes, key: bytes) -> dict[str, str]:
    return {
        "client-certificate-data": base64.b64encode(certificates).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }


def _client(chain: int) -> bytes:
    pair = _authority().client("c")
    return kubeconfig(user=_user_of(pair.certificate + bundle(chain), pair.key))


def _encrypted_key() -> bytes:
    """OpenSSL asks for its password."""
    locked = _key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    return kubeconfig(user=_user_of(certificate(), locked))


def _short_key() -> bytes:
    return _key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _key_of(body: bytes) -> bytes:
    block = b"-----BEGIN PRIVATE KEY-----\n" + body + b"\n-----END PRIVATE KEY-----\n"
    return kubeconfig(user=_user_of(certificate(), block))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return (
        bytes([tag])
        + (bytes([size]) if size < 128 else bytes([0x80 | len(length)]) + length)
        + content
    )


def _integer(number: int) -> bytes:
    return _der(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _dsa_key(bits: int) -> bytes:
    """OpenSSL works out its public part: that takes the third power of `bits`, 6 s with 24,000."""
    prime, order, base, secret = (1 << bits) - 159, (1 << 256) - 189, 3, (1 << bits) - 1
    kind = bytes.fromhex("06072a8648ce380401")
    parameters = _der(0x30, _integer(prime) + _integer(order) + _integer(base))
    whole = _integer(0) + _der(0x30, kind + parameters) + _der(4, _integer(secret))
    return _key_of(base64.encodebytes(_der(0x30, whole)).strip())


def _tokens(text: str) -> bytes:
    """As the token of its user, unquoted."""
    return kubeconfig(user={}).replace(b'"user": {}', b'"user": {"token": ' + text.encode() + b"}")


def _unspaced(pem: bytes, between: str) -> str:
    return between.join(base64.b64encode(pem).decode())


MERGES: Final = "a: {<<: [" + "{}," * 120_000 + "{}]}"
LAUGHS: Final = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
PRIME: Final = 2**61 - 1
"""Integers that differ by it have the same hash."""

HOSTILE: Final[Mapping[str, Callable[[], bytes]]] = {
    # what a resolver or a constructor of YAML 1.1 would make of it
    "an integer of base 60": lambda: _tokens("1" + ":1" * 190_000),
    "a float of base 60": lambda: _tokens("1" + ":1" * 190_000 + ".5"),
    "an integer of hundreds of thousands of digits": lambda: _tokens("9" * LONG),
    "an integer with hundreds of thousands of underscores": lambda: _tokens("9" + "_" * LONG),
    "a hexadecimal integer": lambda: _tokens("0x" + "f" * LONG),
    "a float with a long fraction": lambda: _tokens("1." + "1" * LONG),
    "nearly a timestamp": lambda: _tokens("2026-01-01" + " " * LONG + "x"),
    "integers whose hashes collide": lambda: kubeconfig(
        more="a: {" + ",".join(f"{n * PRIME}: x" for n in range(14_000)) + "}"
    ),
    "120,000 merges": lambda: kubeconfig(more=MERGES),
    "merges in merges": lambda: kubeconfig(more="a: " + "{<<: " * 5_000 + "x" + "}" * 5_000),
    "binary data": lambda: kubeconfig(more=f"a: !!binary {'QUFB' * 90_000}"),
    "a tag of Python": lambda: kubeconfig(more="a: !!python/object/apply:os.system [sleep 9]"),
    "a tag without end": lambda: kubeconfig(more=f"a: !<{'a' * LONG}> b"),
    "an ordered mapping": lambda: kubeconfig(more="a: !!omap [" + "{a: b}," * 50_000 + "]"),
    # what a parser of YAML has to walk through
    "190,000 scalars": lambda: b"[" + b"a," * 190_000 + b"]",
    "as many in a mapping": lambda: b"{" + b"".join(b"%d: a, " % n for n in range(36_000)) + b"}",
    "one key again and again": lambda: b"a: b\n" * 75_000,
    "lists in lists, flowing": lambda: b"[" * LONG,
    "mappings in mappings, flowing": lambda: b"{" * LONG,
    "lists in lists, in blocks": lambda: b"- " * (LONG // 2),
    "keys of keys": lambda: b"? " * (LONG // 2),
    "stairs": lambda: b"".join(b" " * n + b"a:\n" for n in range(860)),
    "a thousand laughs": LAUGHS.encode,
    "anchors": lambda: b"".join(b"a%d: &a%d x\n" % (n, n) for n in range(20_000)),
    "27,000 TAG directives": lambda: (
        b"".join(b"%%TAG !%x! b\n" % n for n in range(27_000)) + b"--- " + kubeconfig()[:9]
    ),
    "TAG directives behind a byte order mark": lambda: (
        b"\xef\xbb\xbf" + b"".join(b"%%TAG !%x! b\r" % n for n in range(27_000)) + b"--- a"
    ),
    "unknown directives": lambda: b"%FOO a\n" * 54_000 + b"--- a",
    "documents": lambda: b"--- a\n" * 63_000,
    "comments": lambda: b"#\n" * (LONG // 2) + kubeconfig(),
    "one long comment": lambda: b"#" * LONG + b"\n" + kubeconfig(),
    "empty lines": lambda: b"\n" * LONG + kubeconfig(),
    "spaces": lambda: kubeconfig(more=" " * LONG),
    "tabs": lambda: kubeconfig(more="a:" + "\t" * LONG + "b"),
    "a plain scalar of many lines": lambda: kubeconfig(more="a: " + "x\n " * (LONG // 3)),
    "a quoted scalar of many lines": lambda: kubeconfig(more='a: "' + "x\n " * (LONG // 3) + '"'),
    "escapes": lambda: kubeconfig(more='a: "' + "\\u00e9" * (LONG // 6) + '"'),
    "a literal block": lambda: kubeconfig(more="a: |\n" + " x\n" * (LONG // 3)),
    "a folded block of empty lines": lambda: kubeconfig(more="a: >\n" + "\n" * LONG + " x"),
    "colons": lambda: kubeconfig(more="a: " + "a:" * (LONG // 2)),
    "a long key": lambda: b"a" * LONG + b": b",
    "line breaks that only Unicode knows": ('a: "' + "\u2028" * 125_000 + '"').encode,
    "UTF-16": lambda: kubeconfig().decode().encode("utf-16") + b"a\0" * 180_000,
    "no text": lambda: b"\xff" * LONG,
    "more than a megabyte": lambda: b"a: " + b"x" * (1 << 20),
    # what it may name
    "fields that nobody knows": lambda: kubeconfig(
        more="".join(f"a{n}: b\n" for n in range(36_000))
    ),
    "a server without end": lambda: kubeconfig(server="https://" + "a." * (LONG // 2)),
    "a token without end": lambda: kubeconfig(user={"token": "t" * LONG}),
    "a token of spaces": lambda: kubeconfig(user={"token": " " * LONG}),
    # what it trusts, and shows
    "a bundle of 2,200 authorities": lambda: kubeconfig(ca=bundle(2_200)),
    "a bundle of 101 authorities": lambda: kubeconfig(ca=bundle(101)),
    "one authority 600 times": lambda: kubeconfig(ca=certificate() * 600),
    "base64 in single characters": lambda: kubeconfig(ca=_unspaced(bundle(99), "\n\t ")),
    "base64 of nothing": lambda: kubeconfig(ca="A" * LONG),
    "begins without ends": lambda: kubeconfig(ca=b"-----BEGIN CERTIFICATE-----\n" * 9_900),
    "nearly begins": lambda: kubeconfig(ca=b"-----BEGIN " * 25_500),
    "a block without end": lambda: kubeconfig(ca=b"-----BEGIN CERTIFICATE-----\n" + b"A" * 280_000),
    "a certificate of garbage": lambda: kubeconfig(
        ca=b"-----BEGIN CERTIFICATE-----\n" + b"A" * 280_000 + b"\n-----END CERTIFICATE-----\n"
    ),
    "a certificate that asks for its password": lambda: kubeconfig(ca=_encrypted_certificate()),
    "a client with a chain of 300": lambda: _client(300),
    "a key that asks for its password": _encrypted_key,
    "a key of garbage": lambda: _key_of(b"A" * 280_000),
    "a key of DSA, most of which has to be worked out": lambda: _dsa_key(24_000),
    "a key of DSA that is as long as may be": lambda: _dsa_key(11_000),
    "many keys": lambda: kubeconfig(user=_user_of(certificate(), _short_key() * 99)),
    "100 authorities": lambda: kubeconfig(ca=bundle(100)),
    "a client with a chain of 99": lambda: _client(99),
    "an authority of 6,000 names": lambda: kubeconfig(ca=certificate(names=6_000)),
    "an authority of one name in 9,000 parts": lambda: kubeconfig(ca=certificate(set_of=9_000)),
    "an authority of 20,000 alternative names": lambda: kubeconfig(ca=certificate(others=20_000)),
    "40 authorities of 150 names": lambda: kubeconfig(
        ca=b"".join(certificate(n + 1, names=150) for n in range(40))
    ),
}
ACCEPTED: Final = frozenset(
    {
        "comments",
        "one long comment",
        "empty lines",
        "spaces",
        "base64 in single characters",
        "100 authorities",
        "a client with a chain of 99",
        "an authority of 6,000 names",
        "an authority of one name in 9,000 parts",
        "an authority of 20,000 alternative names",
        "40 authorities of 150 names",
    }
)
"""Those of them that say nothing wrong, as large as they are."""
