"""The command: `python -m bench.perf [--only CASE,…] [--against COMMIT] [--rounds N] [--seconds S] [--json FILE]`."""

import argparse
import os
import platform
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.perf import table
from bench.perf.cases import CASES, SECONDS, Run, run
from bench.perf.goals import goals
from bench.perf.sides import Side, sides


def main() -> int:
    """Measures, prints the tables; 1 where a figure was not reached."""
    options = _options()
    results: dict[str, list[Run]] = {}
    with sides(options.against) as trees:
        machine = _machine(trees)
        print(" · ".join(f"{key} {value}" for key, value in machine.items()), file=sys.stderr)
        for name in options.only:
            print(f"measuring {name}", file=sys.stderr, flush=True)
            results[name] = run(CASES[name], trees, options.rounds, options.seconds)
    ours = {name: [r for r in runs if r.side == "here"] for name, runs in results.items()}
    reached = goals(ours)
    print(table.report(results, reached))
    if options.json:
        found = {"machine": machine, "cases": results}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))
    return 0 if all(each.reached for each in reached) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.perf", description=__doc__)
    parser.add_argument("--only", type=_cases, default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit beside the tree")
    parser.add_argument("--rounds", type=int, default=1, help="fresh processes of each side")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each steady state")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    return parser.parse_args()


def _cases(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in CASES]:
        raise argparse.ArgumentTypeError(f"no such case: {', '.join(unknown)}")
    return names


def _machine(trees: Sequence[Side]) -> dict[str, Any]:
    model = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {
        "commits": ", ".join(f"{tree.name} {tree.commit}" for tree in trees),
        "cpu": model[0].partition(":")[2].strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION.split()[1],
        "load before": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    sys.exit(main())
