"""Every attempt to change something leaves a record, whatever comes of it; and the list of them, newest first."""

import asyncio
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from starlette.responses import Response
from structlog.testing import capture_logs

from app.api.auditing import Auditing
from app.api.auth.authorization import Call
from app.api.limits import CALLER, Limiter, RateLimits, name_of
from app.api.middleware import RequestGuard
from app.core.errors import Unreachable
from app.core.model.callers import Caller
from tests.api.facts import NAMESPACE, attempt, healthy
from tests.api.fakes import Identified, unused

PATH = "/api/v1/audit"
PAUSE = f"/api/v1/shoots/{NAMESPACE}/pause"
REASON = {"reason": "the load balancer is replaced"}


@pytest.fixture(autouse=True)
def one_shoot(shoots):
    shoots.add(healthy())


def requests(answer):
    assert answer.status_code == 200, answer.text
    return [each["request"] for each in answer.json()["items"]]


def test_a_write_leaves_an_entry_with_who_what_why_before_and_after(client):
    made = client.put(PAUSE, json=REASON)
    (entry,) = client.get(PATH).json()["items"]
    assert (entry["method"], entry["path"], entry["peer"]) == ("PUT", PAUSE, "testclient")
    assert (entry["caller"], entry["reason"]) == ("tester", REASON["reason"])
    assert entry["request"] == made.headers["x-request-id"]
    assert (entry["before"], entry["after"]) == (None, made.json())


def claimed(client, *said):
    client.put(PAUSE, json=REASON, headers=[("Dwd-Claimed-User", each) for each in said])
    return client.get(PATH).json()["items"][0]["claimed"]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("", None),
        (" %20 ", None),
        ("%20" * 333 + "x and what comes after 1,000 bytes", "x"),
        ("x%1b[31mred%0aroot%00", "x [31mred root"),
        ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", "[redacted]"),
        ("%E2%80%AEesrever", "esrever"),
        ("%ff%fe", "\ufffd\ufffd"),
        ("J%C3%BCrgen", "Jürgen"),
    ],
)
def test_a_claim_is_cleaned_as_every_text_of_an_outsider_is(client, said, kept):
    assert claimed(client, said) == kept


def test_a_claim_is_short_and_there_is_one(client):
    assert len(claimed(client, "x" * 9_000)) == 300
    assert claimed(client, "alice", "mallory") == "alice"


def test_a_call_that_did_not_get_so_far_has_no_action(client):
    client.put(PAUSE, json={})
    (entry,) = client.get(PATH).json()["items"]
    assert (entry["status"], entry["action"], entry["namespace"]) == (422, None, NAMESPACE)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"caller": "eve"}, ["r2", "r0"]),
        ({"namespace": "b"}, ["r2", "r1"]),
        ({"caller": "eve", "namespace": "b"}, ["r2"]),
        ({"caller": "ev"}, []),
        ({"namespace": "c"}, []),
    ],
)
def test_filters_choose_by_whole_names(client, audit, query, expected):
    audit.note(attempt("r0"))
    audit.note(attempt("r1", caller="bob", namespace="b"))
    audit.note(attempt("r2", namespace="b"))
    audit.note(attempt("r3", caller=None, namespace=None, status=401))
    answer = client.get(PATH, params=query)
    assert requests(answer) == expected
    assert answer.json()["metadata"]["total"] == len(expected)


URN = "urn:dependency-watchdog:problem:"
BODY = {"reason": "maintenance of the seed"}


def only(audit):
    (found,) = audit.entries()
    return found.attempt


NO_JSON = {"content": b"{", "headers": {"Content-Type": "application/json"}}
OF_ANOTHER_SITE = {"json": BODY, "headers": {"Sec-Fetch-Site": "cross-site"}}


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "slug"),
    [
        ("PUT", PAUSE, {"json": {}}, 422, "invalid-parameter"),
        ("PUT", PAUSE, {"json": BODY | {"duration": "25h"}}, 422, "invalid-parameter"),
        ("PUT", PAUSE, NO_JSON, 400, "malformed-request"),
        ("PUT", PAUSE, {"json": {"reason": "x" * 20_000}}, 413, "payload-too-large"),
        ("PUT", PAUSE, {"json": BODY, "headers": {"X": "x" * 20_000}}, 431, "headers-too-large"),
        ("PUT", PAUSE, OF_ANOTHER_SITE, 403, "cross-site"),
        ("PUT", "/api/v1/shoots/nowhere/pause", {"json": BODY}, 404, "not-found"),
        ("POST", PAUSE, {}, 405, "method-not-allowed"),
        ("PATCH", "/nowhere", {}, 404, "not-found"),
        ("DELETE", PAUSE, {"json": BODY}, 413, "body-not-allowed"),
    ],
)
def test_a_refusal_is_recorded_with_its_problem(*, client, audit, method, path, sent, status, slug):
    assert client.request(method, path, **sent).status_code == status
    found = only(audit)
    assert (found.method, found.path, found.status) == (method, path, status)
    assert (found.problem, found.performed) == (URN + slug, False)


def test_a_refusal_that_a_browser_sees_as_a_page_has_its_problem_too(client, audit):
    answer = client.post("/", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"][:9]) == (405, "text/html")
    assert only(audit).problem == URN + "method-not-allowed"


OTHER = "shoot--acme--test"
SCALE = f"/api/v1/shoots/{NAMESPACE}/scale"


@pytest.mark.parametrize(
    "junk",
    [
        lambda number: ("PUT", f"/junk/{number}"),
        lambda number: (f"X{number}", f"/junk/{number}"),
        lambda number: ("DELETE", f"{PAUSE}/{number}"),
        lambda number: ("PUT", f"/api/v1/shoots/shoot--invented--{number}/pause"),
        lambda number: ("POST", f"/api/v1/weeders/shoot--invented--{number}/service-{number}"),
        lambda number: ("DELETE", f"/api/v1/operations/{number}"),
        lambda number: ("POST", f"{SCALE}?junk={number}"),
    ],
    ids=["paths", "methods", "subpaths", "shoots", "services", "operations", "queries"],
)
def test_no_junk_hides_an_attempt(client, audit, authority, junk):
    authority.forbidden.update(Call)
    with capture_logs() as lines:
        for number in range(25):
            client.request(*junk(number))
        client.put(PAUSE, json=BODY)
        for number in range(330):
            client.request(*junk(number + 25))
    entries = list(audit.entries())
    assert len(entries) <= 3, "all the junk counts in one or two records"
    found = [each for each in entries if each.attempt.path == PAUSE]
    assert [(each.times, each.attempt.namespace) for each in found] == [(1, NAMESPACE)]
    assert PAUSE in [each["path"] for each in lines if each["event"] == "write refused"]


def test_a_process_without_the_prober_knows_the_shoots_of_its_services(given, weeders):
    weeders.served = {NAMESPACE}
    alone = replace(given, prober=None)
    assert alone.has_shoot(NAMESPACE)
    assert not alone.has_shoot(OTHER)
    weeders.served = None
    assert not alone.has_shoot(NAMESPACE)
    assert not replace(alone, weeders=None).has_shoot(NAMESPACE)


def test_a_failure_is_recorded_as_the_caller_saw_it(client, audit, overrides, monkeypatch):
    for error, status in ((Unreachable("the seed"), 503), (ValueError("a bug"), 500)):

        async def fails(*_, error=error):
            raise error

        monkeypatch.setattr(overrides, "set_pause", fails)
        assert client.put(PAUSE, json=BODY).status_code == status
        assert audit.entries()[0].attempt.status == status


def test_a_caller_that_asks_for_too_much_is_recorded_and_what_he_did_stays(audit):
    async def done(scope, receive, send):
        await Response(status_code=200 if scope["path"] == "/once" else 404)(scope, receive, send)

    limits = RateLimits(done, limiter=Limiter(CALLER, lambda: 0.0), who=name_of)
    alice = Identified(Auditing(RequestGuard(limits), audit=audit), Caller("alice"))
    client = TestClient(alice)
    client.delete("/once")
    statuses = [client.delete("/again").status_code for _ in range(250)]
    assert set(statuses) == {404, 429}
    kept = {each.attempt.status: each for each in audit.entries()}
    assert {status: each.times for status, each in kept.items()} == {200: 1, 404: 199, 429: 51}
    assert kept[429].attempt.caller == "alice"
    assert kept[429].attempt.problem == URN + "too-many-requests"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api/v1/shoots", "/livez", "/nowhere", PAUSE])
def test_reads_leave_no_record(client, audit, method, path):
    client.request(method, path)
    assert audit.entries() == []


async def test_a_request_that_is_cut_short_is_recorded_without_an_answer(audit):
    async def hangs(scope, receive, send):
        await asyncio.Event().wait()

    app = Auditing(RequestGuard(hangs), audit=audit)
    scope = {"type": "http", "method": "PUT", "path": "/x", "query_string": b"", "headers": []}
    request = asyncio.ensure_future(app(scope, unused, unused))
    await asyncio.sleep(0)
    request.cancel()
    await asyncio.wait([request])
    assert only(audit).status is None


def test_tokens_are_in_no_record(client, audit):
    token = "eyJhbGciOiJSUzI1NiJ9.s3cr3t-canary.signature"
    headers = {"Authorization": f"Bearer {token}"}
    client.put(PAUSE, json={"reason": f"with {token}"}, headers=headers)
    client.put(f"/api/v1/{token}", json=BODY, headers=headers)
    assert "s3cr3t-canary" not in repr(audit.entries())
