"""Pauses and manual scaling on the pages: those of kubectl beside the API's."""

import pytest
from fastapi.testclient import TestClient

from app.api.auth.authorization import Call
from app.core.model.scaling_runs import OperationPhase, ScalingRunStatus, Trigger
from app.core.model.workloads import Direction
from tests.api.facts import HOME, NAMESPACE, NOW, healthy, pause
from tests.api.fakes import FakeAuthority, application, context
from tests.api.test_page import page_of, words_of


def test_all_pauses_of_a_shoot_are_there_with_their_names(client, shoots, overrides):
    shoots.add(healthy())
    overrides.add(
        pause(reason="by the API", author="eve"),
        pause(name="night-shift", reason="by hand", author="bob", seconds=900),
        pause(of=HOME, name="works", reason="of all", author="unknown", seconds=600),
        pause(name="over", seconds=-1, reason="long ago"),
    )
    text = words_of(page_of(client, f"/shoots/{NAMESPACE}"))
    assert "by eve , 1h 0m left : by the API" in text
    assert "by bob (unverified) , 15m left : by hand (Pause night-shift )" in text
    assert "paused (all shoots) by unknown , 10m left : of all (Pause works )" in text
    assert "long ago" not in text
    row = words_of(page_of(client))
    assert "(1 of 3 pauses)" in row


def test_more_pauses_than_a_page_shows_are_counted(client, shoots, overrides):
    shoots.add(healthy())
    overrides.add(*(pause(name=f"p-{n:03}", seconds=600 + n) for n in range(70)))
    html = page_of(client, f"/shoots/{NAMESPACE}")
    assert html.count('class="override"') == 51
    assert "20 more pauses, which hold back no more." in html
    assert "pauses/p-020" in html
    assert "pauses/p-019" not in html


def test_each_pause_can_be_ended(client, shoots, overrides):
    shoots.add(healthy())
    for path, of in ((f"/shoots/{NAMESPACE}", NAMESPACE), ("/", HOME)):
        assert "End a pause of kubectl" not in page_of(client, path)
        overrides.add(pause(of=of), *(pause(of=of, name=f"by-hand-{n}") for n in range(2)))
        html = page_of(client, path)
        assert "Resume" in html
        assert "End a pause of kubectl" in html
        assert "by-hand-0" in html
        assert "pauses/by-hand-1" in html
        overrides.clear()


def test_what_replaces_a_pause_is_offered_to_those_who_may(shoots, overrides):
    shoots.add(healthy())

    class MayMake(FakeAuthority):
        """This caller may make pauses only."""

        async def may(self, caller, call, namespace=""):
            return call is Call.PAUSE

    given = context(shoots, overrides=overrides, authority=MayMake())
    with TestClient(application(given)) as client:
        assert 'data-key="action-pause"' in page_of(client, f"/shoots/{NAMESPACE}")
        overrides.add(pause())
        assert 'data-key="action-pause"' not in page_of(client, f"/shoots/{NAMESPACE}")


def test_a_refused_scaling_run_says_why(client, shoots, scaling_runs):
    shoots.add(healthy())
    run = ScalingRunStatus(
        "op-1",
        NAMESPACE,
        Direction.UP,
        Trigger.MANUAL,
        OperationPhase.REFUSED,
        NOW - 5,
        "by hand",
        "alice",
        ended=NOW - 4,
        message="the shoot is not probed",
    )
    scaling_runs.add(run)
    for path in ("/operations", f"/shoots/{NAMESPACE}"):
        text = words_of(page_of(client, path))
        assert "⊘ Refused scale up" in text
        assert "the shoot is not probed" in text
        assert "Verdicts are held" not in text


@pytest.mark.parametrize(
    ("phase", "hold_until", "said"),
    [
        (OperationPhase.RUNNING, NOW + 60, "Verdicts are held until it has ended"),
        (OperationPhase.DONE, NOW + 60, "Verdicts are held: 1m left"),
        (OperationPhase.DONE, NOW - 60, None),
    ],
)
def test_how_long_verdicts_are_held_is_said(client, scaling_runs, phase, hold_until, said):
    run = ScalingRunStatus(
        "op-1", NAMESPACE, Direction.UP, Trigger.MANUAL, phase, NOW - 5, hold_until=hold_until
    )
    scaling_runs.add(run)
    text = words_of(page_of(client, "/operations"))
    if said is None:
        assert "Verdicts are held" not in text
    else:
        assert said in text
