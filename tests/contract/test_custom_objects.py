"""Pauses and ScaleRequests: read through watches, written with care, whatever happens to either."""

from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace

import pytest
import pytest_asyncio

from app.core.errors import Conflict, Invalid, NotFound
from app.core.kube import reflector
from app.core.kube.custom_objects import PAUSE, SCALE_REQUEST, CustomObjects
from app.core.model.overrides import ObjectId, Pause, ScaleRequest, Scope
from app.core.model.scaling_runs import OperationPhase, RunStep, ScaleSpec, StepPhase
from app.core.model.workloads import Direction, ResourceRef
from tests.contract.arena import KINDS, REAL_TIME, until
from tests.e2e import objects

pytestmark = REAL_TIME

PROCESS = "watchdog-1"
"""The identity of the process whose adapter this is."""
CREATED_BY = "dependency-watchdog.gardener.cloud/created-by"
UNTIL = 1_900_000_000.0


@pytest_asyncio.fixture(loop_scope="session")
async def peopling(arena, monkeypatch):
    """The adapters, with the rights of threat T16 to both kinds and no more; both are watched, and listed once."""
    monkeypatch.setattr(reflector, "_REFUSED_PAUSE", 0.2)
    shared = (arena.adapter.api, PROCESS, arena.tasks, Random(1))
    both = [CustomObjects(kind, *shared) for kind in (PAUSE, SCALE_REQUEST)]
    for each, plural in zip(both, ("pauses", "scalerequests"), strict=True):
        await arena.grant(plural, objects.people_rules(plural))
        await each.start()
    await until(lambda: all(each.watch_state().synced for each in both), "they are listed")
    pauses, requests = both
    return SimpleNamespace(
        pauses=pauses, requests=requests, find=arena.admin.find, clock=arena.clock
    )


async def make(arena, wire, kind, **spec):
    """Somebody creates one with kubectl."""
    body = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": {"name": "p"}}
    body |= {"spec": {"reason": "a test", **spec}}
    answer = await wire.ask("POST", KINDS[kind].path(arena.namespace), body)
    assert answer.status == 201, answer.text


def is_off(objects):
    return objects.off is not None


@pytest.fixture
def here(arena):
    return arena.namespace


@pytest.fixture
def wanted(here):
    return Pause(Scope.SCALE_DOWN, "maintenance", "jane", 0.0, UNTIL, ObjectId(here, "api"))


@pytest.fixture
def asked(here):
    wanted = ScaleSpec(Direction.DOWN, "a test", "jane", 600.0, force=True)
    return ScaleRequest(ObjectId(here, "api-x"), wanted, 0.0)


def reasons(objects, namespace):
    return {name: each.reason for name, each in objects.of(namespace).items()}


async def shows(objects, namespace, expected):
    await until(lambda: reasons(objects, namespace) == expected, f"{expected} is shown")


async def test_a_pause_that_is_created_is_marked_shown_and_found(peopling, here, wanted):
    made = await peopling.pauses.create(wanted)
    assert (made.scope, made.reason, made.author) == (Scope.SCALE_DOWN, "maintenance", "jane")
    assert (made.until, made.verified, made.problem) == (UNTIL, True, None)
    assert abs(made.created_at - peopling.clock.now()) < 5
    assert dict(peopling.pauses.of(here)) == {"api": made}, "at once"
    assert made in tuple(peopling.pauses.everything())
    found = await peopling.find("Pause", "api")
    assert found["metadata"]["annotations"] == {CREATED_BY: PROCESS}
    assert found["metadata"]["uid"] == made.id.uid
    assert found["spec"] == {
        "scope": "scaleDown",
        "reason": "maintenance",
        "author": "jane",
        "until": "2030-03-17T17:46:40Z",
    }
    with pytest.raises(Conflict) as caught:
        await peopling.pauses.create(replace(wanted, reason="another"))
    assert caught.value.status == 409
    assert await peopling.pauses.read(here, "api") == made


async def test_the_progress_of_a_request_is_written_read_and_taken_back(peopling, asked):
    made = await peopling.requests.create(asked)
    assert (made.phase, made.spec, made.verified) == (OperationPhase.PENDING, asked.spec, True)
    assert (await peopling.find("ScaleRequest", "api-x"))["spec"] == {
        "direction": "Down",
        "reason": "a test",
        "author": "jane",
        "hold": "10m0s",
        "force": True,
    }
    with pytest.raises(Invalid, match="cannot be changed"):
        await peopling.requests.change(made, replace(asked, spec=replace(asked.spec, hold=60.0)))
    ref = ResourceRef("", "Deployment", "kube-controller-manager")
    step = RunStep(ref, 1, StepPhase.DONE, "scaled", UNTIL, UNTIL + 0.5, UNTIL + 1, 3, 0)
    running = replace(
        made,
        phase=OperationPhase.RUNNING,
        message="at level 1",
        started=UNTIL,
        steps=(step, RunStep(ref, 2, StepPhase.WAITING)),
        observed_by=PROCESS,
    )
    shown = await peopling.requests.set_status(made, running)
    assert replace(shown, id=made.id) == running
    done = replace(
        shown,
        phase=OperationPhase.DONE,
        message="",
        ended=UNTIL + 2.25,
        hold_until=UNTIL + 602.25,
        steps=(step,),
        observed_by=None,
    )
    ended = await peopling.requests.set_status(shown, done)
    assert replace(ended, id=shown.id) == done
    status = (await peopling.find("ScaleRequest", "api-x"))["status"]
    assert (status["phase"], status["holdUntil"]) == ("Succeeded", "2030-03-17T17:56:42.250000Z")
    assert "observedBy" not in status


async def test_the_objects_go_with_their_definitions_and_come_back_with_them(
    arena, wire, peopling, here
):
    pauses, requests, told = peopling.pauses, peopling.requests, []
    await make(arena, wire, "Pause")
    await make(arena, wire, "ScaleRequest", direction="Down")
    await shows(pauses, here, {"p": "a test"})
    await until(lambda: "p" in requests.of(here), "the request is shown")
    pauses.subscribe(lambda namespace, name: told.append((namespace, name)))
    async with arena.definitions_removed():
        for each in (pauses, requests):
            await until(partial(is_off, each), "it is off", within=30)
            assert dict(each.of(here)) == {}
            assert each.troubles() == {}
            assert "404" in each.off or "not served" in each.off or "not found" in each.off
        assert await pauses.read(here, "p") is None
        with pytest.raises(NotFound):
            await pauses.create(Pause(Scope.ALL, "x", "y", 0.0, UNTIL, ObjectId(here, "api")))
    await until(lambda: not (is_off(pauses) or is_off(requests)), "they are on again", within=70)
    assert (here, "p") in told
    assert (None, "") in told
    await make(arena, wire, "Pause", reason="anew")
    await shows(pauses, here, {"p": "anew"})
    assert dict(requests.of(here)) == {}
