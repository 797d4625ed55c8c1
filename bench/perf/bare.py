"""The floor: a loop that makes the requests of a probe on kept connections and drops the answers.

Same library, same event loop, same servers, same schedule as the program; no more than that. A process of its own:
`python -m bench.perf.bare --folder DIR --interval 10`; it says `ready`, then answers `probes` with their number.
"""

import argparse
import asyncio
import json
import random
import ssl
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop

from bench.perf.pipe import answer

PATHS: Final = (
    "/version",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=500",
)
_JITTER: Final = 0.2
_KEEP_ALIVE: Final = 80.0


class Bare:
    """The loops of all shoots."""

    def __init__(self, session: aiohttp.ClientSession, interval: float) -> None:
        self._session, self._interval = session, interval
        self.probes = 0

    async def shoot(self, shoot: dict[str, Any]) -> None:
        """Asks one shoot, for ever."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=shoot["ca"])
        headers = {"Authorization": f"Bearer {shoot['token']}"}
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            for path in PATHS:
                url = shoot["server"] + path
                async with self._session.get(url, ssl=context, headers=headers) as response:
                    await response.read()
                    response.raise_for_status()
            self.probes += 1
            pause = self._interval * (1 + _JITTER * random.random())
            await asyncio.sleep(begun + pause - loop.time())


async def _run(options: argparse.Namespace) -> None:
    shoots = json.loads((options.folder / "shoots.json").read_text())["shoots"]
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={"Accept": "application/json", "Accept-Encoding": "identity"},
    )
    async with session:
        bare = Bare(session, options.interval)
        async with asyncio.TaskGroup() as group:
            loops = [group.create_task(bare.shoot(each)) for each in shoots]
            print("ready", flush=True)
            await answer({"probes": lambda: bare.probes})
            for each in loops:
                each.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--interval", type=float, required=True)
    uvloop.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
