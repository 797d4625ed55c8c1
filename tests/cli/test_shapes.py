"""What the client reads is what the API says: every field by its name, every word that has a colour or a meaning."""

from typing import Any

import msgspec
import pytest
from pydantic.alias_generators import to_camel

from app.api import schemas
from app.api.problems import ProblemType
from app.cli import answers, problems
from app.cli.views import events, scaling
from app.core.model.scaling_runs import OperationPhase, StepPhase

PAIRS: dict[type[Any], type[schemas.Schema]] = {
    answers.Condition: schemas.Condition,
    answers.Probe: schemas.ProbeInfo,
    answers.Leases: schemas.Leases,
    answers.Replicas: schemas.Replicas,
    answers.Resource: schemas.LiveResource,
    answers.Pause: schemas.Pause,
    answers.Hold: schemas.Hold,
    answers.EndpointTarget: schemas.EndpointTarget,
    answers.EndpointProbe: schemas.EndpointProbe,
    answers.Gate: schemas.Gate,
    answers.Shoot: schemas.Shoot,
    answers.Node: schemas.Node,
    answers.HistoryEntry: schemas.HistoryEntry,
    answers.Step: schemas.OperationStep,
    answers.Operation: schemas.Operation,
    answers.PlannedStep: schemas.PlannedStep,
    answers.PlannedLevel: schemas.PlannedLevel,
    answers.Plan: schemas.Plan,
    answers.ProbeRequest: schemas.Look,
    answers.Deletion: schemas.WeededPod,
    answers.SparedPod: schemas.SparedPod,
    answers.Asked: schemas.Asked,
    answers.Recovery: schemas.Recovery,
    answers.Weeder: schemas.Weeder,
    answers.Leader: schemas.Leader,
    answers.FeatureOff: schemas.FeatureOff,
    answers.MissingPermission: schemas.MissingPermission,
    answers.ConfigFinding: schemas.ConfigFinding,
    answers.Status: schemas.Status,
    answers.AuditEntry: schemas.AuditEntry,
    answers.AuditMetadata: schemas.AuditMetadata,
    answers.LogLevelAnswer: schemas.LogLevelNow,
    answers.WeederChange: schemas.WeederChange,
    answers.RunningRecovery: schemas.NewestRecovery,
    answers.OverrideChange: schemas.OverrideChange,
    answers.Metadata: schemas.ListMetadata,
}


@pytest.mark.parametrize("shape", PAIRS, ids=lambda shape: shape.__name__)
def test_each_field_is_one_of_the_api(shape):
    said = {each.alias or to_camel(name) for name, each in PAIRS[shape].model_fields.items()}
    assert {each.encode_name for each in msgspec.structs.fields(shape)} <= said


def test_every_event_has_its_words():
    names = {str(each) for each in schemas.EventName}
    never_asked_for = {"audit"}
    assert set(events._TELLERS) | {"snapshot-end"} | never_asked_for == names


def test_the_ends_of_a_run_are_those_of_the_api():
    assert {str(each) for each in OperationPhase} - scaling.ENDED == {"Pending", "Running"}
    assert {str(each) for each in OperationPhase} >= scaling.ENDED
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
