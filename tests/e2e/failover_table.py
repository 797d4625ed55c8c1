"""Runs as a table in Markdown, and its place in a page."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.e2e.failover_judge import Result
from tests.e2e.failover_kinds import Kind
from tests.e2e.opponent_table import line

PAGE = Path(__file__).parents[2] / "docs/failover.md"
BEGIN, END = "<!-- the table: make failover -->", "<!-- its end -->"
_HEAD = ("what happens", "runs", "counted from", "first write", "goal", "leads", "by both", "wrong")


@dataclass(frozen=True, slots=True)
class Run:
    """One run that was played."""

    kind: str
    number: int
    result: Result

    def line(self) -> str:
        """As it is kept."""
        return json.dumps({"kind": self.kind, "number": self.number, **asdict(self.result)})


def kept_in(file: Path) -> list[Run]:
    """What was played before."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [_run(json.loads(each)) for each in lines]


def _run(kept: dict[str, object]) -> Run:
    kind, number = kept.pop("kind"), kept.pop("number")
    return Run(str(kind), int(str(number)), Result(**kept))  # type: ignore[arg-type]


def table(all_kinds: Mapping[str, Kind], runs: Sequence[Run]) -> str:
    """A row for each kind that was played."""
    rows = [_HEAD, tuple("---" for _ in _HEAD)]
    for name, kind in all_kinds.items():
        if of_kind := [each.result for each in runs if each.kind == name]:
            rows.append(_row(kind, of_kind))
    return "\n".join(map(line, rows))


def _row(kind: Kind, results: Sequence[Result]) -> tuple[str, ...]:
    first = [each.first for each in results if each.first is not None]
    within = sum(each <= kind.goal for each in first)
    goal = f"{kind.goal:g} s" + ("" if within == len(first) else f": {within} of {len(first)}")
    wrong = sum(bool(each.troubles) for each in results)
    return (
        kind.title,
        str(len(results)),
        kind.since,
        _spread(first),
        goal,
        _spread(each.led for each in results if each.first is not None),
        str(sum(each.shared for each in results)),
        str(wrong),
    )


def _spread(seconds: Iterable[float]) -> str:
    found = sorted(seconds)
    return f"{statistics.median(found):.1f}, {found[-1]:.1f} s" if found else "–"


def put_into_page(text: str, page: Path = PAGE) -> None:
    """Replaces the table of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
