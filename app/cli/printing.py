"""What a command has to say: lines for people, or the API's JSON, also as YAML."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TextIO, assert_never

import yaml
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from app.cli.problems import CommandFailed, Exit
from app.core.config.client_settings import OutputFormat

_INDENT: Final = 2
_WIDE: Final = 1_000
_CHUNK: Final = 8_192
"""Characters that are written at once: of more, an unbuffered output would drop what its reader does not take."""
_ROOM: Final = 1
"""Lines of a terminal that stay free."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer."""

    data: object
    """What the API said, as JSON has it."""
    lines: Sequence[Text]
    """The same for people."""


class OutputGone(Exception):
    """Nobody reads what is written any more."""


class OutputScreen(Protocol):
    """Where one answer follows the other."""

    def show(self, shown: Answer, title: str) -> None:
        """Shows an answer; `title` says what it is, and as of when."""
        ...

    def trouble(self, text: str) -> None:
        """Says why there is no new answer."""
        ...


class Printer:
    """Writes answers.

    Args:
        out: where they go.
        err: where everything else goes that is to be said.
        output: in which form.
        environ: `NO_COLOR` and `TERM` are heeded, where `out` is a terminal.
    """

    def __init__(
        self, out: TextIO, err: TextIO, output: OutputFormat, environ: Mapping[str, str]
    ) -> None:
        self._out, self._err, self._output = out, err, output
        self._console = _console(out, environ) if out.isatty() else None

    @property
    def for_people(self) -> bool:
        """Whether lines are shown, and not data."""
        return self._output is OutputFormat.TABLE

    def tell(self, line: str) -> None:
        """Says something beside the answers."""
        self._err.write(f"{line}\n")
        self._err.flush()

    def show(self, shown: Answer) -> None:
        """Writes an answer, whole."""
        match self._output:
            case OutputFormat.TABLE:
                self.lines(shown.lines)
            case OutputFormat.JSON:
                self._write(as_json(shown.data, indent=_INDENT) + "\n")
            case OutputFormat.YAML:
                self._write(as_yaml(shown.data))
            case _:
                assert_never(self._output)

    def next(self, shown: Answer) -> None:
        """Writes one of many: a line each where it is JSON, a document each where it is YAML."""
        match self._output:
            case OutputFormat.TABLE:
                self.lines(shown.lines)
            case OutputFormat.JSON:
                self._write(as_json(shown.data) + "\n")
            case OutputFormat.YAML:
                self._write("---\n" + as_yaml(shown.data))
            case _:
                assert_never(self._output)

    def lines(self, lines: Sequence[Text]) -> None:
        """Writes lines for people."""
        if self._console is None:
            self._write("".join(f"{line.plain.rstrip()}\n" for line in lines))
            return
        for line in lines:
            if line.no_wrap:  # a row of a table; print forgets what the line says of itself
                self._console.print(line, no_wrap=True, overflow=line.overflow)
            else:
                self._console.print(line, soft_wrap=True)
        self._out.flush()

    @contextmanager
    def watching(self) -> Iterator[OutputScreen]:
        """A screen that shows an answer in the place of the one before.

        Where nothing can be shown in place, it writes what has changed, one below the other.
        """
        if self._console is None or not self.for_people:
            yield _Succession(self)
            return
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            yield _InPlace(self._console, live)

    def _write(self, text: str) -> None:
        try:
            for at in range(0, len(text), _CHUNK):
                self._out.write(text[at : at + _CHUNK])
            self._out.flush()
        except BrokenPipeError as error:
            raise OutputGone from error
        except OSError as error:
            message = f"the output cannot be written: {error.strerror}"
            raise CommandFailed(Exit.FAILED, message) from error


class _Succession:
    """One below the other, where something has changed."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._last: object = None
        self._said = ""

    def show(self, shown: Answer, title: str) -> None:
        """Writes it, unless it says the same as the last one."""
        del title
        self._said = ""
        if shown.data == self._last:
            return
        parted = shown.lines if self._last is None else [Text(), *shown.lines]
        self._last = shown.data
        self._printer.next(Answer(shown.data, parted))

    def trouble(self, text: str) -> None:
        """Says it once."""
        if text != self._said:
            self._printer.tell(text)
        self._said = text


class _InPlace:
    """One in the place of the other."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console, self._live = console, live
        self._lines: Sequence[Text] = ()

    def show(self, shown: Answer, title: str) -> None:
        """Draws it; what does not fit is counted."""
        self._lines = shown.lines
        self._draw(Text(title, "dim", no_wrap=True, overflow="ellipsis"))

    def trouble(self, text: str) -> None:
        """Draws it above what was there last."""
        self._draw(Text(text, "red", no_wrap=True, overflow="ellipsis"))

    def _draw(self, head: Text) -> None:
        room = max(self._console.size.height - 1 - _ROOM, 1)
        lines = list(self._lines)
        if len(lines) > room:
            left_out = len(lines) - room + 1
            lines = [*lines[: room - 1], Text(f"… {left_out} more lines", "dim")]
        self._live.update(Group(head, *lines), refresh=True)


def _console(out: TextIO, environ: Mapping[str, str]) -> Console:
    return Console(
        file=out,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=bool(environ.get("NO_COLOR")),
        _environ=environ,
    )


def as_json(data: object, indent: int | None = None) -> str:
    """JSON that says the same, without a character that a terminal would obey."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    """As JSON has it: in UTF-16, four digits each."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def as_yaml(data: object) -> str:
    """YAML that says the same, without a character that a terminal would obey."""
    # what JSON leaves as it is and a terminal does not, PyYAML would leave as well, unless all but ASCII is escaped
    printable = json.dumps(data, ensure_ascii=False).isprintable()
    text: str = yaml.dump(
        data, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=printable, width=_WIDE
    )
    return text
