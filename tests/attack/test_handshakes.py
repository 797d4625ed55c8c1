"""No server holds the event loop by what it shakes hands with, nor does what a kubeconfig has us shake hands with."""

import asyncio
import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from app.core.clock import Clock
from app.core.errors import ClusterError
from app.core.handlers.http_get import HttpGets
from app.core.handlers.runs import HandlerRun, Lookup
from app.core.kube.kubeconfig import ServerPolicy
from app.core.kube.shoot import ShootConnector
from app.core.metrics import Metrics
from app.core.model.endpoints import EndpointProbeSpec, HttpGet, Scheme, TargetAddress
from app.core.model.shoots import SecretView
from app.core.tls import load_chain
from bench.hostile.servers import offer_only
from tests.attack.kubeconfigs import kubeconfig, unsigned
from tests.attack.watchdog import on_uvloop, watched
from tests.core.kube.server import SERVER_PAIR
from tests.support.certs import server_context

pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

VERSION = b'{"major": "1", "minor": "33", "gitVersion": "v1.33.3"}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(VERSION), VERSION)


@cache
def quick_key():
    return ec.generate_private_key(ec.SECP256R1())


@cache
def costly_key():
    """One of 3,072 bits whose public exponent has as many: each check of a signature takes 5 ms."""
    made = rsa.generate_private_key(65537, 3072).private_numbers()
    p, q, d = made.p, made.q, 65537
    e = pow(d, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(e, p * q)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public)
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def named(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificate(number, key, signer, *, names=(), constraints=()):
    """One of a chain: number 0 is the root, which signs itself."""
    subject, issuer = named(str(number)), named(str(max(number - 1, 0)))
    made = unsigned(number + 1, subject, issuer, key.public_key(), ca=not names)
    if names:
        alternatives = x509.SubjectAlternativeName(x509.DNSName(each) for each in names)
        made = made.add_extension(alternatives, critical=False)
    if constraints:
        excluded = [x509.DNSName(each) for each in constraints]
        made = made.add_extension(x509.NameConstraints(None, excluded), critical=True)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def chain_of_costly_keys():
    """What is trusted, and what a server shows."""
    key = costly_key()
    root, *others = [certificate(number, key, key) for number in range(61)]
    leaf = certificate(61, quick_key(), key, names=["localhost"])
    return root, [leaf, *reversed(others)]


def names_and_constraints():
    """Each name is compared with each constraint of each authority."""
    constraints = [f"x{number}.y" for number in range(100)]
    key = quick_key()
    root, *others = [certificate(number, key, key, constraints=constraints) for number in range(41)]
    names = ["localhost", *(f"a{number}.b" for number in range(3_000))]
    return root, [certificate(41, key, key, names=names), *reversed(others)]


COSTLY = {
    "a chain of costly keys": chain_of_costly_keys,
    "names and constraints": names_and_constraints,
}


@contextmanager
def serving_tls(context):
    """A server in a thread of its own, which answers each request with a version; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with suppress(OSError), context.wrap_socket(plain, server_side=True) as line:
                        while line.recv(65_536):
                            line.sendall(ANSWER)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def shown(chain, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    load_chain(context, b"".join([*chain, pem]))
    return context


async def asked(port, ca):
    """What held the loop while the version of a shoot was asked for, and what it is."""
    connector = ShootConnector(Clock.system(), Metrics(), ServerPolicy(pattern=".*"))
    config = kubeconfig(server=f"https://localhost:{port}", ca=ca)
    secret = SecretView("shoot--dev--one", "1", config)
    found = None
    with watched() as dog:
        shoot = await connector.connect(secret)
        with suppress(ClusterError):
            found = await shoot.version()
        await asyncio.sleep(0.01)
    await connector.close()
    await asyncio.sleep(0.05)
    return dog.too_long, found, connector.consumer(secret.namespace).spent


@pytest.mark.parametrize("name", COSTLY)
def test_no_certificates_of_a_server_hold_the_loop(name):
    ca, chain = COSTLY[name]()
    with serving_tls(shown(chain, quick_key())) as port:
        too_long, found, spent = on_uvloop(asked(port, ca))
    assert not too_long
    assert found is not None, "hands were shaken"
    assert spent > 0.05, "the shoot is charged for it"


async def probed(port):
    gets = HttpGets(Lookup())
    handler = HttpGet(path="/", port=port, scheme=Scheme.HTTPS)
    probe = EndpointProbeSpec(name="p", http_get=handler, timeout=5)
    run = HandlerRun(probe, TargetAddress("shoot--dev--one", "127.0.0.1"))
    with watched() as dog:
        ran = await gets.run(handler, run)
        await asyncio.sleep(0.01)
    await gets.close()
    await asyncio.sleep(0.05)
    return dog.too_long, ran.message


def test_no_group_that_the_target_of_a_probe_asks_for_holds_the_loop():
    context = server_context(SERVER_PAIR)
    offer_only(context, b"ffdhe8192")
    with serving_tls(context) as port:
        too_long, message = on_uvloop(probed(port))
    assert not too_long
    assert message == "HTTP 200"


async def greeted_early():
    """What comes of an answer that is sent with the last word of the handshake, before anybody has asked."""
    context = server_context(SERVER_PAIR)

    async def answer(_reader, writer):
        writer.write(ANSWER)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    too_long, message = await probed(server.sockets[0].getsockname()[1])
    server.close()
    return too_long, message


def test_an_answer_before_anybody_has_asked_is_none():
    too_long, message = on_uvloop(greeted_early())
    assert not too_long
    assert message != "HTTP 200"


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x16\x03\x03" * 90_000]
)
def test_what_shakes_no_hands_is_no_connection(said):
    async def run():
        async def answer(_reader, writer):
            writer.write(said)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        found = await probed(server.sockets[0].getsockname()[1])
        server.close()
        return found

    too_long, message = on_uvloop(run())
    assert not too_long
    assert message in {"no TLS connection could be made", "no connection: Connection reset by peer"}
