"""Output of a command: lines for people, or the API's data as JSON or YAML; once, or repeatedly on a screen."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TextIO, assert_never

from rich.text import Text

from app.cli.problems import CommandFailed, Exit
from app.cli.tables import said
from app.core.config.client_settings import OutputFormat

if TYPE_CHECKING:  # imported where they are needed: for a terminal, and for YAML
    from rich.console import Console
    from rich.live import Live

_INDENT: Final = 2
_WIDE: Final = 1_000
# Characters that are written at once; of longer texts an unbuffered output drops what its reader does not take.
_CHUNK: Final = 8_192
# Lines of the terminal that stay free.
_ROOM: Final = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API, ready to print."""

    data: object
    """The answer as decoded JSON, for programs."""
    lines: Sequence[Text]
    """The answer as lines, for people."""
    names: Sequence[str] = ()
    """The names in the answer, for scripts."""
    ended: bool = False
    """Whether it will not change any more, so that `--watch` ends with it."""


class OutputGone(CommandFailed):
    """The output cannot be written; NOT_READ if its reader has closed it (EPIPE)."""


class OutputScreen(Protocol):
    """Shows successive answers to the same request."""

    def show(self, shown: Answer, title: str) -> None:
        """Show an answer; `title` says what it is, and its time."""
        ...

    def trouble(self, text: str) -> None:
        """Show why there is no new answer."""
        ...


class Printer:
    """Writes answers.

    Args:
        out: Takes the answers.
        err: Takes all other messages.
        output: The form of the answers.
        environ: Its `NO_COLOR` and `TERM` apply if `out` is a terminal.
    """

    def __init__(
        self, out: TextIO, err: TextIO, output: OutputFormat, environ: Mapping[str, str]
    ) -> None:
        self._out, self._err, self.output = out, err, output
        self._console = _console(out, environ) if out.isatty() else None

    @property
    def for_people(self) -> bool:
        """Whether lines are written instead of data."""
        return self.output.for_people

    @property
    def wide(self) -> bool:
        """Whether tables have all of their columns."""
        return self.output is OutputFormat.WIDE

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None if the output is none."""
        return None if self._console is None else self._console.width

    def tell(self, line: str) -> None:
        """Write a message to standard error."""
        self._err.write(f"{line}\n")
        self._err.flush()

    def show(self, shown: Answer, *, one_of_many: bool = False) -> None:
        """Write an answer; of many, JSON has one line for each, and YAML one document."""
        match self.output:
            case OutputFormat.TABLE | OutputFormat.WIDE:
                self.lines(shown.lines)
            case OutputFormat.NAME:
                self._write("".join(f"{said(each)}\n" for each in shown.names))
            case OutputFormat.JSON:
                self._write(as_json(shown.data, None if one_of_many else _INDENT) + "\n")
            case OutputFormat.YAML:
                self._write("---\n" * one_of_many + as_yaml(shown.data))
            case _:
                assert_never(self.output)

    def lines(self, lines: Sequence[Text]) -> None:
        """Write lines for people; with colours if the output is a terminal."""
        if self._console is None:
            self._write("".join(f"{line.plain.rstrip()}\n" for line in lines))
            return
        for line in lines:
            self._console.print(line, soft_wrap=True)  # The terminal wraps what is longer.
        self._out.flush()

    @contextmanager
    def watching(self) -> Iterator[OutputScreen]:
        """A screen on which each answer replaces the one before.

        If the output is no terminal, or data for programs, changed answers are written one below the other.
        """
        if self._console is None or not self.for_people:
            yield _Succession(self)
            return
        from rich.live import Live  # noqa: PLC0415 - for terminals alone

        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            yield _InPlace(self._console, live)

    def _write(self, text: str) -> None:
        try:
            for at in range(0, len(text), _CHUNK):
                self._out.write(text[at : at + _CHUNK])
            self._out.flush()
        except OSError as error:
            code = Exit.NOT_READ if isinstance(error, BrokenPipeError) else Exit.FAILED
            raise OutputGone(code, f"the output cannot be written: {error.strerror}") from error


def _console(out: TextIO, environ: Mapping[str, str]) -> "Console":
    from rich.console import Console  # noqa: PLC0415 - for terminals alone

    plain = bool(environ.get("NO_COLOR"))
    return Console(
        file=out, highlight=False, markup=False, emoji=False, no_color=plain, _environ=environ
    )


class _Succession:
    """Writes answers one below the other, if they differ from the last one."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._last: object = None
        self._said = ""

    def show(self, shown: Answer, title: str) -> None:
        del title
        self._said = ""
        told = shown.names if self._printer.output is OutputFormat.NAME else shown.data
        if told == self._last:
            return
        parted = shown.lines if self._last is None else [Text(), *shown.lines]
        self._last = told
        self._printer.show(replace(shown, lines=parted), one_of_many=True)

    def trouble(self, text: str) -> None:
        if text != self._said:
            self._printer.tell(text)
        self._said = text


class _InPlace:
    """Draws each answer in the place of the last one."""

    def __init__(self, console: "Console", live: "Live") -> None:
        self._console, self._live = console, live
        self._lines: Sequence[Text] = ()

    def show(self, shown: Answer, title: str) -> None:
        self._lines = shown.lines
        self._draw(title, "dim")

    def trouble(self, text: str) -> None:
        """Show the text as the title of the last answer."""
        self._draw(text, "red")

    def _draw(self, title: str, style: str) -> None:
        from rich.console import Group  # noqa: PLC0415 - for terminals alone

        head = Text(title, style, no_wrap=True, overflow="ellipsis")
        room = max(self._console.size.height - 1 - _ROOM, 1)
        lines = list(self._lines)
        if len(lines) > room:
            left_out = len(lines) - room + 1
            lines = [*lines[: room - 1], Text(f"… {left_out} more lines", "dim")]
        self._live.update(Group(head, *lines), refresh=True)


def as_json(data: object, indent: int | None = None) -> str:
    """Encode as JSON, with everything unprintable escaped."""
    return printable(json.dumps(data, ensure_ascii=False, indent=indent))


def printable(text: str) -> str:
    """A text with everything escaped that a terminal might interpret, line ends apart (threat T13)."""

    def escaped(character: str) -> str:
        """The escape sequence of JSON: four hexadecimal digits for each unit of UTF-16."""
        units = character.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return "".join(each if each.isprintable() or each == "\n" else escaped(each) for each in text)


def as_yaml(data: object) -> str:
    """Encode as YAML, with everything unprintable escaped, which a terminal might interpret (threat T13)."""
    # PyYAML writes some unprintable characters as they are, unless it escapes everything outside of ASCII.
    printable = json.dumps(data, ensure_ascii=False).isprintable()
    import yaml  # noqa: PLC0415 - for this form alone

    text: str = yaml.dump(
        data, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=printable, width=_WIDE
    )
    return text
