"""The record of write attempts: what is kept, what is shown, what is told."""

import asyncio
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from app.core.reporting.audit import Attempt, AuditLog

pytestmark = pytest.mark.usefixtures("lines")

CANARY = "eyJhbGciOiJSUzI1NiJ9.s3cr3t-canary.signature"
DONE = Attempt(
    request="r-1",
    method="PUT",
    path="/api/v1/shoots/shoot--acme--prod/pause",
    peer="10.0.0.7",
    status=200,
    caller="alice",
    action="pause",
    namespace="shoot--acme--prod",
    reason="maintenance",
    after={"scope": "all", "until": "2027-01-15T08:00:00Z"},
)
REFUSED = replace(DONE, status=403, problem="urn:dependency-watchdog:problem:forbidden")
NOBODY = replace(REFUSED, status=401, caller=None)


@pytest.fixture
def audit(time):
    return AuditLog(time)


def test_what_was_done_is_kept_with_time_author_reason_before_and_after(audit, time):
    audit.note(DONE)
    (found,) = audit.entries()
    assert (found.at, found.first, found.times, found.attempt) == (1_000.0, 1_000.0, 1, DONE)
    assert audit.since == 1_000.0


def test_each_attempt_is_a_line_of_the_log(audit, lines):
    audit.note(DONE)
    audit.note(REFUSED)
    done, refused = lines
    assert (done["event"], done["log_level"]) == ("write", "info")
    assert (refused["event"], refused["log_level"]) == ("write refused", "warning")
    assert done["caller"] == "alice"
    assert done["reason"] == "maintenance"
    assert done["after"] == {"scope": "all", "until": "2027-01-15T08:00:00Z"}
    assert "before" not in done
    assert refused["problem"] == "urn:dependency-watchdog:problem:forbidden"


async def test_newest_first_across_all_kinds(audit):
    for each in (DONE, REFUSED, NOBODY, DONE):
        audit.note(each)
    assert [each.attempt.status for each in audit.entries()] == [200, 401, 403, 200]
    assert [each.number for each in audit.entries()] == [4, 3, 2, 1]


async def test_the_same_refusal_again_is_one_record(audit, time):
    for _ in range(1_000):
        time.now += 0.001
        audit.note(REFUSED)
    (found,) = audit.entries()
    assert found.times == 1_000
    assert (found.first, found.at) == (pytest.approx(1_000.001), pytest.approx(1_001.0))
    assert found.number == 1_000


@pytest.mark.parametrize(
    ("kept", "flood"),
    [
        pytest.param(DONE, NOBODY, id="what was done"),
        pytest.param(DONE, REFUSED, id="what was done by the same caller"),
        pytest.param(REFUSED, NOBODY, id="a refusal of a known caller"),
        pytest.param(replace(DONE, caller="bob"), DONE, id="what another has done"),
        pytest.param(replace(REFUSED, caller="bob"), REFUSED, id="a refusal of another"),
        pytest.param(replace(REFUSED, caller="bob"), DONE, id="one, by what succeeds"),
    ],
)
async def test_a_flood_pushes_out_nothing_of_more_importance_or_of_another(audit, kept, flood):
    audit.note(kept)
    for number in range(1_500):
        text = f"{number} " + "x" * 250
        audit.note(replace(flood, path=text, reason=text * 4), f"pause_shoot {number}")
    assert kept in [each.attempt for each in audit.entries()]


AIM = "pause_shoot shoot--acme--prod"


def junk(number, **more):
    return replace(REFUSED, status=404, path=f"/junk/{number}", **more)


@pytest.mark.parametrize("caller", ["alice", None])
async def test_no_flood_of_junk_hides_what_the_same_caller_tried(audit, lines, time, caller):
    for number in range(25):
        audit.note(junk(number, caller=caller, peer=f"10.1.0.{number}"))
    attempt = replace(REFUSED, caller=caller, reason="the attempt")
    audit.note(attempt, AIM)
    for number in range(330):
        time.now += 0.01
        audit.note(junk(number, caller=caller, method=f"X{number}", peer=attempt.peer))
    assert attempt in [each.attempt for each in audit.entries()]
    assert "the attempt" in [each.get("reason") for each in lines]


async def test_no_attempts_on_others_hide_what_the_same_caller_tried(audit, lines, time):
    for number in range(100):
        audit.note(replace(REFUSED, path=f"/{number}"), f"pause_shoot shoot--{number}")
    audit.note(replace(REFUSED, reason="the attempt"), AIM)
    for number in range(100, 299):
        time.now += 0.01
        audit.note(replace(REFUSED, path=f"/{number}"), f"pause_shoot shoot--{number}")
    assert "the attempt" in [each.attempt.reason for each in audit.entries()]
    assert len(lines) == 300


CALLS = ["pause_shoot", "scale_shoot", "probe_shoot", "end_hold", "ignore_scaling"]


def attempts_on_all_shoots(audit, time, caller, shoots=range(100)):
    for call in CALLS:
        for number in shoots:
            time.now += 0.02
            shoot = f"shoot--{number}"
            path = f"/api/v1/shoots/{shoot}/{call}"
            said = replace(REFUSED, path=path, namespace=shoot, caller=caller)
            audit.note(said, f"{call} {shoot}")


@pytest.mark.parametrize("caller", ["mallory", None])
async def test_no_attempts_on_all_shoots_before_and_after_hide_what_the_caller_aimed_at(
    audit, lines, time, caller
):
    attempts_on_all_shoots(audit, time, caller)
    audit.note(replace(REFUSED, caller=caller), AIM)
    attempts_on_all_shoots(audit, time, caller)
    audit.flush()
    (kept,) = [each for each in audit.entries() if each.attempt.namespace == REFUSED.namespace]
    assert (kept.times, kept.attempt.path) == (1, REFUSED.path)
    aimed = [each for each in lines if AIM in each.get("aims", "")]
    assert [(each["caller"], each["peers"]) for each in aimed] == [(caller, REFUSED.peer)]


async def test_each_refusal_has_a_line_or_is_named_with_call_shoot_and_number(audit, lines, time):
    for _ in range(3):
        attempts_on_all_shoots(audit, time, "mallory")
    audit.flush()
    own = sum(each["event"] == "write refused" for each in lines)
    words = [word for each in lines for word in each.get("aims", "").split(", ") if word]
    sums = [int(word.partition(" (")[2].partition(" ")[0] or 1) for word in words]
    assert own + sum(sums) == 3 * len(CALLS) * 100
    assert max(len(each.get("aims", "")) for each in lines) <= 2_000, "as a log value may be long"
    assert lines[-1]["attempts"] == sum(sums)
    audit.flush()
    assert lines[-1]["attempts"] == sum(sums), "once"


async def test_more_aims_than_may_be_summed_are_named_at_once(audit, lines, time):
    attempts_on_all_shoots(audit, time, "mallory", range(500))
    named = [each for each in lines if "aims" in each]
    assert "pause_shoot shoot--400" in " ".join(each["aims"] for each in named)
    assert audit._untold.sums < 2_000


async def test_the_aims_of_many_callers_are_bounded_in_memory(audit, lines, time):
    tracemalloc.start()
    for number in range(4):
        attempts_on_all_shoots(audit, time, f"mallory-{number}", range(250))
        lines.clear()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 1_000_000 < size < 4_000_000, "besides what was done"


async def test_what_is_kept_without_its_texts_counts_on(audit, time):
    for _ in range(2):
        for problem in ("forbidden", "malformed-request"):
            audit.note(replace(REFUSED, problem=problem), AIM)
        attempts_on_all_shoots(audit, time, REFUSED.caller)
    (kept,) = [each for each in audit.entries() if each.attempt.namespace == REFUSED.namespace]
    assert (kept.times, kept.first, kept.attempt.reason) == (4, 1_000.0, None)
    assert kept.attempt.problem == "malformed-request", "as the last one was"


async def test_what_is_tried_again_and_again_has_a_line_a_minute_whatever_else_is(
    audit, lines, time
):
    for number in range(600):
        time.now += 0.5
        for each in range(2):
            audit.note(junk(2 * number + each))
        audit.note(replace(REFUSED, request=f"{time.now}"), AIM)
    told = [float(each["request"]) for each in lines if each["status"] == 403]
    assert len(told) >= 5
    assert max(later - at for at, later in pairwise(told)) <= 61


async def test_what_was_refused_otherwise_is_another_record_of_the_same_aim(audit, lines):
    for problem in ("forbidden", "malformed-request", "too-many-requests"):
        audit.note(replace(REFUSED, problem=problem), AIM)
        audit.note(replace(REFUSED, problem=problem, peer="10.0.0.8", path="/again"), AIM)
    assert [each.times for each in audit.entries()] == [2, 2, 2]
    assert {each.attempt.path for each in audit.entries()} == {"/again"}, "as the last one was"


async def test_what_nobody_is_refused_is_kept_for_each_address(audit):
    for peer in ("10.0.0.7", "10.0.0.8", "2001:db8::1", "2001:db8::2"):
        audit.note(replace(NOBODY, peer=peer))
    assert [each.times for each in audit.entries()] == [2, 1, 1]


async def test_many_callers_push_out_the_oldest_of_those_who_have_most(audit):
    audit.note(replace(REFUSED, caller="bob"), AIM)
    for number in range(3_000):
        text = f"{number} " + "x" * 250
        caller = f"mallory-{number % 20}"
        audit.note(replace(REFUSED, caller=caller, reason=text * 4), f"pause_shoot {number}")
    assert audit.entries()[-1].attempt.caller == "bob"
    assert {each.attempt.caller for each in audit.entries()} >= {f"mallory-{n}" for n in range(20)}


async def test_a_flood_is_told_in_a_few_lines_and_a_number(audit, lines, time):
    for number in range(1_000):
        audit.note(replace(REFUSED, path=f"/{number}"))
    assert len(lines) == 20
    audit.note(DONE)
    assert len(lines) == 21, "what was done is always told"
    audit.flush()
    assert lines[-1]["attempts"] == 980
    audit.flush()
    assert len(lines) == 22
    time.now += 3
    audit.note(REFUSED)
    assert lines[-1]["event"] == "write refused"


@pytest.mark.parametrize("flood", [NOBODY, REFUSED, replace(REFUSED, caller="mallory")])
async def test_no_flood_takes_the_lines_of_known_callers(audit, lines, time, flood):
    refused = []
    for number in range(1_000):
        time.now += 0.005
        audit.note(replace(flood, path=f"/{number}"))
        if number % 200 == 100:
            for caller in ("bob", "carol"):
                refused.append((caller, f"/api/v1/{caller}/{number}"))
                audit.note(replace(REFUSED, caller=caller, path=refused[-1][1]))
    told = [(each.get("caller"), each.get("path")) for each in lines]
    assert [each for each in told if each[0] in {"bob", "carol"}] == refused
    assert len(lines) <= 20 + 5 + len(refused), "of the flood no more than before"


async def test_a_flood_under_many_names_is_bounded_and_takes_no_line_of_who_was_there_before(
    audit, lines, time
):
    audit.note(replace(REFUSED, caller="bob"))
    for number in range(2_000):
        time.now += 0.00025
        audit.note(replace(REFUSED, caller=f"user-{number % 100}", path=f"/{number}"))
    audit.note(replace(REFUSED, caller="bob", path="/again"))
    audit.note(replace(NOBODY, path="/by-nobody"))
    assert [each["path"] for each in lines[-2:]] == ["/again", "/by-nobody"]
    assert len(lines) <= 3 + 30 * 20 + 20


async def test_who_was_told_of_long_ago_makes_room_for_others(audit, lines, time):
    for number in range(300):
        time.now += 0.5
        audit.note(replace(REFUSED, caller=f"user-{number}"))
    assert len(lines) == 300


async def test_the_number_is_told_by_itself_after_a_while(audit, lines):
    for number in range(30):
        audit.note(replace(REFUSED, path=f"/{number}"))
    await asyncio.sleep(11)
    assert lines[-1]["attempts"] == 10


async def test_it_stays_small_whatever_is_tried(audit, lines):
    def attempt(number, **more):
        text = f"{number}-" + "x" * 3_000
        return replace(DONE, path=text, reason=text, caller=text, before={"a": [text] * 3}, **more)

    tracemalloc.start()
    for number in range(1_100):
        audit.note(attempt(number))
        lines.clear()
    for number in range(400):
        audit.note(attempt(number, status=403))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 1_000_000 < size < 4_000_000


@pytest.mark.parametrize("field", ["reason", "path", "caller", "target", "before", "after"])
def test_secrets_are_neither_kept_nor_told(audit, lines, field):
    said = f"Bearer {CANARY}"
    more: dict[str, Any] = {field: {"note": said} if field in {"before", "after"} else said}
    audit.note(replace(DONE, **more))
    assert CANARY not in repr(audit.entries())
    assert CANARY not in repr(lines)


@pytest.mark.parametrize("field", ["reason", "path", "caller", "target", "action", "method"])
def test_control_characters_are_neither_kept_nor_told(audit, lines, field):
    more: dict[str, Any] = {field: "a\x1b[31m\nlevel=error msg=forged\u202e"}
    audit.note(replace(DONE, **more))
    assert getattr(audit.entries()[0].attempt, field).isprintable()
    assert getattr(audit.entries()[0].attempt, field) == lines[0][field]


def test_an_attempt_without_an_answer_was_not_performed(audit):
    audit.note(replace(DONE, status=None))
    assert not audit.entries()[0].attempt.performed
