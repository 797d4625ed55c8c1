"""What the endpoint probes of the bench ask: one server for each handler, in a process of its own, on loopback.

`python -m bench.endpoints_targets --folder DIR` writes their ports into `targets.json`, says `ready`, and then answers
`counts` with how many connections each of them has seen, and does what `swallow` and `answer` say: from then on HTTP
requests are left without an answer, or have one again.
"""

import argparse
import asyncio
import json
import ssl
from collections import Counter
from pathlib import Path

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from app.core.tls import load_chain
from app.simulation.server.certificates import CertificateAuthority
from bench.perf.pipe import answer

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
_HOST = "127.0.0.1"


class Mood:
    """Whether HTTP requests are answered."""

    def __init__(self) -> None:
        self.swallows = False

    def swallow(self) -> None:
        """They are not, from now on."""
        self.swallows = True

    def answer(self) -> None:
        """They are again."""
        self.swallows = False


class Target(asyncio.Protocol):
    """A server that costs next to nothing: it answers the end of a request, whatever was asked."""

    def __init__(self, name: str, counts: Counter[str], mood: Mood) -> None:
        self._name, self._counts, self._mood = name, counts, mood
        self._asked = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts it."""
        self._counts[self._name] += 1
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Answers where the head of a request has ended."""
        self._asked += data
        whole = self._asked.endswith(b"\r\n\r\n") and not self._mood.swallows
        if whole and self._transport is not None:
            self._transport.write(_ANSWER)
            self._transport.close()


class Health(health.aio.HealthServicer):  # type: ignore[misc]
    """The standard health service, which counts who asks."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self._counts = counts

    async def Check(self, request: object, context: object) -> object:  # noqa: N802 - the name of the call
        """Counts it, and says how things are."""
        self._counts["grpc"] += 1
        return await super().Check(request, context)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = CertificateAuthority.create("targets").server((_HOST,))
    load_chain(context, pair.certificate + pair.key)
    return context


async def _serve(folder: Path) -> None:
    counts: Counter[str] = Counter()
    mood, ports = Mood(), {}
    loop = asyncio.get_running_loop()
    kept = []
    for name, context in (("http", None), ("tcp", None), ("https", _context())):
        server = await loop.create_server(
            lambda name=name: Target(name, counts, mood), _HOST, 0, ssl=context, backlog=1024
        )
        kept.append(server)
        ports[name] = server.sockets[0].getsockname()[1]
    servicer = Health(counts)
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    rpc = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, rpc)
    ports["grpc"] = rpc.add_insecure_port(f"{_HOST}:0")
    await rpc.start()
    (folder / "targets.json").write_text(json.dumps(ports))
    print("ready", flush=True)
    await answer({"counts": lambda: dict(counts), "swallow": mood.swallow, "answer": mood.answer})
    await rpc.stop(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    uvloop.run(_serve(parser.parse_args().folder))


if __name__ == "__main__":
    main()
