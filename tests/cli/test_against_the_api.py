"""Every command against the API itself, on facts that are made up: what is sent is taken, what comes back is read."""

import json
import threading
import time
from types import SimpleNamespace

import pytest
import uvicorn
from structlog.testing import capture_logs

from app.core.model.policy import Loop
from app.core.model.weeding import ServiceKey, ServiceStatus
from app.core.ports import Permission
from app.core.reporting.audit import AuditLog
from tests.api.facts import (
    HOME,
    KCM,
    NAMESPACE,
    healthy,
    pause,
    workload,
)
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
from tests.api.test_weeders import service
from tests.cli.conftest import run

pytestmark = pytest.mark.blocking  # the server is in a thread of its own

WHY = "--reason=because"


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
    """The facts, and a function that runs `dwd` on them."""
    loops = (Loop.PROBER, Loop.WEEDER)
    facts = SimpleNamespace(
        shoots=FakeShoots(),
        process=FakeProcess(loops=loops),
        weeders=FakeWeeders(),
        overrides=FakeOverrides(),
        scaling_runs=FakeFlows(),
        resources=FakeResources(),
    )
    facts.shoots.add(healthy())
    audit = AuditLog(time.time)
    others = {
        "overrides": facts.overrides,
        "scaling_runs": facts.scaling_runs,
        "resources": facts.resources,
    }
    known = context(facts.shoots, facts.process, facts.weeders, audit=audit, **others)
    app = application(known, audit=audit)
    with capture_logs(), Served(app) as served:
        environ = {"DWD_SERVER": f"http://127.0.0.1:{served.port}"}
        facts.dwd = lambda *words: run(*words, environ=environ)
        yield facts


def done(ran):
    assert (ran.code, ran.err) == (0, ""), ran
    return ran.out


def test_shoots(real):
    assert NAMESPACE in done(real.dwd("shoots"))
    assert json.loads(done(real.dwd("shoots", "-o", "json")))["metadata"] == {
        "total": 1,
        "continue": None,
    }
    found = done(real.dwd("shoots", NAMESPACE, "--nodes", "--history"))
    assert found.startswith(f"{NAMESPACE}  Healthy (")
    assert real.dwd("shoots", "nowhere").code == 4


def test_a_pause_and_its_end(real):
    found = done(real.dwd("pause", NAMESPACE, WHY, "--for=2h", "--scope=scaleDown"))
    assert found.startswith(f"{NAMESPACE}: paused (scaleDown) until ")
    made = real.overrides.api()
    assert (made.reason, made.until - made.created_at) == ("because", 7200)
    assert "paused scaleDown" in done(real.dwd("shoots"))
    assert "no pause of this API any more" in done(real.dwd("resume", NAMESPACE))
    assert real.overrides.objects == {}


@pytest.mark.parametrize(("where", "of"), [(NAMESPACE, NAMESPACE), ("--all", HOME)])
def test_a_pause_of_kubectl_is_shown_and_ended_by_its_name(real, where, of):
    real.overrides.add(pause(of=of), pause(of=of, name="night-shift", author="bob", seconds=60))
    shown = done(real.dwd("shoots", NAMESPACE))
    assert "(1 of 2 pauses)" in shown
    assert "night-shift" in shown
    assert "bob (unverified)" in shown
    found = done(real.dwd("resume", where, "--name", "night-shift"))
    assert "no pause night-shift any more" in found
    assert list(real.overrides.objects) == [(of, "api")]
    assert real.dwd("resume", where, "--name", "night-shift").code == 4


def test_a_pause_of_all_and_its_end(real):
    assert done(real.dwd("pause", "--all", WHY)).startswith("all shoots: paused (all) until ")
    assert real.overrides.api(HOME)
    done(real.dwd("resume", "--all"))
    assert real.overrides.objects == {}


def test_ignore_and_its_end(real):
    real.resources.known[NAMESPACE] = {KCM: workload(KCM)}
    assert "Deployment/kube-controller-manager is excluded from scaling" in done(
        real.dwd("ignore", NAMESPACE, "kube-controller-manager", WHY)
    )
    done(real.dwd("unignore", NAMESPACE, "deployment/kube-controller-manager"))
    assert [each.ignored for each in real.resources.asked] == [True, False]
    assert real.dwd("ignore", NAMESPACE, "none", WHY).code == 4
    assert real.dwd("ignore", NAMESPACE, "Deployment/none", WHY).code == 4


def test_scale_its_plan_and_its_operation(real):
    assert "--if-match" in done(real.dwd("scale", "down", NAMESPACE, WHY, "--dry-run"))
    assert "It continues by itself" in done(real.dwd("scale", "up", NAMESPACE, WHY, "--hold=1h"))
    (order,) = [each for each in real.scaling_runs.orders if each.spec.direction == "up"]
    assert (order.spec.reason, order.spec.hold, order.spec.force) == ("because", 3600.0, False)
    (name,) = real.scaling_runs.known
    assert name in done(real.dwd("operations"))
    assert done(real.dwd("operations", name)).startswith(f"{name}  Running  scale up of ")
    assert "Cancelled" in done(real.dwd("operations", name, "--cancel"))
    assert real.dwd("operations", "none").code == 4


def test_the_end_of_a_hold(real):
    assert done(real.dwd("resume", NAMESPACE, "--hold")) == (
        f"{NAMESPACE}: that hold is over; an earlier one, if there is one, acts now\n"
    )


def test_probe(real):
    assert done(real.dwd("probe", NAMESPACE)).startswith(f"{NAMESPACE}: the next probe is at 20")
    assert real.scaling_runs.probed == [NAMESPACE]


def test_weed(real):
    key = ServiceKey(NAMESPACE, "kube-apiserver")
    real.weeders.add(ServiceStatus(key, ready=True, since=None))
    found = done(real.dwd("weed", NAMESPACE, "kube-apiserver", WHY, "--force"))
    assert found.startswith(f"recovery of {NAMESPACE}/kube-apiserver: ")
    assert [each.asked.reason for each in real.weeders.begun] == ["because"]
    assert real.dwd("weed", NAMESPACE, "nothing").code == 4


def test_weeders(real):
    real.weeders.add(service(NAMESPACE, "kube-apiserver"), service(NAMESPACE, "etcd"))
    assert done(real.dwd("weeders")).count("Watching") == 2
    assert done(real.dwd("weeders", "shoot--x--y")) == "no recoveries\n"
    assert "etcd" in done(real.dwd("weeders", NAMESPACE, "--running"))
    found = done(real.dwd("weeders", NAMESPACE, "kube-apiserver"))
    assert found.startswith(f"{NAMESPACE}/kube-apiserver  ready since ")
    assert real.dwd("weeders", NAMESPACE, "none").code == 4


def test_status_of_the_leader_and_of_a_standby(real):
    real.process.missing = [Permission("patch", "apps", "deployments")]
    found = done(real.dwd("status"))
    assert found.startswith("leader  dependency-watchdog 1.2.3, since ")
    assert "  shoots    1 Healthy\n" in found
    assert "patch deployments.apps in all namespaces: needed to protect" in found
    real.process.leading = False
    assert "only the prober's leader knows" in done(real.dwd("status"))


def test_audit(real):
    done(real.dwd("pause", NAMESPACE, WHY))
    done(real.dwd("pause", "--all", WHY))
    assert done(real.dwd("audit")).count(" pause ") == 2
    assert done(real.dwd("audit", NAMESPACE)).count(" pause ") == 1
    assert done(real.dwd("audit", "--caller=nobody")).count("\n") == 1


def test_config_and_the_level_of_the_log(real):
    assert json.loads(done(real.dwd("config", "-o", "json")))["prober"] is not None
    assert "nodeLeaseFailureFraction: 0.6" in done(real.dwd("config"))
    assert done(real.dwd("config", "--log-level=error")) == (
        "logs at level error until its next start\n"
    )
    assert "logLevel: error" in done(real.dwd("config"))


def test_a_part_of_a_name_is_answered_by_the_whole_one(real):
    ran = real.dwd("shoots", NAMESPACE.rpartition("--")[2])
    assert (ran.code, ran.err.splitlines()[-1]) == (4, f"    did you mean {NAMESPACE}?")
