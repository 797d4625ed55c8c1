"""Outcomes as rows of a table, and as a summary."""

import statistics
from collections.abc import Sequence

from tests.e2e.opponent_play import SIZE, Outcome

HEAD = (
    "cut",
    "phase",
    "known at",
    "first write",
    "KCM at 0",
    "KCM gone",
    "markable",
    "first mark",
    "marked",
    "NoExecute",
    "evicted",
    "KCM back",
    "oldest lease",
    "marked after",
    "CPU",
    "late",
)


def row(result: Outcome) -> tuple[str, ...]:
    """One outcome; a dash where something did not happen."""
    outage, recovery = result.outage, result.recovery
    return (
        f"{outage.nodes} of {SIZE}",
        seconds(outage.phase),
        seconds(outage.known),
        seconds(outage.first_write, 2),
        seconds(outage.at_zero, 2),
        seconds(outage.gone),
        seconds(outage.markable),
        seconds(outage.first_mark),
        str(outage.marked),
        str(outage.evicting),
        str(outage.evictions),
        seconds(recovery.manager_back),
        seconds(recovery.oldest),
        str(recovery.marked),
        f"{outage.load.busy:.0%}",
        f"{1000 * outage.load.late:.0f} ms",
    )


def told(result: Outcome) -> str:
    """One outcome in a line of its own, each figure with its name."""
    return ", ".join(f"{name} {cell}" for name, cell in zip(HEAD, row(result), strict=True))


def seconds(value: float | None, digits: int = 1) -> str:
    """A time, or a dash."""
    return "–" if value is None else f"{value:.{digits}f} s"


def line(cells: Sequence[str]) -> str:
    """A row in Markdown."""
    return f"| {' | '.join(cells)} |"


def head() -> str:
    """The first two lines of the table; rows have their number in front."""
    return f"{line(('run', *HEAD))}\n|{'---|' * (len(HEAD) + 1)}"


def summary(results: Sequence[Outcome]) -> list[str]:
    """What all of them together say."""
    outages = [each.outage for each in results]
    spread: dict[str, list[float | None]] = {
        "first write": [each.first_write for each in outages],
        "KCM at 0": [each.at_zero for each in outages],
        "KCM gone": [each.gone for each in outages],
        "markable": [*(each.markable for each in outages)],
        "first mark": [each.first_mark for each in outages],
    }
    found = [f"{len(results)} runs, {sum(each.marked > 0 for each in outages)} with a marked node"]
    found += [f"nodes marked after the outage: {sum(each.recovery.marked for each in results)}"]
    found += [f"pods evicted: {sum(each.evictions for each in outages)}"]
    for name, values in spread.items():
        if known := [each for each in values if each is not None]:
            middle = statistics.median(known)
            found.append(f"{name}: {min(known):.2f} … {middle:.2f} … {max(known):.2f} s")
    return found
