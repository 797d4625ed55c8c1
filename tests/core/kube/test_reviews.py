"""Reviews over real sockets: what is sent, what is believed, what they may cost, and that no token gets anywhere."""

import asyncio
import json
import logging
import traceback
from contextlib import asynccontextmanager

import pytest
import structlog

from app.core import errors
from app.core.kube import reviews
from app.core.kube.client import ApiRequest
from app.core.kube.connections import RequestedRight
from app.core.kube.reviews import Reviewer
from app.core.model.callers import Access, Caller
from tests.core.kube.server import Asked, api_of, until

pytestmark = pytest.mark.looptime(False)

CANARY = "canary-token-1b2c3d4e5f"
JANE = {"username": "jane", "uid": "7", "groups": ["a", "b"], "extra": {"k": ["v"]}}
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def good_token(**more):
    status = {"authenticated": True, "user": JANE, "audiences": ["dependency-watchdog"]} | more
    return {"kind": "TokenReview", "spec": {"token": CANARY}, "status": status}


def good_access(**status):
    return {"kind": "SubjectAccessReview", "status": {"allowed": True} | status}


class World:
    """Answers every review alike, and remembers them."""

    def __init__(self, answer, status=201):
        self.answer, self.status = answer, status
        self.bodies = []

    async def handle(self, asked):
        self.bodies.append(json.loads(asked.body))
        if callable(self.answer):
            await self.answer(asked)
        else:
            await asked.answer(self.answer, self.status)


@asynccontextmanager
async def reviewer_on(world):
    """Reviews are not on the budget of the loops, of which this leaves one request in a quarter of an hour."""
    async with api_of(world.handle, qps=0.001, burst=1) as (api, server):
        yield Reviewer(api), server


async def authenticated(answer, status=201, **how):
    async with reviewer_on(World(answer, status)) as (reviewer, _):
        return await reviewer.authenticate(CANARY, **how)


async def test_the_token_and_our_audience_are_asked_about():
    world = World(good_token())
    async with reviewer_on(world) as (reviewer, server):
        caller = await reviewer.authenticate(CANARY)
        assert server.paths() == [TOKENS]
        assert server.asked[0].headers["authorization"] == "Bearer t1"
    assert world.bodies == [
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": CANARY, "audiences": ["dependency-watchdog"]},
        }
    ]
    assert caller == Caller("jane", uid="7", groups=("a", "b"), extra={"k": ("v",)})


async def test_no_token_is_nobody_s_and_nobody_is_asked():
    async with reviewer_on(World(good_token())) as (reviewer, server):
        assert await reviewer.authenticate("") is None
        assert server.asked == []


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False},
        {"authenticated": False, "error": "[invalid bearer token, expired]", "user": {}},
        {"audiences": []},
        {"audiences": None},
        {"audiences": ["somebody-else"]},
        {"audiences": ["dependency-watchdog-2", "Dependency-Watchdog"]},
    ],
    ids=str,
)
async def test_what_is_not_verified_for_our_audience_is_nobody_s(status):
    assert await authenticated(good_token(**status)) is None


async def test_an_answer_of_a_server_that_knows_no_audiences_is_not_believed():
    answer = good_token()
    del answer["status"]["audiences"]
    assert await authenticated(answer) is None
    world = World(answer)
    async with reviewer_on(world) as (reviewer, _):
        caller = await reviewer.authenticate(CANARY, audience=None)
    assert (caller.name, world.bodies[0]["spec"]) == ("jane", {"token": CANARY})


@pytest.mark.parametrize("user", [None, {}, {"username": ""}, {"username": None}], ids=str)
async def test_a_verified_token_of_nobody_is_a_bad_answer(user):
    with pytest.raises(errors.BadAnswer):
        await authenticated(good_token(user=user))


async def test_nulls_are_nothing():
    nulls = {"username": "jane", "uid": None, "groups": None, "extra": None}
    assert await authenticated(good_token(user=nulls)) == Caller("jane")


ANSWERS = {
    "another kind": ({"kind": "Status", "status": {"allowed": True}}, 201, errors.BadAnswer),
    "no status": ({"kind": "TokenReview"}, 201, errors.BadAnswer),
    "a wrong type": (good_token(authenticated=CANARY), 201, errors.BadAnswer),
    "no JSON": (b"{" + CANARY.encode(), 201, errors.BadAnswer),
    "no text": (b'{"kind": "TokenReview", "\xff' + CANARY.encode() + b'"}', 201, errors.BadAnswer),
    "too long": (b" " * 300_000 + CANARY.encode(), 201, errors.LimitExceeded),
    "a redirect": (b"", 302, errors.BadAnswer),
    "403": ({"message": f"user with {CANARY} may not"}, 403, errors.Forbidden),
    "422": ({"message": f'Invalid value: "{CANARY}"'}, 422, errors.Invalid),
    "500": ({"message": f"webhook said {CANARY}"}, 500, errors.ServerFault),
    "429": ({"message": CANARY}, 429, errors.Throttled),
}


@pytest.mark.parametrize(("answer", "status", "kind"), ANSWERS.values(), ids=ANSWERS)
async def test_whatever_fails_no_message_has_the_token(answer, status, kind, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as logs, pytest.raises(kind) as caught:
        await authenticated(answer, status)
    told = "".join(traceback.format_exception(caught.value))
    told += repr(ApiRequest(RequestedRight("create", "x"), TOKENS, 3.0, body={"token": CANARY}))
    assert isinstance(caught.value, errors.ClusterError)
    assert CANARY not in told + str(logs) + caplog.text
    output = capsys.readouterr()
    assert CANARY not in output.out + output.err


async def test_what_a_server_says_of_other_requests_is_still_told():
    world = World({"message": "jane may not be asked about"}, 403)
    async with reviewer_on(world) as (reviewer, _):
        with pytest.raises(errors.Forbidden, match="jane may not be asked about"):
            await reviewer.allowed(Caller("jane"), Access("get", "shoots"))
    assert world.bodies[0]["spec"].keys() == {"user", "resourceAttributes"}, "and no empty field"


def of_shoots(**more):
    group = "dependency-watchdog.gardener.cloud"
    return {"resourceAttributes": {"group": group, "resource": "shoots"} | more}


@pytest.mark.parametrize(
    ("access", "spec"),
    [
        (
            Access("update", "shoots/pause", "shoot--a--b"),
            of_shoots(subresource="pause", verb="update", namespace="shoot--a--b"),
        ),
        (Access("list", "shoots"), of_shoots(verb="list")),
        (
            Access("get", "", path="/metrics"),
            {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
        ),
    ],
    ids=["in a namespace", "everywhere", "a path"],
)
async def test_what_is_to_be_done_and_by_whom_is_asked(access, spec):
    world = World(good_access())
    caller = Caller("jane", uid="7", groups=("a",), extra={"k": ("v",)})
    async with reviewer_on(world) as (reviewer, server):
        assert await reviewer.allowed(caller, access) is True
        assert server.paths() == [ACCESS]
    who = {"user": "jane", "uid": "7", "groups": ["a"], "extra": {"k": ["v"]}}
    assert world.bodies[0]["spec"] == who | spec
    assert world.bodies[0]["kind"] == "SubjectAccessReview"


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"allowed": True}, True),
        ({"allowed": False}, False),
        ({"allowed": False, "denied": True}, False),
        ({"allowed": True, "denied": True}, False),
    ],
)
async def test_only_what_is_allowed_and_not_denied_may_be_done(status, allowed):
    async with reviewer_on(World(good_access(**status))) as (reviewer, _):
        assert await reviewer.allowed(Caller("jane"), Access("get", "shoots")) is allowed


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "SelfSubjectAccessReview", "status": {"allowed": True}},
        {"kind": "SubjectAccessReview"},
        {"kind": "SubjectAccessReview", "status": {}},
        {"kind": "SubjectAccessReview", "status": {"allowed": "true"}},
    ],
    ids=str,
)
async def test_an_answer_that_makes_no_sense_allows_nothing(answer):
    async with reviewer_on(World(answer)) as (reviewer, _):
        with pytest.raises(errors.BadAnswer):
            await reviewer.allowed(Caller("jane"), Access("get", "shoots"))


# What they may cost.


@pytest.fixture
def soon(monkeypatch):
    """A review ends after 0.3 s instead of 3."""
    assert reviews.REVIEWED_WITHIN == 3.0
    monkeypatch.setattr(reviews, "REVIEWED_WITHIN", 0.3)


async def test_a_review_ends_after_its_time_also_where_it_is_tried_twice(soon):
    async with reviewer_on(World(Asked.hang)) as (reviewer, _):
        began = asyncio.get_running_loop().time()
        with pytest.raises(errors.Unreachable):
            await reviewer.authenticate(CANARY)
        assert asyncio.get_running_loop().time() - began < 0.6


async def test_credentials_that_cannot_be_read_do_not_hold_a_review_up(soon):
    async with reviewer_on(World(good_token())) as (reviewer, _):

        async def never():
            await asyncio.Event().wait()

        reviewer._api._credentials.current = never
        with pytest.raises(errors.Unreachable):
            await reviewer.authenticate(CANARY)


async def test_dead_connections_cost_a_second_try_and_no_failure():
    free = asyncio.Event()

    async def wait(asked):
        await free.wait()
        await asked.answer(good_token(), 201)

    world = World(wait)
    async with reviewer_on(world) as (reviewer, server):
        several = [asyncio.ensure_future(reviewer.authenticate(CANARY)) for _ in range(3)]
        await until(lambda: len(world.bodies) == 3)
        free.set()
        await asyncio.gather(*several)

        async def cut_the_old_ones(asked):
            if asked.connection <= 3:
                await asked.cut()
            await asked.answer(good_token(), 201)

        world.answer = cut_the_old_ones
        assert (await reviewer.authenticate(CANARY)).name == "jane"
        assert (server.connections, len(world.bodies)) == (4, 5)


async def test_a_server_that_is_away_is_asked_twice_and_no_more():
    world = World(Asked.cut)
    async with reviewer_on(world) as (reviewer, _):
        with pytest.raises(errors.Unreachable):
            await reviewer.authenticate(CANARY)
    assert len(world.bodies) == 2
