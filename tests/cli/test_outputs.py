"""`-o wide` and `-o name`: more columns for people, names alone for scripts."""

import pytest

from tests.cli.server import page

SHOOT = {
    "namespace": "shoot--a--b",
    "state": "Protected",
    "message": "7 of 10 node leases are older than 30 s",
    "probe": {"consecutiveFailures": 3, "nextTime": "2026-11-22T07:06:24Z"},
    "resources": [{"kind": "Deployment", "name": "kcm", "replicas": {"spec": 0, "saved": 2}}],
}


RUN = {"id": "x-1", "phase": "Failed", "ended": "2026-11-22T07:06:24Z", "message": "timed out"}
SERVICE = {"namespace": "a", "service": "etcd", "recoveries": [{"trouble": "watch is stale"}]}


@pytest.mark.parametrize(
    ("subject", "item", "end"),
    [
        ("shoots", SHOOT, "07:06:24  3       kcm 0 (2)   7 of 10 node leases are older than 30 s"),
        ("operations", RUN, "2026-11-22T07:06:24Z  -           timed out"),
        ("weeders", SERVICE, "watch is stale"),
    ],
)
def test_a_wide_table_says_more_of_each(subject, item, end, api, dwd):
    api.on(f"GET /{subject}", page(item))
    narrow, wide = dwd(subject), dwd(subject, "-o", "wide")
    assert narrow.lines[0].split() < wide.lines[0].split()
    assert end not in narrow.out
    assert wide.lines[1].endswith(end)


def test_wide_is_the_usual_table_where_there_is_no_more_to_say(api, dwd):
    api.on("GET /shoots/a", SHOOT | {"namespace": "a"})
    assert dwd("shoots", "a", "-o", "wide").out == dwd("shoots", "a").out


@pytest.mark.parametrize(
    ("line", "answer", "words", "names"),
    [
        ("GET /shoots", page(SHOOT, {"namespace": "b"}), ("shoots",), ["shoot--a--b", "b"]),
        ("GET /shoots", page(), ("shoots",), []),
        ("GET /shoots/a", SHOOT | {"namespace": "a"}, ("shoots", "a"), ["a"]),
        ("GET /operations", page({"id": "x-1"}), ("operations",), ["x-1"]),
        ("GET /operations/x-1", {"id": "x-1"}, ("operations", "x-1"), ["x-1"]),
        ("DELETE /operations/x-1", {"id": "x-1"}, ("operations", "x-1", "--cancel"), ["x-1"]),
        ("GET /weeders", page({"namespace": "a", "service": "e"}), ("weeders",), ["a/e"]),
        ("POST /shoots/a/scale", {"id": "x-1"}, ("scale", "up", "a", "--reason=x"), ["x-1"]),
    ],
)
def test_names_are_alone_one_on_each_line(line, answer, words, names, api, dwd):
    api.on(line, answer)
    ran = dwd(*words, "-o", "name")
    assert (ran.code, ran.err, ran.lines) == (0, "", names)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pause", "a", "--reason=x"), "name is for shoots, scale, operations, weeders"),
        (("shoots", "a", "--nodes"), "name does not go with --nodes"),
        (("scale", "up", "a", "--reason=x", "--dry-run"), "a plan has no name"),
    ],
)
def test_a_command_without_names_says_so(words, message, api, dwd):
    ran = dwd(*words, "-o", "name")
    assert (ran.code, ran.out, api.asked) == (2, "", [])
    assert f"--output: {message}" in ran.err
