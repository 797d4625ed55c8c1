"""The API under attack: `python -m bench.api.flood [--seconds 20] [--only slow,…]`.

`dwd serve` runs as it does in a pod, on a simulated seed with 20 shoots, its API open to two callers. One of them
harms it in one way after the other, and then in all of them at once; meanwhile health is asked for twenty times a
second on both ports, another caller asks for the shoots, and the lag of the probes is read from the metrics.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import uvloop

from bench.api import target
from bench.api.attacker import KINDS
from bench.api.target import Target
from bench.perf import scrape, usage
from bench.perf.children import ROOT
from bench.perf.figures import quantile
from bench.perf.steady import since

_SHOOTS: Final = 20
_SETTLED: Final = 30.0
_EVERY: Final = 0.05
_OTHERS: Final = 0.2
_HEALTH, _LAG, _RSS = 0.1, 0.25, 64.0
"""Figure 3: seconds, seconds, MiB."""
FLOODER, OTHER = "flooder-of-the-bench", "other-of-the-bench"


@dataclass(slots=True)
class Phase:
    """What was seen during one attack."""

    health: list[float] = field(default_factory=list)
    """Seconds, on the port of its own."""
    shared: list[float] = field(default_factory=list)
    """Seconds, on the port of the API."""
    other: list[float] = field(default_factory=list)
    """Seconds, of the other caller's reads."""
    missed: int = 0
    """Health that was not answered, or other reads that were not served."""
    lag: float = 0.0
    loop: float = 0.0
    """Seconds that the event loop was late, p99."""
    rss: float = 0.0
    cpu: float = 0.0
    attackers: dict[str, dict[str, int]] = field(default_factory=dict)


async def timed(port: int, path: str, token: str = "") -> float | None:
    """Seconds until the answer to a request on a new connection; None where that was not 200."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode())
            answer = await reader.read()
            writer.close()
    except (OSError, TimeoutError):
        return None
    return loop.time() - began if answer.startswith(b"HTTP/1.1 200") else None


async def ask(found: list[float], phase: Phase, every: float, asked: tuple[int, str, str]) -> None:
    """Asks for ever, at a steady pace."""
    while True:
        seconds = await timed(*asked)
        if seconds is None:
            phase.missed += 1
        else:
            found.append(seconds)
        await asyncio.sleep(every)


async def attacked(target: Target, kinds: Sequence[str], seconds: float) -> Phase:
    """One phase."""
    phase = Phase()
    before, used = await asyncio.to_thread(scrape.scrape, target.metrics), usage.of(target.pid)
    asking = [
        asyncio.ensure_future(ask(phase.health, phase, _EVERY, (target.health, "/livez", ""))),
        asyncio.ensure_future(ask(phase.shared, phase, _EVERY, (target.api, "/livez", ""))),
        asyncio.ensure_future(
            ask(phase.other, phase, _OTHERS, (target.api, "/api/v1/shoots", OTHER))
        ),
    ]
    attacks = [asyncio.ensure_future(attack(kind, target.api, seconds)) for kind in kinds]
    await asyncio.sleep(seconds)
    now = usage.of(target.pid)
    phase.rss, phase.cpu = now.rss, (now.cpu - used.cpu) / seconds
    for each in asking:
        each.cancel()
    await asyncio.wait(asking)
    phase.attackers = {kind: await each for kind, each in zip(kinds, attacks, strict=True)}
    after = await asyncio.to_thread(scrape.scrape, target.metrics)
    phase.lag = since("dwd_probe_lag_seconds", before, after).quantile(0.99)
    phase.loop = since("dwd_event_loop_lag_seconds", before, after).quantile(0.99)
    return phase


async def attack(kind: str, port: int, seconds: float) -> dict[str, int]:
    """One attacker, and what it says of itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.api.attacker", kind, str(port), str(seconds), FLOODER,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    found: dict[str, int] = json.loads(said)
    return found


def told(name: str, phase: Phase, calm: Phase) -> bool:
    """Prints what was seen; whether the figure was reached."""
    worst = [quantile(each, 1.0) * 1_000 for each in (phase.health, phase.shared)]
    typical = [quantile(each, 0.99) * 1_000 for each in (phase.health, phase.shared, phase.other)]
    more = phase.rss - calm.rss
    print(
        f"{name:>9}: health p99 {typical[0]:.0f} ms (worst {worst[0]:.0f}), on the API's port "
        f"{typical[1]:.0f} ms (worst {worst[1]:.0f}); other caller p99 {typical[2]:.0f} ms, "
        f"{len(phase.other)} served, {phase.missed} missed; probe lag p99 {phase.lag * 1_000:.0f} ms, "
        f"loop {phase.loop * 1_000:.0f} ms; "
        f"{phase.rss:.0f} MiB ({more:+.0f}); {phase.cpu:.0%} of a core",
        flush=True,
    )
    for kind, counts in phase.attackers.items():
        print(f"{'':>11}{kind}: {counts}", flush=True)
    good = typical[0] <= _HEALTH * 1_000 and typical[1] <= _HEALTH * 1_000
    return good and phase.lag <= _LAG and more <= _RSS and phase.missed == 0


async def measure(found: Target, kinds: Sequence[str], seconds: float, settled: float) -> int:
    """All phases; the exit code."""
    await asyncio.sleep(settled)
    calm = await attacked(found, [], seconds)
    good = told("calm", calm, calm)
    attacks = {kind: [kind] for kind in kinds} | ({"all": list(kinds)} if len(kinds) > 1 else {})
    for name, each in attacks.items():
        good &= told(name, await attacked(found, each, seconds), calm)
    print(
        f"health ≤ {_HEALTH * 1_000:.0f} ms, lag ≤ {_LAG * 1_000:.0f} ms, memory ≤ +{_RSS:.0f} MiB, "
        f"others served: {'yes' if good else 'NO'}"
    )
    return 0 if good else 1


def main() -> int:
    """Reads the flags and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", default=",".join(KINDS), help=", ".join(KINDS))
    parser.add_argument(
        "--running",
        metavar="PID:API:HEALTH:METRICS",
        help="attack a process of this machine that is there instead",
    )
    options = parser.parse_args()
    kinds = [each for each in options.only.split(",") if each]
    if options.running:
        found = Target(*(int(each) for each in options.running.split(":")))
        return uvloop.run(measure(found, kinds, options.seconds, 0.0))
    with target.seed(_SHOOTS) as running, target.program(running, (FLOODER, OTHER)) as found:
        return uvloop.run(measure(found, kinds, options.seconds, _SETTLED))


if __name__ == "__main__":
    sys.exit(main())
