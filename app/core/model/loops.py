"""The two loops of the watchdog; a process runs one of them, or both."""

from enum import StrEnum


class Loop(StrEnum):
    """A loop, with a leader of its own."""

    PROBER = "prober"
    WEEDER = "weeder"
