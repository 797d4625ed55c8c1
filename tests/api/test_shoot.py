"""One shoot: what its dependents say of scaling, and a probe on request."""

from dataclasses import replace

import pytest

from app.core.model import workloads as ann
from tests.api.facts import KCM, MCM, NAMESPACE, healthy, workload

PATH = f"/api/v1/shoots/{NAMESPACE}"


@pytest.mark.parametrize(
    ("value", "ignored"), [("true", True), ("T", True), ("false", False), ("yes", False)]
)
def test_ignore_scaling_is_shown_as_it_is_heeded(client, shoots, value, ignored):
    shoots.add(replace(healthy(), resources={KCM: workload(KCM, **{ann.IGNORE_SCALING: value})}))
    assert client.get(PATH).json()["resources"][0]["ignoreScaling"] is ignored


def test_an_invalid_saved_count_is_null(client, shoots):
    shoots.add(replace(healthy(), resources={MCM: workload(MCM, 0, **{ann.REPLICAS: "-1"})}))
    assert client.get(PATH).json()["resources"][1]["replicas"]["saved"] is None


def test_a_probe_is_asked_for_and_the_audit_has_the_one_before_and_when_the_next_is(
    *, client, shoots, scaling_runs, audit
):
    shoots.add(healthy())
    answer = client.post(PATH + "/probe")
    assert (answer.status_code, answer.json()) == (202, {"at": "2027-01-15T08:00:01Z"})
    assert scaling_runs.probed == [NAMESPACE]
    shoots.add(replace(healthy(), last_probe=None))
    client.post(PATH + "/probe")
    first, said = (each.attempt for each in audit.entries())
    assert (said.before, said.after) == ({"lastTime": "2027-01-15T07:59:58Z"}, answer.json())
    assert first.before == {"lastTime": None}
