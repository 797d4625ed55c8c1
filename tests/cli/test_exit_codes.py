"""An API that does not do what is asked, does not answer, or answers with something else: messages and exit codes."""

import shlex
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from tests.cli import examples
from tests.cli.conftest import run
from tests.cli.server import FakeApi, Reply, half_an_answer, no_answer, page, problem, standby

NAME = "shoot--a--b"
WHY = "--reason=because"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *[(status, 1) for status in (400, 405, 413, 431, 500, 502)],
        *[(401, 5), (403, 5), (404, 4), (410, 4), (412, 3), (422, 2), (429, 6), (503, 6)],
    ],
)
def test_every_refusal_has_its_exit_code(status, code, api, dwd):
    api.on("GET /shoots", problem(status))
    assert dwd("shoots").code == code


def test_a_server_that_is_not_there_ends_with_1():
    ran = run("shoots", environ={"DWD_SERVER": "http://127.0.0.1:1"})
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "dwd: http://127.0.0.1:1 cannot be reached: Connection refused\n"
        "    is a demo running (dwd demo)? --server takes another address; --port-forward "
        "NAMESPACE/DEPLOYMENT reaches one in a cluster\n"
    )


@pytest.mark.parametrize("what", ["shoots", "events"], ids=["a list", "a stream"])
def test_a_server_that_is_silent_ends_with_1(what, api, dwd):
    api.on(f"GET /{what}", Reply(page(), wait=30))
    ran = dwd(what, "--timeout=100ms")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"dwd: {api.url} does not answer in time\n"


async def _killed(request):
    """The server ends before it answers."""
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize("end", [_killed, half_an_answer])
def test_an_answer_that_breaks_off_ends_with_1(end, api, dwd):
    api.on("GET /shoots", end)
    ran = dwd("shoots")
    assert ran.code == 1
    assert ran.err == f"dwd: {api.url} does not answer: the connection broke off\n"


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_not_followed(status, api, dwd):
    api.on("GET /shoots", Reply(None, status, {"Location": f"{api.url}/api/v1/elsewhere"}))
    ran = dwd("shoots")
    assert (ran.code, api.lines) == (1, ["GET /shoots"])
    assert ran.err == f"dwd: the answer is {status}, not one of this API\n"


@pytest.mark.parametrize("body", [b"", b"no JSON", b'{"detail": 3}', b"[]", b'{"title": "\xff"}'])
def test_a_problem_that_cannot_be_read_is_told_by_its_status(body, api, dwd):
    api.on("GET /shoots", Reply(body, 503, {"Content-Type": "application/problem+json"}))
    ran = dwd("shoots")
    assert (ran.code, ran.err) == (6, "dwd: the answer is 503, not one of this API\n")


@pytest.mark.parametrize(
    ("reply", "came"),
    [
        (Reply(b"<html>hi", headers={"Content-Type": "text/html"}), "200 (text/html)"),
        (Reply(status=204), "204 (without a Content-Type)"),
        (Reply(b"", 202, {"Content-Type": "text/event-stream"}), "202 (text/event-stream)"),
    ],
    ids=["HTML", "nothing", "202"],
)
def test_an_answer_that_is_no_stream_ends_events_with_1(reply, came, api, dwd):
    api.on("GET /events", reply, problem(503, "x", "It was asked again", "so"))
    ran = dwd("events")
    assert (ran.code, ran.out, api.lines) == (1, "", ["GET /events"])
    assert ran.err == f"dwd: the answer is {came}, not a stream of events\n"


def test_so_does_one_in_the_place_of_a_stream_that_broke(api, dwd):
    stream = {"Content-Type": "Text/Event-Stream; charset=utf-8"}
    api.on(
        "GET /events",
        Reply(
            b'id: 1\nevent: shoot-gone\ndata: {"namespace": "a"}\n\nretry: 0\n\n', headers=stream
        ),
        Reply(b"<html>", headers={"Content-Type": "text/html"}),
        problem(403, "x", "It was asked again", "so"),
    )
    ran = dwd("events")
    assert (ran.code, len(api.asked)) == (1, 2)
    assert ran.out.endswith("  a  is gone\n")
    assert ran.err.splitlines()[-1] == "dwd: the answer is 200 (text/html), not a stream of events"


REFUSALS = yaml.safe_load((Path(__file__).parent / "refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_told_with_what_helps_on(row, api, dwd):
    reply = problem(**row["problem"])
    reply.headers |= row.get("headers", {})
    api.on(row["asks"], reply)
    ran = dwd(*shlex.split(row["dwd"]))
    assert (ran.code, ran.err) == (row["code"], row["says"])


NOTHING = problem(404, "not-found", "There is no such resource", "the seed has no Cluster a")
ONES = [{"namespace": f"shoot--demo--{name}"} for name in ("a", "zonal-61", "zonal-59", "abc")]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("shoots", "a"), "GET /shoots/a"),
        (("scale", "up", "a", WHY), "POST /shoots/a/scale"),
        (("weeders", "a", "etcd"), "GET /weeders/a/etcd"),
        (("weeders", "a"), "GET /shoots/a"),
        (("audit", "a"), "GET /shoots/a"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else "",
)
def test_a_part_of_a_name_is_answered_by_the_whole_one(words, line, api, dwd):
    api.on(line, NOTHING).on("GET /shoots", page(*ONES))
    api.on("GET /weeders", page()).on("GET /audit", page())
    ran = dwd(*words)
    assert (ran.code, ran.out) == (4, "")
    assert ran.err == (
        "dwd: There is no such resource: the seed has no Cluster a\n"
        "    did you mean shoot--demo--a?\n"
    )
    assert api.asked[-1].query["q"] == "a"


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (ONES[1:2], "did you mean shoot--demo--zonal-61?"),
        (
            [*ONES[1:], {"namespace": "shoot--a--b"}],
            "did you mean shoot--demo--zonal-61, shoot--demo--zonal-59, shoot--demo--abc and 1 more?",
        ),
    ],
)
def test_where_no_name_is_that_word_those_that_have_it_in_them_are_suggested(found, note, api, dwd):
    api.on("GET /shoots/a", NOTHING).on("GET /shoots", page(*found))
    assert dwd("shoots", "a").err.splitlines()[-1] == f"    {note}"


@pytest.mark.parametrize(
    "listed", [page(), page({"namespace": "a"}, *ONES), problem(403, "forbidden", "No", "so")]
)
def test_where_nothing_is_like_it_or_the_list_may_not_be_seen_nothing_is_suggested(
    listed, api, dwd
):
    api.on("POST /weeders/a/etcd", NOTHING).on("GET /shoots", listed)
    ran = dwd("weed", "a", "etcd")
    assert (ran.code, ran.err) == (4, "dwd: There is no such resource: the seed has no Cluster a\n")


@pytest.mark.parametrize("command", ["weeders", "audit"])
@pytest.mark.parametrize("reply", [problem(403, "forbidden"), problem(503, "loop-not-here")])
def test_where_it_cannot_be_learnt_whether_a_shoot_is_there_an_empty_list_is_one(
    command, reply, api, dwd
):
    api.on(f"GET /{command}", page()).on(f"GET /shoots/{NAME}", reply)
    ran = dwd(command, NAME)
    assert (ran.code, ran.err) == (0, "")


def test_a_shoot_that_is_not_there_yet_is_followed_and_it_is_said(api, dwd):
    stream = {"Content-Type": "text/event-stream"}
    came = Reply(
        b'id: 1\nevent: shoot-gone\ndata: {"namespace": "a"}\n\nretry: 0\n\n', headers=stream
    )
    api.on("GET /events", came, came, problem(403, "forbidden", "No", "so"))
    api.on("GET /shoots/a", NOTHING)
    ran = dwd("events", "a")
    assert api.lines == ["GET /events", "GET /shoots/a", "GET /events", "GET /events"]
    assert ran.out.count("  a  is gone\n") == 2
    said, *_, end = ran.err.splitlines()
    assert (
        said
        == "dwd events: There is no such resource: the seed has no Cluster a; it is followed if it comes"
    )
    assert end == "dwd: No: so"


def test_an_operation_that_is_not_there_is_no_shoot(api, dwd):
    assert dwd("operations", "op-1").code == 4
    assert api.lines == ["GET /operations/op-1"]


def test_of_a_write_without_an_answer_nobody_knows_whether_it_was_done(api, dwd):
    api.on(f"PUT /shoots/{NAME}/pause", Reply(examples.PAUSE, wait=30))
    ran = dwd("pause", NAME, WHY, "--timeout=100ms")
    assert ran.code == 1
    assert ran.err == (
        f"dwd: {api.url} does not answer in time\n"
        "    it is unknown whether the change was made: check before you retry\n"
    )
    assert len(api.asked) == 1, "and it is not sent again"


@pytest.mark.parametrize("line", [f"pause {NAME} {WHY}", f"resume {NAME}"])
def test_nor_where_the_connection_breaks_off_and_it_is_not_sent_again(line, api, dwd):
    for method in ("PUT", "DELETE"):
        api.on(f"{method} /shoots/{NAME}/pause", no_answer, problem(404, "not-found", "No", "none"))
    ran = dwd(*line.split(maxsplit=2))
    assert ran.code == 1
    assert ran.err.endswith(
        "    it is unknown whether the change was made: check before you retry\n"
    )
    assert len(api.asked) == 1


def test_nor_where_a_standby_named_the_server_that_broke_off(api, dwd):
    with FakeApi() as leader:
        leader.on(f"PUT /shoots/{NAME}/pause", no_answer)
        api.on(f"PUT /shoots/{NAME}/pause", standby(f"127.0.0.1:{leader.port}"))
        ran = dwd("pause", NAME, WHY)
    assert ran.code == 6
    assert "    it is unknown whether the change was made: check before you retry\n" in ran.err


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(b"<html>", headers={"Content-Type": "text/html"}), 1),
        (Reply(b'{"name": "api",'), 1),
        (Reply([]), 1),
        (Reply(b"<html>", 502, {"Content-Type": "text/html"}), 1),
        (Reply(b"no healthy upstream", 503), 6),
    ],
    ids=["page", "half", "list", "gateway", "no upstream"],
)
def test_nobody_knows_either_after_an_answer_that_makes_no_sense(reply, code, api, dwd):
    api.on(f"PUT /shoots/{NAME}/pause", reply).on(f"GET /shoots/{NAME}", reply)
    ran = dwd("pause", NAME, WHY)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.endswith(
        "    it is unknown whether the change was made: check before you retry\n"
    )
    assert "unknown whether" not in dwd("shoots", NAME).err, "a read changes nothing"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""], ids=["page", "list", "nothing"])
@pytest.mark.parametrize(
    ("line", "asks"),
    [
        (
            f"ignore {NAME} Deployment/kcm {WHY}",
            "PUT /shoots/{}/resources/Deployment/kcm/ignore-scaling",
        ),
        (
            f"unignore {NAME} Deployment/kcm",
            "DELETE /shoots/{}/resources/Deployment/kcm/ignore-scaling",
        ),
        ("operations op-1 --cancel", "DELETE /operations/op-1"),
    ],
)
def test_every_change_reads_its_answer(line, asks, body, api, dwd):
    api.on(asks.format(NAME), Reply(body))
    ran = dwd(*line.split())
    assert (ran.code, ran.out) == (1, "")
    assert "unknown whether the change was made" in ran.err


def test_https_to_a_port_without_it_is_said_to_be_that(api, dwd):
    ran = dwd("shoots", "--server", api.url.replace("http:", "https:"))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"dwd: https://127.0.0.1:{api.port} cannot be reached: TLS fails: ")
    assert "not permitted" not in ran.err
