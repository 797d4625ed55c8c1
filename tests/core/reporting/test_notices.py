"""Notices: who hears them, and what they are in the log."""

import pytest
from structlog.testing import capture_logs

from app.core.model.probing import NoticeKind, Verdict
from app.core.model.workloads import Direction, ResourceRef
from app.core.reporting.notices import Notice, NoticeBus, Severity, journal

NOTICE = Notice(NoticeKind.SCALE, "shoot--a", 1.0, "ScaledDown", "scaled")


def broken(_notice):
    raise ValueError("a bug")


def test_every_subscriber_hears_each_notice_in_order_and_one_that_fails_is_logged():
    board = NoticeBus()
    heard: list[tuple[str, Notice]] = []
    board.subscribe(lambda notice: heard.append(("first", notice)))
    board.subscribe(broken)
    board.subscribe(lambda notice: heard.append(("second", notice)))
    with capture_logs() as lines:
        board.publish(NOTICE)
    assert heard == [("first", NOTICE), ("second", NOTICE)]
    assert [(line["log_level"], line["reason"]) for line in lines] == [("error", "ScaledDown")]


# In the log.

KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")


def logged(notice):
    with capture_logs() as lines:
        journal(notice)
    (line,) = lines
    return line


def test_an_action_is_a_line_with_its_reason_and_numbers():
    numbers = {"direction": Direction.DOWN, "before": 1, "after": 0, "requested_at": None}
    text = "Deployment/kube-controller-manager down from 1 to 0 done"
    line = logged(
        Notice(NoticeKind.SCALE, "shoot--a", 1.0, "ScaledDown", text, resource=KCM, numbers=numbers)
    )
    assert line == {
        "event": text,
        "log_level": "info",
        "namespace": "shoot--a",
        "type": "Scale",
        "reason": "ScaledDown",
        "resource": "Deployment/kube-controller-manager",
        "direction": "down",
        "before": 1,
        "after": 0,
    }


@pytest.mark.parametrize("severity", list(Severity))
def test_a_line_is_as_severe_as_its_notice(severity):
    notice = Notice(NoticeKind.VERDICT, "a", 1.0, "Unreachable", "gone", severity, Verdict.HOLD)
    line = logged(notice)
    assert (line["log_level"], line["verdict"]) == (severity, "Hold")


@pytest.mark.parametrize("severity", list(Severity))
def test_probes_are_for_debug_only_whatever_they_saw(severity):
    assert (
        logged(Notice(NoticeKind.LOOK, "a", 1.0, "Reason", "x", severity))["log_level"] == "debug"
    )


def test_a_number_cannot_stand_in_for_the_namespace_or_the_reason():
    numbers = {"namespace": "forged", "reason": "forged"}
    line = logged(Notice(NoticeKind.SCALE, "a", 1.0, "Reason", "x", numbers=numbers))
    assert (line["namespace"], line["reason"]) == ("a", "Reason")


def test_numbers_have_the_names_of_the_api_and_instants_are_text():
    numbers = {"requested_at": 1_800_000_000.25, "seconds": 1.23456789, "would_be": None}
    line = logged(Notice(NoticeKind.SCALE, "a", 1.0, "Reason", "x", numbers=numbers))
    assert line["written"] == "2027-01-15T08:00:00Z"
    assert line["duration_seconds"] == 1.235
    assert not {"requested_at", "seconds", "would_be"} & set(line)
