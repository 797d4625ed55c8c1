"""Every command against the API itself, on facts that are made up: what is sent is taken, what comes back is read."""

import threading
import time

import pytest
import uvicorn
from structlog.testing import capture_logs

from app.core.model.policy import Loop
from app.core.model.weeding import ServiceKey
from app.core.ports import Permission
from app.core.reporting.audit import AuditLog
from tests.api.facts import HOME, KCM, NAMESPACE, healthy, pause, recovery, service, workload
from tests.api.fakes import (
    FakeFlows,
    FakeOverrides,
    FakeProcess,
    FakeResources,
    FakeShoots,
    FakeWeeders,
    application,
    context,
)
from tests.cli.conftest import run

pytestmark = pytest.mark.blocking  # the server is in a thread of its own


class Served(uvicorn.Server):
    """The API in a thread of its own."""

    def __init__(self, app):
        super().__init__(
            uvicorn.Config(app, port=0, log_config=None, lifespan="off", loop="asyncio")
        )
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._ready = threading.Event()

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.port = self.servers[0].sockets[0].getsockname()[1]
        self._ready.set()

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *error):
        self.should_exit = True
        self._thread.join(10)


@pytest.fixture
def real():
    """Runs `dwd` against the API of a seed with something of everything."""
    shoots, overrides, runs = FakeShoots(), FakeOverrides(), FakeFlows()
    process, weeders = FakeProcess(loops=(Loop.PROBER, Loop.WEEDER)), FakeWeeders()
    resources = FakeResources()
    shoots.add(healthy())
    for of in (NAMESPACE, HOME):
        overrides.add(pause(of=of, name="night-shift", author="bob", seconds=60))
    for name in ("kube-apiserver", "etcd"):
        key = ServiceKey(NAMESPACE, name)
        weeders.add(service(recovery(key), key=key))
    resources.known[NAMESPACE] = {KCM: workload(KCM)}
    process.missing = [Permission("patch", "apps", "deployments")]
    audit = AuditLog(time.time)
    others = {"overrides": overrides, "scaling_runs": runs, "resources": resources}
    known = context(shoots, process, weeders, audit=audit, **others)
    with capture_logs(), Served(application(known)) as served:
        environ = {"DWD_SERVER": f"http://127.0.0.1:{served.port}"}
        yield lambda *words: run(*words, environ=environ)


STEPS = {
    "shoots, one with its nodes and history": [
        (f"shoots {NAMESPACE} --nodes --history", f"{NAMESPACE}  Healthy ("),
        ("shoots", NAMESPACE),
    ],
    "a pause, shown and ended": [
        (
            f"pause {NAMESPACE} --reason=why --for=2h --scope=scaleDown",
            f"{NAMESPACE}: paused (scaleDown) until ",
        ),
        ("shoots", "(1 of 3 pauses)"),
        (f"resume {NAMESPACE}", "no pause of this API any more"),
    ],
    "a pause of all": [
        ("pause --all --reason=why", "all shoots: paused (all) until "),
        ("resume --all", "all shoots: no pause of this API any more"),
    ],
    "pauses of kubectl, shown and ended by their names": [
        (f"shoots {NAMESPACE}", "(1 of 2 pauses)"),
        (f"shoots {NAMESPACE}", "bob (unverified)"),
        (f"resume {NAMESPACE} --name night-shift", "no pause night-shift any more"),
        ("resume --all --name night-shift", "all shoots: no pause night-shift any more"),
    ],
    "a resource that is left out": [
        (
            f"ignore {NAMESPACE} kube-controller-manager --reason=why",
            "Deployment/kube-controller-manager is excluded from scaling",
        ),
        (f"unignore {NAMESPACE} deployment/kube-controller-manager", "is included in scaling"),
    ],
    "a scaling run, planned, shown and cancelled": [
        (f"scale down {NAMESPACE} --reason=why --dry-run", "--if-match"),
        (f"scale up {NAMESPACE} --reason=why --hold=1h", "It continues by itself"),
        ("operations", "op-1"),
        ("operations op-1", "op-1  Running  scale up of "),
        ("operations op-1 --cancel", "Cancelled"),
    ],
    "the end of a hold": [(f"resume {NAMESPACE} --hold", f"{NAMESPACE}: that hold is over")],
    "a probe": [(f"probe {NAMESPACE}", f"{NAMESPACE}: the next probe is at 20")],
    "a recovery": [
        (f"weed {NAMESPACE} kube-apiserver --reason=why --force", f"recovery of {NAMESPACE}/"),
    ],
    "services": [
        ("weeders", "Watching"),
        ("weeders shoot--x--y", "no recoveries"),
        (f"weeders {NAMESPACE} --running", "etcd"),
        (f"weeders {NAMESPACE} etcd", f"{NAMESPACE}/etcd  ready since "),
    ],
    "status": [
        ("status", "leader  dependency-watchdog 1.2.3, since "),
        ("status", "  shoots    1 Healthy\n"),
        ("status", "patch deployments.apps in all namespaces: needed to protect"),
    ],
    "attempts": [
        ("pause --all --reason=why", ""),
        ("audit", " pause "),
        (f"audit {NAMESPACE}", "All since "),
        ("audit --caller=nobody", "All since "),
    ],
    "the configuration, and the level of the log": [
        ("config", "nodeLeaseFailureFraction: 0.6"),
        ("config --log-level=error", "logs at level error until its next start\n"),
        ("config", "logLevel: error"),
    ],
}
"""Command lines one after the other, and what each of them says."""


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_what_a_command_sends_is_taken_and_what_comes_back_is_read(steps, real):
    for line, says in steps:
        ran = real(*line.split())
        assert (ran.code, ran.err) == (0, ""), line
        assert says in ran.out, line


@pytest.mark.parametrize(
    "line",
    [
        "shoots nowhere",
        f"resume {NAMESPACE} --name none",
        f"ignore {NAMESPACE} none --reason=why",
        f"ignore {NAMESPACE} Deployment/none --reason=why",
        "operations none",
        f"weed {NAMESPACE} nothing",
        f"weeders {NAMESPACE} none",
    ],
)
def test_what_is_not_there_ends_with_4(line, real):
    assert real(*line.split()).code == 4
