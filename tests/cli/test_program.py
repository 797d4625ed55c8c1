"""The program as a process: pipes that end early, terminals, Ctrl-C; and TLS."""

import os
import pty
import signal
import sys
from functools import partial

import pytest

from tests.cli import examples
from tests.cli.conftest import run, started
from tests.cli.server import FakeApi, Reply, page, standby
from tests.support.certs import Authority, server_context
from tests.support.programs import ended, printed

SHOOTS = "GET /shoots"
UNKNOWN = "dwd: it is unknown whether the change was made: check before you retry\n"


@pytest.fixture
def start(api):
    """Starts `dwd` against the API."""
    return partial(started, DWD_SERVER=api.url)


@pytest.fixture
def on_terminal(start):
    """What `dwd` writes to a terminal, until it ends or `until` is there; and its exit code."""

    def call(*words, until=None, **environ):
        ours, theirs = pty.openpty()
        process = start(*words, out=theirs, **environ)
        os.close(theirs)
        found = b""
        while until is None or until not in found:
            try:
                found += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        if until is not None:
            process.send_signal(signal.SIGINT)
            while True:
                try:
                    found += os.read(ours, 65536)
                except OSError:
                    break
        os.close(ours)
        return process.wait(10), found.decode(), process.communicate()[1]

    return call


def test_watching_on_a_terminal_gives_it_back_at_ctrl_c(api, on_terminal):
    api.on(SHOOTS, page(examples.SHOOT))
    code, out, err = on_terminal("shoots", "--watch", until=b"shoot--acme--prod")
    assert (code, err) == (130, "")
    assert "\x1b[?1049h" in out
    assert out.rindex("\x1b[?1049l") > out.rindex("shoot--acme--prod")


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        (200, "NAMESPACE STATE REASON FOR LEASES AT 0 OVERRIDES"),
        (100, "NAMESPACE STATE REASON FOR AT 0 OVERRIDES"),
        (80, "NAMESPACE STATE REASON AT 0 OVERRIDES"),
    ],
)
def test_on_a_narrow_terminal_other_columns_give_way_to_what_people_decided(
    columns, heads, api, on_terminal
):
    api.on(SHOOTS, page(examples.SHOOT, examples.HEALTHY))
    _, out, _ = on_terminal("shoots", COLUMNS=str(columns), LINES="24", TERM="dumb")
    found, row, _ = out.splitlines()
    assert (found.split(), found.index("OVERRIDES") + 28 <= columns) == (heads.split(), True)
    assert row.endswith(
        "paused scaleDown (all shoots), until 2026-11-20T15:10:00Z, jane: hands off"
    )


def test_a_pipe_that_nobody_reads_any_more_ends_it_without_a_word(api, start):
    many = [{**examples.SHOOT, "namespace": f"shoot--a--{number}"} for number in range(5000)]
    api.on(SHOOTS, page(*many))
    process = start("shoots", "-o", "json")
    process.stdout.read(10)
    process.stdout.close()
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (141, "")


def test_what_a_terminal_does_not_have_is_a_question_mark(api, start):
    api.on(SHOOTS, page({**examples.SHOOT, "message": "held by 日"}))
    out, err = start("shoots", "-o", "yaml", PYTHONIOENCODING="latin-1").communicate(timeout=20)
    assert ("held by ?" in out, err) == (True, "")


def test_a_closed_standard_input_is_no_body(api):
    ended = closed(api, "<&-", "api", "-X", "PUT", "shoots/a/pause", "-d", "-")
    said = "dwd api: --data: cannot be read: standard input is closed\n"
    assert (ended.returncode, ended.stderr, api.asked) == (2, said, [])


def closed(api, redirection, *words):
    """How `dwd pause` ends, or another command, whose streams are closed by a shell."""
    api.on("PUT /shoots/a/pause", examples.PAUSE)
    words = words or ("pause", "a", "--reason=x")
    shell = ["bash", "-o", "pipefail", "-c", f'"$@" {redirection}', "sh"]
    environ = {**os.environ, "DWD_SERVER": api.url}
    return ended(*shell, sys.executable, "-m", "app", *words, env=environ)


def test_where_the_output_is_closed_nothing_is_asked(api):
    ended = closed(api, ">&-")
    said = "dwd: the output cannot be written: it is closed\n"
    assert (ended.returncode, ended.stderr, api.asked) == (1, said, [])


@pytest.mark.parametrize(
    ("redirection", "code", "why"),
    [(">/dev/full", 1, "No space left on device"), ("| true", 141, "Broken pipe")],
)
def test_where_its_answer_cannot_be_written_it_is_said_that_a_change_was_made(
    redirection, code, why, api
):
    ended = closed(api, redirection, "pause", "a", "--reason=x")
    assert (ended.returncode, api.lines) == (code, ["PUT /shoots/a/pause"])
    assert ended.stderr == (
        f"dwd: the output cannot be written: {why}\n"
        "    the server has done what was asked: only its answer is lost\n"
    )


def test_where_nothing_can_be_said_the_exit_code_says_it(api):
    assert closed(api, ">&- 2>&-").returncode == 1
    assert api.asked == []


def test_without_an_error_output_the_answer_is_written(api):
    ended = closed(api, "2>&-")
    assert (ended.returncode, ended.stdout != "") == (0, True)


@pytest.mark.parametrize(("command", "said"), [("shoots", ""), ("resume a", UNKNOWN)])
def test_ctrl_c_while_the_server_thinks_ends_it_and_says_what_nobody_knows(
    command, said, api, start
):
    for line in (SHOOTS, "DELETE /shoots/a/pause"):
        api.on(line, Reply(page(), wait=30))
    process = start(*command.split())
    while not api.asked:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", said)


def test_a_command_imports_nothing_that_it_does_not_need():
    """It would take longer to start than to ask."""
    heavy = {"structlog", "kubernetes_asyncio", "fastapi", "uvicorn", "rich.console", "aiohttp.web"}
    heavy |= {"pydantic_settings", "yaml", "app.core.config.settings", "app.cli.operations"}
    script = (
        "import sys; from app.__main__ import run; "
        "run(['shoots', '--server=http://127.0.0.1:1']); print(*sys.modules)"
    )
    found = printed(sys.executable, "-c", script).split()
    assert "app.cli.shoots" in found
    assert heavy & set(found) == set()


# TLS.


@pytest.fixture(scope="module")
def ca():
    return Authority.create()


@pytest.fixture
def secured(ca, tmp_path):
    """Serves over TLS as these hosts; the file of the CA that vouches for it."""
    served = []

    def serve(*hosts, **more):
        (tmp_path / "ca.pem").write_bytes(ca.pem)
        context = server_context(ca.server(hosts, **more))
        api = FakeApi(context).__enter__().on(SHOOTS, page())
        served.append(api)
        return api, f"--ca-file={tmp_path / 'ca.pem'}"

    yield serve
    for each in served:
        each.__exit__()


@pytest.mark.parametrize(
    ("host", "more", "vouches"),
    [
        pytest.param("127.0.0.1", {}, None, id="without its CA"),
        pytest.param("dwd.garden.svc", {}, "its own", id="a certificate of another host"),
        pytest.param("127.0.0.1", {"expired": True}, "its own", id="an expired certificate"),
        pytest.param("127.0.0.1", {}, "another", id="the CA that is given is the only one"),
    ],
)
def test_a_server_that_is_not_trusted_is_not_asked(host, more, vouches, secured, tmp_path):
    api, flag = secured(host, **more)
    if vouches == "another":
        (tmp_path / "ca.pem").write_bytes(Authority.create().pem)
    ran = run("shoots", f"--server={api.url}", *([flag] if vouches else []))
    assert (ran.code, ran.out, api.asked) == (1, "", [])
    assert ran.err.startswith(f"dwd: {api.url} is not called: its certificate is not trusted: ")
    assert ran.err.endswith("    give its CA with --ca-file\n")


def test_plain_http_to_a_tls_port_is_no_answer(secured):
    api, flag = secured("127.0.0.1")
    assert run("shoots", f"--server={api.url.replace('https', 'http')}", flag).code == 1


def test_a_leader_is_asked_over_tls_too_and_must_show_its_certificate(secured):
    api, flag = secured("127.0.0.1")
    leader, _ = secured("10.0.0.7")
    api._replies.clear()
    api.on(SHOOTS, standby(f"127.0.0.1:{leader.port}"))
    ran = run("shoots", f"--server={api.url}", flag)
    assert (ran.code, leader.asked) == (6, [])
    assert "its certificate is not trusted" in ran.err
