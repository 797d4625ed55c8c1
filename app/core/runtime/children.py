"""Processes that we start, and that must not outlive us."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_SET_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def tied_to(parent: int) -> Callable[[], None] | None:
    """What a child does first: asks the kernel to kill it when the process `parent` ends, however that may be.

    Returns:
        A `preexec_fn`; None where the kernel cannot do that.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before it could be asked for
            os._exit(1)

    return tie
