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


@pytest.mark.parametrize("spec", [{}, {"audiences": ["x"]}, {"token": ""}])
async def test_a_review_without_a_token_is_a_bad_request(wire, spec):
    assert failure(await wire.ask("POST", TOKENS, {"spec": spec})) == (400, "BadRequest")


@pytest.mark.parametrize("spec", [{"token": 1}, {"token": "a", "audiences": "b"}, ["token"]])
async def test_a_token_review_of_a_wrong_type_is_a_bad_request(wire, spec):
    assert failure(await wire.ask("POST", TOKENS, {"spec": spec})) == (400, "BadRequest")


RESOURCE = {"group": GROUP, "resource": "shoots", "verb": "get"}


async def test_a_subject_may_not_what_nobody_granted(wire):
    answer = await wire.ask(
        "POST", ACCESS, {"spec": {"user": "jane", "resourceAttributes": RESOURCE}}
    )
    assert (answer.status, answer.json["status"]["allowed"]) == (201, False)


async def test_a_master_may_everything(wire):
    spec = {"groups": ["system:masters"], "resourceAttributes": RESOURCE}
    answer = await wire.ask("POST", ACCESS, {"spec": spec})
    assert answer.json["status"]["allowed"] is True


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"user": "jane"},
        {"resourceAttributes": RESOURCE},
        {
            "user": "jane",
            "resourceAttributes": RESOURCE,
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    ],
)
async def test_a_review_of_nobody_or_of_nothing_is_invalid(wire, spec):
    assert failure(await wire.ask("POST", ACCESS, {"spec": spec})) == (422, "Invalid")


@pytest.mark.parametrize(
    "spec",
    [
        {"user": 1, "resourceAttributes": RESOURCE},
        {"user": "jane", "groups": "a", "resourceAttributes": RESOURCE},
        {"user": "jane", "resourceAttributes": ["get"]},
    ],
)
async def test_an_access_review_of_a_wrong_type_is_a_bad_request(wire, spec):
    assert failure(await wire.ask("POST", ACCESS, {"spec": spec})) == (400, "BadRequest")


@pytest.mark.parametrize("path", [TOKENS, ACCESS])
async def test_reviews_are_not_kept(wire, path):
    assert failure(await wire.get(path)) == (405, "MethodNotAllowed")
