"""`--service-account`: tokens that the operator's own kubeconfig makes, and what is said where it cannot."""

import asyncio
import base64
import json
import ssl
import sys
from pathlib import Path

import pytest

from app.cli.problems import CommandFailed, Exit
from app.cli.service_account import LIFETIME, MintedTokens, SeedKubeconfig
from app.core.clock import Clock
from app.core.config.values import NamespacedName
from tests.cli.conftest import run
from tests.cli.server import FakeApi, Reply, page, problem
from tests.support.certs import Authority, server_context
from tests.support.programs import write_program

# kubernetes_asyncio reads its files in the loop that it is called in; the servers are in threads of their own
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

TOKEN = "POST /namespaces/garden/serviceaccounts/dwd-operator/token"
WHOAMI = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCOUNT = NamespacedName("garden", "dwd-operator")
FLAG = "--service-account=garden/dwd-operator"
ALICE = Reply({"status": {"userInfo": {"username": "alice@example.org"}}}, 201)


def made(name="minted", seconds=LIFETIME):
    return Reply({"spec": {"expirationSeconds": seconds}, "status": {"token": name}}, 201)


def status(code, message):
    return Reply({"kind": "Status", "message": message, "code": code}, code)


@pytest.fixture
def seed():
    with FakeApi() as found:
        found.on(WHOAMI, ALICE)
        yield found


@pytest.fixture
def kubeconfig(kubeconfig, seed):
    """Writes a kubeconfig of this user for the seed."""

    def write(user=None, name="config", url=None, **cluster):
        user = {"token": "mine"} if user is None else user
        return kubeconfig(user, name, url or seed.url, cluster)

    return write


@pytest.fixture
def listed(api, kubeconfig):
    """Runs `dwd shoots --service-account …`; the kubeconfig is the usual one, unless flags name another."""
    api.on("GET /shoots", page())

    def call(*flags, path=None, **environ):
        environ = {"DWD_SERVER": api.url, "KUBECONFIG": str(path or kubeconfig()), **environ}
        return run("shoots", FLAG, *flags, environ=environ)

    return call


def test_a_token_for_the_api_alone_is_made_with_the_operators_own_credentials(seed, api, listed):
    seed.on(TOKEN, made())
    ran = listed()
    assert (ran.code, ran.err) == (0, "")
    assert [each.headers["Authorization"] for each in seed.asked] == ["Bearer mine"] * 2
    assert seed.asked[-1].body["spec"] == {
        "audiences": ["dependency-watchdog"],
        "expirationSeconds": 3600,
    }
    assert api.asked[-1].headers["Authorization"] == "Bearer minted"
    assert api.asked[-1].headers["Dwd-Claimed-User"] == "alice@example.org"


def test_a_name_travels_as_a_header_can_carry_it(seed, api, listed):
    seed.on(TOKEN, made())
    seed._replies[WHOAMI].clear()
    seed.on(WHOAMI, Reply({"status": {"userInfo": {"username": "oidc:Jürgen\r\nX: y"}}}, 201))
    assert listed().code == 0
    assert api.asked[-1].headers["Dwd-Claimed-User"] == "oidc:J%C3%BCrgen%0D%0AX%3A%20y".replace(
        "%3A", ":"
    )


@pytest.mark.parametrize("reply", [status(404, "not found"), status(403, "no"), Reply(b"[", 201)])
def test_a_seed_that_does_not_say_who_one_is_makes_tokens_all_the_same(seed, api, listed, reply):
    seed._replies[WHOAMI].clear()
    seed.on(WHOAMI, reply).on(TOKEN, made())
    assert listed().code == 0
    assert "Dwd-Claimed-User" not in api.asked[-1].headers


# Whose credentials.


def test_a_file_and_a_context_are_chosen_as_for_kubectl(seed, api, listed, kubeconfig):
    seed.on(TOKEN, made())
    assert listed("--context=other").code == 0
    other = kubeconfig({"token": "other"}, "other")
    assert listed(f"--kubeconfig={other}").code == 0
    assert listed(path=f"{kubeconfig.__name__}:{other}:/nowhere").code == 0
    first = kubeconfig({"token": "first"}, "first")
    first.write_text(first.read_text().replace("current-context: mine", "current-context: other"))
    assert listed(path=f"{first}:{other}").code == 0
    home = Path(first).parent / "home" / ".kube"
    home.mkdir(parents=True)
    (home / "config").write_text(other.read_text())
    assert listed(KUBECONFIG="", HOME=str(home.parent)).code == 0
    sent = [each.headers["Authorization"][7:] for each in seed.asked[1::2]]
    assert sent == ["her-token", "other", "other", "her-token", "other"]


def test_a_token_file_is_read_beside_its_kubeconfig(seed, listed, kubeconfig, tmp_path):
    seed.on(TOKEN, made())
    (tmp_path / "my-token").write_text("from-the-file")
    assert listed(path=kubeconfig({"tokenFile": "my-token", "token": "old"})).code == 0
    assert seed.asked[-1].headers["Authorization"] == "Bearer from-the-file"


def test_who_acts_as_somebody_else_does_so_here_too(seed, listed, kubeconfig):
    seed.on(TOKEN, made())
    user = {
        "token": "mine",
        "as": "bob",
        "as-uid": "7",
        "as-groups": ["one", "two"],
        "as-user-extra": {"a/b": ["c"]},
    }
    assert listed(path=kubeconfig(user)).code == 0
    sent = seed.asked[-1].headers
    assert (sent["Impersonate-User"], sent["Impersonate-Uid"]) == ("bob", "7")
    assert sent["Impersonate-Extra-a%2Fb"] == "c"
    assert "Impersonate-Group" in sent


PLUGIN = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
with open(sys.argv[1], "a") as log:
    log.write(json.dumps([sys.argv[2:], os.environ.get("MINE"), os.environ.get("DWD_SERVER"), info]) + "\\n")
sys.stderr.write("log in at https://login.example\\n")
answer = json.loads(sys.argv[2])
answer and print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": answer}))
sys.exit(int(sys.argv[3]))
"""
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
def plugin(tmp_path, kubeconfig):
    """A kubeconfig whose user logs in through a plugin that answers with this status."""
    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "bin").mkdir()
    call = f'{sys.executable} {tmp_path}/plugin.py {tmp_path}/log "$@"'
    write_program(tmp_path / "bin" / "login", f"exec {call}")

    def write(answer, code=0, cluster=None, **more):
        exec_ = {
            "apiVersion": V1,
            "command": "./bin/login",
            "args": [json.dumps(answer), code],
            "env": [{"name": "MINE", "value": "yes"}],
            **more,
        }
        return kubeconfig({"exec": exec_}, **(cluster or {}))

    return write


def test_a_login_plugin_is_run_as_kubectl_runs_it(seed, listed, plugin, tmp_path, capfd):
    seed.on(TOKEN, made())
    assert listed(path=plugin({"token": "of-the-plugin"})).code == 0
    assert seed.asked[-1].headers["Authorization"] == "Bearer of-the-plugin"
    ((words, mine, ours, info),) = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert (words[1:], mine, ours) == (["0"], "yes", None)
    assert (info["apiVersion"], info["spec"]) == (V1, {"interactive": False})
    assert capfd.readouterr().err == "log in at https://login.example\n"


def test_a_plugin_is_told_of_the_cluster_if_it_asks(seed, listed, plugin, tmp_path):
    """As Gardener's own does, which finds out there which cluster it is to log in to."""
    seed.on(TOKEN, made())
    (tmp_path / "ca.crt").write_bytes(b"the CA")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"seed": "s"}}
    cluster = {"certificate-authority": "ca.crt", "extensions": [extension]}
    path = plugin({"token": "t"}, provideClusterInfo=True, cluster=cluster)
    assert listed(path=path).code == 0
    ((*_, info),) = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert info["spec"]["cluster"] == {
        "server": seed.url,
        "certificate-authority-data": base64.b64encode(b"the CA").decode(),
        "config": {"seed": "s"},
    }


def test_without_the_flag_no_plugin_is_run(api, plugin, dwd, tmp_path):
    api.on("GET /shoots", page())
    path = plugin({"token": "of-the-plugin"})
    assert dwd("shoots", environ={"KUBECONFIG": str(path)}).code == 0
    ran = dwd("shoots", f"--kubeconfig={path}")
    assert "logs in through a plugin (exec), which is never run" in ran.err
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("answer", "more", "said"),
    [
        ({"token": "t"}, {"code": 3}, "the login plugin ./bin/login failed with exit code 3"),
        (None, {}, "the login plugin ./bin/login returned no credentials"),
        ({}, {}, "the login plugin ./bin/login returned no credentials"),
        (
            {"token": "t"},
            {"command": "no-such"},
            "the login plugin no-such of your kubeconfig is not",
        ),
        (
            {"token": "t"},
            {"command": "./config"},
            "the login plugin ./config of your kubeconfig is",
        ),
    ],
)
def test_a_plugin_that_fails_is_named(seed, listed, plugin, answer, more, said):
    ran = listed(path=plugin(answer, **more))
    assert (ran.code, ran.out, seed.asked) == (1, "", [])
    assert said in ran.err


def test_the_hint_of_a_missing_plugin_is_shown(listed, plugin):
    ran = listed(path=plugin({}, command="no-such", installHint="get it\n\x1b[31mthere"))
    assert "get it [31mthere" in ran.err


# What is said where it cannot be done.


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"HOME": "/nowhere"}, "/nowhere/.kube/config"),
        ({"KUBECONFIG": "a" * 300}, "aaa"),
        ({"KUBECONFIG": "~nobody-has-this-name/config"}, "~nobody-has-this-name/config"),
    ],
)
def test_without_a_kubeconfig_it_says_where_it_looked(api, environ, said):
    ran = run("shoots", FLAG, environ={"DWD_SERVER": api.url, **environ})
    assert ran.code == 2
    assert f"needs your kubeconfig of the seed (--kubeconfig, KUBECONFIG): {said}" in ran.err
    assert api.asked == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no kubeconfig that can be used"),
        ("[", "is no kubeconfig that can be used"),
        ("{}", "has no current context; say which by --context"),
        ("{current-context: x, contexts: []}", "Expected object with name x"),
        ("!!python/object/apply:os.system [true]", "is no kubeconfig that can be used"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused(api, tmp_path, content, said):
    path = tmp_path / "config"
    path.write_text(content)
    ran = run("shoots", FLAG, environ={"DWD_SERVER": api.url, "KUBECONFIG": str(path)})
    assert (ran.code, api.asked) == (2, [])
    assert said in ran.err
    assert str(path) in ran.err


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (
            status(403, 'serviceaccounts "dwd-operator" is forbidden'),
            5,
            "alice@example.org may not make tokens of the ServiceAccount garden/dwd-operator",
        ),
        (status(403, "x"), 5, "create serviceaccounts/token, with this resourceName"),
        (status(404, "x"), 4, "there is no ServiceAccount garden/dwd-operator: x"),
        (status(404, "x"), 4, "api.auth.serviceAccounts.create=true"),
        (status(401, "Unauthorized"), 5, "the seed does not know you"),
        (status(422, "spec.expirationSeconds: wrong"), 1, "(422): spec.expirationSeconds: wrong"),
        (Reply(b"<html>\x1b[31m", 502), 1, "(502): <html> [31m"),
        (Reply({}, 201), 1, "the answer is no TokenRequest"),
        (Reply({}, 201, wait=1.5), 1, "does not answer in time"),
    ],
)
def test_a_seed_that_gives_none_is_said_why(seed, api, listed, reply, code, said):
    seed.on(TOKEN, reply)
    ran = listed("--timeout=1s")
    assert (ran.code, ran.out, api.asked) == (code, "", [])
    assert said in ran.err


def test_a_seed_that_knows_nobody_is_said_so_at_once(seed, listed):
    seed._replies[WHOAMI].clear()
    seed.on(WHOAMI, status(401, "Unauthorized"))
    ran = listed()
    assert (ran.code, seed.lines) == (5, [WHOAMI])
    assert "does kubectl auth whoami work?" in ran.err


def test_a_seed_that_is_away_is_said_so(listed, kubeconfig):
    ran = listed(path=kubeconfig(url="http://127.0.0.1:1"))
    assert ran.code == 1
    assert "the seed at http://127.0.0.1:1 cannot be reached" in ran.err


# Renewal.


class Hand:
    """A clock that a test moves."""

    def __init__(self):
        self.seconds = 0.0
        self.clock = Clock(1000.0, lambda: self.seconds)


@pytest.fixture
def hand():
    return Hand()


@pytest.fixture
def tokens(hand, seed, kubeconfig):
    return MintedTokens(ACCOUNT, SeedKubeconfig(str(kubeconfig()), None, {}), hand.clock, 2.0)


async def sent(tokens):
    return (await tokens.headers())["Authorization"].removeprefix("Bearer ")


async def test_a_token_is_used_until_three_quarters_of_its_life_and_then_renewed(
    seed, hand, tokens
):
    seed.on(TOKEN, made("one", 1000), made("two", 1000))
    assert await sent(tokens) == "one"
    hand.seconds = 749
    assert await sent(tokens) == "one"
    hand.seconds = 751
    assert await sent(tokens) == "two"
    assert seed.lines.count(WHOAMI) == 1, "a person stays who they are"


async def test_requests_side_by_side_make_one_token(seed, tokens):
    seed.on(TOKEN, made("one"), made("two"))
    assert await asyncio.gather(*(sent(tokens) for _ in range(8))) == ["one"] * 8


async def test_while_it_cannot_be_renewed_the_old_one_is_used_to_its_end(seed, hand, tokens):
    seed.on(TOKEN, made("one", 1000), status(500, "etcd"), status(500, "etcd"))
    assert await sent(tokens) == "one"
    for hand.seconds in (760, 765, 999):
        assert await sent(tokens) == "one"
    assert seed.lines.count(TOKEN) == 3, "not at every request"
    hand.seconds = 1001
    with pytest.raises(CommandFailed) as caught:
        await sent(tokens)
    assert (caught.value.code, caught.value.passing) == (Exit.FAILED, True)


async def test_one_that_the_server_does_not_know_any_more_is_replaced_but_not_for_ever(
    seed, hand, tokens
):
    seed.on(TOKEN, made("one"), made("two"))
    assert await sent(tokens) == "one"
    assert tokens.rejected() is False, "it was just made: another one would be no better"
    hand.seconds = 60
    assert tokens.rejected() is True
    assert await sent(tokens) == "two"


def test_a_token_that_ends_in_mid_session_is_renewed_and_the_request_sent_again(
    seed, api, listed, monkeypatch
):
    monkeypatch.setattr("app.cli.service_account._TRIED_AGAIN", -1.0)
    seed.on(TOKEN, made("one"), made("two"))
    api._replies.clear()
    api.on("GET /shoots", problem(401, "unauthenticated", "Nobody", "it has ended"), page())
    assert listed().code == 0
    assert [each.headers["Authorization"][7:] for each in api.asked] == ["one", "two"]


# TLS. What a seed lets whom make, and what its tokens are worth, is in tests/contract/test_service_account.py.


def test_a_client_certificate_is_shown_to_the_seed_that_the_kubeconfigs_ca_vouches_for(
    kubeconfig, api, tmp_path
):
    """Also one that a plugin returns, as Gardener's does."""
    authority = Authority.create("seed")
    context = server_context(authority.server(("127.0.0.1",)))
    context.load_verify_locations(cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    mine = authority.client("alice")
    encoded = {
        "client-certificate-data": base64.b64encode(mine.certificate).decode(),
        "client-key-data": base64.b64encode(mine.key).decode(),
    }
    api.on("GET /shoots", page())
    ca = {"certificate-authority-data": base64.b64encode(authority.pem).decode()}
    with FakeApi(ssl=context) as seed:
        seed.on(WHOAMI, ALICE).on(TOKEN, made())
        path = kubeconfig(encoded, url=seed.url, **ca)
        ran = run("shoots", FLAG, environ={"DWD_SERVER": api.url, "KUBECONFIG": str(path)})
        assert (ran.code, ran.err) == (0, "")
        answer = tmp_path / "answer.json"
        status = {
            "clientCertificateData": mine.certificate.decode(),
            "clientKeyData": mine.key.decode(),
        }
        answer.write_text(
            json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})
        )
        plugin = {"apiVersion": V1, "command": "cat", "args": [str(answer)]}
        path = kubeconfig({"exec": plugin}, url=seed.url, **ca)
        environ = {"DWD_SERVER": api.url, "KUBECONFIG": str(path), "PATH": "/usr/bin:/bin"}
        ran = run("shoots", FLAG, environ=environ)
        assert (ran.code, ran.err) == (0, "")
        assert len(seed.asked) == 4
        for other, code, said in (
            (Authority.create("another").pem, 1, "cannot be reached"),
            (b"no CA", 2, "is no kubeconfig that can be used"),
        ):
            theirs = {"certificate-authority-data": base64.b64encode(other).decode()}
            path = kubeconfig(encoded, url=seed.url, **theirs)
            ran = run("shoots", FLAG, environ={"DWD_SERVER": api.url, "KUBECONFIG": str(path)})
            assert (ran.code, said in ran.err, len(seed.asked)) == (code, True, 4)
