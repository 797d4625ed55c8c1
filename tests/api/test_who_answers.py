"""Who answers a call: the leader of its loop or any replica; and what a dry run and a fresh start do to it."""

import re
from typing import Any, NamedTuple

import pytest

from app.core.model.policy import Loop
from tests.api.facts import KCM, NAMESPACE, NOW, SERVICE
from tests.api.fakes import populate, type_of
from tests.api.openapi import document


class Asked(NamedTuple):
    """A call; with `writes` to the seed."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    writes: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


SHOOT = f"/api/v1/shoots/{NAMESPACE}"
WEEDER = f"/api/v1/weeders/{NAMESPACE}/{SERVICE.service}"
IGNORE = f"{SHOOT}/resources/Deployment/{KCM.name}/ignore-scaling"
WHY = {"reason": "maintenance"}
PAUSE = Asked("PUT", f"{SHOOT}/pause", WHY, writes=True)
SCALE = Asked("POST", f"{SHOOT}/scale", WHY | {"direction": "up"}, writes=True)
WEED = Asked("POST", WEEDER, writes=True)
OF_THE_PROBERS_LEADER = [
    *(Asked("GET", SHOOT + part) for part in ("", "/nodes", "/history")),
    *(Asked("GET", f"/api/v1/{part}") for part in ("shoots", "operations", "operations/op-1")),
    Asked("POST", f"{SHOOT}/probe"),
    SCALE,
    Asked("DELETE", "/api/v1/operations/op-1", writes=True),
]
OF_THE_WEEDERS_LEADER = [Asked("GET", "/api/v1/weeders"), Asked("GET", WEEDER), WEED]
OF_ANY_PROBER = [
    Asked("DELETE", f"{SHOOT}/hold", writes=True),
    Asked("GET", f"{SHOOT}/resources"),
    Asked("PUT", IGNORE, WHY, writes=True),
    Asked("DELETE", IGNORE, writes=True),
]
OF_ANY_PROCESS = [
    PAUSE,
    Asked("DELETE", f"{SHOOT}/pause", writes=True),
    Asked("GET", f"{SHOOT}/pauses"),
    Asked("DELETE", f"{SHOOT}/pauses/{KCM.name}", writes=True),
    Asked("PUT", "/api/v1/pause", WHY | {"scope": "scaleDown"}, writes=True),
    Asked("DELETE", "/api/v1/pause", writes=True),
    Asked("GET", "/api/v1/pauses"),
    Asked("DELETE", f"/api/v1/pauses/{KCM.name}", writes=True),
    *(Asked("GET", f"/api/v1/{part}") for part in ("status", "audit", "config")),
    Asked("PUT", "/api/v1/config/log-level", {"level": "info"}),
    *(
        Asked("GET", path)
        for path in ("/livez", "/readyz", "/healthz", "/metrics", "/", "/docs", "/openapi.json")
    ),
]
OF_LEADERS = [*OF_THE_PROBERS_LEADER, *OF_THE_WEEDERS_LEADER]
OF_REPLICAS = [*OF_ANY_PROBER, *OF_ANY_PROCESS]


@pytest.fixture(autouse=True)
def world(fakes):
    populate(fakes)


@pytest.fixture
def ask(client):
    return lambda asked: client.request(asked.method, asked.path, json=asked.body)


@pytest.fixture
def untouched(*, overrides, scaling_runs, weeders, resources):
    """Whether nothing was written, begun or asked for since the test began."""

    def state():
        runs = [each.phase for each in scaling_runs.known.values()]
        acts = (scaling_runs.orders, scaling_runs.probed, weeders.begun, resources.asked)
        return overrides.objects, overrides.orders, runs, acts

    before = repr(state())
    return lambda: repr(state()) == before


def test_each_call_of_the_document_is_among_these():
    """Only the stream of events is not, as it does not end."""
    asked = {(each.method, each.path) for each in (*OF_LEADERS, *OF_REPLICAS)}
    for path, methods in document()["paths"].items():
        form = re.compile(re.sub(r"{\w+}", "[^/]+", path))
        found = {method for method, one in asked if form.fullmatch(one)}
        assert {each.upper() for each in methods} <= found or path == "/api/v1/events", path


@pytest.mark.parametrize("asked", OF_LEADERS, ids=str)
def test_a_standby_leaves_it_to_the_leader_and_names_it(process, ask, untouched, asked):
    process.leading = False
    answer = ask(asked)
    assert (answer.status_code, type_of(answer)) == (503, "not-the-leader")
    assert answer.json()["leader"] == {"identity": "dwd-7f9", "address": None}
    assert answer.json()["detail"] == "this instance is on standby; dwd-7f9 leads"
    assert untouched()


def test_a_standby_says_so_where_nobody_is_known_to_lead(process, ask):
    process.leading, process.leader_identity = False, None
    found = ask(OF_LEADERS[0]).json()
    assert found["leader"] == {"identity": None, "address": None}
    assert "the leader is unknown" in found["detail"]


@pytest.mark.parametrize("asked", OF_REPLICAS, ids=str)
def test_a_standby_answers_what_any_replica_knows_and_may_write(process, ask, untouched, asked):
    process.leading = False
    assert ask(asked).status_code < 300
    assert untouched() is not asked.writes


@pytest.mark.parametrize(
    ("here", "asked"),
    [
        *((Loop.PROBER, each) for each in OF_THE_WEEDERS_LEADER),
        *((Loop.WEEDER, each) for each in [*OF_THE_PROBERS_LEADER, *OF_ANY_PROBER]),
    ],
    ids=str,
)
@pytest.mark.parametrize("peer", [None, "http://dwd-peer:8080"])
def test_a_loop_that_runs_elsewhere_is_named_with_where_whether_this_one_leads_or_not(
    *, process, ask, untouched, here, asked, peer
):
    process.loops, process.peer_url = (here,), peer
    for process.leading in (True, False):
        answer = ask(asked)
        assert (answer.status_code, type_of(answer)) == (503, "loop-not-here")
        found, (loop,) = answer.json(), set(Loop) - {here}
        assert (found["loop"], found["peer"]) == (loop, peer)
        where = "" if peer is None else f"; ask {peer}"
        assert found["detail"] == (
            f"the {loop} does not run in this process, which runs the {here}{where}"
        )
    assert untouched()


@pytest.mark.parametrize("asked", [*OF_LEADERS, *OF_REPLICAS], ids=str)
def test_a_process_in_dry_run_writes_nothing_and_answers_all_else(process, ask, untouched, asked):
    process.dry_run = True
    answer = ask(asked)
    if asked.writes:
        assert (answer.status_code, type_of(answer)) == (503, "dry-run")
        assert untouched()
    else:
        assert answer.status_code < 300


@pytest.mark.parametrize("asked", [PAUSE, SCALE, WEED], ids=str)
def test_right_after_a_start_it_waits_until_the_overrides_are_listed(
    process, overrides, ask, asked
):
    overrides.synced = False

    def waited():
        overrides.synced = overrides.synced or process.time >= NOW + 1.0

    process.when_asked_to_wait = waited
    assert ask(asked).status_code < 300
    assert process.time == pytest.approx(NOW + 1.0, abs=0.2)
