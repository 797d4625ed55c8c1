"""What is remembered of each shoot, and what memory it takes."""

import tracemalloc

import pytest

from app.core.model.overrides import ALL_SHOOTS
from app.core.model.probing import NoticeKind, Verdict
from app.core.reporting.history import History
from app.core.reporting.notices import EndpointNotice
from tests.support.notices import OF_KIND

NS = "shoot--a"


@pytest.fixture
def history():
    return History()


def notice(kind=NoticeKind.LOOK, message="fine", at=0.0, *, verdict=None, namespace=NS, **facts):
    of = EndpointNotice if "probe" in facts else OF_KIND[kind]
    return of(namespace, at, "Reason", message, verdict=verdict, **facts)


ROUTINE, FAILED = {"kind": NoticeKind.LOOK}, {"kind": NoticeKind.LOOK, "failed": True}
VERDICT, SCALE = {"kind": NoticeKind.VERDICT}, {"kind": NoticeKind.SCALE}
LIFECYCLE, WEED = {"kind": NoticeKind.LIFECYCLE}, {"kind": NoticeKind.WEED}
ENDPOINT = {"kind": NoticeKind.LIFECYCLE, "probe": "canary"}


def messages(history, namespace=NS):
    return [each.message for each in history.of(namespace)]


@pytest.mark.parametrize(
    ("kept", "others"),
    [
        (ROUTINE, [FAILED, VERDICT, SCALE, LIFECYCLE, WEED, ENDPOINT]),
        (FAILED, [ROUTINE, SCALE, LIFECYCLE, WEED, ENDPOINT]),
        (VERDICT, [ROUTINE, SCALE, LIFECYCLE, WEED, ENDPOINT]),
        (SCALE, [ROUTINE, FAILED, VERDICT, WEED, ENDPOINT]),
        (LIFECYCLE, [ROUTINE, FAILED, VERDICT, WEED, ENDPOINT]),
        (WEED, [ROUTINE, FAILED, VERDICT, SCALE, LIFECYCLE, ENDPOINT]),
        (ENDPOINT, [ROUTINE, FAILED, VERDICT, SCALE, LIFECYCLE, WEED]),
    ],
    ids=["a probe", "a failure", "a verdict", "an action", "a change", "weeding", "endpoints"],
)
def test_what_happened_outlives_any_number_of_what_has_another_importance(history, kept, others):
    history.note(notice(message="kept", **kept))
    for number in range(2_000):
        for each in others:
            history.note(notice(message=f"{number}", **each))
    assert messages(history)[-1] == "kept"


@pytest.mark.parametrize(
    ("kind", "most"),
    [(ROUTINE, 60), (FAILED, 100), (VERDICT, 100), (SCALE, 200), (WEED, 80), (ENDPOINT, 80)],
)
def test_of_what_has_one_importance_the_newest_are_kept(history, kind, most):
    for number in range(most + 1):
        history.note(notice(message=f"{number}", **kind))
    found = messages(history)
    assert found[0] == f"{most}"
    assert most // 3 <= len(found) <= most


@pytest.mark.parametrize("kind", [VERDICT, SCALE, LIFECYCLE, WEED, ENDPOINT])
def test_what_is_no_probe_is_an_entry_each_time(history, kind):
    for _ in range(3):
        history.note(notice(**kind))
    assert len(history.of(NS)) == 3


def test_probes_that_say_the_same_in_a_row_are_one_entry_with_the_last_time(history):
    for at in (1.0, 2.0, 3.0):
        history.note(notice(at=at, verdict=Verdict.SCALE_UP))
    (entry,) = history.of(NS)
    assert (entry.since, entry.at, entry.times) == (1.0, 3.0, 3)


def test_probes_with_something_else_in_between_are_not_one_entry(history):
    history.note(notice(at=1.0))
    history.note(notice(NoticeKind.SCALE, "scaled", 2.0))
    history.note(notice(at=3.0))
    assert [(each.at, each.times) for each in history.of(NS)] == [(3.0, 1), (2.0, 1), (1.0, 1)]


def test_probes_that_differ_in_verdict_or_failure_are_not_one_entry(history):
    history.note(notice(verdict=Verdict.SCALE_UP))
    history.note(notice(verdict=Verdict.HOLD))
    history.note(notice(verdict=Verdict.HOLD, failed=True))
    assert [each.times for each in history.of(NS)] == [1, 1, 1]


def test_what_is_told_of_all_shoots_ends_the_run_of_probes_of_each(history):
    for at in (1.0, 2.0):
        history.note(notice(at=at))
        history.note(notice(at=at, namespace="another"))
    history.note(notice(NoticeKind.OVERRIDE, "paused", 3.0, namespace=ALL_SHOOTS))
    for at in (4.0, 5.0):
        history.note(notice(at=at))
        history.note(notice(at=at, namespace="another"))
    for namespace in (NS, "another"):
        found = [(each.since, each.at, each.times) for each in history.of(namespace)]
        assert found == [(4.0, 5.0, 2), (1.0, 2.0, 2)]


def test_what_was_decided_about_all_stands_where_it_happened(history):
    for at in range(6):
        history.note(notice(at=float(at)))
        history.note(notice(at=float(at), namespace="another"))
        if at in {1, 3}:
            history.note(notice(NoticeKind.OVERRIDE, "paused", at + 0.5, namespace=ALL_SHOOTS))
    found = [(each.at, each.times) for each in history.about(NS)]
    assert found == [(5.0, 2), (3.5, 1), (3.0, 2), (1.5, 1), (1.0, 2)]


def test_namespaces_that_nobody_tells_of_any_more_go_when_there_are_too_many(history):
    for number in range(2_000):
        history.note(notice(NoticeKind.WEED, namespace=f"n{number}"))
    history.note(notice(NoticeKind.WEED, namespace="n0"))
    history.note(notice(NoticeKind.WEED, namespace="another"))
    assert not history.of("n1"), "of this one nothing was told for longest"
    kept = ["n0", *(f"n{number}" for number in range(2, 2_000)), "another"]
    assert all(history.of(each) for each in kept)


def test_what_is_told_of_a_shoot_that_is_gone_does_not_stay_for_ever(history):
    history.forget(NS)
    history.note(notice(NoticeKind.WEED, "weeding ended"))
    for number in range(2_000):
        history.note(notice(namespace=f"n{number}"))
    assert not history.of(NS)


def test_a_shoot_that_is_gone_is_forgotten(history):
    history.note(notice())
    history.note(notice(namespace="other"))
    history.forget(NS)
    history.forget("never seen")
    assert (history.of(NS), len(history.of("other"))) == ([], 1)


def test_messages_are_one_printable_line_of_bounded_length(history):
    history.note(notice(message="a\nb\x1b[31m" + "x" * 5000))
    (message,) = messages(history)
    assert message.isprintable()
    assert len(message) <= 300


def grown(notices) -> int:
    """Bytes that a history keeps of these, after Python has filled its free lists."""
    history, every = History(), list(notices)
    for each in every:
        history.note(each)
    history.forget(NS)
    tracemalloc.start()
    for each in every:
        history.note(each)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size


def test_the_worst_shoot_takes_about_86_kb():
    worst = (
        notice(message=f"{number}" + "ä€" * 400, at=float(number), **kind)
        for number in range(800)
        for kind in (ROUTINE, FAILED, SCALE, WEED, ENDPOINT)
    )
    assert grown(worst) < 94_000


def test_a_shoot_where_nothing_happens_takes_next_to_nothing():
    quiet = (notice(message="0 of 100 node leases are older", at=float(n)) for n in range(5_000))
    assert grown(quiet) < 4_000
