"""The log of the process: structlog and the standard library's loggers through one pipeline, to one stream.

Each line is a JSON object, or text for people, and has passed `redaction`, whichever logger it came from. Fields are
named as in the API: `time`, `message`, `namespace`, `wouldBe` (docs/logs.md).
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from app.core import redaction

# Names in structlog, in the order of a line.
_OURS: Final = ("timestamp", "level", "logger", "event")
_NAMES: Final = {"timestamp": "time", "event": "message"}
_TRACES: Final = ("exception", "stack")
# Loggers that bring handlers of their own.
_LIBRARIES: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
# Precedes each line of a traceback on a console, so that no text in it can pass for a log line.
_INDENT: Final = "\n    | "


def configure_logs(level: str, style: str, stream: TextIO | None = None) -> None:
    """Sends all log lines to `stream` from now on.

    Args:
        level: `debug`, `info`, `warning` or `error`; less severe lines are dropped, those of libraries too.
        style: `json`, or `console` for people.
        stream: standard error by default, so that standard output remains free.

    Raises:
        ValueError: the level or style does not exist.
    """
    if style not in {"json", "console"}:
        raise ValueError(f"the log format is json or console, not {style}")
    number = _number(level)
    _configure_structlog(number)
    _configure_library_logs(number, _handler(style, stream or sys.stderr))


def set_level(level: str) -> None:
    """Changes the level, for libraries too.

    Raises:
        ValueError: the level does not exist.
    """
    number = _number(level)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(number))
    logging.getLogger().setLevel(number)


def level() -> str:
    """Returns the current level: `debug`, `info`, `warning` or `error`."""
    return logging.getLevelName(logging.getLogger().level).lower()


def _number(level: str) -> int:
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"there is no log level {level}")
    return number


def _configure_structlog(level: int) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            *_described(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        # Off, so that loggers created at import follow a later configuration, as in tests.
        cache_logger_on_first_use=False,
    )


def _described() -> list[Processor]:
    """Returns the processors for every line, including those of libraries."""
    return [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _handler(style: str, stream: TextIO) -> logging.Handler:
    handler = _Handler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_described(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.StackInfoRenderer(),
                structlog.processors.format_exc_info,
                redact,
                *_rendered(style, colors=stream.isatty()),
            ],
        )
    )
    return handler


def _rendered(style: str, *, colors: bool) -> list[Processor]:
    if style == "json":
        return [as_in_the_api, structlog.processors.JSONRenderer(sort_keys=False)]
    console = structlog.dev.ConsoleRenderer(
        colors=colors,
        exception_formatter=structlog.dev.plain_traceback,
        pad_event_to=0,
        sort_keys=False,  # in the order of the call: where, what, why
    )
    return [_in_camel_case, _indented, console]


def _configure_library_logs(level: int, handler: logging.Handler) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]  # any other handler would write what this one redacts
    root.setLevel(level)
    for name in _LIBRARIES:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(logging.NOTSET)
    logging.captureWarnings(capture=True)


class _Handler(logging.StreamHandler[TextIO]):
    """Writes lines; one that cannot be written is silently lost.

    The standard handler would print the record itself, unredacted.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Does nothing: there is no safe place left to report it."""


def redact(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Redacts every value of a line and limits its length; a structlog processor."""
    safe: EventDict = {}
    for key in (*_OURS, *(key for key in line if key not in _OURS)):
        if key in line:
            safe[redaction.clean(str(key), 100)] = _value(key, line[key])
    return _short(safe)


def as_in_the_api(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Renames the fields of a line as in the API; a structlog processor, the last before JSON."""
    own = {_NAMES.get(key, key): line[key] for key in _OURS if key in line}
    fields = {camel_case(key): value for key, value in line.items() if key not in _OURS}
    return {**own, **{key: value for key, value in fields.items() if key not in own}}


def _in_camel_case(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    return {key if key in _OURS else camel_case(key): value for key, value in line.items()}


def camel_case(name: str) -> str:
    """Returns `would_be` as `wouldBe`, the spelling of the API."""
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


def _value(key: str, value: object) -> object:
    if key in _TRACES and isinstance(value, str):
        return redaction.clean_trace(value)
    if key in _OURS:
        return redaction.clean(str(value))
    return redaction.clean_value(key, value)


def _short(line: MutableMapping[str, Any]) -> EventDict:
    """Keeps the fields that fit, in their order."""
    left, kept = redaction.MAX_LINE, {}
    for key, value in line.items():
        left -= len(key) + len(str(value))
        if left >= 0:
            kept[key] = value
    return kept if len(kept) == len(line) else {**kept, "truncated": True}


def _indented(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    for key in _TRACES:
        if key in line:
            line[key] = _INDENT.lstrip("\n") + str(line[key]).replace("\n", _INDENT)
    return line
