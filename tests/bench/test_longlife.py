"""A long life in small: a few hours with three shoots; and each kind of leak is found."""

import asyncio
import random
import weakref
from dataclasses import dataclass

import pytest

from bench.exploration.timeline import Timeline
from bench.longlife.days import LongLife
from bench.longlife.measures import MIB, Hour, grown, verdict, windows

pytestmark = pytest.mark.timeout(240)  # eight seconds each, on a machine that does nothing else

HOURS, SHOOTS, OUTAGES = 3, 3, 2


@dataclass
class Lived:
    """What came of a few hours."""

    grown: list[str]
    strays: list[str]


def lived(planted=lambda _: None, told=lambda _: None) -> Lived:
    """`planted` is called when the program has started, `told` when an hour was counted."""
    life = LongLife(SHOOTS, seed=1, outages=OUTAGES)
    found = life.live(HOURS, lambda *_: told(life), planted)
    return Lived(grown(found), life.strays)


def test_what_leaks_is_found():
    """Each notice is kept, starts a task that never ends, and leaves a failure that nobody asks for."""
    kept, waiting = [], asyncio.Event()

    def plant(life):
        program = life.program

        async def fail():
            raise ZeroDivisionError

        def note(notice):
            kept.append((notice, bytearray(1_000)))
            if len(kept) % 10 == 0:
                program.tasks.once(waiting.wait, "leak")
            if len(kept) == 500:
                program.machine.create_task(fail())

        program.process.core.notice_bus.subscribe(note)

    found = lived(plant)
    assert any(each.startswith("memory") for each in found.grown)
    assert any(each.startswith("tasks") for each in found.grown)
    assert any("ZeroDivisionError" in each for each in found.strays)


def test_nothing_grows_in_a_few_hours_and_what_is_counted_has_no_log_of_a_store_in_it():
    logs: list[int] = []

    def told(life):
        world = life.world
        stores = [world.store, *(shoot.store for shoot in world.shoots.values())]
        logs.extend(each.version - each.forgotten("Lease") for each in stores)

    found = lived(told=told)
    assert [each for each in found.grown if not each.startswith("memory")] == []
    assert found.strays == []
    assert len(logs) == HOURS * (1 + SHOOTS)
    assert set(logs) == {0}


def test_what_a_task_of_the_world_has_returned_is_let_go_of():
    timeline = Timeline()
    machine = timeline.machine("world")

    class Answer:
        """What a server has answered."""

    async def answer():
        return Answer()

    async def main():
        asked = machine.create_task(answer())
        await asked
        return weakref.ref(asked.result())

    answered = timeline.run(main(), machine)
    assert answered() is not None
    machine.forget_ended()
    assert answered() is None


def hours(*memory: float, **numbers: list[int]) -> list[Hour]:
    """Hours with so many MiB, and such numbers."""
    return [
        Hour(round(each * MIB), {name: some[index] for name, some in numbers.items()}, {"A.b": 7})
        for index, each in enumerate(memory)
    ]


def test_the_storm_does_not_count_and_five_percent_more_memory_is_no_growth():
    assert grown(hours(90, 100, 102, 104)) == []
    assert grown(hours(200, 100, 103, 106)) == ["memory: 100.0 MiB, then 106.0 MiB"]


def test_a_leak_of_a_mib_in_a_week_of_fifty_shoots_is_found_whatever_an_hour_has_more_than_the_next():
    rng = random.Random(1)
    week = [17.7 + rng.uniform(-0.3, 0.3) for _ in range(168)]
    assert grown(hours(*week)) == []
    (found,) = grown(hours(*(each + number / 168 for number, each in enumerate(week))))
    assert found.startswith("memory")


def test_a_few_more_of_something_are_no_growth():
    assert grown(hours(1, 1, 1, 1, tasks=[5, 10, 12, 13])) == []
    assert grown(hours(1, 1, 1, 1, tasks=[5, 10, 14, 14])) == ["tasks: 10, then 14"]


@pytest.mark.parametrize(
    ("number", "early", "late"),
    [(168, (1, 11), (156, 167)), (24, (1, 11), (12, 23)), (4, (1, 1), (2, 3)), (2, (1, 1), (1, 1))],
)
def test_hours_after_the_storm_are_compared_with_the_last_ones(number, early, late):
    found = windows(number)
    assert [(each[0], each[-1]) for each in found] == [early, late]


def test_the_verdict_is_an_exit_code_and_names_what_grew(capsys):
    assert verdict([], []) == 0
    assert verdict(["tasks: 1, then 9"], []) == 1
    assert "tasks: 1, then 9" in capsys.readouterr().out
    assert verdict([], ["ZeroDivisionError"]) == 1
