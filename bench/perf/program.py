"""The program as a process: Gardener's configuration and flags, on the simulated seed."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from bench.perf import scrape, sockets
from bench.perf.children import Child, child
from bench.perf.scrape import Scrape
from bench.perf.sides import Side

_POD: Final = Path("bench", "perf", "pod.py")
"""In its own tree, as a commit knows the names of its own modules."""
FLAGS: Final = (
    "--kube-api-qps=20",
    "--kube-api-burst=100",
    "--enable-leader-election=true",
    "--zap-log-level=INFO",
)
"""Gardener's."""


def config(interval: float) -> dict[str, Any]:
    """The prober file as Gardener writes it, with another interval."""

    def dependent(name: str, down: int, up: int, **more: str) -> dict[str, Any]:
        ref = {"kind": "Deployment", "name": name, "apiVersion": "apps/v1"}
        return {"ref": ref, "scaleDown": {"level": down}, "scaleUp": {"level": up} | more}

    return {
        "kubeConfigSecretName": "shoot-access-dependency-watchdog-probe",
        "probeInterval": f"{interval:g}s",
        "dependentResourceInfos": [
            dependent("kube-controller-manager", 1, 0),
            dependent("machine-controller-manager", 0, 1, initialDelay="30s"),
            dependent("cluster-autoscaler", 0, 2) | {"optional": True},
        ],
    }


@dataclass(frozen=True, slots=True)
class Program:
    """One instance of `prober`."""

    child: Child
    port: int
    """Of its metrics."""
    api: int
    """Of its REST API."""
    shoots: frozenset[int]
    """The ports of the shoots."""

    def scrape(self) -> Scrape:
        """Its metrics now."""
        self.child.check()
        return scrape.scrape(self.port)

    def connections(self) -> Mapping[int, sockets.Connection]:
        """Its open connections to shoots."""
        return sockets.of(self.child.pid, self.shoots)


@contextmanager
def program(
    side: Side,
    folder: Path,
    interval: float,
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda given: given,
    flags: Sequence[str] = (),
) -> Iterator[Program]:
    """The program of one side, on the seed whose files are in `folder`.

    Args:
        side: the tree.
        folder: has the files of its clients, and gets the program's.
        interval: seconds between two probes.
        change: makes another prober file of Gardener's.
        flags: further ones.
    """
    reach = json.loads((folder / "shoots.json").read_text())
    (folder / "prober.yaml").write_text(yaml.safe_dump(change(config(interval))))
    ports = [free_port() for _ in range(3)]
    binds = zip(("metrics", "health", "api"), ports, strict=True)
    command = [
        str(side.root / _POD),
        str(folder),
        "prober",
        f"--config-file={folder / 'prober.yaml'}",
        *FLAGS,
    ]
    command += [f"--{name}-bind-addr=127.0.0.1:{port}" for name, port in binds]
    command += [f"--shoot-server-pattern={reach['pattern']}", *flags]
    seed = urlsplit(reach["seed"])
    environ = {
        "KUBERNETES_SERVICE_HOST": seed.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(seed.port),
        "DWD_AUTH_MODE": "none",  # nobody calls its API
    }
    shoots = frozenset(urlsplit(each["server"]).port or 0 for each in reach["shoots"])
    with child("program", command, folder, root=side.root, environ=environ) as found:
        yield Program(found, ports[0], ports[2], shoots)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
