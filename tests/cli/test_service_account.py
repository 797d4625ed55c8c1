"""`--service-account`: tokens that the operator's own kubectl makes, and what is said where it cannot.

How kubectl logs in is its own concern; that it does, and what a seed says: tests/contract/test_service_account.py.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from app.cli.kubectl import Kubectl
from app.cli.problems import CommandFailed, Exit
from app.cli.tokens import LIFETIME, MintedTokens
from app.core.config.values import NamespacedName
from tests.cli.conftest import run
from tests.cli.server import page, problem
from tests.support.doubles import SetClock

# a child is begun: what the standard library does there is not ours
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

TOKEN, WHOAMI = "TokenRequest", "SelfSubjectReview"
ACCOUNT = NamespacedName("garden", "dwd-operator")
FLAG = "--service-account=garden/dwd-operator"
ALICE = {"status": {"userInfo": {"username": "alice@example.org"}}}
REFUSALS = yaml.safe_load(Path(__file__).with_name("no_token.yaml").read_text(encoding="utf-8"))
UNAUTHORIZED = "error: You must be logged in to the server (Unauthorized)"


def made(name="minted", seconds=LIFETIME):
    return {"spec": {"expirationSeconds": seconds}, "status": {"token": name}}


class Seed:
    """What kubectl creates in it, and what it answers: an object, or the words in which kubectl fails."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"
        self.log.touch()
        program = folder / "kubectl"
        script = Path(__file__).parent / "kubectl.py"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {script} "$@"\n')
        program.chmod(0o755)
        self.environ = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "FAKE_SEED": str(folder),
            "FAKE_LOG": str(self.log),
        }

    def on(self, kind, *answers, said=""):
        for old in self.folder.glob(f"{kind}-*"):
            old.unlink()
        for number, each in enumerate(answers):
            failed = isinstance(each, str)
            out = "" if failed else each if isinstance(each, list) else json.dumps(each)
            full = [int(failed), "".join(out), f"{said}{each}\n" if failed else said]
            (self.folder / f"{kind}-{number}").write_text(json.dumps(full))

    @property
    def created(self):
        """Kind, arguments, body, whether variables of ours were seen, and standard input, of each."""
        lines = [json.loads(line)[2:] for line in self.log.read_text().splitlines()]
        return [(body["kind"], words, body, *more) for words, body, *more in lines]

    @property
    def kinds(self):
        return [each[0] for each in self.created]


@pytest.fixture
def seed(tmp_path):
    found = Seed(tmp_path)
    found.on(WHOAMI, ALICE)
    found.on(TOKEN, made())
    return found


@pytest.fixture
def listed(api, seed):
    """Runs `dwd shoots --service-account …`."""
    api.on("GET /shoots", page())

    def call(*flags):
        return run("shoots", FLAG, *flags, environ={"DWD_SERVER": api.url, **seed.environ})

    return call


def test_a_token_for_the_api_alone_is_made_by_the_operators_kubectl(seed, api, listed):
    ran = listed("--timeout=7s")
    assert (ran.code, ran.err) == (0, "")
    (who, *_), (token, words, body, ours, stdin) = seed.created
    assert (who, token) == (WHOAMI, TOKEN)
    assert words["--raw"] == "/api/v1/namespaces/garden/serviceaccounts/dwd-operator/token"
    assert words["--request-timeout"] == "7s"
    assert not {"--kubeconfig", "--context"} & words.keys(), "kubectl chooses"
    assert body["spec"] == {"audiences": ["dependency-watchdog"], "expirationSeconds": 3600}
    assert (ours, stdin) == (False, "")
    assert api.asked[-1].headers["Authorization"] == "Bearer minted"
    assert api.asked[-1].headers["Dwd-Claimed-User"] == "alice@example.org"


def test_kubectl_is_told_of_file_and_context(seed, listed):
    assert listed("--kubeconfig=/some/config", "--context=other").code == 0
    for _, words, *_ in seed.created:
        assert (words["--kubeconfig"], words["--context"]) == ("/some/config", "other")


def test_a_name_travels_as_a_header_can_carry_it(seed, api, listed):
    seed.on(WHOAMI, {"status": {"userInfo": {"username": "oidc:Jürgen\r\nX: y"}}})
    assert listed().code == 0
    assert api.asked[-1].headers["Dwd-Claimed-User"] == "oidc:J%C3%BCrgen%0D%0AX%3A%20y".replace(
        "%3A", ":"
    )


@pytest.mark.parametrize(
    "answer",
    ["Error from server (NotFound): not found", "Error from server (Forbidden): no", ["["]],
)
def test_a_seed_that_does_not_say_who_one_is_makes_tokens_all_the_same(seed, api, listed, answer):
    seed.on(WHOAMI, answer)
    assert listed().code == 0
    assert "Dwd-Claimed-User" not in api.asked[-1].headers


def test_what_a_login_plugin_says_reaches_the_operator(seed, listed, capsys):
    seed.on(TOKEN, made(), said="log in at https://login.example\nEnter the code: ")
    assert listed().code == 0
    assert capsys.readouterr().err == "log in at https://login.example\nEnter the code: "


def test_without_the_flag_no_kubectl_is_run(seed, api, dwd):
    api.on("GET /shoots", page())
    assert dwd("shoots", environ=seed.environ).code == 0
    assert seed.created == []


# What is said where it cannot be done.


def test_without_kubectl_it_is_asked_for(api):
    ran = run("shoots", FLAG, environ={"DWD_SERVER": api.url, "PATH": "/nowhere"})
    assert (ran.code, api.asked) == (2, [])
    assert "--service-account: needs kubectl, which is not in PATH" in ran.err


@pytest.mark.parametrize(("answer", "code", "said"), [tuple(row.values()) for row in REFUSALS])
def test_a_seed_that_gives_none_is_said_why(seed, api, listed, answer, code, said, capsys):
    seed.on(TOKEN, answer)
    ran = listed()
    assert (ran.code, ran.out, api.asked) == (code, "", [])
    assert said in ran.err
    assert capsys.readouterr().err.strip() in {"", "Try this"}, "the error is told once"


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (UNAUTHORIZED, 5, "does kubectl auth whoami work?"),
        ("The connection to the server 127.0.0.1:1 was refused", 1, "127.0.0.1:1 was refused"),
    ],
)
def test_a_seed_that_knows_nobody_or_is_away_is_said_so_at_once(seed, listed, answer, code, said):
    seed.on(WHOAMI, answer)
    ran = listed()
    assert (ran.code, seed.kinds) == (code, [WHOAMI])
    assert said in ran.err


# Renewal.


@pytest.fixture
def hand():
    return SetClock()


@pytest.fixture
def tokens(hand, seed):
    kubectl = Kubectl(str(seed.folder / "kubectl"), seed.environ)
    return MintedTokens(ACCOUNT, kubectl, hand.clock, 2.0)


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
    assert seed.kinds.count(WHOAMI) == 1, "a person stays who they are"


async def test_requests_side_by_side_make_one_token(seed, tokens):
    seed.on(TOKEN, made("one"), made("two"))
    assert await asyncio.gather(*(sent(tokens) for _ in range(8))) == ["one"] * 8


async def test_while_it_cannot_be_renewed_the_old_one_is_used_to_its_end(seed, hand, tokens):
    seed.on(TOKEN, made("one", 1000), "Error from server (InternalError): etcd")
    assert await sent(tokens) == "one"
    for hand.seconds in (760, 765, 999):
        assert await sent(tokens) == "one"
    assert seed.kinds.count(TOKEN) == 3, "not at every request"
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
    monkeypatch.setattr("app.cli.tokens._TRIED_AGAIN", -1.0)
    seed.on(TOKEN, made("one"), made("two"))
    api._replies.clear()
    api.on("GET /shoots", problem(401, "unauthenticated", "Nobody", "it has ended"), page())
    assert listed().code == 0
    assert [each.headers["Authorization"][7:] for each in api.asked] == ["one", "two"]
