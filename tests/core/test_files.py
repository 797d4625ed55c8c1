"""What is made of files and made anew: when it is looked at, what counts, and what is never waited for."""

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest

from app.core.clock import Clock
from app.core.errors import ConfigurationError
from app.core.files import EVERY, Reread, read_file, unusable


class Source:
    """Content in memory; what is made of it counts."""

    def __init__(self):
        self.content = "a"
        self.made = []

    def read(self):
        if self.content == "unreadable":
            raise unusable(Path("f"), "cannot be read")
        return self.content

    def make(self, content):
        if content == "bad":
            raise unusable(Path("f"), "is bad")
        self.made.append(content)
        return content.upper()


@pytest.fixture
def source():
    return Source()


async def load(source):
    return await Reread.load("thing", source.read, source.make, Clock.of_loop())


@pytest.mark.parametrize("content", ["bad", "unreadable"])
async def test_a_first_content_that_is_wrong_is_an_error(source, content):
    source.content = content
    with pytest.raises(ConfigurationError):
        await load(source)


async def test_nothing_is_made_of_what_has_not_changed(source):
    found = await load(source)
    await found.check()
    source.content = "b"
    await found.check()
    await found.check()
    assert source.made == ["a", "b"]


class Turns:
    """A clock whose sleeper is woken by hand."""

    def __init__(self):
        self.waits: asyncio.Queue[float] = asyncio.Queue()
        self._turns: asyncio.Queue[None] = asyncio.Queue()

    async def sleep(self, seconds):
        self.waits.put_nowait(seconds)
        await self._turns.get()

    async def check(self):
        """Returns when it has been checked once more."""
        self._turns.put_nowait(None)
        return await self.waits.get()


async def test_it_is_looked_at_every_few_seconds_for_ever(source):
    turns = Turns()
    found = await Reread.load("thing", source.read, source.make, cast("Clock", turns))
    running = asyncio.ensure_future(found.run())
    assert await turns.waits.get() == EVERY
    for content, value in [("b", "B"), ("unreadable", "B"), ("bad", "B"), ("c", "C")]:
        source.content = content
        assert await turns.check() == EVERY
        assert found.value == value
    running.cancel()


async def test_what_was_good_stays_until_something_good_comes(source):
    found = await load(source)
    for content, trouble in [
        ("bad", "f: (file): is bad"),
        ("unreadable", "f: (file): cannot be read"),
    ]:
        source.content = content
        await found.check()
        assert (found.value, found.trouble) == ("A", trouble)
    source.content = "a"  # as it was before all that
    await found.check()
    assert (found.value, found.trouble) == ("A", None)


def test_a_pipe_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigurationError, match="is not a file"):
        read_file(tmp_path / "pipe", private=True)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o440, 0o640, 0o660])
def test_a_private_file_may_be_read_by_its_owner_and_group(tmp_path, mode):
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "f").chmod(mode)
    assert read_file(tmp_path / "f", private=True) == b"x"


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o646])
def test_a_private_file_that_others_may_read_or_write_is_refused_and_no_other(tmp_path, mode):
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "f").chmod(mode)
    assert read_file(tmp_path / "f", private=False) == b"x"
    with pytest.raises(ConfigurationError) as caught:
        read_file(tmp_path / "f", private=True)
    assert str(caught.value) == (
        f"{tmp_path / 'f'}: (file): may be read or written by others (mode {mode:04o}); at most 0640 is allowed"
    )


def descriptors():
    return sorted(Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left_open_by_what_is_refused(tmp_path):
    (tmp_path / "open").write_bytes(b"x")
    (tmp_path / "open").chmod(0o644)
    before = descriptors()
    for path in (tmp_path, tmp_path / "open", tmp_path / "gone", Path("a\0b")):
        with pytest.raises(ConfigurationError):
            read_file(path, private=True)
    assert descriptors() == before
