"""A process that was started without standard streams: it works, and what it opens does not get their numbers."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.processes import eventually, free_port

pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

ROOT = Path(__file__).parents[2]
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "x", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
}


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
async def test_it_serves_and_ends_as_ever(tmp_path, closed):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(NOWHERE))
    health = free_port()
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "app", "prober"),
        *(f"--config-file={ROOT}/config/prober.yaml", f"--kubeconfig={kubeconfig}"),
        *(f"--{name}-bind-addr=127.0.0.1:0" for name in ("api", "metrics")),
        f"--health-bind-addr=127.0.0.1:{health}",
        cwd=ROOT,
    )

    async def alive():
        assert process.returncode is None
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{health}/livez") as answer,
            ):
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    try:
        await eventually(alive, "it answers", within=20, every=0.25)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
