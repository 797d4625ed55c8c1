"""The program on a machine whose clock is ahead: `python -m tests.e2e.clock_ahead SECONDS WORD…`."""

import runpy
import sys
import time


def main() -> None:
    """Runs it in this process, once the clock is set."""
    ahead, right = float(sys.argv.pop(1)), time.time
    time.time = lambda: right() + ahead
    runpy.run_module("app", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
