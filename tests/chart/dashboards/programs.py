"""The watchdog as the chart runs it: two replicas of the prober, one of the weeder, each a process of its own."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import yaml

from app.simulation.server import SimulatedServers
from tests.chart.dashboards.server import Target
from tests.e2e.processes import Child, free_port

PROBER_JOB, WEEDER_JOB = "dependency-watchdog-prober-metrics", "dependency-watchdog-weeder-metrics"
ROOT: Final = Path(__file__).parents[3]
_TOKENS: Final = {"viewer": "a-token-that-reads", "admin": "a-token-that-may-do-everything"}
_PROBER: Final = {
    "kubeConfigSecretName": "shoot-access-dependency-watchdog-probe",
    "probeInterval": "2s",
    "initialDelay": "0s",
    "probeTimeout": "3s",
    "suspectProbeInterval": "1s",
    "successThreshold": 2,
    "dependentResourceInfos": [
        {
            "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "optional": False,
            "scaleUp": {"level": up, "timeout": "10s"},
            "scaleDown": {"level": down},
            "unknownKey": "one warning about the configuration",
        }
        for name, up, down in (
            ("kube-controller-manager", 0, 1),
            ("machine-controller-manager", 1, 0),
            ("cluster-autoscaler", 2, 0),
        )
    ],
}
_ROLE: Final = {"key": "gardener.cloud/role", "operator": "In", "values": ["controlplane"]}
_WEEDER: Final = {
    "watchDuration": "5m",
    "servicesAndDependantSelectors": {
        "etcd-main-client": {
            "podSelectors": [
                {
                    "matchExpressions": [
                        _ROLE,
                        {"key": "role", "operator": "In", "values": ["apiserver"]},
                    ]
                },
                {"matchLabels": {"role": "renamed-and-matches-nothing"}},
            ]
        },
        "kube-apiserver": {
            "podSelectors": [
                {
                    "matchExpressions": [
                        _ROLE,
                        {"key": "role", "operator": "NotIn", "values": ["main", "apiserver"]},
                    ]
                }
            ]
        },
    },
}


class Program:
    """One replica, and a client of its API."""

    def __init__(self, name: str, words: list[str], folder: Path, job: str) -> None:
        metrics, health, api = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.target = Target(job, metrics)
        self._api = f"http://{api}"
        self._health = f"http://{health}"
        flags = {"metrics": metrics, "health": health, "api": api}
        bound = [f"--{what}-bind-addr={where}" for what, where in flags.items()]
        self.child = Child(name, [sys.executable, "-m", "app", *words, *bound], folder)

    async def start(self) -> None:
        """Returns when it is ready."""
        await self.child.start()
        await self.child.ready(self._ready)

    async def _ready(self) -> bool:
        return await self._asked(self._health + "/readyz", "", None) == 200

    async def calls(self, path: str, who: str = "", body: Any = None) -> int:
        """The status of an answer of the API, to a token of this role or to none; 0: no answer."""
        return await self._asked(self._api + path, who, body)

    async def _asked(self, url: str, who: str, body: Any) -> int:
        return await asyncio.to_thread(_ask, url, _TOKENS.get(who), body)


def _ask(url: str, token: str | None, body: Any) -> int:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if data else {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = Request(url, data=data, headers=headers)  # noqa: S310  loopback
    if data is not None:
        request.method = "PUT"
    try:
        with urlopen(request, timeout=5) as answer:  # noqa: S310  loopback
            return int(answer.status)
    except HTTPError as error:
        return int(error.code)
    except OSError:
        return 0


def probers(folder: Path, servers: SimulatedServers, *, per_shoot: bool = True) -> list[Program]:
    """Two replicas."""
    words = [
        "prober",
        f"--config-file={_written(folder / 'prober.yaml', _PROBER | _probing(servers))}",
        f"--shoot-server-pattern={servers.shoot_server_pattern}",
        f"--per-shoot-metrics={str(per_shoot).lower()}",
        *_shared(folder, servers),
    ]
    return [Program(f"prober-{number}", words, folder, PROBER_JOB) for number in range(2)]


def _probing(servers: SimulatedServers) -> dict[str, Any]:
    """An endpoint probe of what is well all the time, the seed's API server."""
    config = yaml.safe_load(servers.kubeconfig())
    asked = urlsplit(config["clusters"][0]["cluster"]["server"])
    probe = {"name": "seed", "host": asked.hostname, "tcpSocket": {"port": asked.port}}
    return {"endpointProbes": [{**probe, "periodSeconds": 1}]}


def weeder(folder: Path, servers: SimulatedServers) -> Program:
    """One replica."""
    words = [
        "weeder",
        f"--config-file={_written(folder / 'weeder.yaml', _WEEDER)}",
        *_shared(folder, servers),
    ]
    return Program("weeder-0", words, folder, WEEDER_JOB)


def _shared(folder: Path, servers: SimulatedServers) -> list[str]:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(servers.kubeconfig())
    callers = [
        {"name": role, "role": role, "sha256": hashlib.sha256(token.encode()).hexdigest()}
        for role, token in _TOKENS.items()
    ]
    tokens = _written(folder / "tokens.yaml", callers)
    tokens.chmod(0o600)
    return [
        f"--kubeconfig={kubeconfig}",
        "--auth-mode=token",
        "--allow-plain-http",
        f"--auth-token-file={tokens}",
        "--kube-api-qps=20",
        "--kube-api-burst=100",
        "--enable-leader-election",
        "--leader-elect-lease-duration=9s",
        "--leader-elect-renew-deadline=7s",
        "--leader-elect-retry-period=1s",
    ]


def _written(path: Path, content: Any) -> Path:
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path
