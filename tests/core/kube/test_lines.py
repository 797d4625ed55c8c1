"""The lines of a watch, as bytes come in pieces."""

import asyncio
import time
from collections import deque
from types import SimpleNamespace

import pytest

from app.core.errors import LimitExceeded
from app.core.kube.client import MAX_LINE, WatchSilent, lines_of
from app.core.kube.connections import RequestedRight

ASKED = RequestedRight("watch", "pods")


def stream(*pieces):
    """Pieces that come after so many seconds each; then nothing more comes, unless the last one is empty."""
    waiting = deque(pieces)

    async def readany():
        if not waiting:
            await asyncio.Event().wait()
        seconds, piece = waiting.popleft()
        await asyncio.sleep(seconds)
        return piece

    return SimpleNamespace(content=SimpleNamespace(readany=readany))


async def read(response, silence=70.0):
    return [line async for line in lines_of(ASKED, response, silence)]


async def test_lines_come_as_they_are_whole():
    pieces = [(0, b'{"a"'), (1, b':1}\n{"b":2}\n{"c"'), (1, b":3}\n"), (0, b"")]
    assert await read(stream(*pieces)) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


async def test_empty_lines_are_none_and_half_a_line_at_the_end_is_none():
    assert await read(stream((0, b"\n \na\n\nb"), (0, b""))) == [b"a"]


async def test_without_a_byte_it_is_given_up():
    begun = asyncio.get_running_loop().time()
    with pytest.raises(WatchSilent):
        await read(stream((0, b"x\n")))
    assert asyncio.get_running_loop().time() - begun == pytest.approx(70)


async def test_one_that_drips_bytes_of_one_line_is_given_up():
    begun = asyncio.get_running_loop().time()
    with pytest.raises(WatchSilent):
        await read(stream(*[(1.0, b"x")] * 1000))
    assert asyncio.get_running_loop().time() - begun == pytest.approx(71)


async def test_a_line_that_begins_late_has_all_its_time():
    pieces = [(69.0, b"x"), (69.0, b"\n"), (69.0, b"y"), (69.0, b"\n"), (0, b"")]
    assert await read(stream(*pieces)) == [b"x", b"y"]


async def test_the_next_line_that_begins_where_one_ends_has_all_its_time():
    pieces = [(60.0, b"x"), (60.0, b"\ny"), (60.0, b"\n"), (0, b"")]
    assert await read(stream(*pieces)) == [b"x", b"y"]


async def test_a_long_line_in_crumbs_costs_no_more_than_its_length():
    crumbs = [(0, b"x" * 50)] * 30_000
    begun = time.thread_time()
    assert await read(stream(*crumbs, (0, b"\n"), (0, b""))) == [b"x" * 1_500_000]
    assert time.thread_time() - begun < 3, (
        "what has come is not looked through again with each crumb"
    )


async def test_a_line_without_end_is_cut_off():
    with pytest.raises(LimitExceeded, match="more than"):
        await read(stream(*[(0, b"x" * (1 << 20))] * (MAX_LINE // (1 << 20) + 1)))
