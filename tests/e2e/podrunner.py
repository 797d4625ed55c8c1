"""Runs pods of Deployments without a kubelet: as the API server has them, and as little of our own as can be.

A container gets the command, the arguments and the environment that its Deployment says, its volumes at their places
with the modes that a kubelet gives them, its ServiceAccount's token at the usual place, its user, no capabilities, and
a root that it cannot write to; its ports are its own (`sandbox`). Its image is this machine's Python with the program
of this checkout. That takes root and namespaces; a test is skipped where there are none.
"""

import contextlib
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from tests.e2e.api import Api, deployments
from tests.e2e.apiclient import ApiClient
from tests.e2e.podspec import Spec, expanded
from tests.e2e.processes import Child, eventually
from tests.e2e.program import Instance
from tests.e2e.sandbox import Sandbox

_NUMBERS = count(2)
_CHECKOUT: Final = Path(__file__).parents[2]
_ENTRYPOINT: Final = "/usr/local/bin/dependency-watchdog"
_API_SERVER: Final = ("127.0.0.1", 443)
METRICS, HEALTH, API = 9643, 9644, 8080

# The name and the mounts of a container, seen by nobody else. `$1` is its root, `$2` its name.
_ENTER: Final = """\
set -eu
echo "$2" >/proc/sys/kernel/hostname
mount -t tmpfs -o mode=0755 tmpfs "$1"
cd "$1"
mkdir -m 755 usr proc dev etc tmp run var
ln -s ../run var/run
for each in bin sbin lib lib64; do
  if [ -L "/$each" ]; then cp -P "/$each" "$each"
  elif [ -d "/$each" ]; then mkdir "$each"; mount --rbind "/$each" "$each"; fi
done
mount --rbind /proc proc
mount --rbind /dev dev
mount --bind -o ro /usr usr
"""


@dataclass(slots=True)
class Node:
    """Where pods run.

    Args:
        api: the seed, as its kubelets and controllers.
        port: of 127.0.0.1, where pods reach the seed.
        folder: for the files of pods, and their logs.
        shoots: ports of 127.0.0.1 of the shoots' API servers, by the names that pods know them by.
    """

    api: Api
    port: int
    folder: Path
    shoots: Mapping[str, int] = field(default_factory=dict)
    pods: list["Pod"] = field(default_factory=list)

    async def run(self, namespace: str, name: str) -> "Pod":
        """Starts one pod of a Deployment as it is now; returns when its readiness probe says so."""
        if os.geteuid():
            pytest.skip("containers need root here")
        spec = Spec.of(await self.api.get(f"{deployments(namespace)}/{name}"))
        number = next(_NUMBERS)
        own = self.folder / f"pod-{name}-{number}"
        own.mkdir(mode=0o755)
        pod = await Pod.make(self, spec, own, f"10.244.{number // 250}.{number % 250 + 2}")
        self.pods.append(pod)
        await pod.child.start()
        await pod.child.ready(pod.is_ready, within=30)
        return pod

    async def close(self) -> None:
        """Ends all pods."""
        for each in self.pods:
            await each.end()


class Pod(Instance):
    """One pod, whose only container is the watchdog."""

    def __init__(self, spec: Spec, own: Path, sandbox: Sandbox, ports: Mapping[int, int]) -> None:
        self.spec, self.sandbox = spec, sandbox
        self._own, self._ports = own, ports
        child = Child(own.name, (), own.parent)
        metrics, health = (f"127.0.0.1:{ports[each]}" for each in (METRICS, HEALTH))
        super().__init__(child, metrics, health, ApiClient(f"http://127.0.0.1:{ports[API]}"))

    @classmethod
    async def make(cls, node: Node, spec: Spec, own: Path, address: str) -> "Pod":
        """A pod with its network and its volumes; its container is not started."""
        sandbox = Sandbox(address)
        await sandbox.open()
        await sandbox.lets_out(*_API_SERVER, node.port)
        for number, port in enumerate(node.shoots.values()):
            await sandbox.lets_out(f"127.0.0.{number + 2}", 443, port)
        declared = {each["containerPort"] for each in spec.container.get("ports") or ()}
        wanted = declared | {METRICS, HEALTH, API}
        ports = {each: await sandbox.lets_in(each, forwarded=each == API) for each in wanted}
        pod = cls(spec, own, sandbox, ports)
        await pod._furnish(node)
        return pod

    async def _furnish(self, node: Node) -> None:
        for name in ("root", "volumes", "bin"):
            (self._own / name).mkdir(mode=0o755)
        for name in ("dependency-watchdog", "dwd"):
            (self._own / "bin" / name).symlink_to(Path(sys.prefix) / "bin" / name)
        lines = [f"127.0.0.{n + 2} {name}" for n, name in enumerate(node.shoots)]
        (self._own / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        (self._own / "enter").write_text(self._script())
        await self.spec.write_volumes(node.api, self._own / "volumes")
        environment = self._environment()
        self.child = Child(
            self.name, self._command(environment), self._own.parent, environment=environment
        )

    # What it is started with.

    def _command(self, environment: Mapping[str, str]) -> list[str]:
        user, group = self.spec.security("runAsUser"), self.spec.security("runAsGroup")
        extra, said = self.spec.group, self.spec.container
        groups = [f"--groups={extra}"] if extra is not None else ["--clear-groups"]
        words = [*said.get("command", [_ENTRYPOINT]), *said.get("args", [])]
        return [
            *self.sandbox.words,
            *("unshare", "--mount", "--uts", "--propagation=private"),
            *("/bin/sh", str(self._own / "enter"), str(self._own / "root"), self.name),
            *("chroot", str(self._own / "root"), "/usr/bin/setpriv", "--pdeathsig=KILL"),
            *(f"--reuid={user or 0}", f"--regid={group or 0}", *groups),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
            *(expanded(word, environment) for word in words),
        ]

    def _script(self) -> str:
        lines = [_ENTER, *_brought(), *_bind(self._own / "bin", "/usr/local/bin")]
        lines += _bind(self._own / "hosts", "/etc/hosts")
        for path, name in sorted(self.spec.mounts.items()):
            lines += _bind(self._own / "volumes" / name, path)
        if self.spec.read_only:
            lines.append("mount -o remount,ro .")
        lines.append('cd /\nshift 2\nexec "$@"\n')
        return "\n".join(lines)

    def _environment(self) -> dict[str, str]:
        host, port = _API_SERVER
        found = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOSTNAME": self.name,
            "HOME": "/",
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": str(port),
        }
        fields = {
            "metadata.name": self.name,
            "metadata.namespace": self.spec.namespace,
            "status.podIP": self.sandbox.address,
        }
        return found | self.spec.environment(fields)

    # What a kubelet asks and does.

    async def is_ready(self) -> bool:
        """What its readiness probe says; without one, what /readyz says."""
        probe = (self.spec.container.get("readinessProbe") or {}).get("httpGet") or {}
        path, port = probe.get("path", "/readyz"), self._number(probe.get("port", HEALTH))
        return await self._status(f"127.0.0.1:{self._ports[port]}", path) == 200

    def _number(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        named = {each.get("name"): each["containerPort"] for each in self.spec.container["ports"]}
        return int(named[port])

    def port(self, port: int | str) -> int:
        """Where the machine reaches a port of the pod, by number or by the name in the Deployment."""
        return self._ports[self._number(port)]

    async def leads(self) -> bool:
        """Whether it is the leader, of both loops where it runs both."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            return bool(await self.metric("leader_election_master_status"))
        return False

    async def until_leads(self, within: float = 20) -> None:
        """Waits until it is the leader."""
        await eventually(self.leads, f"{self.name} leads", within=within)

    async def delete(self) -> int:
        """SIGTERM, as for a pod that is deleted; returns the exit code, in the time that the pod has for it."""
        self.child.signal(signal.SIGTERM)
        code = await self.child.ended(self.spec.pod["terminationGracePeriodSeconds"])
        await self.end()
        return code

    async def end(self) -> None:
        """SIGKILL, and its network goes."""
        await self.child.kill()
        await self.sandbox.close()
        shutil.rmtree(self._own, ignore_errors=True)


def _brought() -> Sequence[str]:
    """Mounts of what stands for the image: this Python, its packages, and the checkout."""
    lines: list[str] = []
    for file in ("/etc/ld.so.cache", "/etc/ssl", "/etc/localtime", "/etc/nsswitch.conf"):
        if Path(file).exists():
            lines += _bind(Path(file).resolve(), file)
    there = [Path("/usr")]
    for path in (Path(sys.base_prefix), _CHECKOUT, Path(sys.prefix)):
        if not any(path.is_relative_to(each) for each in there):
            lines += _bind(path, str(path))
            there.append(path)
    return lines


def _bind(source: Path, path: str) -> Sequence[str]:
    where, what = shlex.quote("." + path), shlex.quote(str(source))
    if source.is_file():
        made = f"mkdir -p {shlex.quote('.' + str(Path(path).parent))}; : >{where}"
    else:
        made = f"mkdir -p {where}"
    return [made if not path.startswith("/usr/") else ":", f"mount --bind -o ro {what} {where}"]
