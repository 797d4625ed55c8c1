"""Every call × role × mode, through the whole application, as api.md has it under "Who may call".

Every route asks whether the caller may make its call, before it does or says anything else.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.types import ASGIApp

from app.api.auth.authorization import Call
from app.core.model.callers import Access, Role
from tests.api.auth.callers import FILED, Answer, api_behind, ask, gate_of, token_file
from tests.api.auth.conftest import ALICE, Counted
from tests.api.facts import HOME, NAMESPACE, healthy
from tests.api.fakes import FakeProcess, FakeShoots, application

TABLE = {
    tuple(call.split()): Call[right]
    for call, right in yaml.safe_load(Path(__file__).with_name("calls.yaml").read_text()).items()
}
LEAST = {"viewer": 0, "operator": 1, "admin": 2}
HEALTH = ("/livez", "/readyz", "/healthz")
HIDDEN = {each for each in TABLE if not each[1].startswith("/api/") and each[1] != "/metrics"}
"""Pages for people: they are not in the document."""
PAUSE = f"/api/v1/shoots/{NAMESPACE}/pause"


def test_every_route_is_in_the_table():
    paths = application().openapi()["paths"]
    routes = {(method.upper(), path) for path in paths for method in paths[path]}
    assert routes | HIDDEN == TABLE.keys() | {("GET", path) for path in HEALTH}


def test_what_changes_something_is_never_a_viewers():
    for (method, path), call in TABLE.items():
        assert call.writes == (method != "GET"), path
        assert (call.role is Role.VIEWER) == (method == "GET"), path


@dataclass
class Api:
    """The whole application behind a gate, with one shoot."""

    app: ASGIApp
    counted: Counted

    async def call(self, method: str, path: str, token: str | None = None) -> Answer:
        """One call of the table, each from an address of its own: none is one too many."""
        url = re.sub(r"\{\w+\}", "x", path.replace("{namespace}", NAMESPACE))
        body = b"{}" if method in {"PUT", "POST"} else b""  # the others have none
        return await ask(self.app, url, method=method, token=token, body=body, peer=next(_PEERS))

    async def decided(self, method: str, path: str, token: str | None = None) -> tuple[Answer, Any]:
        """The same, and what was counted for it."""
        before = Counter(self.counted())
        answer = await self.call(method, path, token)
        return answer, dict(Counter(self.counted()) - before)

    async def is_healthy(self) -> bool:
        return all([(await ask(self.app, path)).status == 200 for path in HEALTH])


_PEERS = (f"10.{n >> 8}.{n & 255}.1" for n in count(1))


@pytest.fixture
def behind(metrics, reviewer):
    async def make(*words, shoots=True, leading=True):
        gate = await gate_of(*words, reviewer=reviewer, metrics=metrics)
        known, process = FakeShoots(), FakeProcess(leading=leading)
        known.add(*([healthy()] if shoots else []))
        return Api(api_behind(gate, metrics, shoots=known, process=process), Counted(metrics))

    return make


def access_of(call, path):
    if call.at_home:
        return call.access(HOME)
    # of an operation that nobody knows: only who may do it everywhere learns that
    return call.access(NAMESPACE if "{namespace}" in path else "")


@pytest.mark.parametrize("name", FILED)
async def test_each_role_of_a_token_file_may_make_its_calls_and_no_other(behind, tmp_path, name):
    api = await behind("--auth-mode=token", f"--auth-token-file={token_file(tmp_path)}")
    for (method, path), call in TABLE.items():
        answer, decision = await api.decided(method, path, f"{name}s-token")
        may = LEAST[FILED[name]] >= LEAST[call.role]
        assert decision == ({"allowed": 1} if may else {"denied": 1}), (method, path)
        assert (answer.status == 403) is not may, (method, path)
        assert answer.status != 401, (method, path)


@pytest.mark.parametrize("leading", [True, False], ids=["leader", "standby"])
async def test_with_all_rights_but_the_one_of_the_call_it_is_refused_before_anything_is_said(
    behind, reviewer, leading
):
    """Not with 404, 422 or 503: neither whether there is such a shoot is said, nor who leads."""
    api = await behind("--auth-mode=kubernetes", shoots=False, leading=leading)
    everything = {
        Access(each.verb, each.resource, place) for each in Call for place in ("", NAMESPACE, HOME)
    }
    for (method, path), call in TABLE.items():
        if not leading and path.endswith("/operations/{id}"):
            continue  # of which shoot it is only the leader knows
        access = access_of(call, path)
        reviewer.rights = {(ALICE.name, each) for each in everything - {access}}
        answer, decision = await api.decided(method, path, "alices-token")
        assert (answer.status, decision) == (403, {"denied": 1}), (method, path)
        named = Access(*(answer.problem[each] for each in ("verb", "resource", "namespace")))
        assert named == access, (method, path)
        assert answer.problem["detail"].startswith("alice may not"), (method, path)


async def test_the_right_of_the_call_alone_is_enough(behind, reviewer):
    api = await behind("--auth-mode=kubernetes")
    for (method, path), call in TABLE.items():
        reviewer.rights = {(ALICE.name, access_of(call, path))}
        answer, decision = await api.decided(method, path, "alices-token")
        assert decision == {"allowed": 1}, (method, path)
        assert answer.status not in {401, 403}, (method, path)


@pytest.mark.parametrize("mode", ["kubernetes", "token"])
async def test_without_a_token_nothing_but_health_is_answered(behind, tmp_path, mode):
    words = [f"--auth-token-file={token_file(tmp_path)}"] if mode == "token" else []
    api = await behind(f"--auth-mode={mode}", *words)
    for method, path in TABLE:
        answer, decision = await api.decided(method, path)
        assert (answer.status, decision) == (401, {"unauthenticated": 1}), (method, path)
    assert await api.is_healthy()


@pytest.mark.parametrize(
    ("state", "status", "decided"),
    [
        ("away", 503, "unavailable"),
        ("sick", 503, "unavailable"),
        ("forbid", 503, "unavailable"),
        ("throttle", 429, "throttled"),
    ],
)
async def test_while_nobody_can_be_asked_nothing_but_health_is_answered(
    *, behind, reviewer, state, status, decided
):
    getattr(reviewer, state)()
    api = await behind("--auth-mode=kubernetes")
    for method, path in TABLE:
        answer, decision = await api.decided(method, path, "alices-token")
        assert (answer.status, decision) == (status, {decided: 1}), (method, path)
        assert "TokenReview" in answer.problem["detail"] or status == 429
        assert int(answer.headers["retry-after"]) >= 1
    assert await api.is_healthy()


async def test_the_document_is_for_whoever_is_known(behind):
    api = await behind("--auth-mode=kubernetes")
    assert (await api.call("GET", "/openapi.json")).status == 401
    assert (await api.call("GET", "/openapi.json", "bobs-token")).status == 200
