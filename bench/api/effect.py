"""How soon what people decide is effective: `python -m bench.api.effect [--shoots 500 --rounds 40]`.

Two instances of `dwd serve` on one simulated seed, as in two pods. A pause is written through the leader, through the
standby, and as a Pause as kubectl does; each time the leader is asked for the shoot, every few milliseconds,
until that is paused: its verdicts have no effect from then on.
"""

import argparse
import asyncio
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final

import aiohttp
import uvloop

from bench.api import target
from bench.api.asking import Line, connected, settled
from bench.api.target import ADMIN, Seed, Target
from bench.perf.figures import quantile

_EFFECTIVE: Final = 1.0
"""Figure 2: seconds."""
_SETTLED: Final = 20.0
_OFTEN: Final = 0.025
_PAUSED: Final = 100
_PAUSES: Final = "/apis/dependency-watchdog.gardener.cloud/v1alpha1/namespaces/{}/pauses"

Write = Callable[[str, str], Awaitable[None]]
"""Pauses this shoot for this reason."""


def through(line: Line) -> Write:
    """Through the API of an instance."""

    async def write(namespace: str, reason: str) -> None:
        order = {"scope": "scaleDown", "reason": reason}
        answer = await line.ask("PUT", f"/api/v1/shoots/{namespace}/pause", order)
        if answer.status != 200:
            raise SystemExit(f"the pause was refused: {answer.status} {answer.body!r}")

    return write


def by_hand(session: aiohttp.ClientSession) -> Write:
    """As kubectl does; of the scope that acts before those that the API wrote."""

    async def write(namespace: str, reason: str) -> None:
        number = reason.rpartition(" ")[2]
        body = {
            "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
            "kind": "Pause",
            "metadata": {"name": f"bench-{number}"},
            "spec": {"scope": "all", "reason": reason, "author": "kubectl"},
        }
        async with session.post(_PAUSES.format(namespace), json=body) as answer:
            if answer.status != 201:
                raise SystemExit(f"the Pause was refused: {answer.status} {await answer.text()}")

    return write


def seed_session(running: Seed) -> aiohttp.ClientSession:
    """A way into the seed with rights of its own."""
    tls = ssl.create_default_context(cafile=str(running.folder / "ca.crt"))
    token = (running.folder / "token").read_text()
    return aiohttp.ClientSession(
        running.reach["seed"],
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(ssl=tls),
    )


async def measure(write: Write, leader: Line, rounds: int, numbers: "count[int]") -> list[float]:
    """Seconds from the beginning of each write until it is effective."""
    found = []
    for _ in range(rounds):
        number = next(numbers)
        namespace, reason = target.name(number % _PAUSED), f"bench {number}"
        began = time.perf_counter()
        await write(namespace, reason)
        await _paused(leader, namespace, reason)
        found.append(time.perf_counter() - began)
        await asyncio.sleep(0.1)
    return found


async def _paused(leader: Line, namespace: str, reason: str) -> None:
    """Returns when that is so."""
    while True:
        pause = (await leader.get(f"/api/v1/shoots/{namespace}")).json["pause"]
        if pause is not None and pause["reason"] == reason:
            return
        await asyncio.sleep(_OFTEN)


async def run(running: Seed, pair: tuple[Target, Target], options: argparse.Namespace) -> int:
    """All three ways; the exit code."""
    lines = [await connected(each.api, ADMIN) for each in pair]
    leader = await _leader(lines)
    await settled(pair[leader].api, ADMIN, options.shoots)
    await asyncio.sleep(_SETTLED)
    lines = [await connected(each.api, ADMIN) for each in pair]  # the others have idled too long
    numbers, asked, worst = count(), lines[leader], 0.0
    async with seed_session(running) as session:
        for name, write in (
            ("through the leader", through(asked)),
            ("through the standby", through(lines[1 - leader])),
            ("with kubectl", by_hand(session)),
        ):
            found = await measure(write, asked, options.rounds, numbers)
            told = [quantile(found, share) * 1e3 for share in (0.5, 0.99)]
            worst = max(worst, *found)
            print(f"{name}: p50 {told[0]:.0f} ms, longest {max(found) * 1e3:.0f} ms", flush=True)
    good = worst <= _EFFECTIVE
    print(f"at most {_EFFECTIVE:g} s: {worst:.3f}: {'yes' if good else 'NO'}", flush=True)
    return 0 if good else 1


async def _leader(lines: list[Line]) -> int:
    """Which of them leads, as soon as one does."""
    while True:
        answers = [await each.get("/api/v1/status") for each in lines]
        roles = [each.json["role"] for each in answers]
        if "leader" in roles:
            return roles.index("leader")
        await asyncio.sleep(0.5)


def main() -> int:
    """Reads the flags and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoots", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with (
        target.seed(options.shoots) as running,
        target.program(running, title="one") as one,
        target.program(running, title="another") as another,
    ):
        return uvloop.run(run(running, (one, another), options))


if __name__ == "__main__":
    sys.exit(main())
