"""The opponent: the real kube-controller-manager of a shoot, a process while its Deployment in the seed has replicas.

It is made as quick as one can be: it starts the moment the Deployment has replicas, without the 15 s that a new one
waits for the Lease of the one before (`--leader-elect=false`), and it is told to end a second after the Deployment was
scaled to 0, as one whose pod goes through a Deployment, a ReplicaSet and a kubelet. Of its controllers those run that
judge nodes and evict pods; the others would only take CPU time.
"""

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp

from tests.e2e import objects
from tests.e2e.api import Api, ApiError, Json, deployments
from tests.e2e.controlplane import ADMIN, ControlPlane, assets_in
from tests.e2e.objects import KCM
from tests.e2e.processes import Child, DidNotStart, free_port
from tests.e2e.stage import Stage

GRACE = 40
"""Its node monitor grace period, seconds; Gardener sets it, since 1.32 its own default is 50."""
CONTROLLERS = "node-lifecycle-controller,taint-eviction-controller"
POD_STOPS_AFTER = 1.0
"""Seconds from a Deployment at 0 to the SIGTERM for its pod."""
TERMINATION_GRACE = 30.0
"""Seconds from SIGTERM to SIGKILL, as a pod has by default."""


@dataclass(slots=True)
class Life:
    """One process, from its start to its end; instants in seconds since the epoch."""

    started: float
    ready: float | None = None
    """When it was healthy; None if it never was."""
    gone: float | None = None
    """When the process had ended."""


class Opponent:
    """Keeps the process and the Deployment's status in line with its `spec.replicas`; a context manager."""

    def __init__(self, binary: Path, folder: Path, stage: Stage) -> None:
        self.lives: list[Life] = []
        self.deaths: list[int | None] = []
        """Exit codes with which it ended although nobody had told it to."""
        self.child = _child(binary, folder, stage)
        self._health = Api(_address(self.child), stage.plane.authority.pem, "", timeout=2)
        self._seed = stage.seed.api
        self._others = stage.controller.left_to_others
        self._key = (stage.shoot.namespace, KCM)
        self._wanted, self._generation = 0, 0
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._others.add(self._key)
        collection = deployments(self._key[0])
        following = self._seed.follow(collection, self._seen)
        self._tasks = [asyncio.create_task(following), asyncio.create_task(self._live())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if error is not None:
            error.add_note(f"--- {self.child.log.name}, lives: {self.lives}\n{self.child.tail()}")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.child.kill()
        await self._health.close()
        self._others.discard(self._key)

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self.child.running

    async def healthy(self) -> bool:
        """Whether it says of itself that it is."""
        return await self._health.answers("/healthz")

    def _seen(self, event: str, item: Json) -> None:
        if event not in {"ADDED", "MODIFIED"} or item["metadata"]["name"] != KCM:
            return
        self._wanted = item["spec"]["replicas"]
        self._generation = item["metadata"]["generation"]
        self._changed.set()

    async def _live(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._wanted and not self.running:
                await self._start()
            elif not self._wanted and self.running:
                await self._end()
            await self._report()

    async def _start(self) -> None:
        life = Life(started=time.time())
        self.lives.append(life)
        await self.child.start()
        self._tasks.append(asyncio.create_task(self._until_gone(life)))
        with contextlib.suppress(DidNotStart):  # its end is noticed by the task above
            await self.child.ready(self.healthy)
            life.ready = time.time()

    async def _end(self) -> None:
        await asyncio.sleep(POD_STOPS_AFTER)
        await self.child.stop(within=TERMINATION_GRACE)

    async def _until_gone(self, life: Life) -> None:
        code = await self.child.ended(within=3600)
        life.gone = time.time()
        if self._wanted:
            self.deaths.append(code)
        self._changed.set()

    async def _report(self) -> None:
        """Writes the status, until that is accepted or there is something newer to write."""
        up = int(self.running and self.lives[-1].ready is not None)
        status = {
            "observedGeneration": self._generation,
            "replicas": int(self.running),
            "updatedReplicas": int(self.running),
            "readyReplicas": up,
            "availableReplicas": up,
        }
        path = f"{deployments(self._key[0])}/{KCM}/status"
        try:
            await self._seed.patch(path, {"status": status})
        except (aiohttp.ClientError, TimeoutError, ApiError):
            await asyncio.sleep(0.2)
            self._changed.set()


def manager_in(folder: str | None) -> Path | None:
    """The binary, where it and those of the control planes are in one folder; None where one is missing."""
    assets = assets_in(folder)
    found = assets / KCM if assets else None
    return found if found and found.is_file() else None


def _child(binary: Path, folder: Path, stage: Stage) -> Child:
    name = f"manager-{stage.shoot.namespace[-3:]}"
    own = folder / name
    own.mkdir()
    flags = _flags(own, stage.plane, free_port())
    environment = {"PATH": os.environ["PATH"], "HOME": str(own)}
    return Child(name, [str(binary), *flags], folder, environment=environment)


def _flags(own: Path, plane: ControlPlane, port: int) -> list[str]:
    pair = plane.authority.server()
    (own / "tls.crt").write_bytes(pair.certificate)
    (own / "tls.key").write_bytes(pair.key)
    config = objects.kubeconfig(plane.name, plane.url, plane.authority.pem, ADMIN)
    (own / "kubeconfig").write_text(config)
    return [
        f"--kubeconfig={own / 'kubeconfig'}",
        f"--controllers={CONTROLLERS}",
        f"--node-monitor-grace-period={GRACE}s",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={own / 'tls.crt'}",
        f"--tls-private-key-file={own / 'tls.key'}",
        "--profiling=false",
        "--v=2",
    ]


def _address(child: Child) -> str:
    port = next(flag for flag in child.command if flag.startswith("--secure-port="))
    return f"https://127.0.0.1:{port.partition('=')[2]}"
