"""Look now."""

from dataclasses import replace

import pytest

from app.core.errors import Refused
from tests.api.facts import NAMESPACE, healthy

PATH = f"/api/v1/shoots/{NAMESPACE}/probe"


@pytest.fixture(autouse=True)
def known(shoots):
    shoots.add(healthy())


def test_the_answer_says_when_the_probe_is(client, scaling_runs):
    answer = client.post(PATH)
    assert (answer.status_code, answer.json()) == (202, {"at": "2027-01-15T08:00:01Z"})
    assert scaling_runs.probed == [NAMESPACE]


def test_a_process_that_writes_nothing_probes_all_the_same(client, scaling_runs, process):
    process.dry_run = True
    assert client.post(PATH).status_code == 202
    assert scaling_runs.probed == [NAMESPACE]


def test_a_shoot_that_is_not_probed_is_409_and_says_why(client, scaling_runs):
    scaling_runs.breaks = Refused("it is hibernated")
    answer = client.post(PATH)
    assert (answer.status_code, answer.json()["detail"]) == (409, "it is hibernated")


def test_a_namespace_without_a_shoot_is_404(client, scaling_runs):
    assert client.post("/api/v1/shoots/nowhere/probe").status_code == 404
    assert scaling_runs.probed == []


def test_a_standby_does_not_probe(client, process, scaling_runs):
    process.leading = False
    assert client.post(PATH).status_code == 503
    assert scaling_runs.probed == []


def test_the_audit_has_the_probe_before_and_the_one_that_was_asked_for(client, shoots, audit):
    client.post(PATH)
    shoots.add(replace(healthy(), last_probe=None))
    client.post(PATH)
    first, said = (each.attempt for each in audit.entries())
    assert (said.before, said.after) == (
        {"lastTime": "2027-01-15T07:59:58Z"},
        {"at": "2027-01-15T08:00:01Z"},
    )
    assert first.before == {"lastTime": None}
