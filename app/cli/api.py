"""`dwd api`: any request to the API, with the token, the leader and the exit codes of the other commands."""

import json
import sys
from contextlib import aclosing
from typing import Final

import msgspec
from rich.text import Text

from app.cli import answers
from app.cli.client import (
    EVENT_STREAM,
    MAX_ANSWER,
    ApiCall,
    lines_of,
    note_perhaps_done,
    whole,
)
from app.cli.printing import Answer, as_json, printable
from app.cli.problems import CommandFailed
from app.cli.session import Session
from app.core.config.client_settings import ApiCommandSettings
from app.core.errors import ConfigurationError, Mistake, trimmed

_PREFIX: Final = "/api/v1/"
_MAX_BODY: Final = 1 << 20


def with_body(settings: ApiCommandSettings) -> ApiCommandSettings:
    """Return the settings with the JSON itself in place of `@FILE` or `-`; blocks, so call it before the event loop.

    Raises:
        ConfigurationError: The file cannot be read, or the body is too long or not JSON.
    """
    given = settings.data
    if given is None:
        return settings
    try:
        if given == "-" and sys.stdin is None:
            raise _wrong("cannot be read: standard input is closed")
        if given == "-":
            content = sys.stdin.buffer.read(_MAX_BODY + 1)
        elif given.startswith("@"):
            with open(given.removeprefix("@"), "rb") as file:  # noqa: PTH123 - as the operator wrote it
                content = file.read(_MAX_BODY + 1)
        else:
            content = given.encode()  # an argument may have bytes that are none
        if len(content) > _MAX_BODY:
            raise _wrong(f"is longer than {_MAX_BODY} bytes")
        text = content.decode()
        json.loads(text)
    except OSError as error:
        raise _wrong(f"cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise _wrong("is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise _wrong(f"is not JSON: {error}") from error
    return settings.model_copy(update={"data": text})


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError("dwd api", [Mistake(None, "--data", message)])


async def api(session: Session, settings: ApiCommandSettings, given: str) -> None:
    """`dwd api`: send one request and print the answer; a stream of events is printed as it comes."""
    path = given.removeprefix(_PREFIX).removeprefix("/")
    # As it was given, with keys that are there twice: that is for the API to judge.
    body = None if settings.data is None else msgspec.Raw(settings.data.encode())
    method = settings.method or ("GET" if settings.data is None else "POST")
    call = ApiCall(method, path, body=body, headers={"If-Match": settings.if_match})
    async with session.client.answered(call) as response:
        if settings.include:
            lines = [f"HTTP {response.status} {response.reason or ''}".rstrip()]
            lines += [f"{name}: {value}" for name, value in response.headers.items()]
            session.printer.lines([*(Text(trimmed(line, 1_000)) for line in lines), Text()])
        if response.content_type == EVENT_STREAM:
            async with aclosing(lines_of(response.content)) as parts:
                async for line in parts:
                    shown = printable(line.decode("utf-8", "replace").rstrip())
                    session.printer.lines([Text(shown)])
            return
        text = await whole(response, MAX_ANSWER)
    if method == "HEAD":
        return
    if response.content_type == "application/json":
        try:
            data = answers.decode(text)
        except CommandFailed as error:
            note_perhaps_done(call, error)
            raise
        lines = as_json(data, indent=2).splitlines()
        session.printer.show(Answer(data, [Text(line) for line in lines]))
    elif text:
        lines = printable(text.decode("utf-8", "replace")).splitlines()
        session.printer.lines([Text(line) for line in lines])
