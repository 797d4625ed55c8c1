"""The Monte Carlo of the rules: `python -m bench.montecarlo --hours 2000 --seed 1 --jobs 2`.

Simulates hours of one shoot each, with all that rules 3.1 says may go wrong, drives the real rules through them as the
prober's loop does, and holds what they did against what was really so. Exit code 1 where a figure is not reached.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterable, Sequence
from multiprocessing import Pool
from typing import Any

from bench.account import Account, Circumstance
from bench.looker import Event, Looker, Without
from bench.truth import Judge
from bench.weather import Hour, make_hour

INCIDENTS = ("false scale-down", "missed", "ended in mid-outage", "never ended")
"""None of these may be."""
LIMITS = (
    (Circumstance.RIGHT, 0.5, 0.5),
    (Circumstance.RIGHT, 0.99, 1.5),
    (Circumstance.OFF, 0.99, 8.0),
)
"""(with what, which quantile, seconds): the delays that issue and spec grant."""


def simulate(
    seed: int, number: int, without: frozenset[Without]
) -> tuple[Account, Hour, list[Event]]:
    """One hour: what came of it, what it was, and what the prober did."""
    name = f"{seed}/{number}"
    hour = make_hour(name, without)
    looker = Looker(hour.world, hour.settings, random.Random(f"{name}/prober"))
    events = looker.run()
    account = Judge(hour.world, hour.settings, events).account()
    account.looks = looker.looks
    return account, hour, events


def _batch(task: tuple[int, range, frozenset[Without]]) -> Account:
    seed, numbers, without = task
    total = Account()
    for number in numbers:
        account, _, _ = simulate(seed, number, without)
        for incident in account.incidents:
            print(f"hour {number}: {incident}", file=sys.stderr)
        total.add(account)
    return total


def run(hours: int, seed: int, jobs: int, without: frozenset[Without] = frozenset()) -> Account:
    """So many hours, on so many processes; the same figures for the same seed, however many there are."""
    tasks = [(seed, range(at, min(at + 10, hours)), without) for at in range(0, hours, 10)]
    total = Account()
    if jobs == 1:
        for task in tasks:
            total.add(_batch(task))
        return total
    with Pool(jobs) as pool:
        for account in pool.imap(_batch, tasks):
            total.add(account)
    return total


def quantile(values: Iterable[float], share: float) -> float:
    """The value that this share of them does not exceed; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def violations(account: Account) -> list[str]:
    """Figures that are not reached."""
    found = [f"{what}: {account.count(what)}" for what in INCIDENTS if account.count(what)]
    for circumstance, share, limit in LIMITS:
        seen = quantile(account.delays.get(circumstance, ()), share)
        if seen > limit:
            found.append(f"detection, {circumstance}, p{share * 100:.0f}: {seen:.2f} s > {limit} s")
    return found


def as_data(account: Account) -> dict[str, Any]:
    """The figures as JSON data."""

    def summary(values: Sequence[float]) -> dict[str, float]:
        figures = {f"p{share * 100:.0f}": quantile(values, share) for share in (0.5, 0.9, 0.99)}
        return {"number": len(values), **figures, "max": max(values)}

    return {
        "hours": account.hours,
        "looks": account.looks,
        "outages": account.outages,
        "knowable": account.knowable,
        "scaleDowns": account.downs,
        "early": account.early,
        "earlyAtStart": account.early_at_start,
        "incidents": {what: account.count(what) for what in INCIDENTS},
        "detectionSeconds": {k: summary(v) for k, v in sorted(account.delays.items())},
        "endSeconds": {k: summary(v) for k, v in sorted(account.endings.items())},
        "violations": violations(account),
    }


def table(account: Account) -> str:
    """The figures for a reader."""
    data = as_data(account)
    lines = [
        f"{account.hours:.0f} h of shoot time, {account.looks} looks",
        f"{account.outages} outages, {account.knowable} of them knowable and new; {account.downs} scale-downs",
        *(f"{what + ':':32}{number}" for what, number in data["incidents"].items()),
        f"{'early, within the tolerance:':32}{account.early}",
        f"{'early, after a start:':32}{account.early_at_start}",
    ]
    for title, key in (("seconds to detect", "detectionSeconds"), ("seconds to end", "endSeconds")):
        lines += ["", f"{title:50}{'number':>8}{'p50':>8}{'p90':>8}{'p99':>8}{'max':>8}"]
        for name, row in data[key].items():
            figures = "".join(f"{row[each]:8.2f}" for each in ("p50", "p90", "p99", "max"))
            lines.append(f"  {name:48}{row['number']:8}{figures}")
    lines += ["", *(f"NOT REACHED: {each}" for each in data["violations"])]
    return "\n".join(lines)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.montecarlo", description=__doc__)
    parser.add_argument("--hours", type=int, default=2000, help="simulated shoot hours")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--only", type=int, help="this hour alone, with everything that happened")
    parser.add_argument(
        "--without", action="append", type=Without, default=[], help="leave this rule out"
    )
    return parser.parse_args(argv)


def _tell(seed: int, number: int, without: frozenset[Without]) -> Account:
    """One hour with its story."""
    account, hour, events = simulate(seed, number, without)
    weather, start = hour.world.weather, hour.world.weather.start
    story = [(e.at, f"prober: {e.what}") for e in events]
    for name in ("server", "storage", "slow", "failing", "down"):
        for span in getattr(weather, name):
            how = " (hangs)" if span.hangs else ""
            story.append((span.start, f"{name}{how} until {span.end - start:.1f}"))
    for each in weather.throttling:
        told = f"429 for {each.share:.0%} until {each.span.end - start:.1f}, {each.retry_after}"
        story.append((each.span.start, told))
    cuts = {
        (cut, sum(1 for k in hour.world.candidates if cut in list(k.kind.cuts)))
        for kubelet in hour.world.candidates
        for cut in kubelet.kind.cuts
    }
    story += [(c.start, f"{n} cut until {c.end - start:.1f}") for c, n in cuts]
    print(f"{hour.settings}, {len(hour.world.candidates)} of {account.nodes} nodes are candidates")
    for kubelet in hour.world.candidates[:10]:
        print(f"  {kubelet.kind.name}: {kubelet.kind.clock}")
    print("\n".join(f"{at - start:8.1f}  {what}" for at, what in sorted(story)))
    print("\n".join(str(incident) for incident in account.incidents))
    return account


def main(argv: Sequence[str] | None = None) -> int:
    """Runs it; returns the exit code."""
    given = _arguments(argv)
    without = frozenset(given.without)
    if given.only is not None:
        account = _tell(given.seed, given.only, without)
    else:
        account = run(given.hours, given.seed, given.jobs, without)
    print(json.dumps(as_data(account), indent=2) if given.json else table(account))
    return 1 if violations(account) else 0


if __name__ == "__main__":
    sys.exit(main())
