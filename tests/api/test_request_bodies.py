"""What a body may be, and what may be in it; and that nothing happens before it is whole."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from app.api import request_bodies
from app.api.middleware import MAX_BODY, BodyLimit
from app.api.request_bodies import IgnoreOrder, PauseOrder, WeedOrder
from tests.api.fakes import unused

HEADERS = [(b"transfer-encoding", b"chunked"), (b"content-type", b"application/json")]


class App:
    def __init__(self):
        self.got = []

    async def __call__(self, scope, receive, send):
        message = await receive()
        assert not message["more_body"]
        self.got.append(message["body"])
        self.then = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def post(app, *parts, pause=0.0, last=True, headers=HEADERS):
    """Sends a body in parts; returns status, type of the problem, headers."""
    messages = [{"type": "http.request", "body": each, "more_body": True} for each in parts]
    if messages and last:
        messages[-1]["more_body"] = False
    sent = []

    async def receive():
        await asyncio.sleep(pause)
        if messages:
            return messages.pop(0)
        if last:
            return {"type": "http.disconnect"}
        return await asyncio.get_running_loop().create_future()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/x", "headers": headers}
    await BodyLimit(app)(scope, receive, send)
    if not sent:
        return None
    problem = json.loads(sent[1]["body"])["type"].rpartition(":")[2] if sent[1]["body"] else None
    return sent[0]["status"], problem, dict(sent[0]["headers"])


async def test_a_body_in_parts_arrives_whole_and_then_the_server_is_heard_again():
    app = App()
    assert (await post(app, b'{"a"', b": ", b"1}"))[0] == 200
    assert app.got == [b'{"a": 1}']
    assert app.then == {"type": "http.disconnect"}


async def test_a_body_of_the_greatest_size_passes_and_a_byte_more_is_413():
    app = App()
    full = b'"' + b"x" * (MAX_BODY - 2) + b'"'
    assert (await post(app, full))[0] == 200
    status, problem, headers = await post(app, full, b" ")
    assert (status, problem) == (413, "payload-too-large")
    assert headers[b"connection"] == b"close"
    assert len(app.got) == 1


async def test_a_body_without_end_is_413_after_16_kib():
    app = App()
    parts = [b"x" * 1_000] * 1_000
    status, _, _ = await post(app, *parts)
    assert status == 413
    assert app.got == []


async def test_a_body_that_drips_is_400_after_ten_seconds():
    app = App()
    loop = asyncio.get_running_loop()
    began = loop.time()
    status, problem, headers = await post(app, *[b" "] * 100, pause=1.0)
    assert loop.time() - began == pytest.approx(10)
    assert (status, problem) == (400, "malformed-request")
    assert headers[b"connection"] == b"close"
    assert app.got == []


async def test_a_body_that_stops_is_400_after_ten_seconds():
    assert (await post(App(), b"{", last=False))[0] == 400


async def test_a_caller_that_hangs_up_in_the_middle_has_asked_for_nothing():
    app = App()

    async def receive():
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "POST", "path": "/x", "headers": HEADERS}
    await BodyLimit(app)(scope, receive, unused)
    assert app.got == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{'reason': 1}",
        b'{"a": 1,}',
        b'{"reason": "a", "reason": "b"}',
        b'{"deep": {"a": 1, "a": 2}}',
        b'{"hold": NaN}',
        b'{"hold": Infinity}',
        b'{"hold": 1e999}',
        b'{"hold": ' + b"1" * 6_000 + b"}",
        b'{"reason": "\xff"}',
        b'{"reason": "\\ud800"}',
        b"[" * 8_000,
        b"[" * 8_000 + b"]" * 8_000,
        b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
        b'{"a":' + b"[" * 64 + b"]" * 64 + b"}",
        b"[" + b'{"a":' * 64 + b"1" + b"}" * 64 + b"]",
        b'\xef\xbb\xbf{"reason": "x"}',
        '{"reason": "x"}'.encode("utf-16"),
        b"\x00",
        b'{"a": "\x00"}',
        b"{} {}",
    ],
    ids=lambda each: f"{each[:20]!r} {len(each)}",
)
async def test_what_is_no_json_or_not_for_everybody_the_same_is_400(body):
    app = App()
    status, problem, _ = await post(app, body)
    assert (status, problem) == (400, "malformed-request")
    assert app.got == []


async def test_a_body_may_have_64_levels():
    """However deep the parsers of this Python go: 950 levels, or 10,000 since 3.13."""
    status, _, _ = await post(App(), b'{"a":' * 32 + b"[" * 32 + b"]" * 32 + b"}" * 32)
    assert status == 200


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b' {"a": {"b": 1}, "c": {"b": 1}} ', b""])
async def test_what_is_json_passes_as_it_is(body):
    app = App()
    assert (await post(app, body))[0] == 200
    assert app.got == [body]


async def test_a_request_without_a_body_is_left_alone():
    async def app(scope, receive, send):
        assert receive is unused
        await send({"type": "http.response.start", "status": 204, "headers": []})

    sent = []

    async def send(message):
        sent.append(message["status"])

    scope = {"type": "http", "headers": [(b"content-length", b"0")], "path": "/"}
    await BodyLimit(app)(scope, unused, send)
    assert sent == [204]


# What may be in it: which call takes which of these is in the OpenAPI document.

MISTAKES = yaml.safe_load(
    Path(__file__).with_name("request_bodies.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    ("order", "said", "wrong"),
    [
        (getattr(request_bodies, name), row["said"], row["wrong"])
        for name, rows in MISTAKES.items()
        for row in rows
    ],
)
def test_each_wrong_field_is_named_with_what_it_may_be(order, said, wrong):
    with pytest.raises(ValidationError) as caught:
        order.model_validate(said)
    found = {".".join(map(str, each["loc"])): each["msg"] for each in caught.value.errors()}
    assert found.keys() == wrong.keys()
    assert all(words in found[path] for path, words in wrong.items()), found


@pytest.mark.parametrize("order", [PauseOrder, WeedOrder])
def test_a_reason_has_at_most_300_characters(order):
    with pytest.raises(ValidationError, match="at most 300"):
        order(reason="x" * 301)


@pytest.mark.parametrize(
    ("said", "kept"),
    [(" a\nb\x1b[31m\u202e ", "a b [31m"), (" two\nlines ", "two lines"), ("x" * 300, "x" * 300)],
)
def test_a_reason_becomes_one_printable_line(said, kept):
    for order in (PauseOrder, IgnoreOrder, WeedOrder):
        assert order(reason=said).reason == kept
