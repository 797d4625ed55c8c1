"""The calls of the REST API that the pages make are there: path, method, parameters."""

import re

import pytest

from tests.api.openapi import document
from tests.docs.pages import pages
from tests.docs.shell import words_of

DOCUMENT = document()
PATHS = [
    (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), path) for path in DOCUMENT["paths"]
]
OPEN = {"/metrics", "/livez", "/readyz", "/healthz", "/docs", "/openapi.json", ""}


def test_every_path_of_the_api_is_there_with_its_method_and_parameters():
    wrong = [
        f"{page}:{line.line}: {why}"
        for page in pages()
        for line in page.shell_lines
        for words in words_of(line.text)
        for why in troubles_of_curl(words)
    ]
    assert wrong == []


def troubles_of_curl(words):
    """What is wrong with a call by curl; nothing where it is none of ours."""
    if words[:1] != ["curl"]:
        return
    method = next(
        (words[at + 1] for at, word in enumerate(words[:-1]) if word == "-X"), "GET"
    ).lower()
    for word in words:
        found = re.match(r"(?:https?://)?[\w.$-]+:(?:8080|9643|9644)(/[^?]*)?(?:\?(.*))?$", word)
        if found and not (found[1] or "").startswith("$"):
            yield from troubles_of_call(method, found[1] or "", found[2] or "")


def troubles_of_call(method, path, query):
    if path in OPEN:
        return
    route = next((route for pattern, route in PATHS if pattern.fullmatch(path)), None)
    if route is None or method not in DOCUMENT["paths"][route]:
        yield f"no call {method} {path}"
        return
    known = {each["name"] for each in DOCUMENT["paths"][route][method].get("parameters", ())}
    yield from (
        f"no parameter {each} of {path}"
        for each in re.findall(r"(\w+)=", query)
        if each not in known
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("curl -s localhost:8080/api/v1/shoots/a/history", []),
        ("curl -s localhost:8080/api/v1/nothing", ["no call get /api/v1/nothing"]),
        ("curl -s -X PUT localhost:8080/api/v1/status", ["no call put /api/v1/status"]),
        ("curl -s 'localhost:8080/api/v1/shoots?size=3'", ["no parameter size of /api/v1/shoots"]),
    ],
)
def test_calls_that_are_not_there_are_found(line, said):
    assert [each for words in words_of(line) for each in troubles_of_curl(words)] == said
