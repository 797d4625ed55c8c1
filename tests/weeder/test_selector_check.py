"""A selector that matches no pod anywhere for an hour is reported."""

import pytest

from app.core.errors import Unreachable
from app.core.model.names import LabelSelector
from app.core.model.weeding import WeederPolicy
from app.simulation.traffic import Trouble
from app.simulation.workloads import Workload
from tests.support.doubles import SetLeadership
from tests.support.weeding import API, CONTROL_PLANE, NAMESPACE, requirement

HOUR = 3600.0
RENAMED = LabelSelector((requirement("role", "In", "renamed"),))
POLICY = WeederPolicy({API.service: (LabelSelector((CONTROL_PLANE,)), RENAMED)})


@pytest.fixture
async def harness(lab):
    return lab.control_plane(POLICY)


def gauge(harness, number):
    return harness.count("dwd_weeder_selector_matches", service=API.service, selector=str(number))


async def test_a_selector_that_matches_nothing_for_an_hour_is_reported(harness, lines):
    await harness.run(HOUR - 10)
    assert harness.weeder.selectors.troubles() == ()
    await harness.run(20)
    assert harness.weeder.selectors.troubles() == ("kube-apiserver, selector 1: no pod matches",)
    (told,) = [line for line in lines if "no pod anywhere" in line["event"]]
    assert told["log_level"] == "warning"
    assert told["labels"] == "role=renamed"


async def test_what_each_selector_matches_is_a_metric_at_once(harness):
    await harness.run(1)
    assert (gauge(harness, 0), gauge(harness, 1)) == (1, 0)


async def test_when_it_matches_again_that_is_over(harness):
    await harness.run(HOUR + 10)
    harness.world.add_workload(Workload(NAMESPACE, "new", labels={"role": "renamed"}))
    await harness.run(HOUR)
    assert harness.weeder.selectors.troubles() == ()
    assert gauge(harness, 1) == 1


async def test_it_is_asked_once_an_hour_with_one_request_for_each_selector(harness):
    await harness.run(3 * HOUR + 10)
    assert harness.world.requests.total(verb="list", what="pods") == 4 * 2


async def test_after_a_failure_it_is_asked_again_a_minute_later(harness):
    with harness.world.faults.seed_trouble(Trouble(error_rate=1.0)):
        await harness.run(10)
    await harness.run(61)
    assert gauge(harness, 0) == 1


async def test_only_the_leader_asks(lab):
    leadership = SetLeadership(leading=False)
    harness = lab.control_plane(POLICY, leadership=leadership)
    await harness.run(100)
    assert harness.world.requests.total(verb="list", what="pods") == 0
    leadership.become(leading=True)
    await harness.run(10)
    assert gauge(harness, 0) == 1


async def test_one_that_matched_in_between_needs_a_whole_hour_again(harness, monkeypatch):
    answers = {RENAMED: [False, True, False, False]}

    async def any_pod(selector):
        return answers[selector].pop(0) if selector in answers else True

    monkeypatch.setattr(harness.seed, "any_pod", any_pod)
    await harness.run(2 * HOUR + 10)
    assert len(answers[RENAMED]) == 1, "asked three times"
    assert harness.weeder.selectors.troubles() == ()
    await harness.run(HOUR)
    assert harness.weeder.selectors.troubles() == ("kube-apiserver, selector 1: no pod matches",)


async def test_a_selector_that_cannot_be_checked_keeps_no_other_from_being_checked(
    harness, monkeypatch, lines
):
    async def any_pod(selector):
        if selector != RENAMED:
            raise Unreachable("no answer within 10 s")
        return False

    monkeypatch.setattr(harness.seed, "any_pod", any_pod)
    await harness.run(HOUR + 70)
    assert harness.weeder.selectors.troubles() == ("kube-apiserver, selector 1: no pod matches",)
    told = [line for line in lines if "could not be checked" in line["event"]]
    assert {line["service"] for line in told} == {API.service}
    assert not harness.died
