"""grpc: the standard health service (grpc.health.v1) answers SERVING; without TLS, as the kubelet asks.

grpcio is imported with the first such probe: it costs tens of megabytes, which most do not need.  Its channels are told
addresses, not names, so that its own resolver, which reads configuration and caches, is never asked.
"""

import asyncio
import importlib
import logging
import os
import socket
from functools import cache
from typing import Any, Final

from app.core.handlers.lookup import Lookup
from app.core.handlers.reasons import why
from app.core.handlers.running import Run, failure, success
from app.core.model.endpoints import Grpc, Ran
from app.core.runtime.about import NAME, own_version
from app.core.runtime.lookups import Found

_MOST_MESSAGE: Final = 4096
"""Bytes of an answer, of which the one that is asked for has two."""
_MOST_METADATA: Final = 8192
_MOST_KEPT: Final = 20_000
"""Milliseconds: what gRPC itself gives a connection to be made."""
_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own, closed with the channel
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_receive_message_length", _MOST_MESSAGE),
    ("grpc.max_metadata_size", _MOST_METADATA),
    ("grpc.absolute_max_metadata_size", _MOST_METADATA),
    ("grpc.primary_user_agent", f"{NAME}/{own_version()}"),
)


class GrpcChecks:
    """Asks health services."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def run(self, handler: Grpc, run: Run) -> Ran:
        """What one check brings.

        Raises:
            CannotRun: there is no such port.
        """
        host, port = run.address.host, run.port(handler.port)
        try:
            found = await self._lookup.addresses(host, run)
        except OSError as problem:
            return failure(why(problem))
        run.errs_if_late("the library for gRPC was not there")
        # in a thread: the first import takes long, and the event loop would stand still
        grpc = _library() if _is_loaded() else await asyncio.to_thread(_library)
        _keep_engine()
        run.fails_if_late("no answer of the health service")
        authority = ("grpc.default_authority", _authority(host, port))
        options = (*_OPTIONS, authority, *_ends(run.probe.timeout))
        channel = grpc.aio.insecure_channel(_target(found, port), options=options)
        try:
            return await _check(grpc, channel, handler.service, run.probe.timeout)
        finally:
            await channel.close(grace=None)


def _ends(within: float) -> tuple[tuple[str, int], ...]:
    """When a connection is given up: a closed channel leaves it to a target that does not greet, or read, any more."""
    milliseconds = int(min(within * 1000, _MOST_KEPT))
    return (
        ("grpc.min_reconnect_backoff_ms", milliseconds),  # this is the time to connect and to greet
        ("grpc.keepalive_time_ms", milliseconds),
        ("grpc.keepalive_timeout_ms", milliseconds),
    )


async def _check(grpc: Any, channel: Any, service: str, within: float) -> Ran:  # noqa: ANN401 - grpcio has no types
    messages = importlib.import_module("grpc_health.v1.health_pb2")
    stub = importlib.import_module("grpc_health.v1.health_pb2_grpc").HealthStub(channel)
    try:
        answer = await stub.Check(messages.HealthCheckRequest(service=service), timeout=within)
    except grpc.aio.AioRpcError as problem:
        return _refused(grpc.StatusCode, problem.code(), within)
    statuses = messages.HealthCheckResponse.ServingStatus
    if answer.status == statuses.SERVING:
        return success("SERVING")
    known = answer.status in statuses.values()
    return failure(statuses.Name(answer.status) if known else f"status {answer.status}")


def _refused(codes: Any, code: Any, within: float) -> Ran:  # noqa: ANN401 - grpcio has no types
    if code is codes.UNIMPLEMENTED:
        return failure("UNIMPLEMENTED: it has no health service (grpc.health.v1)")
    if code is codes.DEADLINE_EXCEEDED:
        return failure(f"no answer of the health service within {within} s")
    if code is codes.NOT_FOUND:
        return failure("NOT_FOUND: its health service does not know this service")
    return failure(str(code.name))


def _target(found: Found, port: int) -> str:
    """The addresses of one family, those of the first: a target has one."""
    family = found[0].family
    v6 = family == socket.AF_INET6
    places = [_authority(each.text, port) for each in found if each.family == family]
    return f"{'ipv6' if v6 else 'ipv4'}:{','.join(places)}"


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loaded() -> bool:
    return _library.cache_info().currsize > 0


@cache
def _keep_engine() -> None:
    """Keeps what polls for all channels until the process ends.

    It would else be ended with the last channel, as it is after most runs, and the event loop wait for its thread.
    """
    _library().aio.init_grpc_aio()


@cache
def _library() -> Any:  # noqa: ANN401 - grpcio has no types
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it writes lines of its own between ours
    # and what it cannot decode of an answer it would log, byte by byte
    logging.getLogger("grpc").setLevel(logging.CRITICAL + 1)
    importlib.import_module("grpc_health.v1.health_pb2_grpc")
    return importlib.import_module("grpc")
