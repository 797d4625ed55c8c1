"""Who we are in the seed: files that rotate, files that are wrong."""

import asyncio
import base64
import json

import pytest
import structlog

from app.core.clock import Clock
from app.core.errors import ConfigurationError
from app.core.kube.seed_api import FileCredentials
from tests.core.kube.server import AUTHORITY
from tests.support.certs import Authority

# the files are read in a thread, which virtual time does not wait for
pytestmark = pytest.mark.looptime(False)

blocking = (
    pytest.mark.blocking
)  # kubernetes_asyncio reads its file in an event loop of its own, in a thread

ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class Time:
    """A clock that a test moves."""

    def __init__(self):
        self.seconds = 0.0
        self.clock = Clock(1000.0, lambda: self.seconds)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "token").write_text("t1\n")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    return tmp_path


async def test_the_mounted_service_account_is_used(folder):
    credentials = await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)
    identity = await credentials.current()
    assert identity.origin == "https://10.0.0.1:443"
    assert identity.token == "t1"
    assert "t1" not in repr(identity)


async def test_an_ipv6_address_is_put_in_brackets(folder):
    environ = ENVIRON | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    credentials = await FileCredentials.in_cluster(Time().clock, environ, folder)
    assert (await credentials.current()).origin == "https://[fd00::1]:443"


async def test_a_token_that_rotates_is_read_again_within_a_minute(folder):
    time = Time()
    credentials = await FileCredentials.in_cluster(time.clock, ENVIRON, folder)
    before = await credentials.current()
    (folder / "token").write_text("t2\n")
    time.seconds = 59
    assert (await credentials.current()).token == "t1"
    time.seconds = 61
    after = await credentials.current()
    assert after.token == "t2"
    assert after.context is before.context


async def test_a_refresh_does_not_wait_for_the_minute(folder):
    credentials = await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)
    (folder / "token").write_text("t2")
    await credentials.refresh()
    assert (await credentials.current()).token == "t2"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
async def test_a_token_that_is_just_being_written_leaves_the_last_good_one(folder, content):
    credentials = await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)
    (folder / "token").write_bytes(content)
    with structlog.testing.capture_logs():
        await credentials.refresh()
    assert (await credentials.current()).token == "t1"


async def test_files_that_vanish_leave_the_last_good_ones_and_a_warning(folder):
    credentials = await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)
    (folder / "token").unlink()
    with structlog.testing.capture_logs() as logs:
        await credentials.refresh()
    assert (await credentials.current()).token == "t1"
    assert logs[0]["log_level"] == "warning"


async def test_a_ca_that_rotates_makes_a_new_context(folder):
    credentials = await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)
    before = await credentials.current()
    (folder / "ca.crt").write_bytes(Authority.create().pem)
    await credentials.refresh()
    assert (await credentials.current()).context is not before.context


async def test_a_ca_that_is_none_leaves_the_last_good_one(folder):
    credentials = await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)
    before = await credentials.current()
    (folder / "ca.crt").write_text("half a certif")
    with structlog.testing.capture_logs():
        await credentials.refresh()
    assert (await credentials.current()).context is before.context


@pytest.mark.parametrize("environ", [{}, {"KUBERNETES_SERVICE_HOST": "x"}])
async def test_outside_a_cluster_a_kubeconfig_is_asked_for(folder, environ):
    with pytest.raises(ConfigurationError, match="--kubeconfig"):
        await FileCredentials.in_cluster(Time().clock, environ, folder)


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_a_service_account_that_cannot_be_read_is_a_mistake(folder, missing):
    (folder / missing).unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)


async def test_an_empty_token_at_the_start_is_a_mistake(folder):
    (folder / "token").write_text("")
    with pytest.raises(ConfigurationError, match="is empty"):
        await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)


def kubeconfig(path, *, user=None, cluster=None):
    ca = base64.b64encode(AUTHORITY.pem).decode()
    named = {"name": "x"}
    server = {"server": "https://127.0.0.1:6443", "certificate-authority-data": ca}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "clusters": [named | {"cluster": server | (cluster or {})}],
                "contexts": [named | {"context": {"cluster": "x", "user": "x"}}],
                "users": [named | {"user": user or {"token": "t1"}}],
            }
        )
    )
    return path


@blocking
async def test_the_operators_kubeconfig_is_read_by_kubernetes_asyncio(tmp_path):
    path = kubeconfig(tmp_path / "config")
    credentials = await FileCredentials.of_kubeconfig(Time().clock, path)
    before = await credentials.current()
    assert (before.origin, before.token) == ("https://127.0.0.1:6443", "t1")
    kubeconfig(path, user={"token": "t2"})
    await credentials.refresh()
    after = await credentials.current()
    assert after.token == "t2"
    assert after.context is before.context


@blocking
async def test_the_operators_client_certificate_is_used(tmp_path):
    pair = AUTHORITY.client("admin", ["system:masters"])
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    path = kubeconfig(tmp_path / "config", user=user)
    credentials = await FileCredentials.of_kubeconfig(Time().clock, path)
    assert (await credentials.current()).token is None


@blocking
@pytest.mark.parametrize("content", ["", "nonsense: [", "{}", '{"current-context": "y"}'])
async def test_a_kubeconfig_that_is_none_is_a_mistake(tmp_path, content):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigurationError):
        await FileCredentials.of_kubeconfig(Time().clock, path)


@blocking
async def test_a_kubeconfig_that_is_not_there_is_a_mistake(tmp_path):
    with pytest.raises(ConfigurationError):
        await FileCredentials.of_kubeconfig(Time().clock, tmp_path / "none")


@blocking
@pytest.mark.parametrize("cluster", [{"proxy-url": "http://p"}, {"tls-server-name": "x"}])
async def test_what_we_do_not_support_is_said(tmp_path, cluster):
    path = kubeconfig(tmp_path / "config", cluster=cluster)
    with pytest.raises(ConfigurationError, match="not supported"):
        await FileCredentials.of_kubeconfig(Time().clock, path)


async def test_reading_again_does_not_stop_the_loop(folder):
    credentials = await FileCredentials.in_cluster(Time().clock, ENVIRON, folder)
    await asyncio.gather(*(credentials.refresh() for _ in range(10)))
    assert (await credentials.current()).token == "t1"
