"""`dwd api`: any request, its answer as it is, and the same exit codes as elsewhere."""

import json

import pytest
from aiohttp import web

from app.cli.api import with_body
from app.core.config.client_settings import ApiCommandSettings
from app.core.errors import ConfigurationError
from tests.cli.server import Reply, page, problem

EVENTS = Reply(
    b": hello\n\nevent: shoot\ndata: {}\n\n", headers={"Content-Type": "text/event-stream"}
)
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", ["shoots?limit=2", "/shoots?limit=2", "/api/v1/shoots?limit=2"])
def test_a_path_is_given_with_or_without_what_all_of_them_begin_with(path, api, dwd):
    api.on("GET /shoots", Reply(page({"namespace": "a"}), headers=JSON))
    ran = dwd("api", path)
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == page({"namespace": "a"})
    assert api.asked[-1].query == {"limit": "2"}


def test_yaml_is_what_the_other_commands_make_of_it(api, dwd):
    api.on("GET /status", Reply({"version": "1"}, headers=JSON))
    assert dwd("api", "status", "-o", "yaml").out == "version: '1'\n"


def test_a_body_is_posted_unless_the_method_says_otherwise(api, dwd):
    api.on("POST /shoots/a/scale", Reply({}, headers=JSON)).on(
        "PUT /pause", Reply({}, headers=JSON)
    )
    assert dwd("api", "shoots/a/scale", "-d", '{"direction":"down"}').code == 0
    assert api.asked[-1].body == {"direction": "down"}
    assert dwd("api", "pause", "-X", "put", "-d", '{"reason":"x"}', "--if-match", '"e"').code == 0
    assert (api.asked[-1].method, api.asked[-1].headers["If-Match"]) == ("PUT", '"e"')


def test_a_body_is_sent_as_it_was_given_for_the_api_to_judge(api, dwd):
    came = []

    async def take(request):
        came.append(await request.text())
        return web.json_response({})

    api.on("PUT /pause", take)
    given = '{"reason": "a", "reason": "b", "duration": NaN}'
    assert dwd("api", "pause", "-X", "PUT", "-d", given).code == 0
    assert came == [given]


def test_head_has_no_answer_but_status_and_headers(api, dwd):
    api.on("HEAD /shoots", Reply(headers=JSON))
    ran = dwd("api", "shoots", "-X", "HEAD", "-i")
    assert (ran.code, ran.err, ran.lines[0]) == (0, "", "HTTP 200 OK")
    assert "Content-Type: application/json" in ran.lines


def test_a_body_comes_from_a_file_too(api, dwd, tmp_path):
    api.on("PUT /pause", Reply({}, headers=JSON))
    file = tmp_path / "pause.json"
    file.write_text('{"reason": "from a file"}')
    assert dwd("api", "pause", "-X", "PUT", "-d", f"@{file}").code == 0
    assert api.asked[-1].body == {"reason": "from a file"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "is not JSON"),
        ("@nowhere", "cannot be read: No such file"),
        ("[" * 100_000, "is not JSON"),
        ('"\udcff"', "is not UTF-8"),
    ],
)
def test_a_body_that_is_none_is_refused_before_anything_is_sent(data, message, api, dwd):
    ran = dwd("api", "pause", "-X", "PUT", "-d", data)
    assert (ran.code, ran.out, api.asked) == (2, "", [])
    assert ran.err.startswith(f"dwd api: --data: {message}")


def test_a_body_that_is_too_long_is_refused(tmp_path):
    file = tmp_path / "long.json"
    file.write_bytes(b" " * ((1 << 20) + 1))
    settings = ApiCommandSettings(data=f"@{file}")
    with pytest.raises(ConfigurationError, match="longer than 1048576 bytes"):
        with_body(settings)


def test_status_and_headers_come_first_where_they_are_wanted(api, dwd):
    api.on("DELETE /pause", Reply(status=204, headers={"X-Request-ID": "7"}))
    ran = dwd("api", "pause", "-X", "DELETE", "-i")
    assert ran.lines[0] == "HTTP 204 No Content"
    assert "X-Request-ID: 7" in ran.lines
    assert ran.lines[-1] == ""


def test_a_stream_of_events_is_printed_as_it_comes(api, dwd):
    api.on("GET /events", EVENTS)
    assert dwd("api", "events").lines == [": hello", "", "event: shoot", "data: {}", ""]


def test_an_event_may_be_as_long_as_it_is_of_dwd_events(api, dwd):
    line = b"data: " + b"x" * (1 << 20)
    api.on("GET /events", Reply(line + b"\n\n", headers=EVENTS.headers))
    assert dwd("api", "events").lines == [line.decode(), ""]


def test_what_a_terminal_would_obey_is_escaped(api, dwd):
    text = Reply(b"\x1b[2J\xff red", headers={"Content-Type": "text/plain"})
    api.on("GET /status", text)
    assert dwd("api", "status").out == "\\u001b[2J\ufffd red\n"


def test_a_refusal_has_the_exit_code_that_it_has_elsewhere(api, dwd):
    api.on("GET /shoots/a", problem(404, "not-found", "Not found", "no shoot a"))
    ran = dwd("api", "shoots/a")
    assert (ran.code, ran.out) == (4, "")
    assert "no shoot a" in ran.err


def test_after_a_write_without_an_answer_it_says_that_it_may_have_been_done(api, dwd):
    api.on("PUT /pause", Reply({}, wait=5.0))
    ran = dwd("api", "pause", "-X", "PUT", "-d", "{}", "--timeout=200ms")
    assert ran.code == 1
    assert "unknown whether the change was made" in ran.err
