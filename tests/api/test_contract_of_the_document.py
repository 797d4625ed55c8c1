"""What the API does is what its document says: requests made up from the document, held against it."""

import time
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.api import middleware as fronts
from app.api.application import create_api
from app.api.health import Health
from app.api.limits import Allowance
from app.api.middleware import ApiMiddleware
from app.core.metrics import Metrics
from app.core.model.policy import Loop
from app.core.model.scaling_runs import OperationPhase, ScalingRunStatus, Trigger
from app.core.model.weeding import ServiceKey, ServiceStatus
from app.core.model.workloads import Direction
from app.core.reporting.audit import AuditLog
from tests.api.facts import KCM, NAMESPACE, NOW, healthy, not_probed, protected, workload
from tests.api.fakes import (
    FakeFlows,
    FakeProcess,
    FakeResources,
    FakeShoots,
    FakeWeeders,
    Identified,
    context,
)

pytestmark = pytest.mark.looptime(False)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
KNOWN = {"namespace": NAMESPACE, "service": "kube-apiserver", "kind": KCM.kind, "name": KCM.name}


def flow(name, trigger):
    return ScalingRunStatus(name, NAMESPACE, Direction.UP, trigger, OperationPhase.RUNNING, NOW)


def world():
    """A little of everything."""
    shoots, weeders, scaling_runs, resources = (
        FakeShoots(),
        FakeWeeders(),
        FakeFlows(),
        FakeResources(),
    )
    shoots.add(healthy(), protected("shoot--b"), not_probed("shoot--c"))
    weeders.add(ServiceStatus(ServiceKey(NAMESPACE, "kube-apiserver"), ready=True, since=NOW))
    scaling_runs.add(flow("op-1", Trigger.MANUAL), flow("op-2", Trigger.AUTO))
    resources.known[NAMESPACE] = {KCM: workload(KCM)}
    process = FakeProcess(loops=tuple(Loop))
    return context(shoots, process, weeders, scaling_runs=scaling_runs, resources=resources)


def application():
    now = time.monotonic
    middleware = ApiMiddleware(
        now=now, audit=AuditLog(now), authentication=Identified, local_only=False
    )
    with pytest.MonkeyPatch.context() as patch:
        for each in ("CALLER", "PEER"):
            patch.setattr(fronts, each, Allowance(rate=1e9, burst=1e9, at_once=1_000))
        return create_api(world(), health=Health(), metrics=Metrics(), middleware=middleware)


WITHOUT_TOKENS = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
"""Who calls is a fake's word here."""
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", application(), config=WITHOUT_TOKENS)


@SCHEMA.hook
def map_path_parameters(_: Any, parameters: dict[str, str]) -> dict[str, str]:
    """Half of them of what there is, else nearly all would end with 404."""
    if parameters and len("".join(map(str, parameters.values()))) % 2:
        ids = {"id": "op-1" if len(str(parameters.get("id"))) % 4 > 1 else "op-2"}
        return {name: (KNOWN | ids)[name] for name in parameters}
    return parameters


@SCHEMA.exclude(operation_id="streamEvents").parametrize()  # which does not end
@hypothesis.settings(
    max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
def test_every_answer_is_one_that_the_document_has(case):
    case.call_and_validate(checks=CHECKS)
