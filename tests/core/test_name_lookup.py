"""Names become addresses in threads of our own: one that hangs keeps nobody else waiting."""

import asyncio
import gc
import socket
import threading
from functools import partial
from typing import Any

import pytest

from app.core import name_lookup as module
from app.core.name_lookup import AT_ONCE, SLOW, SLOW_AT_ONCE, Lookups, look_up
from tests.core.kube.server import until
from tests.support.resolver import HERE, Resolver

pytestmark = pytest.mark.looptime(False)


@pytest.fixture
def asked():
    made = Resolver()
    yield made
    made.end()


@pytest.fixture
async def lookups(asked):
    return Lookups(asked)


def numbered(lookups, *names):
    """Lookups of these names, one after the other, and the numbers of those that are told that theirs is begun."""
    told: list[int] = []
    tasks = [
        asyncio.ensure_future(lookups.find(name, partial(told.append, number)))
        for number, name in enumerate(names)
    ]
    return told, tasks


async def released(asked, lookups, tasks):
    asked.open.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: not lookups._running)


async def test_a_name_is_looked_up_anew_each_time(asked, lookups):
    assert await lookups.find("a.example") == await lookups.find("a.example") == HERE
    assert asked.asked == ["a.example"] * 2


async def test_whoever_asks_for_a_name_that_is_being_looked_up_joins(asked, lookups):
    both = [asyncio.ensure_future(lookups.find("slow.example")) for _ in range(5)]
    await until(lambda: asked.asked)
    asked.open.set()
    assert await asyncio.gather(*both) == [HERE] * 5
    assert asked.asked == ["slow.example"]


async def test_a_lookup_goes_on_when_nobody_waits_and_the_next_attempt_has_its_answer(
    asked, lookups
):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await lookups.find("slow.example")
    again = asyncio.ensure_future(lookups.find("slow.example"))
    await asyncio.sleep(0.01)
    asked.open.set()
    assert await again == HERE
    assert asked.asked == ["slow.example"]


async def test_a_failure_is_told_to_all_who_wait():
    def fails(host):
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    lookups = Lookups(fails)
    found = await asyncio.gather(*(lookups.find("x") for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in found] == [socket.gaierror] * 3


async def test_a_failure_for_which_nobody_waits_any_more_is_no_news(asked):
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fails(host):
        asked(host)
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    lookups = Lookups(fails)
    task = asyncio.ensure_future(lookups.find("slow.example"))
    await until(lambda: asked.asked)
    task.cancel()
    await asyncio.wait({task})
    asked.open.set()
    await until(lambda: not lookups._running)
    del task  # whose traceback keeps what it has waited for
    gc.collect()
    assert not told


async def test_so_many_run_at_once_and_no_more(asked, lookups):
    tasks = [asyncio.ensure_future(lookups.find(f"slow-{n}.example")) for n in range(AT_ONCE + 20)]
    await until(lambda: len(asked.asked) == AT_ONCE)
    await asyncio.sleep(0.05)
    assert len(asked.asked) == AT_ONCE
    asked.open.set()
    assert len(await asyncio.gather(*tasks)) == AT_ONCE + 20


async def test_who_has_given_up_is_told_nothing_takes_no_turn_and_the_others_keep_their_place(
    asked,
):
    lookups = Lookups(asked, at_once=1)
    told, tasks = numbered(lookups, "slow-1", "slow-2", "slow-2", "late", "slow-3")
    await until(lambda: asked.asked)
    for number in (1, 3):
        tasks[number].cancel()
    await asyncio.wait({tasks[1], tasks[3]})
    asked.open.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert told == [0, 2, 4]
    assert asked.asked == ["slow-1", "slow-2", "slow-3"]
    assert lookups._free == 1


async def test_names_that_were_slow_before_leave_threads_to_the_others(asked, lookups, monkeypatch):
    monkeypatch.setattr(module, "SLOW", 0.0)
    asked.open.set()
    names = [f"slow-{n}.example" for n in range(AT_ONCE * 2)]
    await asyncio.gather(*(lookups.find(name) for name in names))
    monkeypatch.setattr(module, "SLOW", SLOW)
    asked.open.clear()
    asked.asked.clear()
    tasks = [asyncio.ensure_future(lookups.find(name)) for name in names]
    await until(lambda: len(asked.asked) == SLOW_AT_ONCE)
    async with asyncio.timeout(1.0):
        assert await lookups.find("quick.example") == HERE
    assert len(asked.asked) == SLOW_AT_ONCE + 1
    await released(asked, lookups, tasks)


async def test_a_name_that_is_quick_again_is_no_longer_slow(lookups, monkeypatch):
    monkeypatch.setattr(module, "SLOW", 0.0)
    await lookups.find("a.example")
    assert "a.example" in lookups._known_slow
    monkeypatch.setattr(module, "SLOW", SLOW)
    await lookups.find("a.example")
    assert not lookups._known_slow


async def test_only_so_many_slow_names_are_remembered(lookups, monkeypatch):
    monkeypatch.setattr(module, "SLOW", 0.0)
    monkeypatch.setattr(module, "_MOST_SLOW", 3)
    for number in range(5):
        await lookups.find(f"{number}.example")
    assert list(lookups._known_slow) == ["2.example", "3.example", "4.example"]


async def test_who_waits_is_told_when_his_lookup_is_begun(asked):
    lookups = Lookups(asked, at_once=1)
    told, tasks = numbered(lookups, "slow-1", "slow-2", "slow-2", "slow-1")
    await until(lambda: asked.asked)
    assert told == [0, 3]  # who joins a lookup that runs is told at once
    asked.open.set()
    await asyncio.gather(*tasks)
    assert told == [0, 3, 1, 2]
    assert asked.asked == ["slow-1", "slow-2"]  # two that wait share one lookup


async def test_slow_names_have_their_turn_before_whoever_came_after_them(asked, monkeypatch):
    lookups = Lookups(asked, at_once=1, slow_at_once=1)
    monkeypatch.setattr(module, "SLOW", 0.0)
    await lookups.find("was-slow")
    monkeypatch.setattr(module, "SLOW", SLOW)
    names = ["slow", "first", "was-slow", "last"]
    tasks = [asyncio.ensure_future(lookups.find(name)) for name in names]
    await until(lambda: asked.asked[1:])
    asked.open.set()
    await asyncio.gather(*tasks)
    assert asked.asked[1:] == names


async def test_dead_lookups_do_not_hold_the_executor_that_others_use(asked, lookups):
    tasks = [asyncio.ensure_future(lookups.find(f"slow-{n}")) for n in range(300)]
    await until(lambda: len(asked.asked) == AT_ONCE)
    async with asyncio.timeout(1.0):
        assert await asyncio.to_thread(lambda: "done") == "done"
    await released(asked, lookups, tasks)


async def test_without_a_thread_all_who_wait_hear_of_it_and_the_next_has_a_turn(asked, monkeypatch):
    def none_left(self):
        raise RuntimeError("can't start new thread")

    lookups = Lookups(asked, at_once=1)
    names = ["slow", "b.example", "b.example", "c.example"]
    tasks = [asyncio.ensure_future(lookups.find(name)) for name in names]
    await until(lambda: asked.asked)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        asked.open.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [tuple, OSError, OSError, OSError]
    assert "no thread" in str(found[1])
    assert await lookups.find("b.example") == HERE
    assert lookups._free == 1


def test_the_system_knows_localhost_and_gives_each_address_once():
    found = look_up("localhost")
    assert (socket.AF_INET, "127.0.0.1") in found
    assert len(found) == len(set(found))


@pytest.mark.parametrize("name", ["nobody.invalid", "a" * 64 + ".example", "a..b"])
def test_what_the_system_does_not_know_is_an_error_of_the_system(monkeypatch, name):
    def unknown(host, *_, **__):
        if len(max(host.split("."), key=len)) < 64 and "" not in host.split("."):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        host.encode("idna")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(socket.gaierror):
        look_up(name)


async def test_an_answer_after_the_end_of_the_loop_disturbs_nobody(asked):
    loop = asyncio.new_event_loop()

    async def give_up():
        task = asyncio.ensure_future(Lookups(asked).find("slow.example"))
        await until(lambda: asked.asked)
        task.cancel()

    await asyncio.to_thread(loop.run_until_complete, give_up())
    loop.close()
    asked.open.set()
    (thread,) = asked.threads
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()
