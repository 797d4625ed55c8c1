"""What endpoint probes and endpoint mode cost: `python -m bench.endpoints [--only probes,mode,gate] [--seconds S]`.

Probes: the program as it runs in a pod, on a simulated seed with 300 shoots, four probes for each of them every 10 s;
once for each handler, and once without any.  What a run costs is the difference of the CPU, by the number of runs; the
servers that are asked are a process of their own.  Mode: the same seed in endpoint mode, per look.  Gate: from the
instant at which a canary of all shoots swallows what it is asked, until the last gate is closed; and back.
Exit code 1 where a goal was not reached.
"""

import argparse
import json
import math
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from app.core.simulation.manifests import EXTERNAL_SECRET_NAME
from bench.perf import children
from bench.perf.children import Child, child
from bench.perf.figures import Buckets
from bench.perf.goals import Goal
from bench.perf.program import program
from bench.perf.scrape import Scrape
from bench.perf.sides import Side, here
from bench.perf.steady import SETTLE, looks, since, started
from bench.perf.validity import Stretch, Watch

_NODES, _INTERVAL, _PROBES, _PERIOD = 10, 10.0, 4, 10
_MS: Final = 1e3
_HANDLERS: Final[Mapping[str, Callable[[Mapping[str, int]], dict[str, Any]]]] = {
    "httpGet": lambda ports: {"httpGet": {"port": ports["http"], "path": "/healthz"}},
    "tcpSocket": lambda ports: {"tcpSocket": {"port": ports["tcp"]}},
    "httpGet, TLS": lambda ports: {"httpGet": {"scheme": "HTTPS", "port": ports["https"]}},
    "grpc": lambda ports: {"grpc": {"port": ports["grpc"]}},
}
_GOALS: Final = {"httpGet": 0.5, "tcpSocket": 0.5, "httpGet, TLS": 2.0}
"""Milliseconds of CPU for one run; grpc is only reported."""
_WITHOUT: Final = "no probes"
_MOST_MEMORY, _MOST_LAG, _MOST_A_LOOK = 40.0, 250.0, 2.5
_GATE: Final = {"periodSeconds": 2, "timeoutSeconds": 1, "failureThreshold": 2}
_MOST_TO_CLOSE: Final = 5.5
"""Seconds: two periods, the time of a run, and that of our looking."""
_GIVEN_UP, _OFTEN = 60.0, 0.25


@dataclass(frozen=True, slots=True)
class Found:
    """One process of the program, in its steady state."""

    cores: float
    looks: float
    runs: float
    """Of endpoint probes, those that succeeded."""
    failed: float
    """Probes that did not succeed."""
    asked: int
    """Connections that the servers of the probes have seen, or calls."""
    rss: float
    """MiB."""
    lag: Buckets
    stretch: Stretch

    def a_run(self, without: "Found") -> float:
        """Milliseconds of CPU of one run, what goes on without any left out."""
        return (self.cores - without.cores) * self.stretch.seconds / max(self.runs, 1) * _MS


def with_probes(name: str, ports: Mapping[str, int]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Adds the probes of one handler to a prober file; none for a name that is no handler's."""

    def change(given: dict[str, Any]) -> dict[str, Any]:
        if name not in _HANDLERS:
            return given
        handler = _HANDLERS[name](ports)
        common = {"host": "127.0.0.1", "periodSeconds": _PERIOD, **handler}
        return given | {"endpointProbes": [{"name": f"p{n}", **common} for n in range(_PROBES)]}

    return change


def in_endpoint_mode(given: dict[str, Any]) -> dict[str, Any]:
    """The prober file in endpoint mode."""
    names = {
        "internalKubeConfigSecretName": given["kubeConfigSecretName"],
        "externalKubeConfigSecretName": EXTERNAL_SECRET_NAME,
    }
    return names | {key: value for key, value in given.items() if key != "kubeConfigSecretName"}


@dataclass(frozen=True, slots=True)
class Bench:
    """What is there for all measurements."""

    side: Side
    folder: Path
    load: Child
    targets: Child
    shoots: int
    seconds: float

    @property
    def ports(self) -> Mapping[str, int]:
        """Of the servers that probes ask, by name."""
        found: Mapping[str, int] = json.loads((self.folder / "targets.json").read_text())
        return found

    def measure(
        self, change: Callable[[dict[str, Any]], dict[str, Any]], flags: Sequence[str] = ()
    ) -> Found:
        """One process with this prober file."""
        self.load.ask("begin")
        with program(self.side, self.folder, _INTERVAL, change, flags) as running:
            _ = started(self.load, running, self.shoots)
            time.sleep(SETTLE)
            asked, watch = _all(self.targets), Watch(self.load)
            before, cpu = running.scrape(), running.child.usage().cpu
            time.sleep(self.seconds)
            now, stretch, after = running.child.usage(), watch.end(), running.scrape()
        return Found(
            cores=(now.cpu - cpu) / stretch.seconds,
            looks=_looks(after) - _looks(before),
            runs=_runs(after) - _runs(before),
            failed=_failed(after) - _failed(before),
            asked=_all(self.targets) - asked,
            rss=now.rss,
            lag=since("dwd_probe_lag_seconds", before, after),
            stretch=stretch,
        )


def _looks(found: Scrape) -> float:
    return looks(found) + found.total("dwd_probes_total", probe="internal")


def _runs(found: Scrape) -> float:
    return found.total("dwd_probes_total", probe="endpoint", result="success")


def _failed(found: Scrape) -> float:
    return found.total("dwd_probes_total") - found.total("dwd_probes_total", result="success")


def _all(targets: Child) -> int:
    return sum(targets.ask("counts").values())


@contextmanager
def bench(shoots: int, seconds: float, *, endpoint_mode: bool) -> Iterator[Bench]:
    """The seed, its shoots, and the servers that probes ask."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dwd-bench-")))
        load = children.load(folder, shoots, _NODES, endpoint_mode=endpoint_mode)
        command = ["-m", "bench.endpoints_targets", f"--folder={folder}"]
        targets = opened.enter_context(child("targets", command, folder, environ={}))
        targets.ready()
        yield Bench(here(), folder, opened.enter_context(load), targets, shoots, seconds)


# What is shown.


def measure_probes(
    shoots: int, seconds: float, handlers: Sequence[str] = tuple(_HANDLERS)
) -> Iterator[Goal]:
    """A process for each handler, and one without probes; prints their table."""
    with bench(shoots, seconds, endpoint_mode=False) as found:
        results = {}
        for name in (_WITHOUT, *handlers):
            print(f"measuring {name}", file=sys.stderr, flush=True)
            results[name] = found.measure(with_probes(name, found.ports))
    without = results.pop(_WITHOUT)
    print(
        f"| {shoots} shoots × {_PROBES} probes | ms CPU/run | runs/s | cores | MiB more |", end=""
    )
    print(" lag of looks p50/p99 ms | not succeeded |\n|---|---|---|---|---|---|---|")
    print(_row(_WITHOUT, without, without))
    for name, each in results.items():
        print(_row(name, each, without))
    _doubts({_WITHOUT: without, **results})
    for name, each in results.items():
        yield from _goals(name, each, without)


def _row(name: str, found: Found, without: Found) -> str:
    seconds = found.stretch.seconds
    cost = f"{found.a_run(without):.3f}" if found.runs else ""
    lag = "/".join(f"{found.lag.quantile(share) * _MS:.0f}" for share in (0.5, 0.99))
    cells = (
        name,
        cost,
        f"{found.runs / seconds:.0f}",
        f"{found.cores:.3f}",
        f"{found.rss - without.rss:.1f}" if found.runs else f"(RSS {found.rss:.0f})",
        lag,
        f"{found.failed:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _goals(name: str, found: Found, without: Found) -> Iterator[Goal]:
    wanted = found.looks * _PROBES * 0.9  # at most one look in 10 s, and runs every 10 s
    yield Goal(f"{name}: runs that are missing", 0.0, max(wanted - found.asked, 0.0), "")
    yield Goal(f"{name}: lag of looks, p99", _MOST_LAG, found.lag.quantile(0.99) * _MS, "ms")
    if name in _GOALS:
        yield Goal(f"{name}: CPU per run", _GOALS[name], found.a_run(without), "ms")
        yield Goal(f"{name}: memory", _MOST_MEMORY, found.rss - without.rss, "MiB more")


def _doubts(results: Mapping[str, Found]) -> None:
    for name, each in results.items():
        for doubt in each.stretch.doubts():
            print(f"{name}: may be wrong, as {doubt}")


def measure_mode(shoots: int, seconds: float) -> Iterator[Goal]:
    """One process in endpoint mode; prints its table."""
    with bench(shoots, seconds, endpoint_mode=True) as found:
        print("measuring endpoint mode", file=sys.stderr, flush=True)
        pattern = json.loads((found.folder / "shoots.json").read_text())["external_pattern"]
        each = found.measure(in_endpoint_mode, [f"--external-server-pattern={pattern}"])
    counts, a_look = each.stretch.counts, each.cores * each.stretch.seconds / each.looks * _MS
    kept, new = (counts[name] / each.looks for name in ("handshakes", "external"))
    kept -= new
    print(f"| endpoint mode, {shoots} shoots | ms CPU/look | looks/s | internal, external", end="")
    print(
        " handshakes/look | cores | RSS MiB | lag p50/p99 ms | not succeeded |\n" + "|---" * 8 + "|"
    )
    lag = "/".join(f"{each.lag.quantile(share) * _MS:.0f}" for share in (0.5, 0.99))
    print(
        f"| | {a_look:.2f} | {each.looks / each.stretch.seconds:.1f} | {kept:.3f}, {new:.3f} "
        f"| {each.cores:.3f} | {each.rss:.0f} | {lag} | {each.failed:.0f} |"
    )
    _doubts({"endpoint mode": each})
    yield Goal("endpoint mode: CPU per look", _MOST_A_LOOK, a_look, "ms")
    yield Goal("endpoint mode: internal handshakes per look", 0.02, kept, "")
    yield Goal("endpoint mode: looks without a new external connection", 0.02, 1 - new, "")


# How soon gates close.


def with_a_gate(ports: Mapping[str, int]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Adds the gate that docs/endpoints.md recommends."""
    gate = {
        "name": "canary",
        "host": "127.0.0.1",
        "httpGet": {"port": ports["http"]},
        "effect": "GateScaleDown",
        **_GATE,
    }
    return lambda given: given | {"endpointProbes": [gate]}


def closed(port: int) -> int:
    """How many shoots have a closed gate, as the API says."""
    url = f"http://127.0.0.1:{port}/api/v1/shoots?limit=500"
    with urllib.request.urlopen(url, timeout=10) as answer:
        items = json.load(answer)["items"]
    return sum(gate["state"] == "Closed" for shoot in items for gate in shoot["gates"])


def _until(port: int, number: int, began: float) -> float:
    """Seconds since `began` when so many gates are closed; infinite where that takes too long."""
    while closed(port) != number:
        if time.monotonic() - began > _GIVEN_UP:
            return math.inf
        time.sleep(_OFTEN)
    return time.monotonic() - began


def measure_gate(shoots: int, seconds: float) -> Iterator[Goal]:
    """Lets the canary fail for so long, and says when all gates were closed, and when all were open again."""
    with (
        bench(shoots, seconds, endpoint_mode=False) as found,
        program(found.side, found.folder, _INTERVAL, with_a_gate(found.ports)) as running,
    ):
        print("measuring the gate", file=sys.stderr, flush=True)
        _ = started(found.load, running, shoots)
        time.sleep(SETTLE)
        found.targets.ask("swallow")
        began = time.monotonic()
        shut = _until(running.api, shoots, began)
        fewest, end = shoots, time.monotonic() + seconds
        while time.monotonic() < end:
            fewest = min(fewest, closed(running.api))
            time.sleep(_OFTEN)
        found.targets.ask("answer")
        opened = _until(running.api, 0, time.monotonic())
    print(
        f"gates of {shoots} shoots: all closed after {shut:.1f} s, open after {opened:.1f} s",
        end="",
    )
    print(f"; in {seconds:g} s between, at least {fewest} closed")
    yield Goal("gate: all closed", _MOST_TO_CLOSE, shut, "s")
    yield Goal("gate: open again while the canary fails", 0, shoots - fewest, "")
    again = (
        _GATE["periodSeconds"] + _GATE["timeoutSeconds"] + 1.0
    )  # a run, the next one, our looking
    yield Goal("gate: all open", again, opened, "s")


_PARTS: Final[Mapping[str, Callable[..., Iterator[Goal]]]] = {
    "probes": measure_probes,
    "mode": measure_mode,
    "gate": measure_gate,
}


def main(words: Sequence[str] | None = None) -> int:
    """Measures, prints tables and goals."""
    parser = argparse.ArgumentParser(prog="python -m bench.endpoints", description=__doc__)
    parser.add_argument("--only", default=",".join(_PARTS), help=", ".join(_PARTS))
    parser.add_argument("--shoots", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each steady state")
    parser.add_argument(
        "--handler",
        action="append",
        choices=tuple(_HANDLERS),
        help="of the probes, not all of them",
    )
    options = parser.parse_args(words)
    parts = dict(_PARTS)
    if options.handler:
        parts["probes"] = partial(measure_probes, handlers=options.handler)
    goals = [
        goal
        for name in options.only.split(",")
        for goal in parts[name](options.shoots, options.seconds)
    ]
    for each in goals:
        reached = "reached" if each.reached else "NOT REACHED"
        print(f"{each.what}: {each.value:.3g} of at most {each.most:g} {each.unit}: {reached}")
    return 0 if all(each.reached for each in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
