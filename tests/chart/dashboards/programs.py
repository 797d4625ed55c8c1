"""The watchdog as the chart runs it: two replicas of the prober, one of the weeder, each a process of its own."""

import hashlib
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import yaml

from app.simulation.server import SimulatedServers
from tests.chart.dashboards.server import Target
from tests.e2e import program, weeder_objects
from tests.e2e.objects import Json
from tests.e2e.program import Command

PROBER_JOB, WEEDER_JOB = "dependency-watchdog-prober-metrics", "dependency-watchdog-weeder-metrics"
_TOKENS: Final = {"viewer": "a-token-that-reads", "admin": "a-token-that-may-do-everything"}
_CALLERS: Final = [
    {"name": role, "role": role, "sha256": hashlib.sha256(token.encode()).hexdigest()}
    for role, token in _TOKENS.items()
]
_FLAGS: Final = (
    "--auth-mode=token",
    "--allow-plain-http",
    "--kube-api-qps=20",
    "--kube-api-burst=100",
    "--enable-leader-election",
    "--leader-elect-lease-duration=9s",
    "--leader-elect-renew-deadline=7s",
    "--leader-elect-retry-period=1s",
)


class Replica(program.Program):
    """One process, with what is scraped of it and who may call it."""

    def __init__(
        self, name: str, job: str, folder: Path, servers: SimulatedServers, command: Command
    ) -> None:
        super().__init__(name, folder, command, servers.kubeconfig(), {})
        (folder / name / "auth-token-file.yaml").chmod(0o600)  # others may not read it
        self.target = Target(job, self._metrics)

    async def calls(self, path: str, who: str = "", body: Json | None = None) -> int:
        """The status of an answer of the API, to a token of this role or to none; 0: no answer."""
        method = "GET" if body is None else "PUT"
        try:
            return (await self.api.as_caller(_TOKENS.get(who)).call(method, path, body)).status
        except (aiohttp.ClientError, TimeoutError):
            return 0


def probers(folder: Path, servers: SimulatedServers) -> list[Replica]:
    """Two replicas; an endpoint probe is of what is well all the time, the seed's API server."""
    seed = yaml.safe_load(servers.kubeconfig())["clusters"][0]["cluster"]["server"]
    port = {"port": urlsplit(seed).port}
    probe = {"name": "seed", "host": urlsplit(seed).hostname, "tcpSocket": port, "periodSeconds": 1}
    settings = program.config(
        program.gardener_dependents(mcm_delay="0s"),
        interval="2s",
        initialDelay="0s",
        probeTimeout="3s",
        suspectProbeInterval="1s",
        successThreshold=2,
        endpointProbes=[probe],
        unknownKey="one warning about the configuration",
    )
    more = f"--shoot-server-pattern={servers.shoot_server_pattern}"
    command = _command("prober", settings, more)
    return [Replica(f"prober-{n}", PROBER_JOB, folder, servers, command) for n in range(2)]


def weeder(folder: Path, servers: SimulatedServers) -> Replica:
    """One replica; one of its selectors matches nothing."""
    settings = weeder_objects.settings()
    of_etcd = settings["servicesAndDependantSelectors"][weeder_objects.ETCD]
    of_etcd["podSelectors"].append({"matchLabels": {"role": "renamed-and-matches-nothing"}})
    return Replica("weeder-0", WEEDER_JOB, folder, servers, _command("weeder", settings))


def _command(word: str, settings: Json, *more: str) -> Command:
    files: dict[str, Any] = {"config-file": settings, "auth-token-file": _CALLERS}
    return Command(word, files, (*_FLAGS, *more))
