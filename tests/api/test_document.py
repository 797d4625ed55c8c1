"""The OpenAPI document is complete, its examples are true, and the copy in docs is the same."""

import json
import re
from copy import deepcopy
from itertools import count
from pathlib import Path

import jsonschema_rs
import pytest

from app.api import document as documents
from app.api.document import JSON
from app.api.health import PATHS as HEALTH
from app.api.page import site
from app.api.page.router import reference
from app.api.problems import MEDIA_TYPE, ProblemType
from tests.api.openapi import document, resolved, text

COPY = Path(__file__).parents[2] / "docs" / "openapi.json"
DOCUMENT = document()
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
each_operation = pytest.mark.parametrize("name", OPERATIONS)


@each_operation
def test_an_operation_says_what_it_does(name):
    _, _, operation = OPERATIONS[name]
    assert re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", name)
    assert 5 < len(operation["summary"]) < 120
    assert not operation["summary"].endswith(".")
    assert operation["description"].startswith(operation["summary"])
    assert len(operation["tags"]) == 1


def test_every_subject_is_described():
    used = {operation["tags"][0] for _, _, operation in OPERATIONS.values()}
    assert {each["name"] for each in DOCUMENT["tags"]} == used


@each_operation
def test_every_parameter_is_described_or_names_what_it_is(name):
    _, _, operation = OPERATIONS[name]
    for each in operation.get("parameters", ()):
        assert each["in"] == "path" or each["description"], each["name"]


@each_operation
def test_errors_are_problems_and_nothing_else(name):
    _, path, operation = OPERATIONS[name]
    for status, named in operation["responses"].items():
        answer = resolved(DOCUMENT, named)
        if status >= "4" and not (path in HEALTH and status == "503"):
            ((media, content),) = answer["content"].items()
            assert media == MEDIA_TYPE
            assert content["schema"] == {"$ref": "#/components/schemas/ProblemDetails"}
            assert content["example"]["status"] == int(status)


@each_operation
def test_who_must_identify_himself_is_told(name):
    _, path, operation = OPERATIONS[name]
    protected = path not in HEALTH
    assert operation.get("security") == ([{"bearer": []}] if protected else None)
    assert {"401", "429"} <= operation["responses"].keys() or not protected
    assert "401" not in operation["responses"] or protected


def test_every_problem_that_is_no_bug_is_an_answer_of_some_call():
    documented = {int(s) for _, _, each in OPERATIONS.values() for s in each["responses"]}
    never = {405, 500}  # of a method that is not documented; of what nobody foresaw
    assert {each.status for each in ProblemType} - documented == never


def test_every_shared_answer_is_one_of_some_call():
    used = {
        each["$ref"].rpartition("/")[2]
        for _, _, operation in OPERATIONS.values()
        for each in operation["responses"].values()
        if "$ref" in each
    }
    assert used == DOCUMENT["components"]["responses"].keys()


def test_a_shape_has_its_public_name_also_as_its_title():
    shapes = DOCUMENT["components"]["schemas"]
    assert shapes.keys().isdisjoint(documents._NAMES)
    assert {name: each["title"] for name, each in shapes.items()} == {each: each for each in shapes}


def test_every_reference_leads_somewhere():
    for found in set(re.findall(r"'#/components/(\w+)/(\w+)'", str(DOCUMENT))):
        assert found[1] in DOCUMENT["components"][found[0]]


# Examples.


def closed():
    """All shapes, knowing no other fields: in an example a misspelt one is an error."""
    schemas = deepcopy(DOCUMENT["components"]["schemas"])
    for name, each in schemas.items():
        if name != "ProblemDetails" and "properties" in each:
            each["additionalProperties"] = False
            each["required"] = sorted(each.get("required", ()))
    return schemas


def problems_with(schema, example):
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    found = jsonschema_rs.validator_for({**whole, "components": {"schemas": closed()}})
    return [each.message for each in found.iter_errors(example)]


@each_operation
def test_every_answer_has_an_example_that_is_one(name):
    _, _, operation = OPERATIONS[name]
    for status, named in operation["responses"].items():
        answer = resolved(DOCUMENT, named)
        for media, content in answer.get("content", {}).items():
            if media in {JSON, MEDIA_TYPE}:
                assert "example" in content, (name, status)
                assert problems_with(content["schema"], content["example"]) == []


@each_operation
def test_every_body_has_an_example_that_is_one(name):
    _, _, operation = OPERATIONS[name]
    if "requestBody" in operation:
        content = operation["requestBody"]["content"][JSON]
        assert problems_with(content["schema"], content["example"]) == []


def test_examples_are_of_calls_that_there_are():
    assert documents.REQUESTS.keys() <= OPERATIONS.keys()
    for name, answers in documents.ANSWERS.items():
        assert {str(each) for each in answers} <= OPERATIONS[name][2]["responses"].keys()


# The copy, and the page.


def test_every_key_of_the_two_files_says_what_it_is_for():
    shapes, reached, left = DOCUMENT["components"]["schemas"], set(), ["ProberFile", "WeederFile"]
    while left:
        name = left.pop()
        reached.add(name)
        named = re.findall(r"#/components/schemas/(\w+)", json.dumps(shapes[name]))
        left += {*named} - reached
    keys = [
        (f"{name}.{key}", shown.get("description", ""))
        for name in reached
        for key, shown in shapes[name].get("properties", {}).items()
    ]
    assert len(keys) > 50
    assert [key for key, said in keys if said in {"", "A Go duration."}] == []


def test_the_copy_in_docs_is_the_document():
    assert COPY.read_text() == text(), "renew it: python -m tests.api.openapi > docs/openapi.json"


def test_it_is_served(client, process):
    served = client.get("/openapi.json").json()
    assert served["info"].pop("version") == process.version
    assert served["paths"] == DOCUMENT["paths"]


def test_the_page_has_every_call_with_its_parameters_bodies_and_answers(client):
    page = client.get("/docs").text
    for method, path, operation in OPERATIONS.values():
        assert f"<code>{method.upper()} {path}</code>" in page
        for each in operation.get("parameters", ()):
            assert f"<code>{each['name']}</code>" in page
    for name in DOCUMENT["components"]["schemas"]:
        assert f'id="shape-{name}"' in page
    assert "the load balancer is back" in page, "an example"


def test_every_link_of_the_page_leads_somewhere_on_it(client):
    _, _, page = client.get("/docs").text.partition("<main")
    targets = set(re.findall(r'id="([^"]+)"', page))
    links = set(re.findall(r'href="([^"]+)"', page))
    assert {each.removeprefix("#") for each in links} <= targets
    assert all(each.startswith("#") for each in links)


def test_the_page_is_rendered_in_slices(client, process, monkeypatch):
    waits = []
    process.when_asked_to_wait = lambda: waits.append(process.now())
    monkeypatch.setattr(site, "stopwatch", count(step=0.000_1).__next__)
    assert client.get("/docs").text.rstrip().endswith("</html>")
    assert len(waits) > 10


def test_texts_are_escaped_on_the_page():
    hostile = deepcopy(DOCUMENT)
    hostile["info"]["description"] = "<script>`<b>`"
    for methods in hostile["paths"].values():
        for operation in methods.values():
            operation["description"] = "<script>"
    page = "".join(reference(hostile))
    assert "<script" not in page
    assert "&lt;script&gt;<code>&lt;b&gt;</code>" in page


def test_the_page_of_the_calls_has_no_script_and_nothing_from_elsewhere(client):
    answer = client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in answer.text
    assert "//" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "style-src 'self'" in policy
    assert "script-src" not in policy
    assert '<a href="/">Shoots</a>' in answer.text
