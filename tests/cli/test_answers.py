"""The API's schemas, read by another version of the program; every word and problem of the API has its meaning here."""

import pytest

from app.api import schemas
from app.api.problems import ProblemType
from app.cli import answers, events, operations, problems
from app.cli.problems import CommandFailed
from app.core.model.scaling_runs import OperationPhase, StepPhase

READ: tuple[type[schemas.Schema], ...] = (
    schemas.ShootList,
    schemas.Shoot,
    schemas.NodeList,
    schemas.HistoryList,
    schemas.ResourceList,
    schemas.WeederList,
    schemas.OperationList,
    schemas.Operation,
    schemas.Status,
    schemas.AuditList,
)
EVERY = pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
NAMES = {"namespace": "a", "name": "a", "id": "a", "items": []}


@EVERY
def test_what_the_api_says_is_read_as_it_is(kind):
    said = kind.example()
    assert answers.of(kind, said).model_dump(by_alias=True) == said


@EVERY
def test_an_older_server_may_leave_out_everything_but_the_name(kind):
    assert answers.of(kind, NAMES)


@pytest.mark.parametrize("kind", [schemas.Shoot, schemas.Node, schemas.Operation, answers.Page])
def test_what_has_no_name_is_no_answer_of_this_api(kind):
    with pytest.raises(CommandFailed, match=r"not one of this API: [a-z]+: Field required"):
        answers.of(kind, {})


def test_an_older_server_that_does_not_say_it_has_verified_its_authors():
    assert answers.of(schemas.Pause, {}).verified
    hold = answers.of(schemas.Hold, {})
    assert (hold.verified, hold.done) == (True, True)
    assert answers.of(schemas.EndpointProbe, {}).counted
    assert answers.of(schemas.AuditEntry, {}).times == 1
    assert answers.of(schemas.Weeder, {}).ready is None


def test_a_newer_server_may_say_more_and_use_words_that_are_new():
    said = {"namespace": "a", "state": "Asleep", "colour": "red", "hold": {"direction": "sideways"}}
    found = answers.of(schemas.Shoot, said)
    assert (found.state, found.hold and found.hold.direction) == ("Asleep", "sideways")


@pytest.mark.parametrize(
    "said", ["text", [1], {"namespace": 1}, {"namespace": "a", "resources": [{"name": 3}]}]
)
def test_a_value_of_another_type_is_no_answer_of_this_api(said):
    with pytest.raises(CommandFailed, match="the answer is not one of this API: "):
        answers.of(schemas.Shoot, said)


def test_every_event_has_its_words():
    data = {"namespace": "a", "id": "x"}
    told = {str(each): str(events.told(each, data, "08:00:00")) for each in schemas.EventName}
    assert {name for name, line in told.items() if "unknown to this version" in line} == {"audit"}


def test_the_ends_of_a_run_are_those_of_the_api():
    assert {str(each) for each in OperationPhase} - operations.ENDED == {"Pending", "Running"}
    assert {str(each) for each in OperationPhase} >= operations.ENDED
    assert "Waiting" in set(StepPhase)


def test_the_problems_that_are_followed_are_those_of_the_api():
    assert ProblemType.NOT_THE_LEADER.urn == problems.NOT_THE_LEADER
    assert ProblemType.LOOP_NOT_HERE.urn == problems.LOOP_NOT_HERE
    assert {each.status for each in (ProblemType.NOT_THE_LEADER, ProblemType.LOOP_NOT_HERE)} == {
        503
    }


def test_every_status_of_the_api_has_an_exit_code_that_is_meant():
    codes = {
        each.status: problems.ServerRefused(each.status, problems.ProblemBody()).code
        for each in ProblemType
    }
    unexpected = {status for status, code in codes.items() if code == 1}
    assert unexpected <= {400, 405, 413, 431, 500}
