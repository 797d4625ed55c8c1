"""Notices: who hears them, and what they are in the log."""

from dataclasses import fields
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core.model.probing import RequestKind, Verdict
from app.core.model.workloads import ResourceRef
from app.core.reporting.notices import (
    Notice,
    NoticeBus,
    ScalingNotice,
    Severity,
    VerdictChanged,
    journal,
)
from tests.support.notices import A_PROBE, SCALED_DOWN

NOTICE = ScalingNotice("shoot--a", 1.0, "ScaledDown", "scaled")


def broken(_notice):
    raise ValueError("a bug")


def test_every_subscriber_hears_each_notice_in_order_and_one_that_fails_is_logged(lines):
    board = NoticeBus()
    heard: list[tuple[str, Notice]] = []
    board.subscribe(lambda notice: heard.append(("first", notice)))
    board.subscribe(broken)
    board.subscribe(lambda notice: heard.append(("second", notice)))
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


def scaled(text, requested_at):
    said = ("shoot--a", 1.0, "ScaledDown", text)
    return SCALED_DOWN(*said, resource=KCM, requested_at=requested_at)


def test_an_action_is_a_line_with_its_reason_and_facts():
    text = "Deployment/kube-controller-manager down from 1 to 0 done"
    assert logged(scaled(text, requested_at=None)) == {
        "event": text,
        "log_level": "info",
        "namespace": "shoot--a",
        "type": "Scale",
        "reason": "ScaledDown",
        "resource": "Deployment/kube-controller-manager",
        "direction": "down",
        "result": "done",
        "trigger": "auto",
        "operation": "op-1",
        "before": 1,
        "after": 0,
    }


@pytest.mark.parametrize("severity", list(Severity))
def test_a_line_is_as_severe_as_its_notice(severity):
    hold: dict[str, Any] = {"verdict": Verdict.HOLD, "would_be": Verdict.HOLD}
    line = logged(VerdictChanged("a", 1.0, "Unreachable", "gone", severity, **hold))
    assert (line["log_level"], line["verdict"]) == (severity, "Hold")


@pytest.mark.parametrize("severity", list(Severity))
def test_probes_are_for_debug_only_whatever_they_saw(severity):
    assert logged(A_PROBE("a", 1.0, "Reason", "x", severity))["log_level"] == "debug"


def test_numbers_have_the_names_of_the_api_and_instants_are_text():
    assert logged(scaled("x", requested_at=1_800_000_000.25))["written"] == "2027-01-15T08:00:00Z"
    probe: dict[str, Any] = {
        "durations": {RequestKind.LEASE: 0.5},
        "lag": 0.25,
        "seconds": 1.23456789,
    }
    line = logged(A_PROBE("a", 1.0, "Reason", "x", **probe))
    assert (line["duration_seconds"], line["lag_seconds"]) == (1.235, 0.25)
    assert line["probe_seconds"] == {"lease": 0.5}
    assert not {"seconds", "lag", "durations", "known_since", "leases"} & set(line)


def test_no_fact_has_the_name_of_what_each_line_has():
    """It would be lost in the log."""
    common = {"namespace", "type", "reason", "verdict", "resource"}
    own = {field.name for of in classes(Notice) for field in fields(of)[len(fields(Notice)) :]}
    assert own
    assert common.isdisjoint(own)


def classes(of):
    return [of, *(each for sub in of.__subclasses__() for each in classes(sub))]
