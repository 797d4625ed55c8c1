"""The command: `python -m bench.hostile [--shoots 50] [--hostile 25] [--seconds 30] [--each] [--no-outage] [KIND …]`.

What hostile shoots of these kinds, in turn (none named: of each kind, 25 at a time), do to the others: how late probes
begin, and how long after it could be known an outage among them is protected, beside the same without them.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Final

from bench.hostile.kinds import KINDS
from bench.perf import children
from bench.perf.children import Child, ChildFailed
from bench.perf.figures import Buckets
from bench.perf.outage import PROTECT
from bench.perf.program import program
from bench.perf.sides import Side, sides
from bench.perf.steady import since, started

SETTLE: Final = 25.0
INTERVAL: Final = 10.0
MOST_LATE: Final = 0.25
MOST_SLOWER: Final = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """What became of the others."""

    late: Buckets
    """By how many seconds probes, those of hostile shoots too, began late."""
    cores: float
    protected: float | None
    """Seconds from the instant at which an outage could be known to kube-controller-manager at 0."""
    postponed: float


@contextmanager
def hostile(kinds: Sequence[str], folder: Path) -> Iterator[None]:
    """The servers of all hostile shoots, of these kinds in turn."""
    places = json.loads((folder / "hostile.json").read_text()).values()
    served = [{"kind": kind, **place} for kind, place in zip(cycle(kinds), places, strict=False)]
    file = folder / "kinds.json"
    file.write_text(json.dumps(served if kinds else []))
    command = ["-m", "bench.hostile.servers", str(file)]
    with children.child("hostile", command, folder, environ={}) as found:
        found.ready()
        yield


def measure(
    side: Side, load: Child, folder: Path, kinds: Sequence[str], options: argparse.Namespace
) -> Found:
    """A fresh process of the program beside hostile shoots of these kinds."""
    load.ask("begin")
    with hostile(kinds, folder), program(side, folder, INTERVAL) as running:
        started(load, running, options.shoots)
        time.sleep(SETTLE)
        before, cpu, at = running.scrape(), running.child.usage().cpu, time.monotonic()
        time.sleep(options.seconds)
        protected = None
        if options.outage:
            load.ask("cut")
            time.sleep(PROTECT)
            cut = [each for each in load.ask("outage") if each["known"] is not None]
            protected = max((each["zero"] or float("inf")) - each["known"] for each in cut)
        after = running.scrape()
        cores = (running.child.usage().cpu - cpu) / (time.monotonic() - at)
        if options.outage:
            load.ask("mend")
            time.sleep(PROTECT)
    postponed = after.total("dwd_probes_postponed_total") - before.total(
        "dwd_probes_postponed_total"
    )
    return Found(since("dwd_probe_lag_seconds", before, after), cores, protected, postponed)


def main() -> int:
    """Measures and prints; 1 where others were kept waiting by the program of this tree."""
    options = _options()
    good = True
    with (
        sides(options.against) as trees,
        tempfile.TemporaryDirectory(prefix="dwd-hostile-") as name,
    ):
        folder = Path(name)
        size = options.shoots
        with children.load(folder, size, 10, cut_every=size, hostile=options.hostile) as load:
            alone = {side: measure(side, load, folder, (), options) for side in trees}
            for kinds in ((), *_groups(options)):
                for side in trees:
                    try:
                        found = (
                            measure(side, load, folder, kinds, options) if kinds else alone[side]
                        )
                    except ChildFailed as failed:
                        fine, line = False, str(failed).splitlines()[-1]
                    else:
                        fine, line = _good(found, alone[side]), _line(found)
                    good = good and (fine or side.name != "here")
                    what = ", ".join(kinds) or "nobody is hostile"
                    print(" " if fine else "!", side.name, f"{line}: {what}", flush=True)
    return 0 if good else 1


def _groups(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """What is measured together."""
    kinds, size = options.kinds or tuple(KINDS), 1 if options.each else options.hostile
    return [tuple(kinds[start : start + size]) for start in range(0, len(kinds), size)]


def _good(found: Found, alone: Found) -> bool:
    slower = (
        0.0
        if found.protected is None or alone.protected is None
        else found.protected - alone.protected
    )
    return found.late.quantile(0.99) <= MOST_LATE and slower <= MOST_SLOWER


def _line(found: Found) -> str:
    late = "/".join(f"{found.late.quantile(part) * 1e3:.0f}" for part in (0.5, 0.99, 1.0))
    protected = "" if found.protected is None else f"protected after {found.protected:.2f} s, "
    return f"late {late} ms, {protected}{found.cores:.2f} cores, {found.postponed:.0f} postponed"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--shoots", type=int, default=50)
    parser.add_argument("--hostile", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument(
        "--each", action="store_true", help="all hostile shoots of one kind, each kind in turn"
    )
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit beside the tree")
    parser.add_argument("--no-outage", dest="outage", action="store_false")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
