"""An operator's kubectl works on a server: what it prints, follows, scales, annotates."""

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from app.core.model.callers import GROUP
from tests.contract.arena import KINDS, REAL_ALONE, REAL_TIME
from tests.e2e import objects
from tests.e2e.landscape import PROBE_USER
from tests.e2e.people import Kubectl as ScenarioKubectl

pytestmark = [*REAL_TIME, pytest.mark.real]


class Kubectl(ScenarioKubectl):
    """The program, with a configuration and a cache of its own."""

    def __init__(self, binary: Path, folder: Path, config: str) -> None:
        self._home, file = folder, folder / "config"
        file.write_text(config)
        self._command = (str(binary), f"--kubeconfig={file}", "--namespace=default")
        self._environment = {"HOME": str(folder), "PATH": ""}

    @asynccontextmanager
    async def following(self, *words: str):
        """Runs it within; gives a way to its next line."""
        process = await asyncio.create_subprocess_exec(
            *(*self._command, *words), stdout=asyncio.subprocess.PIPE, env=self._environment
        )

        async def line() -> str:
            assert process.stdout is not None
            async with asyncio.timeout(10):
                return (await process.stdout.readline()).decode().strip()

        try:
            yield line
        finally:
            process.kill()
            await process.communicate()


@pytest.fixture
def kubectl(binary, arena, tmp_path):
    config = objects.kubeconfig("seed", arena.adapter.url, arena.ca.encode(), arena.admin_token)
    return Kubectl(binary, tmp_path, config)


@pytest.fixture
def namespaced(arena):
    return ("-n", arena.namespace)


def table(text):
    return [line.split() for line in text.splitlines()]


async def deployed(arena, name="a", **labels):
    body = objects.deployment(name, 2)
    body["metadata"]["labels"] = labels
    status = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    await arena.admin.create("Deployment", body | {"status": status})


async def test_what_happens_is_followed(arena, kubectl, namespaced):
    await deployed(arena)
    async with kubectl.following("get", "deploy", *namespaced, "-w", "-o", "name") as line:
        assert await line() == "deployment.apps/a"
        await deployed(arena, "b")
        assert await line() == "deployment.apps/b"


async def test_a_deployment_is_annotated_labelled_and_patched(arena, kubectl, namespaced):
    await deployed(arena)
    await kubectl("annotate", "deploy/a", "example.org/x=1", *namespaced)
    await kubectl("label", "deploy/a", "y=2", *namespaced)
    patch = json.dumps({"spec": {"replicas": 7}})
    await kubectl("patch", "deploy/a", "--type", "merge", "-p", patch, *namespaced)
    await kubectl("patch", "deploy/a", "-p", json.dumps({"spec": {"paused": True}}), *namespaced)
    found = await arena.admin.find("Deployment", "a")
    assert found["metadata"]["annotations"]["example.org/x"] == "1"
    assert found["metadata"]["labels"]["y"] == "2"
    assert (found["spec"]["replicas"], found["spec"]["paused"]) == (7, True)
    await kubectl("annotate", "deploy/a", "example.org/x-", *namespaced)
    found = await arena.admin.find("Deployment", "a")
    assert "example.org/x" not in found["metadata"].get("annotations", {})


def file_of(tmp_path, kind, spec, name="a"):
    file = tmp_path / f"{kind}-{name}.json"
    body = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": {"name": name}}
    file.write_text(json.dumps(body | {"spec": spec}))
    return ("-f", str(file))


async def test_a_pause_is_made_shown_edited_and_deleted(kubectl, namespaced, tmp_path):
    made = file_of(tmp_path, "Pause", {"reason": "work at etcd"})
    await kubectl("create", *made, *namespaced)
    for name in ("dwdp", "dwd"):
        head, row = table(await kubectl("get", name, *namespaced))
        assert head == ["NAME", "SCOPE", "UNTIL", "AUTHOR", "REASON", "AGE"]
        assert row[1:-1] == ["all", "work", "at", "etcd"]
    assert "work at etcd" in await kubectl("get", "pauses", "-A")
    patch = json.dumps({"spec": {"scope": "scaleDown"}})
    await kubectl("patch", "pause", "a", "--type=merge", "-p", patch, *namespaced)
    await kubectl("annotate", "pause", "a", "example.org/x=1", *namespaced)
    shown = json.loads(await kubectl("get", "pause", "a", "-o", "json", *namespaced))
    assert shown["spec"] == {"reason": "work at etcd", "scope": "scaleDown"}
    assert shown["metadata"]["annotations"] == {"example.org/x": "1"}
    assert "Scope:   scaleDown" in await kubectl("describe", "pause", "a", *namespaced)
    await kubectl("delete", "pause", "a", *namespaced)
    assert 'dependency-watchdog.gardener.cloud "a" not found' in await kubectl.refused(
        "get", "pause", "a", *namespaced
    )


async def test_a_scale_request_is_followed_until_it_has_succeeded(
    arena, kubectl, namespaced, tmp_path
):
    spec = {"direction": "Down", "reason": "by hand", "author": "jane"}
    await kubectl("create", *file_of(tmp_path, "ScaleRequest", spec), *namespaced)
    waits = ("wait", "scalerequest/a", "--for", "jsonpath={.status.phase}=Succeeded")
    waiting = asyncio.ensure_future(kubectl(*waits, *namespaced))
    status = {"phase": "Succeeded", "holdUntil": "2030-01-01T00:00:00.000000Z"}
    await arena.admin.patch("ScaleRequest", "a", {"status": status}, status=True)
    assert await waiting == f"scalerequest.{GROUP}/a condition met"
    _, row = table(await kubectl("get", "dwdsr", *namespaced))
    assert row[:5] == ["a", "Down", "Succeeded", "jane", status["holdUntil"]]


async def test_the_fields_of_a_definition_are_explained(kubectl):
    text = await kubectl("explain", "pauses")
    assert "KIND:       Pause" in text
    assert "To end a pause early, delete the object." in " ".join(text.split())
    text = await kubectl("explain", "scalerequests.spec.hold")
    assert "FIELD: hold <string>" in text
    assert "Default: 30m" in text


def as_kubeadm_makes_it(plane, pair):
    """Laid out as /etc/kubernetes/admin.conf."""
    pems = (plane.authority.pem, pair.certificate, pair.key)
    authority, certificate, key = (base64.b64encode(pem).decode() for pem in pems)
    cluster = {"certificate-authority-data": authority, "server": plane.url}
    credentials = {"client-certificate-data": certificate, "client-key-data": key}
    context = {"cluster": "kubernetes", "user": "kubernetes-admin"}
    content = {
        "apiVersion": "v1",
        "clusters": [{"cluster": cluster, "name": "kubernetes"}],
        "contexts": [{"context": context, "name": "kubernetes-admin@kubernetes"}],
        "current-context": "kubernetes-admin@kubernetes",
        "kind": "Config",
        "preferences": {},
        "users": [{"name": "kubernetes-admin", "user": credentials}],
    }
    return yaml.safe_dump(content).encode()


async def as_kubectl_makes_it(kubectl, folder, plane, pair):
    files = {"ca.crt": plane.authority.pem, "my.crt": pair.certificate, "my.key": pair.key}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    authority = f"--certificate-authority={folder / 'ca.crt'}"
    client = (f"--client-certificate={folder / 'my.crt'}", f"--client-key={folder / 'my.key'}")
    for words in (
        ("set-cluster", "shoot", f"--server={plane.url}", authority, "--embed-certs"),
        ("set-credentials", "probe", *client, "--embed-certs"),
        ("set-context", "probe@shoot", "--cluster=shoot", "--user=probe"),
        ("use-context", "probe@shoot"),
    ):
        await kubectl("config", *words, f"--kubeconfig={folder / 'made'}")  # the last one counts
    return (folder / "made").read_bytes()


@REAL_ALONE
@pytest.mark.parametrize("maker", ["kubectl", "kubeadm"])
async def test_a_kubeconfig_with_a_client_certificate_leads_into_a_shoot(
    arena, kubectl, tmp_path, maker
):
    shoot, plane = await arena.shoot(), arena.land.shoot
    pair = plane.authority.client(PROBE_USER)
    if maker == "kubeadm":
        content = as_kubeadm_makes_it(plane, pair)
    else:
        content = await as_kubectl_makes_it(kubectl, tmp_path, plane, pair)
    cluster = await arena.connector.connect(shoot.secret(content))
    assert (await cluster.leases()).leases == ()
    asked = plane.audit.requests(user=PROBE_USER)
    credential = [each.credential for each in asked if each.resource == "leases"][-1]
    assert credential.startswith("X509"), "by the certificate"
