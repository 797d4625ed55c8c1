"""A world that is struck everywhere is played once, and branches at each boundary."""

import asyncio
import os
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from app.simulation.traffic import Host
from bench.exploration.line import Boundary, Passage
from bench.exploration.story import Story, Violation
from bench.exploration.strikes import How, played, rehearsed, struck_everywhere


class World:
    """One process that passes four boundaries, and says at which of them it was struck."""

    breaks_at = -1
    wrong = False

    def __init__(self, strike):
        self.strike, self.story = strike, Story()
        hit = [
            lambda **_: self.story.log.append("struck"),
            lambda _: self.story.log.append("stopped"),
        ]
        process = SimpleNamespace(name="a1")
        self.instance = SimpleNamespace(process=process, kill=hit[0], pause=hit[1])

    def run(self):
        asyncio.run(self.play())
        return self.story

    async def play(self):
        request: Any = SimpleNamespace(host=Host.SEED, verb="get", what="pods")
        for number in range(4):
            await asyncio.sleep(0)
            passage = Passage("a1", number, Boundary.SENT, request, False)
            self.strike.note(passage)
            self.strike.fall(passage, [self.instance])
            self.story.log.append(f"passed {number}")
            if self.strike.done and number == self.breaks_at:
                raise ValueError("on purpose")
        if self.wrong:
            self.story.violations.append(Violation(0.0, "sound", "it is not"))


def told(case, story):
    return case, story.log


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_branch_tells_what_a_play_from_the_begin_tells_in_the_order_of_the_boundaries(jobs):
    branched = list(struck_everywhere(World, "here", jobs, told))

    cases = rehearsed(World, "here")
    assert branched == [(case, played(World, case).log) for case in cases]
    assert Counter(case.how for case, _ in branched) == {How.KILL: 4, How.PAUSE: 4}
    assert branched[2][1] == ["passed 0", "passed 1", "struck", "passed 2", "passed 3"]


def test_a_branch_that_fails_is_named_and_ends_with_its_process(capfd):
    class Breaks(World):
        breaks_at = 2

    here = os.getpid()
    with pytest.raises(RuntimeError, match=r"kill of a1 at #.* ended without a result"):
        list(struck_everywhere(Breaks, "", 2, told))

    assert os.getpid() == here
    assert "ValueError: on purpose" in capfd.readouterr().err


def test_a_world_that_is_wrong_without_a_strike_is_said_so():
    class Wrong(World):
        wrong = True

    with pytest.raises(RuntimeError, match=r"the rehearsal failed: .*it is not"):
        list(struck_everywhere(Wrong, "", 2, told))
