"""The real loop on a simulated seed: the same outage in log, history, metrics and Events."""

import contextvars
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.core.metrics import Format, Metrics
from app.core.reporting.event_writer import EventWriter
from app.core.reporting.history import History
from app.core.reporting.metering import Metering
from app.core.reporting.notices import journal
from app.simulation.traffic import Trouble
from tests.support.harness import KCM, SHOOT
from tests.support.meter import at_once, show_shoots


class Records:
    """Everything that listens to the board of one prober."""

    def __init__(self, harness, tasks):
        self.harness = harness
        self.metrics = Metrics()
        self.metering = Metering(self.metrics)
        self.history = History()
        self.events = []
        show_shoots(self.metrics, self.metering, self)
        writer = EventWriter(
            self.emit,
            leading=lambda: True,
            uid_of=lambda *_: None,
            identity="test",
            clock=harness.clock,
            metrics=self.metrics,
        )
        _ = tasks.shared(writer.run, "events")
        board = harness.environment.notice_bus
        for subscriber in (journal, self.history.note, self.metering.note, writer.note):
            board.subscribe(subscriber)

    def summaries(self):
        return self.harness.prober.registry.summaries()

    def facts(self, namespace):
        return self.harness.prober.registry.status(namespace)

    async def emit(self, namespace, body):
        assert namespace == SHOOT
        self.events.append((body["reason"], body["regarding"]["name"]))

    def value(self, name, **labels):
        (shoots,) = self.metrics.sliced
        sliced = text_string_to_metric_families(at_once(shoots.render(Format.TEXT)))
        for family in (*self.metrics.registry.collect(), *sliced):
            for sample in family.samples:
                if (sample.name, sample.labels) == (name, labels):
                    return sample.value
        return None


@pytest.fixture
async def records(lab, harness):
    return Records(harness, lab.tasks)


async def test_an_outage_is_the_same_story_in_every_record(records, lines):
    await records.harness.run(60)
    with records.harness.world.faults.path_cut(SHOOT):
        await records.harness.run(120)
    await records.harness.run(120)
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


# Each word of a label is said by something that can happen.

LEASES = frozenset({"leases"})


@pytest.mark.parametrize(
    ("begin", "probe", "result"),
    [
        (lambda faults: faults.api_down(SHOOT), "apiserver", "failure"),
        (lambda faults: faults.throttled(SHOOT), "apiserver", "throttled"),
        (lambda faults: faults.certificate_untrusted(SHOOT), "apiserver", "error"),
        (lambda faults: faults.path_cut(SHOOT), "lease", "failure"),
        (lambda faults: faults.forbidden(SHOOT, "list", "leases"), "lease", "error"),
        (
            lambda faults: faults.trouble(SHOOT, Trouble(throttled=True, what=LEASES)),
            "lease",
            "throttled",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_every_result_of_a_probe_happens(records, begin, probe, result):
    await records.harness.run(60)
    assert records.value("dwd_probes_total", probe=probe, result="success") > 0
    assert records.value("dwd_probes_total", probe=probe, result=result) is None
    with begin(records.harness.world.faults):
        await records.harness.run(60)
    assert records.value("dwd_probes_total", probe=probe, result=result) > 0
    failures = records.value("dwd_shoot_probe_failures_total", namespace=SHOOT, probe=probe)
    assert failures >= records.value("dwd_probes_total", probe=probe, result=result)


# The modules that one probe passes, from the answer's bytes to the patch and the Event, are the documented ones.


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
_THIS_PROBE = contextvars.ContextVar("this probe", default=False)


@contextmanager
def passed() -> Iterator[set[str]]:
    """The files whose functions run for this probe: in the task that enters, and in those that it starts."""
    found: set[str] = set()

    def note(frame, event, _arg):
        if event == "call" and _THIS_PROBE.get():
            found.add(frame.f_code.co_filename)

    _THIS_PROBE.set(True)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def of_the_program(files: set[str]) -> set[str]:
    """Those of `app`, as paths from the root; without the simulated seed, which answers in the same task."""
    app = [Path(each) for each in files if each.startswith(str(ROOT / "app"))]
    paths = {each.relative_to(ROOT).as_posix() for each in app}
    return {each for each in paths if not each.startswith("app/simulation/")}


def documented() -> set[str]:
    """The files that the section names, in its table."""
    section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (way,) = [each for each in section if each.startswith("The way of a probe")]
    rows = [line for line in way.splitlines() if line.startswith("| ")]
    return {path for row in rows for path in re.findall(r"`(app/[\w/]+\.py)`", row)}


async def test_the_way_of_a_probe_is_the_documented_one(records, harness):
    await harness.run(60)
    runner = harness.prober.registry.runner(SHOOT)
    probe = runner._probe_once
    ways: list[set[str]] = []

    async def followed():
        with passed() as way:
            await probe()
            await harness.until(lambda: runner.status_facts().running is None)
        if harness.writes(KCM) and not ways:
            ways.append(of_the_program(way))

    runner._probe_once = followed
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: ways and records.events, within=120)
    assert ("ScaledDown", KCM.name) in records.events
    assert ways[0] == documented()
