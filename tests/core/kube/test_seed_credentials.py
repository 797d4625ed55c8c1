"""Who we are in the seed: files that rotate, files that are wrong."""

import asyncio
import base64
import json
import ssl
import tempfile
import threading
from pathlib import Path

import pytest

from app.core.clock import stopwatch
from app.core.errors import ConfigurationError
from app.core.kube import seed_api
from app.core.kube.seed_api import FileCredentials
from tests.core.kube.server import AUTHORITY, until
from tests.core.kube.test_kubeconfig import CERT, KEY, config
from tests.support.certs import Authority
from tests.support.doubles import SetClock

# the files are read in a thread, which virtual time does not wait for
pytestmark = pytest.mark.looptime(False)

# kubernetes_asyncio reads its file in an event loop of its own, in a thread
blocking = pytest.mark.blocking

ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "token").write_text("t1\n")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "origin"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_the_mounted_service_account_is_used(folder, host, origin):
    environ = ENVIRON | {"KUBERNETES_SERVICE_HOST": host}
    identity = await (await FileCredentials.in_cluster(SetClock().clock, environ, folder)).current()
    assert (identity.origin, identity.token) == (origin, "t1")
    assert "t1" not in repr(identity)


async def test_a_token_that_rotates_is_read_again_within_a_minute(folder):
    time = SetClock()
    credentials = await FileCredentials.in_cluster(time.clock, ENVIRON, folder)
    before = await credentials.current()
    (folder / "token").write_text("t2\n")
    time.seconds = 59
    assert (await credentials.current()).token == "t1"
    time.seconds = 61
    after = await credentials.current()
    assert after.token == "t2"
    assert after.context is before.context


@pytest.mark.parametrize(
    ("file", "content", "warned"),
    [
        pytest.param("token", b"", False, id="a token that is just being written"),
        pytest.param("token", b"\n", False, id="an empty line"),
        pytest.param("token", b"\xff\xfe", True, id="no text"),
        pytest.param("token", b"one\ntwo", True, id="two lines"),
        pytest.param("token", None, True, id="no file"),
        pytest.param("ca.crt", b"half a certif", True, id="half a CA"),
    ],
)
async def test_a_file_that_is_none_leaves_the_last_good_ones(folder, file, content, warned, lines):
    credentials = await FileCredentials.in_cluster(SetClock().clock, ENVIRON, folder)
    before = await credentials.current()
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    await asyncio.gather(*(credentials.refresh() for _ in range(3)))
    after = await credentials.current()
    assert (after.token, after.context) == ("t1", before.context)
    assert {each["log_level"] for each in lines} == ({"warning"} if warned else set())


async def test_reading_that_hangs_holds_up_one_caller_a_minute_and_not_for_long(
    folder, monkeypatch, lines
):
    monkeypatch.setattr(seed_api, "_READ_WITHIN", 0.2)
    time, free = SetClock(), threading.Event()
    found = await FileCredentials.in_cluster(time.clock, ENVIRON, folder)
    read, readings = found._read, []

    def hangs():
        readings.append(time.seconds)
        free.wait(10)
        return read()

    found._read = hangs
    (folder / "token").write_text("t2")
    took = []
    for seconds in (61, 62, 122, 123):
        time.seconds = seconds
        began = stopwatch()
        assert (await found.current()).token == "t1"
        took.append(stopwatch() - began)
    assert [each >= 0.2 for each in took] == [True, False, True, False]
    assert max(took) < 2
    assert readings == [61], "one thread, however long it takes"
    assert [each["error"] for each in lines] == ["not read after 0.2 s"] * 2
    free.set()
    await found.refresh()
    assert (await found.current()).token == "t2"


async def test_what_a_cancelled_caller_had_read_is_not_lost(folder):
    time = SetClock()
    found = await FileCredentials.in_cluster(time.clock, ENVIRON, folder)
    (folder / "token").write_text("t2")
    time.seconds = 61
    caller = asyncio.ensure_future(found.current())
    await asyncio.sleep(0)  # it has begun
    caller.cancel()
    await until(lambda: found._identity.token == "t2")


async def test_a_ca_that_rotates_makes_a_new_context(folder):
    credentials = await FileCredentials.in_cluster(SetClock().clock, ENVIRON, folder)
    before = await credentials.current()
    (folder / "ca.crt").write_bytes(Authority.create().pem)
    await credentials.refresh()
    assert (await credentials.current()).context is not before.context


async def test_what_stands_between_the_certificates_of_a_ca_is_not_read(folder):
    (folder / "ca.crt").write_bytes("# Főtanúsítvány\n".encode() + AUTHORITY.pem)
    identity = await (await FileCredentials.in_cluster(SetClock().clock, ENVIRON, folder)).current()
    assert len(identity.context.get_ca_certs()) == 1


async def mistake_of(credentials):
    with pytest.raises(ConfigurationError) as caught:
        await credentials
    return str(caught.value)


@pytest.mark.parametrize("environ", [{}, {"KUBERNETES_SERVICE_HOST": "x"}])
async def test_outside_a_cluster_a_kubeconfig_is_asked_for(folder, environ):
    assert await mistake_of(FileCredentials.in_cluster(SetClock().clock, environ, folder)) == (
        "environment: KUBERNETES_SERVICE_HOST: is not set, and there is no --kubeconfig"
    )


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("token", None, ": (file): the ServiceAccount cannot be read: No such file or directory"),
        ("ca.crt", None, ": (file): the ServiceAccount cannot be read: No such file or directory"),
        ("token", b"\xff", ": (file): the ServiceAccount cannot be read: it is not text"),
        ("token", b"\n", "/token: (file): is empty"),
        ("token", b"one\ntwo", "/token: (file): is not a token"),
        ("ca.crt", b"half a certif", "/ca.crt: (file): is not a CA bundle"),
    ],
)
async def test_a_service_account_that_cannot_be_used_is_a_mistake(folder, file, content, message):
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    credentials = FileCredentials.in_cluster(SetClock().clock, ENVIRON, folder)
    assert await mistake_of(credentials) == f"{folder}{message}"


def kubeconfig(path, *, token="t1", user=None, cluster=None):  # noqa: S107 - nobody's token
    server = {"server": "https://127.0.0.1:6443"} | (cluster or {})
    path.write_text(json.dumps(config(cluster=server, user=user or {"token": token})))
    return path


@blocking
async def test_the_operators_kubeconfig_is_read_by_kubernetes_asyncio(tmp_path):
    path = kubeconfig(tmp_path / "config")
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, path)
    before = await credentials.current()
    assert (before.origin, before.token) == ("https://127.0.0.1:6443", "t1")
    assert before.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert len(before.context.get_ca_certs()) == 1, "the CA of the file alone"
    kubeconfig(path, token="t2")
    await credentials.refresh()
    after = await credentials.current()
    assert (after.origin, after.token) == (before.origin, "t2")
    assert after.context is before.context
    kubeconfig(path, cluster={"insecure-skip-tls-verify": True})
    await credentials.refresh()
    assert (await credentials.current()).context.verify_mode is ssl.CERT_NONE


@blocking
async def test_a_kubeconfig_may_name_no_user_and_a_server_without_tls(tmp_path):
    plain = config(cluster={"server": "http://[::1]:1/"})
    del plain["contexts"][0]["context"]["user"]
    (tmp_path / "config").write_text(json.dumps(plain))
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, tmp_path / "config")
    found = await credentials.current()
    assert (found.origin, found.token) == ("http://[::1]:1", None)


OURS = AUTHORITY.client("one")


def held(pair):
    """A user whose certificate is in the kubeconfig itself."""
    found = {"client-certificate-data": pair.certificate, "client-key-data": pair.key}
    return {name: base64.b64encode(pem).decode() for name, pem in found.items()}


def says(**status):
    """A user whose credentials come from a plugin."""
    version = "client.authentication.k8s.io/v1"
    said = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    return {"exec": {"apiVersion": version, "command": "echo", "args": [json.dumps(said)]}}


def plugin(pair):
    return says(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode())


def opened():
    return len(list(Path("/proc/self/fd").iterdir()))


@blocking
@pytest.mark.parametrize("user", [held, plugin])
async def test_a_client_certificate_that_is_renewed_leaves_nothing_behind(
    tmp_path, monkeypatch, user
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("kubernetes_asyncio.config.kube_config._temp_files", {})
    path = kubeconfig(tmp_path / "config", user=user(OURS))
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, path)
    before = await credentials.current()
    assert before.token is None
    descriptors = opened()
    for number in range(3):
        kubeconfig(path, user=user(AUTHORITY.client(f"renewed {number}")))
        await credentials.refresh()
    assert (await credentials.current()).context is not before.context
    assert opened() == descriptors
    assert list(tmp_path.iterdir()) == [path]


@blocking
async def test_the_token_that_a_plugin_says_is_used_and_nothing_else_of_the_user(tmp_path):
    path = kubeconfig(tmp_path / "config", user={"token": "stale", **says(token="new")})
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, path)
    assert (await credentials.current()).token == "new"


@blocking
async def test_a_plugin_is_found_and_told_its_cluster_as_by_kubectl(tmp_path, monkeypatch):
    """gardenlogin learns from the extension of which shoot it is, and ends with a panic where it is told of none."""
    read = json.loads((path := files_of(tmp_path)).read_text())
    about = {"name": "client.authentication.k8s.io/exec", "extension": {"shootRef": "one"}}
    read["clusters"][0]["cluster"]["extensions"] = [about]
    found = says(token="%s")["exec"]
    answer = f"printf '{found['args'][0]}' $(printf %s \"$KUBERNETES_EXEC_INFO\" | base64 -w0)"
    (tmp_path / "login").write_text(f"#!/bin/sh\n{answer}")
    (tmp_path / "login").chmod(0o755)
    plugin = found | {"command": "./login", "provideClusterInfo": True}
    read["users"][0]["user"] = {"exec": plugin}
    path.write_text(json.dumps(read))
    monkeypatch.chdir("/")
    token = (await (await FileCredentials.of_kubeconfig(SetClock().clock, path)).current()).token
    told = json.loads(base64.b64decode(token or ""))["spec"]["cluster"]
    assert base64.b64decode(told.pop("certificate-authority-data")) == AUTHORITY.pem
    assert told == {"server": "https://127.0.0.1:6443", "config": {"shootRef": "one"}}


@blocking
async def test_a_token_file_goes_before_the_token_as_for_kubectl(tmp_path):
    (tmp_path / "token").write_text("new")
    path = kubeconfig(tmp_path / "config", user={"token": "stale", "tokenFile": "token"})
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, path)
    assert (await credentials.current()).token == "new"


@blocking
@pytest.mark.parametrize(
    "spoilt",
    [
        {"cluster": {"server": "https://127.0.0.1:99999"}},
        {"cluster": {"certificate-authority-data": base64.b64encode(b"\xff").decode()}},
        {"user": {"token": "one\ntwo"}},
    ],
)
async def test_a_kubeconfig_that_is_spoilt_later_leaves_the_last_good_one(tmp_path, spoilt):
    path = kubeconfig(tmp_path / "config")
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, path)
    before = await credentials.current()
    kubeconfig(path, **spoilt)
    await credentials.refresh()
    assert await credentials.current() is before


def files_of(folder, *, ca=AUTHORITY.pem, pair=OURS):
    """The files that a kubeconfig may name in place of what it holds."""
    for name, content in (("ca", ca), ("certificate", pair.certificate), ("key", pair.key)):
        (folder / name).write_bytes(content)
    user = {"client-certificate": str(folder / "certificate"), "client-key": str(folder / "key")}
    named = config(
        cluster={"server": "https://127.0.0.1:6443", "certificate-authority": str(folder / "ca")},
        user=user,
    )
    del named["clusters"][0]["cluster"]["certificate-authority-data"]
    (folder / "config").write_text(json.dumps(named))
    return folder / "config"


@blocking
@pytest.mark.parametrize(
    "rotated",
    [
        pytest.param({"ca": Authority.create().pem}, id="the CA"),
        pytest.param({"pair": AUTHORITY.client("one")}, id="the client certificate"),
    ],
)
async def test_a_certificate_that_rotates_in_a_file_of_its_own_is_used(tmp_path, rotated):
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, files_of(tmp_path))
    before = await credentials.current()
    await credentials.refresh()
    assert (await credentials.current()).context is before.context, "nothing has changed"
    files_of(tmp_path, **rotated)
    await credentials.refresh()
    assert (await credentials.current()).context is not before.context


@blocking
async def test_files_that_are_still_being_written_leave_the_last_good_ones(tmp_path, lines):
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, files_of(tmp_path))
    before, after = await credentials.current(), AUTHORITY.client("one")
    (tmp_path / "ca").write_bytes(b"")
    await credentials.refresh()
    assert (await credentials.current()).context is before.context, "not the system's authorities"
    assert lines[0]["error"].endswith(
        "config: (file): the file of its certificate authority is empty"
    )
    (tmp_path / "ca").write_bytes(AUTHORITY.pem)
    (tmp_path / "key").write_bytes(after.key)
    await credentials.refresh()
    assert (await credentials.current()).context is before.context
    (tmp_path / "certificate").write_bytes(after.certificate)
    await credentials.refresh()
    assert (await credentials.current()).context is not before.context


@blocking
async def test_a_token_file_that_is_just_being_written_leaves_the_last_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("t1\n")
    path = kubeconfig(tmp_path / "config", user={"tokenFile": str(token)})
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, path)
    for content, known in (("", "t1"), ("\n", "t1"), ("t2\n", "t2")):
        token.write_text(content)
        await credentials.refresh()
        assert (await credentials.current()).token == known


@blocking
async def test_a_certificate_in_place_of_the_token_ends_the_token(tmp_path):
    path = kubeconfig(tmp_path / "config")
    credentials = await FileCredentials.of_kubeconfig(SetClock().clock, path)
    kubeconfig(path, user={"client-certificate-data": CERT, "client-key-data": KEY})
    await credentials.refresh()
    assert (await credentials.current()).token is None


NO_CERTIFICATE = {"certificate-authority-data": "bm90aGluZw=="}
UNUSABLE = "(file): cannot be used: Invalid kube-config file. "
NO_KEY = says(clientCertificateData=OURS.certificate.decode())
NO_NAME = {"exec": {"apiVersion": "v1", "command": "echo", "env": [{"value": "x"}]}}
UNREADABLE = {"client-certificate": "/proc/self/mem", "client-key": "/proc/self/mem"}


@blocking
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "(file): cannot be read: No such file or directory"),
        ("\n", "(file): is empty"),
        ("{}", f"{UNUSABLE}Expected key current-context in "),
        ("a:\nb: [", "(file): is not well-formed YAML (line 2)"),
        ("[]", "(file): is not a kubeconfig (TypeError)"),
        (config(cluster=NO_CERTIFICATE), "(file): its certificates cannot be used"),
        (config(user=NO_KEY), "(file): its certificates cannot be used"),
        (config(user=NO_NAME), f"{UNUSABLE}Expected key name in exec/env/0"),
        (config(user=UNREADABLE), "(file): names a file that cannot be read: Input/output error"),
        (config(cluster={"proxy-url": "http://p"}), "proxy-url: is not supported"),
        (config(cluster={"tls-server-name": "x"}), "tls-server-name: is not supported"),
        *(
            (config(cluster={"server": each}), "server: is not a URL")
            for each in ("https://[::1", "https://seed:0", "https://user:pw@seed", "ftp://seed")
        ),
        (config(user={"token": "a b"}), "(file): its token is not a token"),
        (config(user={"token": "t", "as": "somebody"}), "as: is not supported"),
        (config(user={"exec": {"command": "/nowhere"}, "as": "x"}), "as: is not supported"),
        (config(user={"username": "u", "password": "p"}), "username: is not supported"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_a_mistake_that_names_the_file(
    tmp_path, content, message
):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    found = await mistake_of(FileCredentials.of_kubeconfig(SetClock().clock, path))
    assert found.startswith(f"{path}: {message}")
