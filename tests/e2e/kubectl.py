"""The real kubectl, as an administrator of the seed."""

import asyncio
import json
from pathlib import Path

import pytest

from app.core.model.overrides import OVERRIDES
from tests.e2e import program
from tests.e2e.controlplane import ADMIN
from tests.e2e.objects import Json
from tests.e2e.stage import Stage


class Kubectl:
    """The program, with a configuration of its own; `namespace` is where it works."""

    def __init__(self, stage: Stage, namespace: str) -> None:
        binary = Path(stage.seed.child.command[0]).with_name("kubectl")
        if not binary.is_file():
            pytest.skip("kubectl is not there (hack/kube-assets kubectl)")
        home = stage.folder / f"kubectl-{stage.number:02}"
        home.mkdir(exist_ok=True)
        config = home / "config"
        config.write_text(program.admin_config(stage.seed.url, stage.seed.authority.pem, ADMIN))
        self._command = (str(binary), f"--kubeconfig={config}", f"--namespace={namespace}")
        self._environment = {"HOME": str(home), "PATH": ""}

    async def __call__(self, *words: str) -> str:
        """Runs it; returns what it printed."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        async with asyncio.timeout(30):
            out, problems = await process.communicate()
        assert process.returncode == 0, problems.decode()
        return out.decode().strip()

    async def create_overrides(self, key: str, value: Json | str) -> None:
        """Makes the ConfigMap, with one key."""
        literal = f"--from-literal={key}={_text(value)}"
        await self("create", "configmap", OVERRIDES, literal)

    async def edit(self, key: str, value: Json | str | None) -> None:
        """Sets or removes one key of the ConfigMap."""
        data = {key: None if value is None else _text(value)}
        patch = json.dumps({"data": data})
        await self("patch", "configmap", OVERRIDES, "--type=merge", f"--patch={patch}")

    async def token(self, account: str, audience: str | None) -> str:
        """A token of a ServiceAccount; for the API server itself where no audience is given."""
        made_for = () if audience is None else (f"--audience={audience}",)
        return await self("create", "token", account, *made_for)


def _text(value: Json | str) -> str:
    return value if isinstance(value, str) else json.dumps(value)
