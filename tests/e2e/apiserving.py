"""An API as it is served in a cluster: through TLS, and for those whom the seed knows."""

import socket
from pathlib import Path

from tests.e2e.apiclient import ApiClient
from tests.e2e.processes import eventually, free_port
from tests.e2e.program import Program, quick
from tests.e2e.stage import Stage
from tests.support.certs import Authority

_NOWHERE = ("192.0.2.1", 9)  # reserved for documentation; nothing is sent


def own_address() -> str:
    """An address of this machine that others could reach; loopback where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect(_NOWHERE)
        except OSError:
            return "127.0.0.1"
        return str(sender.getsockname()[0])


class Serving:
    """The certificate of a stage's programs, and how their APIs are reached."""

    def __init__(self, stage: Stage, host: str = "127.0.0.1") -> None:
        self.stage, self.host = stage, host
        self.authority = Authority.create(f"api-ca-{stage.number:02}")
        pair = self.authority.server([host])
        self.key = pair.key
        self._certificate_file = _secret_file(
            stage.folder / f"{stage.garden}.crt", pair.certificate
        )
        self._key_file = _secret_file(stage.folder / f"{stage.garden}.key", pair.key)
        self.ca_file = stage.folder / f"{stage.garden}-ca.crt"
        self.ca_file.write_bytes(self.authority.pem)

    async def prepare(self, **flags: str) -> Program:
        """An instance that asks the seed who calls; not yet started.

        Its `api` is that of somebody without a token.
        """
        where = f"{self.host}:{free_port()}"
        made = await self.stage.prepare(
            quick(),
            auth_mode="kubernetes",
            api_bind_addr=where,
            tls_cert_file=str(self._certificate_file),
            tls_private_key_file=str(self._key_file),
            **flags,
        )
        made.api = ApiClient(f"https://{where}", ca=self.authority.pem)
        return made

    async def start(self, **flags: str) -> Program:
        """The same, started and ready."""
        made = await self.prepare(**flags)
        await made.start()
        return made

    async def leader(self, **flags: str) -> Program:
        """The same, once it leads."""
        made = await self.start(**flags)
        await eventually(made.leads, f"{made.name} leads", within=20)
        return made


def _secret_file(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path
