"""Decodes pods for endpoint probes: the addresses of their containers, and which incarnation of a container it is.

There may be 10,000 of them for the life of the process, so no more is kept than needed, and names and ports that many
pods have in common are stored once. Labels are not kept: the API server evaluates the selector.
"""

import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from app.core.errors import trimmed
from app.core.kube.decoding.envelope import FEW, Raw
from app.core.model.endpoints import ProbedContainer, ProbedPod
from app.core.model.instants import parse_rfc3339

# Maximum characters of a name or an address, as in Kubernetes: nobody limits the text of a status.
_LONGEST: Final = 253
_PHASES: Final = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_HIGHEST_PORT: Final = 65535


class _ProbedPort(Struct):
    name: str | None = None
    number: int | None = msgspec.field(default=None, name="containerPort")


class _ProbedContainer(Struct):
    name: str | None = None
    ports: Annotated[list[_ProbedPort], FEW] | None = None


class _ProbedSpec(Struct):
    containers: Annotated[list[_ProbedContainer], FEW] | None = None


class _ProbedRunning(Struct):
    started_at: str | None = msgspec.field(default=None, name="startedAt")


class _ProbedState(Struct):
    running: _ProbedRunning | None = None


class _ProbedContainerStatus(Struct):
    name: str | None = None
    id: str | None = msgspec.field(default=None, name="containerID")
    state: _ProbedState | None = None


class _ProbedStatus(Struct):
    phase: str | None = None
    ip: str | None = msgspec.field(default=None, name="podIP")
    containers: Annotated[list[_ProbedContainerStatus], FEW] | None = msgspec.field(
        default=None, name="containerStatuses"
    )


class _ProbedMeta(Struct):
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")
    deletion_timestamp: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _ProbedPodBody(Struct):
    metadata: _ProbedMeta
    spec: _ProbedSpec | None = None
    status: _ProbedStatus | None = None


_decoder: Final = msgspec.json.Decoder(_ProbedPodBody)


def probed_pod(raw: Raw) -> ProbedPod:
    """Decodes a Pod; its containers are those of `spec.containers`, and one without a status is not created yet."""
    got = _decoder.decode(raw)
    meta, spec, status = got.metadata, got.spec or _ProbedSpec(), got.status or _ProbedStatus()
    told = {each.name: each for each in status.containers or ()}
    return ProbedPod(
        namespace=sys.intern(meta.namespace or ""),
        name=meta.name,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        ip=_line(status.ip),
        phase=_phase(status.phase),
        deleting=bool(meta.deletion_timestamp),
        containers=tuple(
            _container(each, told.get(each.name)) for each in spec.containers or () if each.name
        ),
    )


def _phase(text: str | None) -> str:
    """Returns the phase if Kubernetes defines it, otherwise an empty text."""
    return sys.intern(text) if text in _PHASES else ""


def _container(
    container: _ProbedContainer, status: _ProbedContainerStatus | None
) -> ProbedContainer:
    told = status or _ProbedContainerStatus()
    running = (told.state or _ProbedState()).running
    return ProbedContainer(
        name=sys.intern(_line(container.name)),
        id=_line(told.id),
        running=running is not None,
        started_at=None if running is None else parse_rfc3339(running.started_at),
        ports=_shared(tuple(_named(container.ports or ()))),
    )


def _named(ports: Iterable[_ProbedPort]) -> Iterable[tuple[str, int]]:
    for each in ports:
        if each.name and each.number is not None and 0 < each.number <= _HIGHEST_PORT:
            yield _line(each.name), each.number


@lru_cache(maxsize=1024)
def _shared(ports: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """Returns one shared mapping for all containers with these ports; of equal names the first counts.

    That is how the kubelet resolves a name.
    """
    return MappingProxyType(dict(reversed(ports)))


def _line(text: str | None) -> str:
    """Cuts the text to the length of a name and removes control characters."""
    return trimmed(text or "", _LONGEST)
