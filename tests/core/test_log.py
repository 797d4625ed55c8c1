"""The log: what is in it, and what never is (threats T12, T13)."""

import io
import json
import logging
import re
import warnings

import pytest
import structlog

from app.core.log import configure_logs

CANARY = "c4n4ry-0f-a-s3cret"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJlLWNhbmFyeQ"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----"


class Log:
    def __init__(self, level="debug", style="json"):
        self.stream = io.StringIO()
        configure_logs(level, style, self.stream)
        self.ours = structlog.get_logger("app.test")

    @property
    def text(self):
        return self.stream.getvalue()

    @property
    def lines(self):
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def line(self):
        (only,) = self.lines
        return only


def test_a_line_is_json_with_time_in_utc_level_logger_and_message():
    log = Log()
    log.ours.info("scaled", namespace="shoot--a", before=1)
    line = log.line
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "app.test",
        "message": "scaled",
        "namespace": "shoot--a",
        "before": 1,
    }


@pytest.mark.parametrize(
    "name",
    [
        "uvicorn",
        "uvicorn.error",
        "uvicorn.access",
        "aiohttp.client",
        "asyncio",
        "kubernetes_asyncio",
    ],
)
def test_libraries_log_through_the_same_pipeline(name):
    uvicorn = logging.getLogger(name)
    uvicorn.handlers[:] = [logging.StreamHandler(io.StringIO())] if "uvicorn" in name else []
    log = Log()
    uvicorn.warning("token of %s is %s", "us", JWT)
    assert (log.line["logger"], log.line["level"]) == (name, "warning")
    assert log.line["message"] == "token of us is [redacted]"


def test_less_than_the_level_is_dropped_of_libraries_too():
    log = Log("warning")
    log.ours.info("no")
    logging.getLogger("aiohttp").info("no")
    log.ours.warning("yes")
    assert [line["message"] for line in log.lines] == ["yes"]


def test_a_later_configuration_replaces_the_one_before():
    first, second = Log(), Log("info")
    first.ours.info("once")
    assert (first.text, len(second.lines)) == ("", 1)


@pytest.mark.parametrize(("level", "style"), [("loud", "json"), ("info", "xml")])
def test_an_unknown_level_or_format_is_refused(level, style):
    with pytest.raises(ValueError, match="log"):
        configure_logs(level, style)


def test_warnings_of_python_are_lines_too():
    log = Log()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        logging.captureWarnings(capture=True)
        warnings.warn(f"token={CANARY}", stacklevel=1)
    assert log.line["logger"] == "py.warnings"
    assert CANARY not in log.text


SECRETS = [
    pytest.param(f"Authorization: Bearer {CANARY}", id="bearer header"),
    pytest.param(f"x {JWT}{CANARY} y", id="JWT"),
    pytest.param(PEM, id="PEM"),
]
"""What else is one is in `test_redaction.py`."""


def leaked(log):
    shown = log.text
    return any(secret in shown for secret in (CANARY, "c2lnbmF0dXJl"))


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_is_shown_wherever_it_stands(style, secret):
    log = Log(style=style)
    log.ours.info(secret)
    log.ours.info("x", value=secret, nested={"a": [(secret,)], secret: 1}, set_={secret})
    log.ours.info("x", error=ValueError(secret), raw=secret.encode())
    logging.getLogger("aiohttp").error("failed: %s", secret)
    assert not leaked(log)
    assert "redacted" in log.text


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_is_shown_in_a_traceback_or_its_causes(style, secret):
    log = Log(style=style)
    error = RuntimeError("outer")
    error.__cause__ = ValueError(secret)
    error.add_note(secret)
    log.ours.error("failed", exc_info=error)
    logging.getLogger("asyncio").error("failed", exc_info=error)
    assert not leaked(log)
    assert log.text.count("failed") == 2


@pytest.mark.parametrize("key", ["token", "clientKeyData"])
def test_a_value_is_not_shown_under_a_key_that_names_a_secret(key):
    log = Log()
    log.ours.info("x", **{key: CANARY}, deep={key: {"a": CANARY}}, absent={key: None})
    assert CANARY not in log.text
    assert log.line["absent"] == {key: None}


def test_control_characters_are_removed_from_names_and_messages():
    log = Log()
    log.ours.info("a\r\nb\x1b[31mc\u2028d\u202ee\x00", key="x\ny", nested={"k\n": "\x07"})
    for text in (log.line["message"], log.line["key"], *log.line["nested"]):
        assert text.isprintable()
    assert "\\u001b" not in log.text


def test_no_message_can_forge_a_line_on_a_console():
    log = Log(style="console")
    forged = "x\n2026-01-01T00:00:00Z [critical] forged"
    log.ours.info(forged, name=forged)
    log.ours.error("failed", exc_info=ValueError(forged))
    forging = [line for line in log.text.splitlines() if line.startswith("2026-01-01")]
    assert forging == []


def test_a_value_has_at_most_2_kb_a_traceback_8_and_a_line_16():
    log = Log()
    log.ours.info("x" * 10_000, **{f"key{n}": "y" * 10_000 for n in range(20)})
    line = log.line
    assert len(line["message"]) == len(line["key0"]) == 2_048
    assert line["truncated"] is True
    assert len(log.text) < 17_000


def test_a_long_traceback_keeps_its_first_and_last_lines():
    log = Log()
    error = ValueError("x" * 30_000 + " last")
    error.__cause__ = KeyError("first")
    log.ours.error("failed", exc_info=error)
    assert len(log.line["exception"]) < 8_300
    assert log.line["exception"].startswith("KeyError: 'first'")
    assert log.line["exception"].endswith(" last")


def test_endless_nesting_and_many_items_are_cut():
    log = Log()
    endless: dict[str, object] = {}
    endless["again"] = endless
    log.ours.info("x", endless=endless, many=list(range(1000)), named={n: n for n in range(1000)})
    assert len(log.line["many"]) == len(log.line["named"]) == 50
    assert "[…]" in log.line["endless"]["again"]["again"]["again"]["again"].values()


class Broken:
    def __repr__(self):
        raise RuntimeError(CANARY)


def test_an_object_that_cannot_be_shown_does_not_cost_the_line():
    log = Log()
    log.ours.info("x", value=Broken())
    assert log.line["value"] == "[a Broken that cannot be shown]"


def test_a_line_that_cannot_be_written_ends_nothing_and_shows_nothing(capsys):
    log = Log()
    log.stream.close()
    log.ours.info("x", token=CANARY)
    logging.getLogger("aiohttp").error("%d", CANARY)
    assert capsys.readouterr() == ("", "")


# Names.


def test_fields_are_named_as_the_api_names_them_in_both_styles():
    log, console = Log(), Log(style="console")
    console.ours.info("looked", would_be="ScaleDown", namespace="shoot--a")
    assert "wouldBe=ScaleDown" in console.text
    log = Log()
    log.ours.info("looked", would_be="ScaleDown", namespace="shoot--a", last_look_seconds=1.5)
    assert list(log.line) == [
        *("time", "level", "logger", "message", "wouldBe", "namespace", "lastLookSeconds")
    ]


@pytest.mark.parametrize("name", ["message", "time", "level", "logger"])
def test_no_field_can_stand_in_for_what_every_line_has(name):
    log = Log()
    log.ours.info("true", **{name: "forged"})
    line = log.line
    assert "forged" not in {line["message"], line["time"], line["logger"]}
    assert list(line)[:4] == ["time", "level", "logger", "message"]


# For people.


class Terminal(io.StringIO):
    def isatty(self):
        return True


def coloured(stream):
    configure_logs("info", "console", stream)
    structlog.get_logger("app.test").warning("careful", namespace="shoot--a")
    return "\x1b[" in stream.getvalue()


def test_colours_are_for_a_terminal_only():
    assert coloured(Terminal())
    assert not coloured(io.StringIO())


def test_a_line_for_people_has_time_level_what_happened_and_where():
    log = Log(style="console")
    log.ours.warning("protection began", namespace="shoot--a", reason="LeasesExpired")
    (line,) = log.text.splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\S+Z \[warning *\] protection began \[app.test\] "
        r"namespace=shoot--a reason=LeasesExpired",
        line,
    )
