"""What was measured, for people: Markdown, so that it can be copied into the docs; pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from bench.perf.cases import Run
from bench.perf.figures import Buckets, mean, quantile
from bench.perf.goals import Goal
from bench.perf.validity import Stretch

_MS: Final = 1e3
_STEADY: Final = (
    "case, side",
    "ms CPU/probe",
    "bare loop",
    "×",
    "requests, handshakes/probe",
    "bytes out, in/probe",
    "cores",
    "RSS, peak MiB",
    "lag p50/p99/max ms",
    "first probes s",
    "errors",
    "servers' cores",
)
_OUTAGE: Final = (
    "case, side",
    "first write p50/p99/max s",
    "KCM at 0 p50/p99/max s",
    "missed",
    "Events of it p50/p99/max s, missing",
    "NotReady, deleted",
    "ups begun, most/s",
    "lost, unclean",
    "cores",
    "peak MiB",
    "servers' cores down, up",
)
_ODD: Final = ("case, side", "lag p50/p99/max ms", "loop lag p99/max ms", "cores", "peak MiB")


def report(results: Mapping[str, Sequence[Run]], goals: Iterable[Goal]) -> str:
    """All tables, the doubts, and the goals."""
    parts = [
        _table(_STEADY, [_steady(n, r) for n, r in _each(results) if r.steady is not None]),
        _table(_OUTAGE, [_outage(n, r) for n, r in _each(results) if r.outage is not None]),
        _table(_ODD, [_odd(n, r) for n, r in _each(results) if r.odd is not None]),
        "\n".join(_compared(results)),
        "\n".join(_doubts(results)),
        _table(("goal", "at most", "is", ""), [_goal(each) for each in goals]),
    ]
    return "\n\n".join(part for part in parts if part)


def _each(results: Mapping[str, Sequence[Run]]) -> Iterator[tuple[str, Run]]:
    return ((f"{name}, {run.side}", run) for name, runs in results.items() for run in runs)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _steady(name: str, run: Run) -> tuple[str, ...]:
    found = run.steady
    if found is None:
        return ()
    return (
        name,
        f"{found.cpu * _MS:.2f}",
        f"{found.floor * _MS:.2f}",
        f"{found.cpu / found.floor:.2f}",
        f"{found.requests:.2f}, {found.handshakes:.3f}",
        f"{found.sent:.0f}, {found.received:.0f}",
        f"{found.cores:.3f}",
        f"{found.rss:.0f}, {found.peak:.0f}",
        _lag(found.lag),
        "" if run.start is None else f"{run.start.seconds:.1f}",
        f"{found.errors:.0f}",
        f"{found.stretch.load:.2f}",
    )


def _outage(name: str, run: Run) -> tuple[str, ...]:
    found = run.outage
    if found is None:
        return ()
    return (
        name,
        _spread(found.cut.first),
        _spread(found.cut.zero),
        str(found.cut.missed),
        "" if found.told is None else f"{_spread(found.told.down)}, {found.told.missing}",
        f"{found.cut.not_ready}, {found.cut.deleted}",
        f"{len(found.mended.began)}, {found.mended.a_second}",
        f"{found.mended.lost}, {found.mended.unclean}",
        f"{found.cpu:.2f}",
        f"{found.peak:.0f}",
        f"{found.down.load:.2f}, {found.up.load:.2f}",
    )


def _odd(name: str, run: Run) -> tuple[str, ...]:
    found = run.odd
    if found is None:
        return ()
    loop = f"{found.loop_lag.quantile(0.99) * _MS:.0f}/{found.loop_lag.most() * _MS:.0f}"
    return name, _lag(found.lag), loop, f"{found.cores:.3f}", f"{found.peak:.0f}"


def _lag(lag: Buckets) -> str:
    return f"{lag.quantile(0.5) * _MS:.1f}/{lag.quantile(0.99) * _MS:.0f}/{lag.most() * _MS:.0f}"


def _spread(samples: Sequence[float]) -> str:
    return "/".join(f"{quantile(samples, share):.2f}" for share in (0.5, 0.99, 1.0))


def _compared(results: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    """Side by side: what this tree costs of what the other one does, both measured by the bare loop beside them."""
    for name, runs in results.items():
        times = {
            side: mean([r.steady.cpu / r.steady.floor for r in runs if r.side == side and r.steady])
            for side in ("here", "other")
        }
        if times["here"] > 0 and times["other"] > 0:
            part = times["here"] / times["other"]
            yield f"{name}: CPU per probe here is {part:.0%} of the other's"


def _doubts(results: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    for name, run in _each(results):
        for stretch in _stretches(run):
            for doubt in stretch.doubts():
                yield f"{name}: may be wrong, as {doubt}"


def _stretches(run: Run) -> Iterator[Stretch]:
    if run.steady is not None:
        yield run.steady.stretch
    if run.outage is not None:
        yield from (run.outage.down, run.outage.up)
    if run.odd is not None:
        yield run.odd.stretch


def _goal(goal: Goal) -> tuple[str, ...]:
    most, value = f"{goal.most:g} {goal.unit}", f"{goal.value:.3g} {goal.unit}"
    return goal.what, most.strip(), value.strip(), "reached" if goal.reached else "**not reached**"
