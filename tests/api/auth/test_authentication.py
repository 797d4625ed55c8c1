"""Who gets through to an application, in each mode, and with what the others are turned away."""

import asyncio

import pytest
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse

from app.api.auth.authentication import still_authenticated
from app.api.problems import Problem
from app.core.errors import Forbidden
from app.core.model.callers import AUDIENCE, Caller, Role
from tests.api.auth.callers import ask, gate_of, token_file
from tests.api.auth.conftest import ALICE, BOB

CANARY = "canary-t0ken"


class Inner:
    """The application inside: remembers who called."""

    def __init__(self):
        self.callers = []
        self.scopes = []

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        self.callers.append(scope.get("state", {}).get("caller"))
        await PlainTextResponse("inside")(scope, receive, send)


@pytest.fixture
def inner():
    return Inner()


@pytest.fixture
async def seed(inner, reviewer, metrics):
    """Around `inner`, those whom the seed knows."""
    gate = await gate_of("--auth-mode=kubernetes", reviewer=reviewer, metrics=metrics)
    return gate.around_api(inner)


@pytest.fixture
async def filed(inner, tmp_path, metrics):
    """Around `inner`, those of a token file."""
    words = ("--auth-mode=token", f"--auth-token-file={token_file(tmp_path)}")
    return (await gate_of(*words, metrics=metrics)).around_api(inner)


@pytest.fixture
def gates(seed, filed):
    return {"seed": seed, "filed": filed}


async def test_whoever_the_seed_knows_gets_through_under_his_name(seed, inner):
    answer = await ask(seed, "/api/v1/status", token="alices-token")
    assert (answer.status, answer.body) == (200, b"inside")
    assert inner.callers == [ALICE]


async def test_whoever_the_token_file_knows_gets_through_with_his_role(filed, inner):
    assert (await ask(filed, "/api/v1/status", token="ottos-token")).status == 200
    assert inner.callers == [Caller("otto", Role.OPERATOR)]


@pytest.mark.parametrize("token", [None, CANARY])
async def test_without_authentication_everybody_is_an_admin(inner, token):
    gate = await gate_of()
    assert (await ask(gate.around_api(inner), "/", method="PUT", token=token)).status == 200
    assert inner.callers == [Caller("anonymous", Role.ADMIN)]


@pytest.mark.parametrize("mode", ["seed", "filed"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "BREW"])
@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({}, ""),
        ({"authorization": f"Basic {CANARY}"}, ""),
        ({"authorization": f"Bearer {CANARY} {CANARY}"}, ', error="invalid_request"'),
        ({"authorization": f"Bearer {CANARY}"}, ', error="invalid_token"'),
    ],
    ids=["none", "basic", "malformed", "unknown"],
)
async def test_nobody_else_gets_through(*, gates, inner, counted, mode, method, headers, error):
    app = gates[mode]
    answer = await ask(app, "/api/v1/pause", method=method, headers=headers, body=None)
    assert answer.status == 401
    assert answer.problem["type"] == "urn:dependency-watchdog:problem:unauthenticated"
    assert answer.headers["www-authenticate"] == f'Bearer realm="dependency-watchdog"{error}'
    assert CANARY not in repr(answer)
    assert inner.callers == []
    assert counted() == {"unauthenticated": 1}


async def test_a_token_for_the_seed_itself_is_worth_nothing_here(seed, inner):
    assert (await ask(seed, "/", token="alices-seed-token")).status == 401
    assert inner.callers == []


@pytest.mark.parametrize("mode", ["seed", "filed"])
async def test_a_body_is_not_read_of_nobody_and_the_connection_ends(gates, mode):
    answer = await ask(gates[mode], "/api/v1/pause", method="PUT", body=None)
    assert (answer.status, answer.headers["connection"]) == (401, "close")


async def test_a_read_that_is_refused_may_be_followed_by_another_one(seed):
    assert "connection" not in (await ask(seed, "/")).headers


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
@pytest.mark.parametrize("state", ["away", "sick", "forbid", "throttle", "mend"])
async def test_health_is_open_whatever_becomes_of_the_seed(seed, inner, reviewer, path, state):
    getattr(reviewer, state)()
    assert (await ask(seed, path)).status == 200
    assert reviewer.asked == []
    assert inner.callers == [None]


@pytest.mark.parametrize(
    "path", ["/livez/", "/livez/x", "/LIVEZ", "/", "/docs", "/openapi.json", "/metrics", "/x"]
)
async def test_nothing_else_is_open(seed, inner, path):
    assert (await ask(seed, path)).status == 401
    assert inner.callers == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_read_asks_the_seed_once_a_minute_and_a_write_each_time(seed, reviewer, method):
    for _ in range(3):
        assert (await ask(seed, "/", method=method, token="alices-token")).status == 200
    assert len(reviewer.asked) == 1
    for _ in range(3):
        assert (await ask(seed, "/", method="POST", token="alices-token")).status == 200
    assert len(reviewer.asked) == 4


@pytest.mark.parametrize("token", [None, CANARY])
@pytest.mark.parametrize("kind", ["fails", "fails_access"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_where_we_may_not_ask_nobody_is_told_that_he_is_unknown(
    *, seed, inner, reviewer, counted, token, kind, method
):
    setattr(reviewer, kind, Forbidden("we may not create it", status=403))
    for _ in range(3):
        answer = await ask(seed, "/api/v1/shoots", method=method, token=token, body=None)
        assert answer.status == 503
        assert answer.problem["type"] == "urn:dependency-watchdog:problem:feature-off"
        assert answer.problem["feature"] == "token-review"
        await asyncio.sleep(11)
    assert inner.callers == []
    assert counted() == {"unavailable": 3}
    reviewer.mend()
    assert (await ask(seed, "/api/v1/shoots", method=method, token=token, body=None)).status == 401


async def test_nobody_makes_us_ask_about_nobody_more_than_once_a_minute(seed, reviewer):
    for _ in range(59):
        assert (await ask(seed, "/")).status == 401
        await asyncio.sleep(1)
    assert sorted(reviewer.asked) == ["SubjectAccessReview", "TokenReview"]


async def test_nobody_waits_for_a_seed_that_was_away_a_moment_ago(seed, reviewer):
    reviewer.away()
    reviewer.takes = 3.0
    assert (await ask(seed, "/")).status == 401
    asked = len(reviewer.asked)
    assert (await ask(seed, "/")).status == 401
    assert len(reviewer.asked) == asked


async def test_a_flood_of_tokens_keeps_nobody_waiting_but_its_own_address(seed, reviewer):
    reviewer.takes = 1.0
    flood = [
        asyncio.ensure_future(ask(seed, "/", token=f"random-{number}", peer="10.0.0.1"))
        for number in range(60)
    ]
    await asyncio.sleep(0.1)
    assert (await ask(seed, "/", token="alices-token", peer="10.0.0.2")).status == 200
    assert {each.status for each in await asyncio.gather(*flood)} == {401, 429}


# What goes on for long.


async def test_what_goes_on_asks_each_time_whatever_was_said_a_moment_ago(seed, inner, reviewer):
    await ask(seed, "/api/v1/events", token="alices-token")
    connection = HTTPConnection(inner.scopes[0])
    for asked in range(2, 12):
        await asyncio.sleep(55)
        await still_authenticated(connection)
        assert len(reviewer.asked) == asked


async def test_a_caller_whose_token_is_worth_nothing_any_more_may_not(
    seed, inner, reviewer, counted
):
    await ask(seed, "/api/v1/events", token="alices-token")
    reviewer.tokens.clear()
    await asyncio.sleep(60)
    with pytest.raises(Problem) as caught:
        await still_authenticated(HTTPConnection(inner.scopes[0]))
    assert caught.value.kind.status == 401
    assert counted() == {"unauthenticated": 1}


async def test_a_token_that_became_somebody_elses_is_no_more_the_callers(seed, inner, reviewer):
    await ask(seed, "/api/v1/events", token="alices-token")
    reviewer.tokens["alices-token", AUDIENCE] = BOB
    await asyncio.sleep(60)
    with pytest.raises(Problem, match="now belongs to another caller"):
        await still_authenticated(HTTPConnection(inner.scopes[0]))


async def test_what_goes_on_survives_an_absence_of_the_seed_for_five_minutes(seed, inner, reviewer):
    await ask(seed, "/api/v1/events", token="alices-token")
    reviewer.away()
    connection = HTTPConnection(inner.scopes[0])
    await asyncio.sleep(290)
    await still_authenticated(connection)
    await asyncio.sleep(11)
    with pytest.raises(Problem) as caught:
        await still_authenticated(connection)
    assert caught.value.kind.status == 503


async def test_a_caller_whom_the_token_file_has_lost_may_not_go_on(inner, tmp_path):
    path = token_file(tmp_path)
    gate = await gate_of("--auth-mode=token", f"--auth-token-file={path}")
    await ask(gate.around_api(inner), "/api/v1/events", token="veras-token")
    connection = HTTPConnection(inner.scopes[0])
    await still_authenticated(connection)
    path.write_text(path.read_text().replace("vera", "verena"))
    await gate.files[0].check()
    with pytest.raises(Problem, match="now belongs to another caller"):
        await still_authenticated(connection)
