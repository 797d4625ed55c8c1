"""What a run may cost, to the byte, and how old its TLS may be."""

import ssl
import tracemalloc
from types import SimpleNamespace

import pytest

from app.core.handlers import http_get
from app.core.handlers.runs import MOST_READ
from app.core.model.endpoints import HttpGet, ProbeOutcome, Scheme
from app.core.ports import Frame
from tests.core.handlers.targets import OK, ran, serving
from tests.core.handlers.test_exec import ended, run
from tests.core.kube.server import server_context

pytestmark = pytest.mark.looptime(False)

SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR
KUBELET_READS = 10 * 1024
"""maxRespBodyLength of pkg/probe/http, and maxReadLength of pkg/kubelet/prober."""


@pytest.mark.parametrize(
    ("sent", "within", "outcome"), [(0, 10, SUCCESS), (-1, 1, ERROR)], ids=["all", "less"]
)
async def test_of_a_body_as_much_is_waited_for_as_the_kubelet_reads(sent, within, outcome):
    async def answer(call):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        await call.say(head + b"x" * (KUBELET_READS + sent))
        await call.hang()

    async with serving(answer) as target:
        assert (await ran(HttpGet(target.port), timeout=within)).outcome is outcome


async def test_of_a_command_s_output_no_more_is_kept_than_the_kubelet_keeps():
    assert MOST_READ == KUBELET_READS
    flood = [Frame(1, b"x" * 100_000)] * 400
    await run(WELL_OVER, ended("3"))
    tracemalloc.start()
    try:
        found = await run(*flood, ended("3"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.outcome is FAILURE
    assert most < 128 * 1024


WELL_OVER = Frame(1, b"x" * (KUBELET_READS + 1))


class Lenient(ssl.SSLContext):
    """As an OpenSSL makes it that was built, or configured, to allow what is old."""

    def __init__(self, _protocol):
        self.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        self.set_ciphers("DEFAULT:@SECLEVEL=0")


def speaking(version):
    """A server of this version of TLS only."""
    context = server_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("version", "outcome"),
    [
        (ssl.TLSVersion.TLSv1_1, FAILURE),
        (ssl.TLSVersion.TLSv1_2, SUCCESS),
        (ssl.TLSVersion.TLSv1_3, SUCCESS),
    ],
    ids=lambda each: each.name,
)
async def test_tls_is_1_2_or_newer_whatever_openssl_allows(version, outcome, monkeypatch):
    lenient = SimpleNamespace(**{**vars(ssl), "SSLContext": Lenient})
    monkeypatch.setattr(http_get, "ssl", lenient)
    async with serving(OK, tls=speaking(version)) as target:
        found = await ran(HttpGet(target.port, scheme=Scheme.HTTPS))
    assert found.outcome is outcome
