"""The running demo against the API's own document: requests made up from it, no 500, no undocumented answer."""

import asyncio
import json
from itertools import chain

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.demo.test_program import FREE, SMALL, demo
from tests.service.lives import get

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,  # requests come from another thread
    pytest.mark.timeout(90),
]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
WITHOUT_TOKENS = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
STREAM = "streamEvents"
"""It does not end."""


def contradictions(document, base, known):
    """Every call several times, half of them about what there is; what came back that the document does not have."""
    schema = schemathesis.openapi.from_dict(document, config=WITHOUT_TOKENS)

    @schema.hook
    def map_path_parameters(_, parameters):
        if parameters and len("".join(map(str, parameters.values()))) % 2:
            return parameters | {name: known[name] for name in parameters if name in known}
        return parameters

    statuses: dict[str, set[int]] = {}
    for found in schema.exclude(operation_id=STREAM).get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        seen = statuses.setdefault(operation.definition.raw["operationId"], set())
        check(operation, base, known, seen)
    return statuses


def check(operation, base, known, seen):
    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    def answers_as_documented(case):
        answer = case.call_and_validate(base_url=base, checks=CHECKS)
        seen.add(answer.status_code)
        if answer.status_code == 202 and (begun := answer.json().get("id")):
            known["id"] = str(begun)  # an operation: it is asked for, and cancelled, later

    answers_as_documented()


async def test_every_answer_of_the_running_program_is_one_that_the_document_has():
    async with demo(*FREE, *SMALL) as running:
        found = await running.line(r"http://(127\.0\.0\.1):(\d+)/;")
        address = (found[1], found[2])
        await running.line("scene 1 begins")
        _, text = await get(address, "/openapi.json")
        _, shoots = await get(address, "/api/v1/shoots")
        known = {
            "namespace": json.loads(shoots)["items"][0]["namespace"],
            "service": "kube-apiserver",
            "kind": "Deployment",
            "name": "kube-controller-manager",
        }
        base = f"http://{found[1]}:{found[2]}"
        statuses = await asyncio.to_thread(contradictions, json.loads(text), base, known)
        code, _ = await get(address, "/livez")
    assert code == 200
    assert len(statuses) >= 28
    assert {200, 202, 204, 404} <= set(chain.from_iterable(statuses.values()))
    assert statuses["readOperation"] >= {200}, "of the flow that scaleShoot began"
