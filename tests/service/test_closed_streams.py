"""A process whose standard streams are closed or full: it works, and what it opens does not get their numbers."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import Child, eventually, free_port
from tests.service.lives import get
from tests.support.kubeconfigs import kubeconfig_of

pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

ROOT = Path(__file__).parents[2]
NOWHERE = kubeconfig_of("x", {"server": "http://127.0.0.1:1"}, {"token": "t"})


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-", "2>/dev/full"])
async def test_it_serves_and_ends_as_ever(tmp_path, streams):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(NOWHERE))
    health = free_port()
    words = [
        *("sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "app", "prober"),
        *(f"--config-file={ROOT}/config/prober.yaml", f"--kubeconfig={kubeconfig}"),
        *(f"--{name}-bind-addr=127.0.0.1:0" for name in ("api", "metrics")),
        f"--health-bind-addr=127.0.0.1:{health}",
    ]
    # With that variable there would be nothing left to write at the end.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = Child("prober", words, tmp_path, environment=buffered)

    async def alive():
        assert process.running
        try:
            status, _ = await get(("127.0.0.1", health), "/livez")
        except OSError:
            return False
        return status == 200

    await process.start()
    try:
        await eventually(alive, "it answers", within=60, every=0.25)
        process.signal(signal.SIGTERM)
        assert await process.ended(20) == 0
    finally:
        await process.kill()
