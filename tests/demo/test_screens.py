"""Both screens: the picture fits the terminal, and lines read well without one."""

import io
import os
from dataclasses import replace

import pytest
from rich.console import Console

from app.core.model.probing import ShootState
from app.simulation.demo.losses import Comparison, Toll
from app.simulation.demo.pod_story import Saving
from app.simulation.demo.screens import LiveScreen, PlainScreen, draw
from app.simulation.demo.wording import EventLine, Picture, Pods, Row, TrueReplicas
from tests.demo.scenes import leases, performance

ONE, NONE = TrueReplicas(1, 1), TrueReplicas(0, 0)


def rows(count, *worst):
    healthy = [
        Row(
            f"s{number}",
            ShootState.HEALTHY,
            "LeasesRenewed",
            leases(10, 0, 0),
            (ONE, ONE, None),
        )
        for number in range(count - len(worst))
    ]
    return (*worst, *healthy)


PROTECTED = Row(
    "a",
    ShootState.PROTECTED,
    "LeasesExpired",
    leases(3, 7, 0),
    (NONE, NONE, NONE),
    ("path-cut",),
)


def picture(**changes):
    facts = {
        "elapsed": 65.0,
        "now": 120.0,
        "scenario": "story",
        "running": (performance(),),
        "rows": rows(30, PROTECTED),
        "lost": Comparison(Toll(0, 0), Toll(10, 4)),
        "latest": tuple(EventLine(float(number), f"line {number}") for number in range(20)),
        "hints": ("curl -s http://127.0.0.1:8080/api/v1/shoots", "another hint"),
    }
    return Picture(**(facts | changes))


def drawn(shown, width=120, height=40):
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=False)
    console.print(draw(shown, width, height))
    return out.getvalue().splitlines()


# The terminal.


def test_the_picture_has_what_happens_what_it_costs_the_worst_shoots_and_the_latest_lines():
    lines = drawn(picture())
    text = "\n".join(lines)
    assert "dependency watchdog  +1:05  scenario story, 30 shoots." in lines[0]
    assert "curl -s http://127.0.0.1:8080/api/v1/shoots" in lines[1]
    assert "1 Protected, 29 Healthy" in text
    assert "nodes marked NotReady     0 with the watchdog    10 without it" in text
    assert "machines deleted          0 with the watchdog     4 without it" in text
    assert "  25 s a  The path-cut is on." in text, "until 145, and it is 120"
    row = next(line for line in lines if line.startswith("a "))
    assert row.split() == [
        *("a", "Protected", "LeasesExpired", "3", "fresh,", "7", "expired", "of", "10"),
        *("0/0", "0/0", "0/0", "path-cut"),
    ]
    assert lines[-1].strip() == "+0:19  line 19"


@pytest.mark.parametrize("height", [10, 14, 20, 24, 40, 60])
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("count", [1, 30, 300])
def test_the_picture_fits_the_terminal(height, width, count):
    lines = drawn(picture(rows=rows(count, PROTECTED)), width, height)
    assert len(lines) <= max(height, 11)
    assert all(len(line) <= width for line in lines)


def test_shoots_that_do_not_fit_are_counted():
    text = "\n".join(drawn(picture(), height=24))
    hidden = int(text.split("+ ")[1].split()[0])
    assert hidden + text.count("LeasesRenewed") + 1 == 30


def test_many_scenes_are_not_all_named():
    running = tuple(performance(number, shoots=(f"x{number}",)) for number in range(8))
    text = "\n".join(drawn(picture(running=running)))
    assert "and 3 more scenes" in text
    assert "x4" in text
    assert "x5" not in text


def test_trouble_stands_in_the_place_of_the_counts():
    text = "\n".join(drawn(picture(trouble="No news from the program: too slow")))
    assert "No news from the program: too slow" in text
    assert "29 Healthy" not in text


WAITING = Row("b", ShootState.HEALTHY, "LeasesRenewed", None, (ONE, ONE, ONE), (), 2)
ASLEEP = Row("c", ShootState.NOT_PROBED, "Hibernated", None, (NONE, NONE, None))


@pytest.mark.parametrize(
    ("shown", "over", "said"),
    [
        (rows(30), False, "All is quiet."),
        (rows(30, ASLEEP), False, "All is quiet."),
        (rows(30, PROTECTED), False, "No scene plays; 1 shoot not back to normal yet."),
        (rows(30, PROTECTED, WAITING), False, "No scene plays; 2 shoots not back to normal yet."),
        (rows(30), True, "The scenario is over; the watchdog goes on."),
        (
            rows(30, WAITING),
            True,
            "The scenario is over; the watchdog goes on. 1 shoot not back to normal yet.",
        ),
    ],
)
def test_where_no_scene_plays_it_is_quiet_only_when_every_shoot_is_well(shown, over, said):
    assert said in drawn(picture(running=(), rows=shown, over=over))


LONG = f"a: Healthy → Protected (LeasesExpired): {'words ' * 40}the end"


def test_what_has_happened_is_whole_where_there_is_room():
    lines = drawn(picture(latest=(EventLine(1.0, LONG), EventLine(2.0, "the last"))))
    at = next(number for number, line in enumerate(lines) if "+0:01  a: Healthy" in line)
    told = [line.rstrip() for line in lines[at:]]
    assert " ".join(line.strip() for line in told[:-1]) == f"+0:01  {LONG}"
    assert told[1].startswith(" " * 8 + "words")
    assert told[-1].strip() == "+0:02  the last"
    assert "…" not in "".join(lines)


def test_shoots_to_which_nothing_happens_give_way_to_what_has_happened():
    latest = tuple(EventLine(float(number), LONG) for number in range(10))
    lines = drawn(picture(latest=latest))
    assert sum("a: Healthy →" in line for line in lines) == 4, "three lines each, 14 at most"
    busy = tuple(replace(PROTECTED, shoot=f"p{number}") for number in range(30))
    lines = drawn(picture(latest=latest, rows=busy))
    assert sum("a: Healthy →" in line for line in lines) == 2, "8 lines"
    assert sum("path-cut" in line for line in lines) > 15


def test_a_line_that_is_too_long_for_what_room_there_is_is_cut():
    lines = drawn(picture(latest=(EventLine(1.0, LONG),)), width=40, height=16)
    assert lines[-1].endswith("…")


def test_hints_and_leases_are_whole():
    hint = f"kubectl --kubeconfig /tmp/{'x' * 60}/kubeconfig get deployments,pods -A and more"
    wide = replace(PROTECTED, leases=leases(1439, 2161, 12))
    lines = drawn(picture(hints=(hint,), rows=rows(30, wide)), width=100)
    assert " ".join(line.strip() for line in lines[1:3]) == hint
    assert "1439 fresh, 2161 expired, 12 unknown of 3612" in "\n".join(lines)


def saying(text, number=1):
    found = performance(number)
    return replace(found, scene=replace(found.scene, say=text))


def test_the_words_of_a_scene_are_whole_where_there_is_room_and_cut_where_there_is_none():
    running = tuple(saying(f"{'word ' * 40}the end", number) for number in range(5))
    text = "\n".join(drawn(picture(running=running)))
    assert (text.count("a  word"), text.count("the end")) == (5, 5)
    assert all(line.startswith("       ") for line in text.splitlines() if "the end" in line)
    lines = drawn(picture(running=running), width=80, height=24)
    assert len(lines) <= 24
    assert sum("25 s a  word" in line and line.endswith("…") for line in lines) == 5
    assert sum("LeasesRenewed" in line for line in lines) >= 2


def test_what_is_lost_below_the_limit_is_told_apart():
    assert "below the limit" not in "\n".join(drawn(picture()))
    lost = Comparison(Toll(0, 0), Toll(10, 4), below=(Toll(59, 0), Toll(60, 0)))
    text = "\n".join(drawn(picture(lost=lost)))
    assert "nodes marked NotReady     0 with the watchdog    10 without it" in text
    assert "below the limit: too few to act: nodes 59, without the watchdog 60\n" in text


def test_a_message_is_shown_as_it_is_and_not_as_markup():
    text = "\n".join(drawn(picture(latest=(EventLine(1.0, "[bold]x[/bold] [/]"),))))
    assert "[bold]x[/bold] [/]" in text


def test_the_terminal_is_given_back():
    out = io.StringIO()
    screen = LiveScreen(Console(file=out, width=80, height=24, force_terminal=True))
    with screen.live:
        screen.show(picture())
        screen.tell(EventLine(1.0, "next time"))
    assert "\x1b[?1049h" in out.getvalue()
    assert out.getvalue().index("\x1b[?1049h") < out.getvalue().index("\x1b[?1049l")
    assert "next time" not in out.getvalue()


def test_of_pods_it_says_something_when_some_wait_or_were_restarted():
    assert "pods waiting" not in "\n".join(drawn(picture()))
    text = "\n".join(drawn(picture(pods=Pods(2, 9))))
    assert "pods waiting              2 with the watchdog     9 without it" in text
    assert "restarted" not in text
    text = "\n".join(drawn(picture(pods=Pods(0, 7, Saving(8, 657.0, 89.0))), width=130))
    assert "8 pods restarted: 10 min 57 s sooner in all, 1 min 29 s at most" in text


def test_the_pods_that_wait_stand_in_the_row_of_their_shoot():
    waiting = replace(PROTECTED, scenes=("etcd-outage",), waiting=5)
    lines = drawn(picture(rows=rows(30, waiting)))
    row = next(line for line in lines if line.startswith("a "))
    assert row.rstrip().endswith("0/0  etcd-outage, 5 waiting")


# No terminal.


def plain():
    out = io.StringIO()
    return PlainScreen(out, gone=lambda: pytest.fail("somebody reads")), out


def test_lines_begin_with_what_it_is_and_where_to_probe():
    screen, out = plain()
    screen.show(picture(elapsed=0.0))
    screen.show(picture(elapsed=1.0))
    assert out.getvalue().splitlines() == [
        "scenario story, 30 shoots; Ctrl-C ends it early",
        "    curl -s http://127.0.0.1:8080/api/v1/shoots",
        "    another hint",
    ]


def test_each_thing_that_happens_is_a_line_at_once():
    screen, out = plain()
    screen.tell(EventLine(65.0, "scene 1 begins"))
    assert out.getvalue() == " +1:05  scene 1 begins\n"


def test_every_15_s_there_is_a_summary():
    screen, out = plain()
    for second in range(46):
        screen.show(picture(elapsed=float(second)))
    lines = [line for line in out.getvalue().splitlines() if "=" in line]
    assert lines[0] == (
        " +0:15  = 1 Protected, 29 Healthy; nodes marked NotReady: 0, without the watchdog 10; "
        "machines deleted: 0, without 4"
    )
    assert [line.split()[0] for line in lines] == ["+0:15", "+0:30", "+0:45"]


def test_pods_are_in_the_summary_when_some_wait_or_were_restarted():
    screen, out = plain()
    screen.show(picture(elapsed=15.0, pods=Pods(1, 9)))
    assert out.getvalue().endswith("without 4; pods waiting: 1, without the watchdog 9\n")
    screen.show(picture(elapsed=30.0, pods=Pods(0, 9, Saving(1, 657.0, 657.0))))
    assert out.getvalue().endswith(
        "; pods waiting: 0, without the watchdog 9; "
        "1 pod restarted: 10 min 57 s sooner in all, 10 min 57 s at most\n"
    )


def test_a_program_that_does_not_answer_is_in_the_summary():
    screen, out = plain()
    screen.show(picture(elapsed=15.0, trouble="The program is starting."))
    assert "= The program is starting.; nodes" in out.getvalue()


def test_when_nobody_reads_any_more_the_demo_is_told_and_no_error_is_left():
    reading, writing = os.pipe()
    gone = []
    with os.fdopen(writing, "w") as out:
        screen = PlainScreen(out, gone=lambda: gone.append(True))
        screen.tell(EventLine(1.0, "somebody reads"))
        os.close(reading)
        screen.tell(EventLine(2.0, "nobody does"))
        screen.tell(EventLine(3.0, "nor now"))
    assert gone == [True]
