"""The `dwd` line beside each action of the page sends what the action sends."""

from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest

from app.api import presenting
from app.api.page import actions
from app.core.model import workloads as ann
from app.core.model.instants import parse_duration
from app.core.model.policy import Loop
from app.core.model.weeding import WeederPolicy
from tests.api import facts
from tests.api.fakes import FakeFlows, FakeOverrides, FakeProcess, FakeShoots, FakeWeeders, context

GIVEN = {
    "reason": "it's broken & more",
    "duration": "90m",
    "hold": "20m",
    "scope": "scaleDown",
    "force": True,
}


def found():
    """All actions that there are, by name and target."""
    shoots, overrides, runs, weeders = FakeShoots(), FakeOverrides(), FakeFlows(), FakeWeeders()
    ignored = facts.workload(facts.KCM, 1, **{ann.IGNORE_SCALING: "true"})
    status = replace(facts.healthy(), resources={**facts.healthy().resources, facts.KCM: ignored})
    shoots.add(status)
    names = ("api", "night-shift", "works")
    overrides.add(
        facts.request(),
        *(facts.pause(of=of, name=n) for of in (facts.NAMESPACE, facts.HOME) for n in names),
    )
    runs.add(facts.run())
    weeders.add(facts.service())
    process = FakeProcess(loops=(Loop.PROBER, Loop.WEEDER))
    process.configured.weeder = WeederPolicy({"kube-apiserver": ()})
    given = context(shoots, process, weeders, overrides=overrides, scaling_runs=runs)
    assert given.prober is not None
    shoot = presenting.shoot(status, facts.POLICY, overrides.effective(facts.NAMESPACE))
    there = [
        *actions.on_all(given),
        *actions.on_shoot(given, given.prober, shoot),
        *actions.on_services([(facts.NAMESPACE, "kube-apiserver")]),
    ]
    return [
        pytest.param(each.data(), target, id=f"{each.id}-{number}")
        for each in there
        for number, target in enumerate(each.data()["targets"] or [each.data()])
    ]


def meant(values):
    """Members that say something, with durations as seconds; what is false says what leaving it out says."""
    durations = {"duration", "hold"}
    return {
        name: parse_duration(value) if name in durations else value
        for name, value in values.items()
        if value is not False
    }


def test_all_kinds_of_actions_are_here():
    ids = {each.id.rpartition("-")[0] for each in found()}
    assert ids == {
        "pause-all",
        "resume-all",
        "end-pause-all",
        "end-pause",
        "pause",
        "resume",
        "end-hold",
        "probe",
        "scale-down",
        "scale-up",
        "cancel-op-1",
        "ignore",
        "unignore",
        "weed",
        f"weed-{facts.NAMESPACE}-kube-apiserver",
    }


@pytest.mark.parametrize(("action", "target"), found())
def test_the_line_sends_what_the_action_sends(action, target, api, dwd):
    said = {name: GIVEN[name] for name in action["flags"]}
    line = list(target["words"])
    for name, flag in action["flags"].items():
        line += [flag] if said[name] is True else [flag, said[name]]
    if action["match"]:
        line += [action["match"], '"e1"']

    assert line[0] == "dwd"
    dwd(*line[1:])

    # The answer is a 404, after which it asks for names that are alike.
    (asked,) = (each for each in api.asked if each.method != "GET")
    where = urlsplit(target["path"].removeprefix("/api/v1"))
    assert (asked.method, asked.path) == (action["method"], where.path)
    query = {name: said.pop(name) for name in action["query"]}
    kept = {name: value for name, value in parse_qsl(where.query) if name != "apiVersion"}
    assert asked.query == kept | query
    assert meant(asked.body or {}) == meant(action["body"] | said)
    assert asked.headers.get("If-Match") == ('"e1"' if action["match"] else None)
