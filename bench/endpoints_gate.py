"""How soon the gates of all shoots are closed when their canary fails, and open again when it is well."""

import json
import math
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from bench.endpoints_world import INTERVAL, bench
from bench.perf.goals import Goal
from bench.perf.program import program
from bench.perf.steady import SETTLE, started

_GATE: Final = {"periodSeconds": 2, "timeoutSeconds": 1, "failureThreshold": 2}
_MOST_TO_CLOSE: Final = 5.5
"""Seconds: two periods, the time of a run, and that of our looking."""
_GIVEN_UP, _OFTEN = 60.0, 0.25


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
        program(found.side, found.folder, INTERVAL, with_a_gate(found.ports)) as running,
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
