"""Reviews of callers on the wire, word by word: what the simulation says is what kube-apiserver says."""

import pytest

from app.core.model.callers import GROUP
from tests.contract.arena import REAL_TIME
from tests.contract.wire import failure

pytestmark = REAL_TIME

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def test_a_token_that_is_known_shows_its_owner(arena, wire):
    answer = await wire.ask("POST", TOKENS, {"spec": {"token": arena.token}})
    assert answer.status == 201
    status = answer.json["status"]
    assert status["authenticated"] is True
    assert "system:authenticated" in status["user"]["groups"]
    assert status["user"]["username"]
    assert len(status["audiences"]) == 1
    assert answer.json["spec"]["token"] == arena.token


@pytest.mark.parametrize("spec", [{"token": "nobody's"}, {"token": "a.b.c", "audiences": ["x"]}])
async def test_a_token_that_nobody_knows_is_no_failure_of_the_review(wire, spec):
    answer = await wire.ask("POST", TOKENS, {"spec": spec})
    assert answer.status == 201
    status = answer.json["status"]
    assert not status.get("authenticated", False)
    assert status["user"] == {}
    assert status["error"]


async def test_a_token_for_the_server_is_not_one_for_another_audience(arena, wire):
    spec = {"token": arena.token, "audiences": ["dependency-watchdog"]}
    answer = await wire.ask("POST", TOKENS, {"spec": spec})
    assert not answer.json["status"].get("authenticated", False)


RESOURCE = {"group": GROUP, "resource": "shoots", "verb": "get"}
SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
BAD, INVALID = (400, "BadRequest"), (422, "Invalid")
REFUSED = [
    # without a token, or of a wrong type
    *((TOKENS, spec, BAD) for spec in ({}, {"audiences": ["x"]}, {"token": ""})),
    *((TOKENS, spec, BAD) for spec in ({"token": 1}, {"token": "a", "audiences": "b"}, ["token"])),
    # of nobody, of nothing, of two things
    *((ACCESS, spec, INVALID) for spec in ({}, {"user": "jane"}, {"resourceAttributes": RESOURCE})),
    (
        ACCESS,
        {
            "user": "jane",
            "resourceAttributes": RESOURCE,
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
        INVALID,
    ),
    (SELF, {}, INVALID),
    # of a wrong type
    (ACCESS, {"user": 1, "resourceAttributes": RESOURCE}, BAD),
    (ACCESS, {"user": "jane", "groups": "a", "resourceAttributes": RESOURCE}, BAD),
    (ACCESS, {"user": "jane", "resourceAttributes": ["get"]}, BAD),
    *((SELF, spec, BAD) for spec in (3, {"resourceAttributes": 3})),
]


async def test_a_review_that_cannot_be_answered_is_refused(wire):
    for path, spec, refusal in REFUSED:
        answer = await wire.ask("POST", path, {"spec": spec})
        assert failure(answer) == refusal, (path, spec)


@pytest.mark.parametrize(
    ("who", "allowed"), [({"user": "jane"}, False), ({"groups": ["system:masters"]}, True)]
)
async def test_a_master_may_everything_and_others_what_was_granted(wire, who, allowed):
    answer = await wire.ask("POST", ACCESS, {"spec": {**who, "resourceAttributes": RESOURCE}})
    assert (answer.status, answer.json["status"]["allowed"]) == (201, allowed)


async def test_a_review_of_oneself_says_what_one_may(wire):
    attributes = {"verb": "get", "resource": "secrets", "name": "x"}
    answer = await wire.ask("POST", SELF, {"spec": {"resourceAttributes": attributes}})
    found = answer.json
    assert (answer.status, found["kind"]) == (201, "SelfSubjectAccessReview")
    assert found["apiVersion"] == "authorization.k8s.io/v1"
    assert found["spec"]["resourceAttributes"] == attributes
    assert found["status"]["allowed"] is True


@pytest.mark.parametrize("path", [TOKENS, ACCESS, SELF])
async def test_reviews_are_not_kept(wire, path):
    assert failure(await wire.get(path)) == (405, "MethodNotAllowed")
