"""What the API does is what its document says: requests made up from the document, held against it."""

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

from app.api import application as fronts
from app.api.limits import Allowance
from tests.api.facts import KCM, NAMESPACE
from tests.api.fakes import World, application

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


with pytest.MonkeyPatch.context() as patch:
    for limit in ("CALLER", "PEER"):
        patch.setattr(fronts, limit, Allowance(rate=1e9, burst=1e9, at_once=1_000))
    APPLICATION = application(World().context())
WITHOUT_TOKENS = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
"""Who calls is a fake's word here."""
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APPLICATION, config=WITHOUT_TOKENS)


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
