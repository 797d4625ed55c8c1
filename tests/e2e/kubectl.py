"""The real kubectl, as an administrator of the seed."""

import asyncio
import json
from pathlib import Path

import pytest

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
        self._home = home = stage.folder / f"kubectl-{stage.number:02}"
        home.mkdir(exist_ok=True)
        config = home / "config"
        config.write_text(program.admin_config(stage.seed.url, stage.seed.authority.pem, ADMIN))
        self._command = (str(binary), f"--kubeconfig={config}", f"--namespace={namespace}")
        self._environment = {"HOME": str(home), "PATH": ""}

    async def __call__(self, *words: str) -> str:
        """Runs it; returns what it printed."""
        code, out, problems = await self._run(*words)
        assert code == 0, problems
        return out.strip()

    async def _run(self, *words: str) -> tuple[int | None, str, str]:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        async with asyncio.timeout(60):
            out, problems = await process.communicate()
        return process.returncode, out.decode(), problems.decode()

    async def refused(self, *words: str) -> str:
        """Runs it, and expects that it fails; returns what it printed about that."""
        code, _, problems = await self._run(*words)
        assert code != 0, words
        return problems

    async def create(self, body: Json) -> str:
        """Creates an object from a file."""
        return await self("create", *self.file_of(body))

    def file_of(self, body: Json) -> tuple[str, str]:
        """Words that name a file with this object."""
        file = self._home / f"{body['kind']}-{body['metadata']['name']}.json"
        file.write_text(json.dumps(body))
        return ("-f", str(file))

    async def rows(self, *words: str) -> list[list[str]]:
        """What `kubectl get` prints, without the head, in words."""
        return [line.split() for line in (await self("get", *words)).splitlines()[1:]]

    async def token(self, account: str, audience: str | None) -> str:
        """A token of a ServiceAccount; for the API server itself where no audience is given."""
        made_for = () if audience is None else (f"--audience={audience}",)
        return await self("create", "token", account, *made_for)
