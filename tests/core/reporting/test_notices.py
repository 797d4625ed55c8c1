"""The board on which everything is told."""

from structlog.testing import capture_logs

from app.core.model.probing import NoticeKind
from app.core.reporting.notices import Notice, NoticeBus

NOTICE = Notice(NoticeKind.SCALE, "shoot--a", 1.0, "ScaledDown", "scaled")


def broken(_notice):
    raise ValueError("a bug")


def test_every_subscriber_hears_each_notice_in_order():
    board = NoticeBus()
    heard: list[tuple[str, Notice]] = []
    board.subscribe(lambda notice: heard.append(("first", notice)))
    board.subscribe(lambda notice: heard.append(("second", notice)))
    board.publish(NOTICE)
    assert heard == [("first", NOTICE), ("second", NOTICE)]


def test_a_subscriber_that_fails_is_logged_and_stops_nobody():
    board = NoticeBus()
    heard: list[Notice] = []
    board.subscribe(broken)
    board.subscribe(heard.append)
    with capture_logs() as lines:
        board.publish(NOTICE)
    assert heard == [NOTICE]
    assert [(line["log_level"], line["reason"]) for line in lines] == [("error", "ScaledDown")]
