"""Both screens: the picture fits the terminal, and lines read well without one."""

import io
import os
from dataclasses import replace

import pytest
from rich.console import Console

from app.core.model.probing import ShootState
from app.simulation.demo.screens import Drawing, LiveScreen, Picture, PlainScreen, Row, stamp

PROTECTED = Row("a", ShootState.PROTECTED, "Expired", "3 of 10", ("0/0", "0/0", "–"), "path-cut")


def rows(count, *worst):
    healthy = Row("", ShootState.HEALTHY, "Renewed", "10 of 10", ("1/1", "1/1", "1/1"), "")
    names = (f"s{number}" for number in range(count - len(worst)))
    return (*worst, *(healthy._replace(shoot=name) for name in names))


PICTURE = Picture(
    elapsed=65.0,
    title="scenario story, 30 shoots",
    hints=("curl -s http://127.0.0.1:8080/api/v1/shoots", "another hint"),
    state="1 Protected, 29 Healthy",
    counts=(("nodes marked NotReady", 0, 10), ("machines deleted", 2, 4)),
    scenes=((25.0, "a", "The path is cut."),),
    rows=rows(30, PROTECTED),
    unsettled=1,
    latest=tuple((stamp(number), f"line {number}") for number in range(20)),
)


def drawn(width=120, height=40, **changes):
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=False)
    console.print(Drawing(replace(PICTURE, **changes)))
    return [line.rstrip() for line in out.getvalue().splitlines()]


# The terminal.


def test_the_picture_has_what_happens_what_it_costs_the_worst_shoots_and_the_latest_lines():
    lines = drawn()
    assert lines[:7] == [
        "dependency watchdog  +1:05  scenario story, 30 shoots. Ctrl-C ends it.",
        "curl -s http://127.0.0.1:8080/api/v1/shoots",
        "another hint",
        "1 Protected, 29 Healthy",
        "nodes marked NotReady      0 with the watchdog     10 without it",
        "machines deleted           2 with the watchdog      4 without it",
        "  25 s  a: The path is cut.",
    ]
    row = " ".join(lines[9].split())
    assert row == "a Protected Expired 3 of 10 0/0 0/0 – path-cut"
    assert lines[-1] == "+0:19  line 19"
    assert len(lines) == 40


@pytest.mark.parametrize("height", [10, 14, 24, 60])
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("count", [1, 30, 300])
def test_the_picture_fits_the_terminal(height, width, count):
    scene = (25.0, "a, b, c and 2 more", "word " * 40)
    long = ("+0:01", f"a: Healthy → Protected (Expired): {'words ' * 40}the end")
    shown = rows(count, PROTECTED)
    lines = drawn(width, height, rows=shown, scenes=(scene,) * 8, latest=(long,) * 8)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert any(line.startswith("a  ") for line in lines), "the worst shoot"
    assert lines[-1].endswith("end"), "the latest that has happened"


def test_shoots_that_do_not_fit_are_counted():
    text = "\n".join(drawn(height=24))
    hidden = int(text.split("+ ")[1].split()[0])
    assert hidden + text.count("Renewed") + 1 == 30


def test_many_scenes_are_not_all_named():
    text = "\n".join(drawn(scenes=tuple((9.0, f"x{number}", "") for number in range(8))))
    assert "and 3 more scenes" in text
    assert "x4" in text
    assert "x5" not in text


@pytest.mark.parametrize(
    ("unsettled", "over", "said"),
    [
        (0, False, "All is quiet."),
        (1, False, "No scene plays; 1 shoot not back to normal yet."),
        (0, True, "The scenario is over; the watchdog goes on."),
        (2, True, "The scenario is over; the watchdog goes on. 2 shoots not back to normal yet."),
    ],
)
def test_where_no_scene_plays_it_is_quiet_only_when_every_shoot_is_well(unsettled, over, said):
    assert said in {line.strip() for line in drawn(scenes=(), unsettled=unsettled, over=over)}


def test_a_message_is_shown_as_it_is_and_not_as_markup():
    assert drawn(latest=(("+0:01", "[bold]x[/bold] [/]"),))[-1].endswith("[bold]x[/bold] [/]")


def test_the_terminal_is_given_back():
    out = io.StringIO()
    screen = LiveScreen(Console(file=out, width=80, height=24, force_terminal=True))
    with screen.live:
        screen.show(PICTURE)
        screen.tell("+0:01", "next time")
    assert "\x1b[?1049h" in out.getvalue()
    assert out.getvalue().index("\x1b[?1049h") < out.getvalue().index("\x1b[?1049l")
    assert "next time" not in out.getvalue()


# No terminal.


def test_lines_begin_with_what_it_is_and_every_15_s_there_is_a_summary():
    out = io.StringIO()
    screen = PlainScreen(out, gone=lambda: pytest.fail("somebody reads"))
    for second in range(31):
        screen.show(replace(PICTURE, elapsed=float(second)))
        if second == 20:
            screen.tell("+0:20", "scene 1 begins")
    summary = (
        "= 1 Protected, 29 Healthy; nodes marked NotReady: 0, without the watchdog 10; "
        "machines deleted: 2, without the watchdog 4"
    )
    assert out.getvalue().splitlines() == [
        "scenario story, 30 shoots; Ctrl-C ends it early",
        "    curl -s http://127.0.0.1:8080/api/v1/shoots",
        "    another hint",
        f" +0:15  {summary}",
        " +0:20  scene 1 begins",
        f" +0:30  {summary}",
    ]


def test_when_nobody_reads_any_more_the_demo_is_told_and_no_error_is_left():
    reading, writing = os.pipe()
    gone = []
    with os.fdopen(writing, "w") as out:
        screen = PlainScreen(out, gone=lambda: gone.append(True))
        screen.tell("+0:01", "somebody reads")
        os.close(reading)
        screen.tell("+0:02", "nobody does")
        screen.tell("+0:03", "nor now")
    assert gone == [True]
