"""Which small changes of the program no test notices: `make mutation`.

Plays the mutants that have no result yet, in an order of chance, so that what has been played is a fair sample; keeps
each result at once, so that it goes on where it was stopped; and prints the share that was noticed, by package.
"""

import argparse
import contextlib
import fnmatch
import hashlib
import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from hack.mutation.mutants import Mutant, mutants
from hack.mutation.session import BROKEN, NOTICED, STOPPED, SURVIVED, UNREACHED, Mutation

FOUND: Final = Path("build/mutation-found.jsonl")
_COMMIT: Final = ("git", "rev-parse", "--short", "HEAD")
WANTED: Final = 0.9
OUTCOMES: Final = (NOTICED, SURVIVED, UNREACHED, STOPPED, BROKEN)


def main() -> int:
    """The exit code is 1 where a package has less than it should."""
    parser = argparse.ArgumentParser(prog="python -m hack.mutation", description=__doc__)
    parser.add_argument("--only", default="*", help="mutants of this pattern: 'app.weeder.*'")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of CPU for the tests of one mutant"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="once more those that were not noticed, with the tests that they have not met first",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("tests", nargs="*", help="arguments of pytest; none: only the table")
    arguments = parser.parse_args()
    every = [each for each in mutants() if fnmatch.fnmatch(each.name, arguments.only)]
    if arguments.tests:
        FOUND.parent.mkdir(exist_ok=True)
        options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "timeout=0"]
        options += arguments.tests
        plugin = Mutation(
            # Whatever has been played is a fair sample.
            sorted(every, key=lambda each: hashlib.sha256(each.name.encode()).digest()),
            FOUND,
            seconds=arguments.seconds,
            jobs=arguments.jobs,
            known=_results(every),
            again=arguments.again,
            commit=subprocess.check_output(_COMMIT, text=True).strip(),  # noqa: S603 - git
        )
        if code := pytest.main(options, plugins=[plugin]):
            return int(code)
    return _table(every, _results(every))


def _results(every: list[Mutant]) -> dict[str, dict[str, Any]]:
    """The last result of each mutant whose function is still the one that was changed."""
    if not FOUND.exists():
        return {}
    source = {each.name: each.source for each in every}
    found = {}
    for line in FOUND.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # the last one, of a run that was killed
            result = json.loads(line)
            if result["source"] == source.get(result["mutant"]):
                found[result["mutant"]] = result
    return found


def _table(every: list[Mutant], results: dict[str, dict[str, Any]]) -> int:
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in every:
        package = mutant.path.rpartition("/")[0]
        packages[package]["mutants"] += 1
        if (result := results.get(mutant.name)) is None:
            continue
        packages[package][result["outcome"]] += 1
        if result["outcome"] != NOTICED:
            change = "\n    ".join(mutant.change.splitlines())
            sys.stdout.write(f"{result['outcome']}: {mutant.name}, {result['at']}\n    {change}\n")
    sys.stdout.write(f"\n| package | mutants | {' | '.join(OUTCOMES)} | share noticed |\n")
    sys.stdout.write(f"|{'---|' * (len(OUTCOMES) + 3)}\n")
    commits = sorted({each["commit"] for each in results.values()})
    packages["all"] = sum(packages.values(), Counter())
    enough = True
    for package, counts in packages.items():
        played = sum(counts[each] for each in OUTCOMES)
        share = counts[NOTICED] / played if played else 0.0
        enough = enough and share >= WANTED
        cells = (package, counts["mutants"], *(counts[each] for each in OUTCOMES), f"{share:.1%}")
        sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.write(f"\nplayed at {', '.join(commits) or 'no commit'}\n")
    return int(not enough)


sys.exit(main())
