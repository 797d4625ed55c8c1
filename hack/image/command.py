#!/usr/local/bin/python -IB
"""The commands of the image, dependency-watchdog and dwd; no variable decides what is imported (-I)."""

import os
import signal
from typing import NoReturn


def end_as_others_do(*_: object) -> NoReturn:
    """Ends at once, as SIGTERM ends a process: to PID 1 it does nothing as long as nobody handles it."""
    os._exit(128 + signal.SIGTERM)


signal.signal(signal.SIGTERM, end_as_others_do)  # until the program has something to end in order

from app.__main__ import main  # noqa: E402 - it takes a quarter of a second

main()
