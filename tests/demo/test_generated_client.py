"""A client that a generator makes of `docs/openapi.json`, whole and without a warning; and what the demo answers it."""

import ast
import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.demo.test_program import FREE, ROOT, demo
from tests.demo.typed import QUIET
from tests.service.lives import get

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,  # files of other processes are read
]

DOCUMENT = ROOT / "docs" / "openapi.json"
CALLS = {
    "read_status": [200, "Status"],
    "list_shoots": [200, "ShootList"],
    "read_shoot": [200, "Shoot"],
    "list_nodes": [200, "NodeList"],
    "list_history": [200, "HistoryList"],
    "list_resources": [200, "ResourceList"],
    "probe_shoot": [202, "Look"],
    "list_weeders": [200, "WeederList"],
    "read_config": [200, "Config"],
    "set_log_level": [200, "LogLevelNow"],
    "pause_shoot": [200, "Pause"],
    "resume_shoot": [204, "NoneType"],
    "scale_shoot": [202, "Operation"],
    "read_operation": [404, "ProblemDetails"],
    "list_operations": [200, "OperationList"],
    "end_hold": [204, "NoneType"],
    "list_audit": [200, "AuditList"],
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The folder with the package `generated_client`, and what the generator said."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "config.yaml").write_text("post_hooks: []\n")  # which would format it
    words = [
        f"--path={DOCUMENT}",
        "--output-path=generated_client",
        "--meta=none",
        "--config=config.yaml",
        "--fail-on-warning",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return folder, done


def test_it_is_generated_without_a_warning(client):
    _, done = client
    assert (done.returncode, done.stdout, done.stderr) == (0, "Generating generated_client\n", "")


def test_it_has_every_shape_and_every_call(client):
    folder, _ = client
    document = json.loads(DOCUMENT.read_text())
    models = ast.parse((folder / "generated_client" / "models" / "__init__.py").read_text())
    shapes = {
        each.name for node in models.body if isinstance(node, ast.ImportFrom) for each in node.names
    }
    assert document["components"]["schemas"].keys() <= shapes
    calls = {path.stem for path in (folder / "generated_client" / "api").glob("*/*.py")} - {
        "__init__"
    }
    named = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert calls == {"".join(f"_{c.lower()}" if c.isupper() else c for c in each) for each in named}


async def healthy(address):
    """Returns when both shoots are."""
    async with asyncio.timeout(25):
        while True:
            with suppress(OSError):
                _, body = await get(address, "/api/v1/shoots?state=Healthy")
                if json.loads(body).get("metadata", {}).get("total") == 2:
                    return
            await asyncio.sleep(0.3)


async def test_the_demo_answers_it_with_what_the_document_says(client, tmp_path):
    folder, _ = client
    scenario = tmp_path / "quiet.yaml"
    scenario.write_text(QUIET)
    async with demo(*FREE, "--shoots=2", "--nodes=2", f"--scenario={scenario}") as running:
        address = (await running.line(r"http://(\S+):(\d+)/;")).groups()
        await healthy(address)
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", str(ROOT / "tests" / "demo" / "calling.py")),
            "http://{}:{}".format(*address),
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, err = await done.communicate()
    assert done.returncode == 0, err.decode()
    found = json.loads(out)
    assert found["calls"] == CALLS
    assert found["total"] == 2
    assert found["state"] == ["ShootState", "Healthy"]
    assert found["resources"] == [
        "cluster-autoscaler",
        "kube-controller-manager",
        "machine-controller-manager",
    ]
    assert (found["lease"], found["entry"]) == ("LeaseState", "HistoryType")
    assert found["pause"] == ["all", "from a generated client", "anonymous"]
    assert (found["paused"], found["resumed"]) == ("from a generated client", None)
    assert found["plan"] == ["PlannedAction"]
    assert (found["trigger"], found["operations"]) == ("manual", True)
    assert found["audited"] == [
        "end-hold",
        "log-level",
        "pause",
        "plan",
        "probe",
        "resume",
        "scale",
    ]
    assert found["problem"] == ["urn:dependency-watchdog:problem:not-found", 404]
