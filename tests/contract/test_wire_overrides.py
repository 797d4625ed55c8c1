"""ConfigMaps and reviews on the wire, word by word: what the simulation says is what kube-apiserver says."""

import json

import pytest

from app.core.model.callers import GROUP
from tests.contract.arena import REAL_TIME
from tests.contract.wire import MERGE, failure

pytestmark = REAL_TIME

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.fixture
def maps(arena):
    return f"/api/v1/namespaces/{arena.namespace}/configmaps"


def config_map(data, name="overrides"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_a_config_map_shows_as_it_was_written(wire, maps, arena):
    made = (await wire.ask("POST", maps, config_map({"_all": "{}"}))).json
    made["metadata"].pop("managedFields", None)
    assert made.keys() == {"kind", "apiVersion", "metadata", "data"}
    assert made["metadata"].keys() == {
        *("name", "namespace", "uid", "resourceVersion", "creationTimestamp"),
    }
    assert made["data"] == {"_all": "{}"}
    listed = (await wire.get(maps)).json
    assert (listed["kind"], "kind" in listed["items"][0]) == ("ConfigMapList", False)
    await wire.ask("DELETE", f"{maps}/overrides")


async def test_data_that_is_empty_is_left_out(wire, maps):
    await wire.ask("POST", maps, config_map({"a": "b"}))
    patch = {"data": {"a": None}}
    assert "data" not in (await wire.ask("PATCH", f"{maps}/overrides", patch, kind=MERGE)).json
    assert "data" not in (await wire.get(f"{maps}/overrides")).json
    await wire.ask("DELETE", f"{maps}/overrides")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"a": 1}, 400),
        ({"a": {"b": "c"}}, 400),
        (["a"], 400),
        ({"a/b": "c"}, 422),
        ({"..": "c"}, 422),
        ({"": "c"}, 422),
        ({"a" * 254: "c"}, 422),
        ({"a": "x" * ((1 << 20) + 1)}, 422),
        ({"a": "x" * (1 << 19), "b": "y" * ((1 << 19) + 1)}, 422),
        ({"a": "ü" * ((1 << 19) + 1)}, 422),
    ],
)
async def test_what_is_no_data_is_refused(wire, maps, data, status):
    body = json.dumps(config_map(data), ensure_ascii=False).encode()
    answer = await wire.ask("POST", maps, body)
    assert failure(answer)[0] == status
    assert failure(await wire.get(f"{maps}/overrides")) == (404, "NotFound")


async def test_a_null_is_an_empty_text(wire, maps):
    made = await wire.ask("POST", maps, config_map({"a": None}))
    assert (made.status, made.json["data"]) == (201, {"a": ""})
    await wire.ask("DELETE", f"{maps}/overrides")


async def test_a_put_without_a_version_replaces_and_one_with_an_old_version_does_not(wire, maps):
    first = (await wire.ask("POST", maps, config_map({"a": "1"}))).json
    assert (await wire.ask("PUT", f"{maps}/overrides", config_map({"a": "2"}))).status == 200
    first["data"] = {"a": "3"}
    assert failure(await wire.ask("PUT", f"{maps}/overrides", first)) == (409, "Conflict")
    assert (await wire.get(f"{maps}/overrides")).json["data"] == {"a": "2"}
    await wire.ask("DELETE", f"{maps}/overrides")


async def test_a_put_of_what_is_not_there_is_not_found(wire, maps):
    answer = await wire.ask("PUT", f"{maps}/overrides", config_map({}))
    assert failure(answer) == (404, "NotFound")


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
