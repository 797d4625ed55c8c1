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
