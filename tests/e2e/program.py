"""The real program as a child process, with Gardener's arguments."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e import objects
from tests.e2e.apiclient import ApiClient
from tests.e2e.objects import CA, KCM, MCM, Json
from tests.e2e.processes import Child, eventually, free_port

LIMIT = aiohttp.ClientTimeout(total=5)

# A start is some seconds of computing: with all scenarios' first starts at once, each would miss its time.
FIRST_STARTS = asyncio.Semaphore(2)


def _election(duration: str, deadline: str, period: str) -> Mapping[str, str]:
    names = ("lease_duration", "renew_deadline", "retry_period")
    return {
        f"leader_elect_{k}": v for k, v in zip(names, (duration, deadline, period), strict=True)
    }


SHORT_LEASE = _election("4s", "3s", "1s")
"""The Lease of a process that was killed has to run out before the next one leads."""
PATIENT = _election("90s", "75s", "2s")
"""A restart of an API server takes seconds, and more on a busy machine; the election is a scenario of its own."""


def dependent(
    name: str,
    *,
    down: int,
    up: int,
    down_delay: str | None = None,
    up_delay: str | None = None,
    optional: bool = False,
    kind: str = "Deployment",
    api_version: str = "apps/v1",
) -> Json:
    """One entry of `dependentResourceInfos`."""

    def policy(level: int, delay: str | None) -> Json:
        return {"level": level} if delay is None else {"level": level, "initialDelay": delay}

    return {
        "ref": {"kind": kind, "name": name, "apiVersion": api_version},
        "optional": optional,
        "scaleUp": policy(up, up_delay),
        "scaleDown": policy(down, down_delay),
    }


def config(dependents: list[Json] | None = None, *, interval: str = "30s", **more: Any) -> Json:
    """The prober file; by default what Gardener writes into its ConfigMap."""
    return {
        "kubeConfigSecretName": objects.SECRET,
        "probeInterval": interval,
        "dependentResourceInfos": dependents or gardener_dependents(),
        **more,
    }


def gardener_dependents(mcm_delay: str = "30s") -> list[Json]:
    """The three that Gardener configures."""
    return [
        dependent(KCM, up=0, down=1),
        dependent(MCM, up=1, down=0, up_delay=mcm_delay),
        dependent(CA, up=2, down=0, optional=True),
    ]


def quick(**more: Any) -> Json:
    """The same with short waits, for shoots whose grace is short as well."""
    return config(gardener_dependents(mcm_delay="2s"), interval="5s", **more)


def admin_config(url: str, ca: bytes, token: str) -> str:
    """A kubeconfig for the seed."""
    return objects.kubeconfig("seed", url, ca, token)


@dataclass(frozen=True, slots=True)
class Command:
    """What the program is called with."""

    word: str
    files: Mapping[str, Json]
    """Configuration files, by the flag that names them."""
    arguments: tuple[str, ...]
    """What follows them; Gardener's own, word by word, where Gardener starts it."""


def prober(settings: Json) -> Command:
    """As Gardener starts the prober."""
    arguments = (
        "--kube-api-qps=20.0",
        "--kube-api-burst=100",
        "--enable-leader-election=true",
        "--zap-log-level=INFO",
    )
    return Command("prober", {"config-file": settings}, arguments)


class Instance:
    """One instance of the watchdog, and what it can be asked.

    Args:
        child: its process.
        metrics: host and port of /metrics.
        health: host and port of /readyz.
        api: its API, as whoever needs no token; a scenario with callers puts another one here.
    """

    def __init__(self, child: Child, metrics: str, health: str, api: ApiClient) -> None:
        self.name, self.child, self.api = child.name, child, api
        self._metrics, self._health = metrics, health
        self._started = False

    async def start(self) -> None:
        """Starts it, again too, and waits until it says that it is ready."""
        turn = contextlib.nullcontext() if self._started else FIRST_STARTS
        self._started = True
        async with turn:
            await self.child.start()
            await self.child.ready(self.is_ready, within=60)

    async def kill(self) -> None:
        """kill -9."""
        await self.child.kill()

    async def terminate(self, within: float = 2) -> int:
        """SIGTERM; returns the exit code."""
        self.child.signal(signal.SIGTERM)
        return await self.child.ended(within)

    async def is_ready(self) -> bool:
        """What /readyz says."""
        return await self._status(self._health, "/readyz") == 200

    async def get(self, path: str) -> Json:
        """GET from its API; whatever the status, the JSON of the answer."""
        return (await self.api.get(path)).body

    async def shoot(self, namespace: str) -> Json:
        """All that it knows of one shoot."""
        return await self.get(f"/api/v1/shoots/{namespace}")

    async def readiness(self) -> str:
        """The text of /readyz?verbose."""
        return await self._text(self._health, "/readyz?verbose")

    async def metrics(self) -> str:
        """The text of /metrics; who asks ten times a second is put off, and asks again."""

        async def text() -> str:
            found = await self._text(self._metrics, "/metrics")
            return "" if found.startswith("{") else found

        return await eventually(text, "the metrics", within=10, every=0.5)

    async def metric(self, name: str, **labels: str) -> float | None:
        """The sum of the samples of that name which have these labels; None where there is none."""
        text = await self.metrics()
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None

    async def leads(self) -> bool:
        """Whether it is the leader."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            return await self.metric("leader_election_master_status") == 1
        return False

    def connections_to(self, port: int) -> set[int]:
        """The local ports of its open connections to a port of 127.0.0.1."""
        process = Path(f"/proc/{self.child.pid}")
        links = {str(each.readlink()) for each in process.glob("fd/*") if each.is_symlink()}
        found = set()
        for line in (process / "net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            local, remote, state, inode = fields[1], fields[2], fields[3], fields[9]
            established = state == "01" and int(remote.partition(":")[2], 16) == port
            if established and f"socket:[{inode}]" in links:
                found.add(int(local.partition(":")[2], 16))
        return found

    def logs(self) -> list[Json]:
        """Its log so far, line by line."""
        found = []
        for line in self.child.log.read_text(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"not JSON": line})
        return found

    async def _status(self, address: str, path: str) -> int | None:
        try:
            async with (
                aiohttp.ClientSession(timeout=LIMIT) as session,
                session.get(f"http://{address}{path}") as answer,
            ):
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def _text(self, address: str, path: str) -> str:
        async with (
            aiohttp.ClientSession(timeout=LIMIT) as session,
            session.get(f"http://{address}{path}") as answer,
        ):
            return await answer.text()


class Program(Instance):
    """An instance outside of a cluster."""

    def __init__(
        self, name: str, folder: Path, command: Command, kubeconfig: str, flags: dict[str, str]
    ) -> None:
        metrics, health, api = (f"127.0.0.1:{free_port()}" for _ in range(3))
        own = folder / name
        own.mkdir()
        for flag, content in command.files.items():
            _file_of(own, flag).write_text(yaml.safe_dump(content))
        (own / "kubeconfig").write_text(kubeconfig)
        ours = {
            "kubeconfig": str(own / "kubeconfig"),
            "metrics-bind-addr": metrics,
            "health-bind-addr": health,
            "api-bind-addr": api,
            **flags,
        }
        words = [
            *(sys.executable, "-m", "app", command.word),
            *(f"--{flag}={_file_of(own, flag)}" for flag in command.files),
            *command.arguments,
            *(f"--{flag}={value}" for flag, value in ours.items()),  # outside a cluster
        ]
        child = Child(name, words, folder, environment={"PATH": os.environ["PATH"]})
        super().__init__(child, metrics, health, ApiClient(f"http://{api}"))


def _file_of(folder: Path, flag: str) -> Path:
    """Named as in Gardener's Deployments, where it is mounted there."""
    return folder / ("dep-config.yaml" if flag == "config-file" else f"{flag}.yaml")


def server_pattern(port: int) -> str:
    """The value of --shoot-server-pattern that lets one shoot through: so scenarios do not act on each other's."""
    return re.escape("127.0.0.1") + f":{port}"
