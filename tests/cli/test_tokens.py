"""Where a token comes from: a file, the user of a kubeconfig, and never a program that a kubeconfig names."""

import json
import os
import stat

import pytest
from aiohttp import web

from tests.cli.server import page, problem

SHOOTS = "GET /shoots"
TOKEN = "a-token-that-is-a-secret"


@pytest.fixture
def sent(api, dwd):
    """The Authorization that a command with these flags sends; None where it sends none."""
    api.on(SHOOTS, page())

    def call(*flags):
        ran = dwd("shoots", *flags)
        assert (ran.code, ran.err) == (0, "")
        return api.asked[-1].headers.get("Authorization")

    return call


@pytest.fixture
def refused(dwd):
    """What a command with these flags says, and that it sends nothing."""

    def call(*flags):
        ran = dwd("shoots", *flags)
        assert (ran.code, ran.out) == (2, "")
        assert TOKEN not in ran.err
        return ran.err

    return call


@pytest.fixture
def kubeconfig(kubeconfig):
    """The flag that names a kubeconfig with this user."""
    return lambda *words, **more: f"--kubeconfig={kubeconfig(*words, **more)}"


def test_without_flags_none_is_sent(sent):
    assert sent() is None


def test_a_pipe_is_read_just_once_as_that_of_a_shell_has_no_second_time(sent):
    reading, writing = os.pipe()
    os.write(writing, TOKEN.encode())
    os.close(writing)
    assert sent(f"--token-file=/dev/fd/{reading}") == f"Bearer {TOKEN}"
    os.close(reading)


def test_the_token_of_a_file_is_sent_without_its_line_break(sent, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert sent(f"--token-file={tmp_path / 'token'}") == f"Bearer {TOKEN}"


def test_a_file_is_read_again_for_each_request(api, dwd, tmp_path):
    file = tmp_path / "token"
    file.write_text("old")

    async def renew(_request):
        file.write_text("new")
        return web.json_response(page(following="t"))

    api.on(SHOOTS, renew, page())
    assert dwd("shoots", f"--token-file={file}").code == 0
    assert [each.headers["Authorization"] for each in api.asked] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no token"),
        (b"two words", "holds no token"),
        (b"two\nlines", "holds no token"),
        (b"x" * 20_000, "holds no token"),
        (b"\xff\xfe", "the token cannot be read: it is not text"),
        (b"a\x00b", "holds no token"),
    ],
)
def test_a_file_without_a_token_is_said_before_anything_is_asked(
    content, said, refused, tmp_path, api
):
    file = tmp_path / "token"
    file.write_bytes(content)
    assert refused(f"--token-file={file}") == f"dwd: {file}: {said}\n"
    assert api.asked == []


def test_a_file_that_is_not_there_is_said(refused, tmp_path):
    file = tmp_path / "none"
    message = f"dwd: {file}: the token cannot be read: No such file or directory\n"
    assert refused(f"--token-file={file}") == message


def test_the_token_of_a_kubeconfigs_user_is_sent(sent, kubeconfig):
    assert sent(kubeconfig({"token": TOKEN})) == f"Bearer {TOKEN}"


def test_the_context_says_whose(sent, kubeconfig):
    assert sent(kubeconfig({"token": TOKEN}), "--context=other") == "Bearer her-token"


def test_a_token_file_of_a_kubeconfig_is_beside_it_and_goes_first(sent, kubeconfig, tmp_path):
    (tmp_path / "beside").write_text("from-the-file")
    flag = kubeconfig({"token": TOKEN, "tokenFile": "beside"})
    assert sent(flag) == "Bearer from-the-file"


def test_the_flag_goes_before_the_kubeconfig(sent, kubeconfig, tmp_path):
    (tmp_path / "token").write_text("from-the-flag")
    flag = f"--token-file={tmp_path / 'token'}"
    assert sent(flag, kubeconfig({"token": TOKEN})) == "Bearer from-the-flag"


@pytest.mark.parametrize("plugin", ["exec", "auth-provider"])
def test_a_plugin_is_never_run(plugin, refused, kubeconfig, tmp_path):
    ran, program = tmp_path / "ran", tmp_path / "plugin"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    said = refused(kubeconfig({plugin: {"command": str(program), "args": []}}))
    assert (
        f"user me logs in through a plugin ({plugin}), which is never run; give --service-account"
        in said
    )
    assert "kubectl create token SERVICEACCOUNT --audience dependency-watchdog" in said
    assert not ran.exists()


def test_a_client_certificate_is_no_token(refused, kubeconfig):
    flag = kubeconfig({"client-certificate-data": "eA==", "client-key-data": "eA=="})
    assert "user me has no token; give --service-account" in refused(flag)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"current-context": ""}, "has no current context; choose one with --context"),
        ({"current-context": None}, "has no current context; choose one with --context"),
        ({"current-context": 3}, "has no context 3"),
        ({"current-context": "gone"}, "has no context gone"),
        ({"users": []}, "has no user me"),
        ({"users": "x"}, "has no user me"),
        ({"users": [{"name": "me", "user": 3}]}, "has no user me"),
        ({"contexts": None}, "has no context mine"),
        ({"contexts": [{"name": "mine", "context": {}}]}, "context mine names no user"),
    ],
)
def test_a_kubeconfig_that_says_no_user_is_refused(more, said, refused, kubeconfig):
    assert said in refused(kubeconfig({"token": TOKEN}, **more))


@pytest.mark.parametrize("token", ["two words", "", ["x"], None])
def test_a_token_that_is_none_is_not_sent(token, refused, kubeconfig):
    assert "user me has no token" in refused(kubeconfig({"token": token}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not a kubeconfig: it is not well-formed YAML"),
        (b"[]", "is not a kubeconfig"),
        (b"a: 1\na: 2", "is not a kubeconfig: a key is duplicated"),
        (b"x" * (1 << 21), "is not a kubeconfig: it is longer"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused(content, said, refused, tmp_path):
    path = tmp_path / "config"
    path.write_bytes(content)
    assert said in refused(f"--kubeconfig={path}")


def test_a_kubeconfig_that_is_not_there_is_refused(refused, tmp_path):
    said = refused(f"--kubeconfig={tmp_path / 'none'}")
    assert said == f"{tmp_path / 'none'}: --kubeconfig: cannot be read: No such file or directory\n"


def test_the_kubeconfig_of_the_environment_is_not_looked_at(api, dwd, kubeconfig):
    api.on(SHOOTS, page())
    path = kubeconfig({"token": TOKEN}).partition("=")[2]
    ran = dwd("shoots", environ={"KUBECONFIG": path, "DWD_KUBECONFIG": path, "HOME": "/nowhere"})
    assert ran.code == 0
    assert "Authorization" not in api.asked[0].headers


def test_a_token_is_in_no_output_whatever_goes_wrong(api, dwd, tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    for status in (400, 401, 403, 500, 503):
        api._replies.clear()
        api.on(SHOOTS, problem(status))
        ran = dwd("shoots", f"--token-file={file}")
        assert TOKEN not in json.dumps([ran.out, ran.err])
    assert TOKEN not in os.environ.values()
