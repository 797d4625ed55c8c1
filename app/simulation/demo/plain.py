"""The screen without a terminal: a line for each event, and a summary every 15 s."""

import os
from collections.abc import Callable
from typing import Final, TextIO

from app.simulation.demo import rows as pure
from app.simulation.demo.event_lines import EventLine, Picture, lost_words, pod_words, shoots, stamp

EVERY: Final = 15.0
"""Seconds between summaries."""


class PlainScreen:
    """Writes lines."""

    stays = False
    """Always false: there may be no person to end the demo."""

    def __init__(self, out: TextIO, gone: Callable[[], None]) -> None:
        """Writes to `out`; calls `gone` when its reader has closed it."""
        self._out, self._gone = out, gone
        self._due = EVERY
        self._begun = False

    def open(self) -> None:
        """Nothing is to be taken."""

    def show(self, picture: Picture) -> None:
        """Writes what the demo is, once; then a summary whenever one is due."""
        if not self._begun:
            self._begun = True
            self._write(
                f"scenario {picture.scenario}, {shoots(len(picture.rows))}; Ctrl-C ends it early"
            )
            for hint in picture.hints:
                self._write(f"    {hint}")
        if picture.elapsed >= self._due:
            self._due = picture.elapsed + EVERY
            self._write(f"{stamp(picture.elapsed):>6}  {summary(picture)}")

    def tell(self, told: EventLine) -> None:
        """Writes what has happened."""
        self._write(f"{stamp(told.at):>6}  {told.text}")

    def close(self) -> None:
        """Nothing is to be given back."""

    def _write(self, line: str) -> None:
        if not write(self._out, line):
            self._gone()


def summary(picture: Picture) -> str:
    """States, losses and pods in one line."""
    parts = [picture.trouble or pure.counted(picture.rows), lost_words(picture.lost)]
    if picture.pods:
        parts.append(pod_words(picture.pods))
    return f"= {'; '.join(parts)}"


def write(out: TextIO, *lines: str) -> bool:
    """Writes lines; returns False if the reader has gone, after which all output is discarded."""
    try:
        out.writelines(f"{line}\n" for line in lines)
        out.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)
        return False
    return True
