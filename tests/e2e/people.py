"""Pauses and ScaleRequests as the seed has them, and how people see them."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e import program
from tests.e2e.api import people
from tests.e2e.apiclient import ApiClient
from tests.e2e.controlplane import ADMIN
from tests.e2e.objects import Json
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage


async def found(stage: Stage, plural: str, name: str) -> Json | None:
    """A Pause or ScaleRequest of the stage's shoot; None where there is none of that name."""
    return await stage.seed.api.find(f"{people(plural, stage.shoot.namespace)}/{name}")


async def request_with_uid(stage: Stage, uid: str) -> Json:
    """The ScaleRequest of the stage's shoot that is an operation of the API."""
    items = await stage.seed.api.items(people("scalerequests", stage.shoot.namespace))
    (one,) = [each for each in items if each["metadata"]["uid"] == uid]
    return one


async def until_phase(stage: Stage, name: str, phase: str, within: float) -> Json:
    """Waits until a ScaleRequest is in this phase; returns it."""

    async def is_so() -> Json | None:
        one = await found(stage, "scalerequests", name)
        return one if one and (one.get("status") or {}).get("phase") == phase else None

    what = f"ScaleRequest {name} is {phase}"
    return await eventually(is_so, what, within=within, every=0.1) or {}


async def use_every_right(client: ApiClient, stage: Stage) -> None:
    """Lets the API of a leader make, replace and delete a Pause, and a ScaleRequest that has nothing to scale."""
    shoot, why = f"shoots/{stage.shoot.namespace}", {"reason": "a proof"}
    assert (await client.put(f"{shoot}/pause", why)).status == 200
    assert (await client.put(f"{shoot}/pause", {**why, "scope": "scaleDown"})).status == 200

    async def end_is_shown() -> bool:
        one = await found(stage, "pauses", "api") or {}
        return "until" in (one.get("status") or {})

    await eventually(end_is_shown, "the leader shows the end of the pause", within=10)
    assert (await client.delete(f"{shoot}/pause")).status == 204
    answer = await client.post(f"{shoot}/scale", {**why, "direction": "up"})
    assert answer.status == 202, answer
    name = (await request_with_uid(stage, answer.body["id"]))["metadata"]["name"]
    await until_phase(stage, name, "Succeeded", within=15)
    assert (await client.delete(f"{shoot}/hold")).status == 204
    assert await found(stage, "scalerequests", name) is None


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
