"""What is measured: `dwd serve` as a process of its own, as in a pod, on the simulated seed, which is another one.

Its API speaks plain HTTP on loopback, and knows its callers by a file of tokens: the name of a caller is its token.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import yaml

from bench.perf import children
from bench.perf.children import ROOT, Child, child
from bench.perf.program import FLAGS, config, free_port

POD: Final = ROOT / "bench" / "perf" / "pod.py"
INTERVAL: Final = 10.0
"""Seconds between two looks at a shoot."""
NODES: Final = 10
ADMIN: Final = "admin-of-the-bench"
"""May do everything."""


@dataclass(frozen=True, slots=True)
class Seed:
    """The simulated seed, running."""

    load: Child
    folder: Path
    """Has what its clients need."""

    @property
    def reach(self) -> Mapping[str, str]:
        """Where it is."""
        found: Mapping[str, str] = json.loads((self.folder / "shoots.json").read_text())
        return found


@dataclass(frozen=True, slots=True)
class Target:
    """One process of the program, and its ports."""

    pid: int
    api: int
    health: int
    metrics: int


def name(number: int) -> str:
    """The namespace of a shoot."""
    return f"shoot--bench--{number:04d}"


@contextmanager
def seed(shoots: int, *, services: int = 0, decided: int = 0, cut_every: int = 1) -> Iterator[Seed]:
    """A seed with so many shoots of ten nodes; see `children.load`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="dwd-bench-")))
        running = children.load(
            folder, shoots, NODES, services=services, decided=decided, cut_every=cut_every
        )
        yield Seed(stack.enter_context(running), folder)


@contextmanager
def program(found: Seed, viewers: tuple[str, ...] = (), title: str = "program") -> Iterator[Target]:
    """The program on that seed, just started; `ADMIN` and these viewers may call.

    Args:
        found: the seed.
        viewers: their names, which are their tokens.
        title: what its files are called: another one for each that runs at the same time.
    """
    ports = [free_port() for _ in range(3)]
    binds = zip(("api", "health", "metrics"), ports, strict=True)
    prober = found.folder / f"{title}.yaml"
    prober.write_text(yaml.safe_dump(config(INTERVAL)))
    command = [str(POD), str(found.folder), "serve", f"--prober-config-file={prober}"]
    command += [f"--weeder-config-file={ROOT / 'config' / 'weeder.yaml'}", *FLAGS]
    command += [f"--shoot-server-pattern={found.reach['pattern']}", "--allow-plain-http"]
    command += ["--auth-mode=token", f"--auth-token-file={_tokens(found.folder, title, viewers)}"]
    command += [f"--{each}-bind-addr=127.0.0.1:{port}" for each, port in binds]
    address = urlsplit(found.reach["seed"])
    environ = {
        "KUBERNETES_SERVICE_HOST": address.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(address.port),
    }
    with child(title, command, found.folder, environ=environ) as running:
        try:
            yield Target(running.pid, *ports)
        finally:
            running.check()  # says why, where it has ended


def _tokens(folder: Path, title: str, viewers: tuple[str, ...]) -> Path:
    roles = {ADMIN: "admin", **dict.fromkeys(viewers, "viewer")}
    callers = [
        {"name": each, "role": role, "sha256": hashlib.sha256(each.encode()).hexdigest()}
        for each, role in roles.items()
    ]
    path = folder / f"{title}.tokens"
    path.write_text(yaml.safe_dump(callers))
    path.chmod(0o600)
    return path
