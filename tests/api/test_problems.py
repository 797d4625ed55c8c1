"""What each foreseen error becomes for a caller."""

import json

import h11
import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict

from app.api.problems import Problem, ProblemType
from app.core import errors
from app.core.web.connections import _UNREADABLE, _unreadable
from tests.api.fakes import application

CANARY = "s3cr3t-canary-of-a-token"
URN = "urn:dependency-watchdog:problem:"


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: str
    hold: int = 0
    inner: dict[str, int] = {}


@pytest.fixture
def raises() -> list[Exception]:
    """What the call `/raise` raises."""
    return []


@pytest.fixture
def client(raises):
    app = application()
    router = APIRouter()

    @router.get("/raise")
    async def call():
        raise raises[0]

    @router.put("/order")
    async def order(order: Order):
        return None

    app.include_router(router)
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found


@pytest.fixture
def raised(client, raises):
    def get(error):
        raises[:] = [error]
        return client.get("/raise")

    return get


CASES = [
    (errors.Refused("at 0"), 409, "conflict"),
    (errors.RunInProgress("op-7", "another one runs"), 409, "conflict"),
    (errors.EntryChanged("changed meanwhile", {"reason": "other"}), 409, "conflict"),
    (errors.VersionChanged("not what you saw"), 412, "precondition-failed"),
    (errors.OperationGone("an earlier leader's"), 410, "gone"),
    (errors.FeatureUnavailable("pauses", "forbidden"), 503, "feature-off"),
    (errors.LeadershipLost("lost"), 503, "not-the-leader"),
    (errors.NotKnownYet("nobody has read the overrides yet"), 503, "not-listed"),
    (errors.NotFound("no such deployment"), 404, "not-found"),
    (errors.Conflict("newer"), 409, "conflict"),
    (errors.Unreachable("refused"), 503, "seed-away"),
    (errors.NameUnresolved("no such name"), 503, "seed-away"),
    (errors.AddressForbidden("it leads to 127.0.0.1"), 503, "seed-away"),
    (errors.CertificateUntrusted("who?"), 503, "seed-away"),
    (errors.Unauthorized("401"), 503, "seed-away"),
    (errors.Forbidden("cannot patch"), 503, "seed-away"),
    (errors.Expired("old"), 503, "seed-away"),
    (errors.Invalid("bad"), 503, "seed-away"),
    (errors.Throttled("slow down", retry_after=17), 503, "seed-away"),
    (errors.ServerFault("500"), 503, "seed-away"),
    (errors.BadAnswer("html"), 503, "seed-away"),
    (errors.LimitExceeded("size", "too long"), 503, "seed-away"),
]


@pytest.mark.parametrize(("error", "status", "slug"), CASES, ids=str)
def test_a_foreseen_error_is_a_problem_in_its_own_words(raised, error, status, slug):
    answer = raised(error)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["type"] == URN + slug
    assert found["detail"] == str(error)
    assert found["instance"] == "/raise"


def test_no_foreseen_error_is_forgotten():
    def tree(kind):
        return {kind}.union(*(tree(each) for each in kind.__subclasses__()))

    ours = {each for each in tree(errors.WatchdogError) if each.__module__ == errors.__name__}
    not_for_callers = {
        errors.WatchdogError,
        errors.ConfigurationError,
        errors.CredentialRefused,
        errors.DemoNotInstalled,
        errors.ClusterError,
    }
    assert ours - {type(error) for error, _, _ in CASES} == not_for_callers


@pytest.mark.parametrize(
    ("error", "member", "value"),
    [
        (errors.RunInProgress("op-7", "x"), "operation", "/api/v1/operations/op-7"),
        (errors.EntryChanged("x", {"reason": "other"}), "now", {"reason": "other"}),
        (errors.FeatureUnavailable("overrides", "x"), "feature", "overrides"),
    ],
)
def test_a_problem_names_what_helps_on(raised, error, member, value):
    assert raised(error).json()[member] == value


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (errors.Throttled("x", retry_after=16.2), "17"),
        (errors.Throttled("x", retry_after=1e9), "3600"),
        (errors.Throttled("x", retry_after=0.0), "1"),
        (errors.Unreachable("x"), "5"),
        (errors.LeadershipLost("x"), "5"),
    ],
)
def test_what_passes_says_when_to_ask_again(raised, error, seconds):
    assert raised(error).headers["retry-after"] == seconds


@pytest.mark.parametrize("error", [errors.Refused, errors.Unreachable])
def test_a_secret_in_a_message_is_not_shown(raised, error):
    assert CANARY not in raised(error(f"token: {CANARY}")).text


@pytest.mark.parametrize(
    "error",
    [
        ValueError(CANARY),
        errors.WatchdogError(CANARY),
        errors.CredentialRefused("exec", CANARY),
        errors.ConfigurationError(CANARY, []),
    ],
)
def test_what_no_caller_should_meet_is_500_without_a_word(raised, error):
    answer = raised(error)
    assert answer.status_code == 500
    assert CANARY not in answer.text


def test_every_field_that_is_wrong_is_named_as_the_caller_knows_it(client):
    answer = client.put("/order", json={"hold": "x", "inner": {"a": "b"}, "more": 1})
    assert answer.status_code == 422
    paths = [each["path"] for each in answer.json()["errors"]]
    assert sorted(paths) == ["hold", "inner.a", "more", "reason"]
    assert answer.json()["type"] == URN + "invalid-parameter"


def test_what_a_field_contained_is_not_repeated(client):
    assert CANARY not in client.put("/order", json={"reason": 1, "hold": CANARY}).text


@pytest.mark.parametrize("status", sorted(_UNREADABLE))
def test_the_answer_to_what_is_no_request_is_a_problem_like_any_other(status):
    start, body, _ = _unreadable(status)
    assert isinstance(start, h11.Response)
    assert isinstance(body, h11.Data)
    found = json.loads(bytes(body.data))
    (kind,) = [each for each in ProblemType if each.urn == found["type"]]
    same = json.loads(bytes(Problem(kind, found["detail"]).response("").body))
    assert found == same
    assert start.status_code == kind.status
