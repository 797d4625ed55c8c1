"""What a mutation run has found: for each package the share of mutants that a test noticed, and those that none did.

`make mutation` runs it after mutmut, which keeps one `.meta` file for each source file.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

MUTANTS: Final = Path("mutants")
WANTED: Final = 0.9
# Exit codes as mutmut keeps them: what pytest said, or how the process ended.
SURVIVED: Final = 0
NO_TEST: Final = frozenset({5, 33})
SKIPPED: Final = 34


def main() -> int:
    """Prints the table; the exit code is 1 if a package has less than it should."""
    found: dict[str, Counter[str]] = {}
    left: list[str] = []
    for meta in sorted(MUTANTS.glob("app/**/*.py.meta")):
        package = str(meta.parent.relative_to(MUTANTS))
        counts = found.setdefault(package, Counter())
        for mutant, code in json.loads(meta.read_text())["exit_code_by_key"].items():
            outcome = _outcome(code)
            counts[outcome] += 1
            if outcome in {"survived", "without a test"}:
                left.append(f"{outcome}: {mutant}")
    for each in left:
        sys.stdout.write(f"{each}\n")
    sys.stdout.write(
        "\n| package | mutants | noticed | survived | without a test | left to run |\n"
    )
    sys.stdout.write("|---|---|---|---|---|---|\n")
    shares = [_row(package, counts) for package, counts in found.items()]
    return int(min(shares, default=0.0) < WANTED)


def _outcome(code: int | None) -> str:
    if code is None:
        return "left to run"
    if code == SURVIVED:
        return "survived"
    if code == SKIPPED:
        return "skipped"
    return "without a test" if code in NO_TEST else "noticed"


def _row(package: str, counts: Counter[str]) -> float:
    run = counts.total() - counts["left to run"] - counts["skipped"]
    share = counts["noticed"] / run if run else 1.0
    cells = (
        package,
        counts.total(),
        f"{counts['noticed']} ({share:.1%})" if run else "–",
        counts["survived"],
        counts["without a test"],
        counts["left to run"],
    )
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    return share


sys.exit(main())
