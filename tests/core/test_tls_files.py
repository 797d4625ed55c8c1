"""A server's certificate and key: who sees which, what is refused with which words, and how they are swapped."""

import asyncio
import datetime as dt
import os
import ssl
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from app.core.clock import Clock
from app.core.errors import ConfigurationError
from app.core.tls import load_chain, load_tls, server_context
from bench.hostile.servers import offer_only
from tests.support.certs import Authority, Pair

pytestmark = pytest.mark.looptime(False)  # real sockets

AUTHORITY = Authority.create()
FIRST, SECOND = AUTHORITY.server(), AUTHORITY.server()


def rsa_pair(bits=2048) -> Pair:
    """A certificate that vouches for itself, with a key of another kind."""
    key = rsa.generate_private_key(65537, bits)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(dt.datetime(2020, 1, 1)).not_valid_after(dt.datetime(2120, 1, 1))  # noqa: DTZ001 - the builder takes UTC without saying so
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(made.sign(key, hashes.SHA256()).public_bytes(pem), private)


def encrypted(pair: Pair) -> bytes:
    return serialization.load_pem_private_key(pair.key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


class Files:
    """The two files, in a folder."""

    def __init__(self, folder):
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"

    def write(self, pair: Pair, mode=0o600):
        self.certificate.write_bytes(pair.certificate)
        self.key.write_bytes(pair.key)
        self.key.chmod(mode)

    async def load(self):
        return await load_tls(self.certificate, self.key, Clock.of_loop())


@pytest.fixture
def files(tmp_path):
    found = Files(tmp_path)
    found.write(FIRST)
    return found


def der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.decode().split("\n-----BEGIN", 1)[0])


@asynccontextmanager
async def serving(context, meeting=None):
    """A server that says `hello`, where there is a meeting after two of them; gives its port."""

    async def hello(reader, writer):
        for _ in range(2 if meeting else 0):
            await meeting.wait()
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def shown(port, *, host: str | None = "localhost", ciphers=None):
    """The certificate that a client is shown."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if ciphers is not None:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname=host or ""
    )
    assert await reader.read() == b"hello"
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return found


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", None])
async def test_a_client_is_shown_the_certificate_whether_it_names_a_host_or_not(files, host):
    async with serving(server_context(await files.load())) as port:
        assert await shown(port, host=host) == der(FIRST)


async def test_a_new_pair_is_shown_to_new_connections_on_the_same_socket(files):
    found = await files.load()
    async with serving(server_context(found)) as port:
        assert await shown(port) == der(FIRST)
        files.write(SECOND)
        await found.check()
        assert await shown(port) == der(SECOND)
    assert found.trouble is None


async def test_a_key_of_another_kind_leaves_nothing_of_the_old_pair(files):
    other = rsa_pair()
    found = await files.load()
    async with serving(server_context(found)) as port:
        files.write(other)
        await found.check()
        assert await shown(port) == der(other)
        with pytest.raises((ssl.SSLError, ConnectionResetError)):  # one who wants the old kind
            await shown(port, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256")


async def test_a_connection_that_is_open_survives_the_swap(files):
    found, meeting = await files.load(), asyncio.Barrier(2)
    async with serving(server_context(found), meeting) as port:
        opened = asyncio.ensure_future(shown(port))
        await meeting.wait()
        files.write(SECOND)
        await found.check()
        await meeting.wait()
        assert await opened == der(FIRST)


async def test_a_pair_that_is_half_written_changes_nothing_and_is_taken_when_whole(files):
    found = await files.load()
    async with serving(server_context(found)) as port:
        files.certificate.write_bytes(SECOND.certificate)
        with capture_logs() as logged:
            await found.check()
        assert found.trouble == f"{files.key}: (file): is the private key of another certificate"
        assert [each["log_level"] for each in logged] == ["error"]
        assert await shown(port) == der(FIRST)
        files.key.write_bytes(SECOND.key)
        await found.check()
        assert (found.trouble, await shown(port)) == (None, der(SECOND))


async def test_less_than_tls_1_2_is_refused(files):
    found = await files.load()
    assert found.value.minimum_version is ssl.TLSVersion.TLSv1_2
    assert server_context(found).minimum_version is ssl.TLSVersion.TLSv1_2


async def refusal(files) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await files.load()
    assert "BEGIN" not in repr(caught.value) + repr(caught.value.__cause__)
    return str(caught.value)


async def test_a_key_of_another_kind_is_refused(files):
    files.key.write_bytes(rsa_pair().key)
    assert str(files.key) in await refusal(files)


async def test_a_key_that_others_may_read_is_refused(files):
    files.key.chmod(0o644)
    assert "may be read or written by others" in await refusal(files)


INVALID = "{key}: (file): cannot be used together with {certificate}: one of them is invalid"
NO_KEY = "{key}: (file): is not a private key in PEM"
IN_THE_OPEN = "{certificate}: (file): must hold certificates only, and holds a private key"


@pytest.mark.parametrize(
    ("certificate", "key", "expected"),
    [
        (b"", FIRST.key, INVALID),
        (b"junk", FIRST.key, INVALID),
        (FIRST.certificate, b"", NO_KEY),
        (FIRST.certificate, FIRST.certificate, NO_KEY),
        (FIRST.certificate, SECOND.key, "{key}: (file): is the private key of another certificate"),
        # Nobody is asked for a password.
        (FIRST.certificate, encrypted(FIRST), "{key}: (file): the key is encrypted"),
        (FIRST.certificate + FIRST.key, FIRST.key, IN_THE_OPEN),
    ],
    ids=["no certificate", "junk", "no key", "a certificate", "another's", "encrypted", "open"],
)
async def test_what_is_no_pair_is_refused(files, certificate, key, expected):
    files.certificate.write_bytes(certificate)
    files.key.write_bytes(key)
    assert await refusal(files) == expected.format(certificate=files.certificate, key=files.key)


async def test_no_client_can_ask_for_a_handshake_that_takes_long(files):
    costly = ssl.create_default_context()
    costly.check_hostname, costly.verify_mode = False, ssl.CERT_NONE
    offer_only(costly, b"ffdhe8192")
    async with serving(server_context(await files.load())) as port:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=costly, server_hostname="a")
        assert await shown(port) == der(FIRST)


@pytest.mark.parametrize("memory", [True, False])
def test_a_pair_is_loaded_from_memory_or_where_there_is_none_from_a_file_for_a_moment(
    monkeypatch, memory
):
    if not memory:
        monkeypatch.delattr(os, "memfd_create")
    before = len(list(Path("/proc/self/fd").iterdir()))
    load_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), FIRST.certificate + FIRST.key)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
