"""Every command against the API itself, on facts that are made up: what is sent is taken, what comes back is read."""

import time
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

from app.core.model.policy import Loop
from app.core.model.weeding import ServiceKey
from app.core.ports import Permission
from app.core.reporting.audit import AuditLog
from tests.api import fakes
from tests.api.facts import HOME, KCM, NAMESPACE, healthy, pause, recovery, service, workload
from tests.api.serving import served
from tests.cli.conftest import run

pytestmark = pytest.mark.blocking  # the server is in a thread of its own


@pytest.fixture
def real():
    """Runs `dwd` against the API of a seed with something of everything."""
    shoots, overrides, runs = fakes.FakeShoots(), fakes.FakeOverrides(), fakes.FakeFlows()
    process, weeders = fakes.FakeProcess(loops=(Loop.PROBER, Loop.WEEDER)), fakes.FakeWeeders()
    resources = fakes.FakeResources()
    for each in (NAMESPACE, "shoot--x--y"):
        shoots.add(healthy(each))
    for of in (NAMESPACE, HOME):
        overrides.add(pause(of=of, name="night-shift", author="bob", seconds=60))
    for name in ("kube-apiserver", "etcd"):
        key = ServiceKey(NAMESPACE, name)
        weeders.add(service(recovery(key), key=key))
    resources.known[NAMESPACE] = {KCM: workload(KCM)}
    process.missing = [Permission("patch", "apps", "deployments")]
    audit = AuditLog(time.time)
    others = {"overrides": overrides, "scaling_runs": runs, "resources": resources}
    known = fakes.context(shoots, process, weeders, audit=audit, **others)
    with capture_logs(), served(fakes.application(known)) as url:
        yield lambda line: run(*line.split(), environ={"DWD_SERVER": url})


STEPS = yaml.safe_load((Path(__file__).parent / "steps.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_what_a_command_sends_is_taken_and_what_comes_back_is_read(steps, real):
    for step in steps:
        ((line, says),) = step.items()
        ran = real(line)
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
        "weeders nowhere",
        "audit nowhere -o json",
    ],
)
def test_what_is_not_there_ends_with_4(line, real):
    assert real(line).code == 4
