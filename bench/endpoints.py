"""What endpoint probes and endpoint mode cost: `python -m bench.endpoints [--only probes,mode,gate] [--seconds S]`.

Probes: the program as it runs in a pod, on a simulated seed with 300 shoots, four probes for each of them every 10 s;
once for each handler, and once without any. What a run costs is the difference of the CPU, by the number of runs; the
servers that are asked are a process of their own. Mode: the same seed in endpoint mode, per probe. Gate: from the
instant at which a canary of all shoots swallows what it is asked, until the last gate is closed; and back.
Exit code 1 where a goal was not reached.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from app.simulation.manifests import EXTERNAL_SECRET_NAME
from bench.endpoints_gate import measure_gate
from bench.endpoints_world import MS, Found, bench
from bench.perf.goals import Goal

_PROBES, _PERIOD = 4, 10
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
    print(" lag of probes p50/p99 ms | not succeeded |\n|---|---|---|---|---|---|---|")
    print(_row(_WITHOUT, without, without))
    for name, each in results.items():
        print(_row(name, each, without))
    _doubts({_WITHOUT: without, **results})
    for name, each in results.items():
        yield from _goals(name, each, without)


def _row(name: str, found: Found, without: Found) -> str:
    seconds = found.stretch.seconds
    cost = f"{found.a_run(without):.3f}" if found.runs else ""
    lag = "/".join(f"{found.lag.quantile(share) * MS:.0f}" for share in (0.5, 0.99))
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
    wanted = found.looks * _PROBES * 0.9  # at most one probe in 10 s, and runs every 10 s
    yield Goal(f"{name}: runs that are missing", 0.0, max(wanted - found.asked, 0.0), "")
    yield Goal(f"{name}: lag of probes, p99", _MOST_LAG, found.lag.quantile(0.99) * MS, "ms")
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
    counts, a_look = each.stretch.counts, each.cores * each.stretch.seconds / each.looks * MS
    kept, new = (counts[name] / each.looks for name in ("handshakes", "external"))
    kept -= new
    print(
        f"| endpoint mode, {shoots} shoots | ms CPU/probe | probes/s | internal, external", end=""
    )
    print(
        " handshakes/probe | cores | RSS MiB | lag p50/p99 ms | not succeeded |\n"
        + "|---" * 8
        + "|"
    )
    lag = "/".join(f"{each.lag.quantile(share) * MS:.0f}" for share in (0.5, 0.99))
    print(
        f"| | {a_look:.2f} | {each.looks / each.stretch.seconds:.1f} | {kept:.3f}, {new:.3f} "
        f"| {each.cores:.3f} | {each.rss:.0f} | {lag} | {each.failed:.0f} |"
    )
    _doubts({"endpoint mode": each})
    yield Goal("endpoint mode: CPU per look", _MOST_A_LOOK, a_look, "ms")
    yield Goal("endpoint mode: internal handshakes per look", 0.02, kept, "")
    yield Goal("endpoint mode: probes without a new external connection", 0.02, 1 - new, "")


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
