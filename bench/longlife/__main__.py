"""A long life: does the program keep what it should have let go of?

python -m bench.longlife [--days 7] [--shoots 50] [--seed N]     # days on virtual time
python -m bench.longlife --real 2                                # hours of the real program

The weather is that of an ordinary seed with bad luck: faults from the tables of the random worlds, people with pauses
and scaling runs by hand, pods that crash, shoots that sleep at night, and shoots that are deleted and created. There
is no election: a Lease that cannot be renewed ends a process, and this one is to live.

Exit code 1 where something has grown, or where nobody has taken an exception.
"""

import argparse
import sys
from pathlib import Path

import uvloop

from bench.longlife.days import live
from bench.longlife.real import live_for_real, serve


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m bench.longlife", description=__doc__)
    asked.add_argument("--days", type=float, default=7.0, help="of virtual time")
    asked.add_argument("--shoots", type=int, default=50)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--traced", action="store_true", help="say which lines allocate more (slow)")
    asked.add_argument(
        "--real", type=float, metavar="HOURS", help="of the real program, after a warm one"
    )
    asked.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = asked.parse_args()
    if options.serve is not None:
        uvloop.run(serve(options.serve, options.shoots, options.seed))
        return 0
    if options.real is not None:
        return live_for_real(options.real, options.shoots, options.seed)
    return live(options.days, options.shoots, options.seed, traced=options.traced)


if __name__ == "__main__":
    sys.exit(main())
