"""Every command line of `commands.yaml`: what it sends, what it shows of the answer, and how it ends without one."""

import json
import shlex
from pathlib import Path

import pytest
import yaml

from tests.cli import examples
from tests.cli.server import Reply, page, problem

ROWS = yaml.safe_load((Path(__file__).parent / "commands.yaml").read_text(encoding="utf-8"))


def each_with(*keys):
    """A test for each row with one of these keys; for every row where none is named."""
    rows = {name: row for name, row in ROWS.items() if not keys or {*keys} & {*row}}
    return pytest.mark.parametrize("row", rows.values(), ids=rows)


def example(found):
    """An answer of `examples` by its name; any other is itself."""
    if found == "OPERATION":
        return examples.operation()
    return getattr(examples, found) if isinstance(found, str) else found


def answer(row):
    if "page" in row:
        return Reply(page(*map(example, row["page"]), **row.get("metadata", {})))
    if "answer" in row:
        return Reply(example(row["answer"]), row.get("status", 200))
    return Reply(status=204)


@each_with()
def test_a_command_that_is_done_ends_with_0_and_one_request(row, api, dwd):
    words = shlex.split(row["dwd"])
    api.on(row["asks"], answer(row))
    ran = dwd(*words)
    assert (ran.code, ran.err) == (0, "")
    assert row.get("says", "") in ran.out != ""
    (asked,) = api.asked
    assert f"{asked.method} {asked.path}" == row["asks"]
    assert (asked.query, asked.body) == (row.get("query", {}), row.get("body"))
    assert asked.headers.get("If-Match") == row.get("match")
    assert (asked.headers.get("Content-Type") == "application/json") == ("body" in row)
    ran = dwd(*words, "-o", "json")
    assert (ran.code, json.loads(ran.out or "null")) == (0, answer(row).body), "what the API said"


@each_with()
def test_a_refusal_ends_every_command_in_the_words_of_the_server(row, api, dwd):
    api.on(row["asks"], problem(409, "some", "No", "that is how it is"))
    ran = dwd(*shlex.split(row["dwd"]), "-o", "json")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("dwd: No: that is how it is\n")


@each_with("answer", "page")
def test_an_answer_that_is_none_of_this_api_ends_with_1(row, api, dwd):
    api.on(row["asks"], Reply(b"[1]"))
    ran = dwd(*shlex.split(row["dwd"]))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("dwd: the answer is not one of this API: ")


@each_with("names")
def test_names_are_alone_one_on_each_line(row, api, dwd):
    api.on(row["asks"], answer(row))
    ran = dwd(*shlex.split(row["dwd"]), "-o", "name")
    assert (ran.code, ran.err, ran.lines) == (0, "", row["names"])


@pytest.mark.parametrize(
    ("name", "more"),
    [("shoots", True), ("operations", True), ("services", True), ("one shoot", False)],
)
def test_a_wide_table_has_more_columns_where_there_is_more_to_say(name, more, api, dwd):
    api.on(ROWS[name]["asks"], answer(ROWS[name]))
    narrow, wide = (
        dwd(*shlex.split(ROWS[name]["dwd"]), *each).lines for each in ((), ("-o", "wide"))
    )
    assert (len(wide[0]) > len(narrow[0])) is more


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[" * 100_000, b'{"items": ["\xff\xfe"]}'],
    ids=["HTML", "depth", "no UTF-8"],
)
@pytest.mark.parametrize("name", ["shoots", "a pause of all", "status"])
def test_an_answer_that_is_no_json_ends_with_1(name, body, api, dwd):
    api.on(ROWS[name]["asks"], Reply(body))
    ran = dwd(*shlex.split(ROWS[name]["dwd"]))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("dwd: the answer is not JSON: ")
