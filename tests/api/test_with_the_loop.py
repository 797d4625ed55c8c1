"""The real loop on a simulated seed: the same outage in log, history, metrics, Events and API."""

import pytest
from structlog.testing import capture_logs

from app.api import nodeview, presenting
from app.core.model.overrides import NOTHING
from app.core.records.events import EventWriter
from app.core.records.gauges import ShootGauges
from app.core.records.history import History
from app.core.records.journal import journal
from app.core.records.metering import Metering
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics
from app.core.runtime.tasks import Tasks
from tests.support.stands import SHOOT, Stage


class Records:
    """Everything that listens to the board of one prober."""

    def __init__(self, stand, tasks):
        self.stand = stand
        self.metrics = Metrics()
        self.metering = Metering(self.metrics)
        self.history = History()
        self.events = []
        ShootGauges(self.metrics, self.metering, stand.prober.registry.statuses)
        writer = EventWriter(
            self,
            leading=lambda: True,
            uid_of=lambda *_: None,
            identity="test",
            clock=stand.clock,
            metrics=self.metrics,
        )
        _ = tasks.shared(writer.run, "events")
        board = stand.environment.board
        for subscriber in (journal, self.history.note, self.metering.note, writer.note):
            board.subscribe(subscriber)

    async def emit(self, namespace, body):
        assert namespace == SHOOT
        self.events.append((body["reason"], body["regarding"]["name"]))

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def lines():
    with capture_logs() as found:
        yield found


@pytest.fixture
async def records():
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    stage = Stage(tasks, clock)
    world = stage.world()
    world.add_shoot(SHOOT)
    yield Records(stage.prober(world), tasks)
    await stage.close()
    await tasks.stop()


async def test_an_outage_is_the_same_story_in_every_record(records, lines):
    await records.stand.run(60)
    with records.stand.world.faults.path_cut(SHOOT):
        await records.stand.run(120)
    await records.stand.run(120)
    # metrics
    assert records.value("dwd_meltdowns_total") == 1
    assert records.value("dwd_detection_seconds_count") == 1
    assert records.value("dwd_detection_seconds_sum") < 2
    assert records.value("dwd_shoots", state="Healthy") == 1
    for direction in ("down", "up"):
        labels = {"direction": direction, "result": "done", "trigger": "auto"}
        resource = "Deployment/kube-controller-manager"
        assert records.value("dwd_scale_operations_total", resource=resource, **labels) == 1
        assert records.value("dwd_shoot_scale_attempts_total", namespace=SHOOT, direction=direction)
        assert records.value("dwd_scale_duration_seconds_count", direction=direction) >= 1
    # history
    reasons = [each.reason for each in records.history.of(SHOOT)]
    assert reasons.index("ScaledUp") < reasons.index("ScaledDown")
    assert "LeasesExpired" in reasons
    # Events
    assert records.events.count(("ScaledDown", "kube-controller-manager")) == 1
    assert records.events.count(("ScaledUp", "kube-controller-manager")) == 1
    kinds = {reason for reason, _ in records.events}
    assert {"MeltdownProtectionStarted", "MeltdownProtectionEnded"} <= kinds
    # log
    said = {line["reason"]: line["log_level"] for line in lines if "reason" in line}
    assert said["ScaledDown"] == "info"
    assert said["MeltdownProtectionStarted"] == "warning"


async def test_amid_an_outage_the_api_says_why_the_controllers_are_at_0(records):
    stand = records.stand
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(120)
        shoot = presenting.shoot(stand.status(), stand.environment.policy, NOTHING)
        nodes = [each.shown() for each in nodeview.rows(stand.status())]
    assert shoot.state == "Protected"
    assert "10 of 10 node leases are older than 30 s" in shoot.message
    assert "kube-controller-manager" in shoot.message
    assert [each.replicas.spec for each in shoot.resources] == [0, 0, 0]
    assert [each.replicas.saved for each in shoot.resources] == [1, 1, 1]
    assert {each.status for each in shoot.conditions if each.type == "ProtectionActive"} == {"True"}
    assert {each.lease for each in nodes} == {"Expired"}
    assert {(each.candidate, each.reason) for each in nodes} == {(True, None)}
