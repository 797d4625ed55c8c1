"""What a process says of itself, and what a standby leaves to the leader."""

from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from tests.api.facts import healthy

STATUS = "/api/v1/status"


def test_shoots_are_counted_by_state_the_worst_first(client):
    assert list(client.get(STATUS).json()["counts"]) == list(ShootState)


def test_a_standby_answers_status_without_counts(client, process, shoots):
    process.leading = False
    shoots.add(healthy())
    found = client.get(STATUS).json()
    assert (found["role"], found["counts"]) == ("standby", None)
    assert found["leaders"]["prober"]["identity"] == "dwd-7f9"


# Which loops run here.


def test_without_the_prober_there_are_no_shoots_to_count(client, process, shoots):
    process.loops = (Loop.WEEDER,)
    shoots.add(healthy())
    found = client.get(STATUS).json()
    assert (found["role"], found["counts"]) == ("leader", None)
    assert list(found["leaders"]) == ["weeder"]


def test_who_leads_one_loop_is_a_leader_and_answers_for_that_loop_alone(client, process, shoots):
    process.loops, process.stands_by = tuple(Loop), {Loop.WEEDER}
    shoots.add(healthy())
    assert client.get(STATUS).json()["role"] == "leader"
    assert client.get("/api/v1/shoots").status_code == 200
    found = client.get("/api/v1/weeders").json()
    assert found["type"] == "urn:dependency-watchdog:problem:not-the-leader"
