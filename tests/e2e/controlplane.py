"""etcd and kube-apiserver as child processes, with the faults that the scenarios need."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.e2e.api import Api, all_of
from tests.e2e.audit import POLICY, Audit
from tests.e2e.processes import Child, free_port
from tests.e2e.proxies import TcpProxy
from tests.support.certs import LOCAL, Authority, signing_pair

ADMIN = "admin-token"


class Etcd:
    """One etcd; several API servers share it, each under a prefix of its own."""

    def __init__(self, binary: Path, folder: Path, name: str, *, proxied: bool = False) -> None:
        """`proxied`: its API servers reach it through `path`, which can be slow."""
        port = free_port()
        self.path = TcpProxy(port) if proxied else None
        client, peer = (f"http://127.0.0.1:{each}" for each in (port, free_port()))
        self.url = client if self.path is None else f"http://127.0.0.1:{self.path.port}"
        self.child = Child(
            name,
            [
                str(binary),
                "--name=default",
                f"--data-dir={folder / name}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            folder,
        )

    async def start(self) -> None:
        """Starts it, again too, and waits until it is healthy."""
        if self.path is not None:
            await self.path.start()
        await self.child.start()
        await self.child.ready(self._healthy)

    async def standing(self) -> tuple[int, int]:
        """Its term, which each election of a leader counts on, and its revision, which each write does."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}/v3/maintenance/status", json={}) as answer,
        ):
            head = (await answer.json())["header"]
        return int(head["raft_term"]), int(head["revision"])

    def slow(self, seconds: float) -> None:
        """Every answer of a proxied one arrives that much later."""
        assert self.path is not None, "made without a proxy"
        self.path.slow(seconds)

    async def recover(self) -> None:
        """Ends whatever fault there is."""
        self.child.resume()
        if self.path is not None:
            await self.path.heal()
        if not self.child.running:
            await self.start()

    async def stop(self) -> None:
        """Ends it."""
        await self.child.stop(within=5)
        if self.path is not None:
            await self.path.stop()

    async def _healthy(self) -> bool:
        try:
            limit = aiohttp.ClientTimeout(total=2)
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.get(f"{self.url}/health") as answer,
            ):
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


class ControlPlane:
    """One kube-apiserver with a CA of its own; `api` is its administrator."""

    def __init__(self, binary: Path, folder: Path, name: str, storage: Etcd) -> None:
        self.name = name
        self.storage = storage
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.authority = Authority.create(f"{name}-ca")
        self.successor = Authority.create(f"{name}-ca-2")
        """The CA after a rotation; administrator and kubelets trust it from the beginning."""
        self._presented = self.authority
        self._own = own = folder / name
        own.mkdir()
        self._write_files(own)
        self.audit = Audit(own / "audit.log")
        self.child = Child(name, [str(binary), *self._flags(own)], folder)
        self.api = Api(self.url, self.authority.pem + self.successor.pem, ADMIN)

    def _write_files(self, own: Path) -> None:
        server = self.authority.server()
        private, public = signing_pair()
        for name, content in {
            "ca.crt": self.authority.pem,
            "apiserver.crt": server.certificate,
            "apiserver.key": server.key,
            "sa.key": private,
            "sa.pub": public,
            "tokens.csv": f'{ADMIN},admin,admin,"system:masters"\n'.encode(),
            "audit.yaml": POLICY.encode(),
        }.items():
            (own / name).write_bytes(content)

    def _flags(self, own: Path) -> list[str]:
        return [
            f"--etcd-servers={self.storage.url}",
            f"--etcd-prefix=/{self.name}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={own}",
            f"--tls-cert-file={own / 'apiserver.crt'}",
            f"--tls-private-key-file={own / 'apiserver.key'}",
            f"--client-ca-file={own / 'ca.crt'}",
            f"--token-auth-file={own / 'tokens.csv'}",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-issuer={self.url}",
            f"--service-account-signing-key-file={own / 'sa.key'}",
            f"--service-account-key-file={own / 'sa.pub'}",
            "--disable-admission-plugins=ServiceAccount",
            "--profiling=false",
            "--shutdown-watch-termination-grace-period=2s",
            f"--audit-policy-file={own / 'audit.yaml'}",
            f"--audit-log-path={own / 'audit.log'}",
            "--audit-log-mode=blocking",
        ]

    async def start(self) -> None:
        """Starts it, again too, and waits until it is ready."""
        await self.child.start()
        await self.ready()

    async def replace(self) -> None:
        """Ends it, and starts another one at another address; storage, keys and log are the same."""
        await self.child.stop(within=10)
        here = f"--secure-port={self.port}"
        self.port = free_port()
        there = f"--secure-port={self.port}"
        self.child.command = [there if each == here else each for each in self.child.command]
        self.url = self.api.url = f"https://127.0.0.1:{self.port}"
        await self.start()

    async def ready(self, within: float = 90) -> None:
        """Waits until it is ready."""
        await self.child.ready(self.api.answers, within)

    async def present(self, authority: Authority, within: float = 90) -> None:
        """Gets a new certificate, of this authority; returns when new connections are met with it.

        A server that runs takes it up by itself, within a minute; connections that are open go on with the former one.
        """
        server = authority.server()
        (self._own / "apiserver.key").write_bytes(server.key)
        (self._own / "apiserver.crt").write_bytes(server.certificate)
        self._presented = authority

        async def taken_up() -> bool:
            async with Api(self.url, authority.pem, ADMIN) as visitor:
                return await visitor.answers("/version")

        if self.child.running:
            await self.child.ready(taken_up, within)

    async def known_as(self, host: str) -> None:
        """Is reached under another name as well; it is restarted for the certificate that says so."""
        server = self.authority.server([*LOCAL, host])
        (self._own / "apiserver.key").write_bytes(server.key)
        (self._own / "apiserver.crt").write_bytes(server.certificate)
        await self.child.stop(within=10)
        await self.start()

    async def recover(self) -> None:
        """Ends whatever fault there is."""
        await self.storage.recover()
        self.child.resume()
        if not self.child.running:
            await self.child.start()
        await self.ready()
        if self._presented is not self.authority:
            await self.present(self.authority)

    async def stop(self) -> None:
        """Ends it; its storage must answer for that to go well."""
        await self.api.close()
        self.storage.child.resume()
        await self.child.stop(within=10)


class Planes:
    """A seed and its shoots' API servers."""

    def __init__(self, seed: ControlPlane, shoots: tuple[ControlPlane, ...]) -> None:
        self.seed = seed
        self.shoots = shoots


@asynccontextmanager
async def control_planes(
    assets: Path, folder: Path, *, shared: int, own_storage: int
) -> AsyncIterator[Planes]:
    """Starts a seed, `shared` shoots in the same etcd, and `own_storage` shoots with an etcd each, all at once."""
    server = assets / "kube-apiserver"
    common = Etcd(assets / "etcd", folder, "etcd")
    alone = [Etcd(assets / "etcd", folder, f"etcd-{n}", proxied=True) for n in range(own_storage)]
    seed = ControlPlane(server, folder, "seed", common)
    places = [*alone, *[common] * shared]
    shoots = [ControlPlane(server, folder, f"shoot-{n}", each) for n, each in enumerate(places)]
    try:
        await all_of(store.start() for store in (common, *alone))
        await all_of(plane.start() for plane in (seed, *shoots))
        yield Planes(seed, tuple(shoots))
    finally:
        await all_of(plane.stop() for plane in (seed, *shoots))
        await all_of(store.stop() for store in (common, *alone))


def assets_in(folder: str | None) -> Path | None:
    """The folder that has both binaries: `folder`, else one on the PATH; None where there is none."""
    beside = shutil.which("kube-apiserver")
    for each in (folder, beside and str(Path(beside).parent)):
        if each and all((Path(each) / name).is_file() for name in ("etcd", "kube-apiserver")):
            return Path(each)
    return None
