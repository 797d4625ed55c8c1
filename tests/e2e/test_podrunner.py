"""The pod runner: what a container finds is what a kubelet would have given it."""

import json
import sys

from tests.e2e.api import Json, deployments
from tests.e2e.parallel import scenario
from tests.e2e.podrunner import Node, Pod
from tests.e2e.stage import Stage

NAME = "looks-around"
USER = 65532
LOOK = """
import json, os, stat, socket
def about(path):
    found = os.stat(path)
    return [oct(stat.S_IMODE(found.st_mode)), found.st_uid, found.st_gid]
def refusal(path):
    try:
        open(path, "w")
    except OSError as error:
        return error.strerror
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "ids": [os.getuid(), os.getgid(), os.getgroups()],
    "capabilities": [int(status[each], 16) for each in ("CapEff", "CapPrm", "CapBnd", "CapInh")],
    "no new privileges": status["NoNewPrivs"].strip(),
    "host": socket.gethostname(),
    "config": [about("/etc/app/config/file"), open("/etc/app/config/file").read()],
    "key": [about("/etc/app/key/tls.key"), os.readlink("/etc/app/key/tls.key")],
    "token": about(account + "token"),
    "namespace": open(account + "namespace").read(),
    "root": refusal("/file"), "volume": refusal("/etc/app/config/file"), "scratch": refusal("/scratch/file"),
    "environment": {name: os.environ.get(name) for name in ("POD_IP", "JOINED", "KUBERNETES_SERVICE_PORT", "SECRET")},
    "addresses": socket.getaddrinfo("kube-apiserver.shoot.svc", 443)[0][4],
}))
"""


@scenario()
async def test_a_container_finds_what_a_kubelet_would_have_given_it(stage: Stage) -> None:
    found = await looked_around(stage, fs_group=USER)
    assert found["ids"] == [USER, USER, [USER]]
    assert found["capabilities"] == [0, 0, 0, 0]
    assert found["no new privileges"] == "1"
    assert found["host"].startswith(f"pod-{NAME}-")
    assert found["config"] == [["0o644", 0, USER], "content"]
    assert found["key"] == [["0o440", 0, USER], "..data/tls.key"]
    assert found["token"] == ["0o640", USER, USER]
    assert found["namespace"] == f"{stage.garden}-pods"
    read_only = "Read-only file system"
    assert (found["root"], found["volume"], found["scratch"]) == (read_only, read_only, None)
    environment = found["environment"]
    assert environment["JOINED"] == f"at {environment['POD_IP']}, not $(POD_IP) or $(NOBODY)"
    assert environment["SECRET"] == "a key"
    assert environment["KUBERNETES_SERVICE_PORT"] == "443"
    assert found["addresses"] == ["127.0.0.2", 443]


async def looked_around(stage: Stage, *, fs_group: int | None, mode: int = 0o400) -> Json:
    """What a program says that a Deployment runs."""
    api, garden = stage.seed.api, f"{stage.garden}-pods"
    await api.create("/api/v1/namespaces", {"metadata": {"name": garden}})
    inside = f"/api/v1/namespaces/{garden}"
    for kind, body in {
        "serviceaccounts": {},
        "configmaps": {"data": {"file": "content"}},
        "secrets": {"stringData": {"tls.key": "a key"}},
    }.items():
        await api.create(f"{inside}/{kind}", {"metadata": {"name": NAME}, **body})
    await api.create(deployments(garden), deployment(fs_group, mode))
    node = Node(api, stage.seed.port, stage.folder, {"kube-apiserver.shoot.svc": stage.plane.port})
    pod = await node.prepare(await node.deployment(garden, NAME))
    try:
        return await said(pod)
    finally:
        await node.close()


async def said(pod: Pod) -> Json:
    await pod.child.start()
    code = await pod.child.ended(15)
    assert code == 0, pod.child.tail()
    found: Json = json.loads(pod.child.tail())
    return found


def deployment(fs_group: int | None, mode: int) -> Json:
    security: Json = {"runAsUser": USER, "runAsGroup": USER}
    if fs_group is not None:
        security["fsGroup"] = fs_group
    secret = {"secretKeyRef": {"name": NAME, "key": "tls.key"}}
    container = {
        "name": "main",
        "image": "registry.invalid/none:1",
        "command": [sys.executable, "-c"],
        "args": [LOOK],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "JOINED", "value": "at $(POD_IP), not $$(POD_IP) or $(NOBODY)"},
            {"name": "SECRET", "valueFrom": secret},
        ],
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app/config"},
            {"name": "key", "mountPath": "/etc/app/key"},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    }
    volumes = [
        {"name": "config", "configMap": {"name": NAME}},
        {"name": "key", "secret": {"secretName": NAME, "defaultMode": mode}},
        {"name": "scratch", "emptyDir": {}},
    ]
    pod = {
        "serviceAccountName": NAME,
        "securityContext": security,
        "containers": [container],
        "volumes": volumes,
    }
    labels = {"app": NAME}
    return {
        "metadata": {"name": NAME},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
