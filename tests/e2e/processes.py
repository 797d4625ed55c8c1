"""Child processes that die with the tests, their ports and their logs."""

import asyncio
import ctypes
import itertools
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_LIBC = ctypes.CDLL(None, use_errno=True)  # loaded before any fork
_PR_SET_PDEATHSIG = 1
# Below the range from which the kernel takes ports for outgoing connections: else one of those could hold the port of
# a server that is just being restarted. Far from those of a process that was started beside this one.
_PORTS = itertools.count(20_000 + os.getpid() * 331 % 8_000)
_TAIL = 6_000


class DidNotStart(Exception):
    """A child ended, or did not become ready in time; the message has the end of its log."""


def say(text: str) -> None:
    """Prints and flushes, so that a file has it at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, and which this function gives only once."""
    for port in _PORTS:
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("unreachable: count() does not end")


async def eventually(
    question: Callable[[], Awaitable[T]], what: str, *, within: float, every: float = 0.1
) -> T:
    """The first true answer to `question`; asks again and again.

    Raises:
        AssertionError: there was none within that many seconds; it says what was waited for.
    """
    deadline = time.monotonic() + within
    while True:
        answer = await question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}; last answer: {answer!r}")
        await asyncio.sleep(every)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _stopped(thread: Path) -> bool:
    """Whether this thread does not run; one that is gone does not."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in {"T", "t", "Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return True


class Child:
    """One child process, started again as often as a test likes, always with one log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = folder / f"{name}.log"
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; negative = the signal; None while it runs."""
        return self._process.returncode if self._process else None

    async def start(self) -> None:
        """Starts it; returns at once."""
        assert not self.running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                preexec_fn=_die_with_parent,  # forked from the main thread; loads nothing
            )

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if there is anybody to receive it."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nobody answers.

        Returns when the last of its threads has stopped: on a busy machine one may go on for a while.
        """
        self.signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.pid}/task")
        deadline = time.monotonic() + 5
        while not all(_stopped(each) for each in threads.iterdir()):
            assert time.monotonic() < deadline, f"{self.name} does not stop"

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    async def ended(self, within: float) -> int:
        """Waits for its end, and returns the exit code; TimeoutError if it goes on."""
        assert self._process is not None, f"{self.name} was never started"
        async with asyncio.timeout(within):
            return await self._process.wait()

    async def kill(self) -> None:
        """SIGKILL."""
        if self.running:
            self.signal(signal.SIGKILL)
            await self.ended(10)

    async def stop(self, within: float = 10) -> None:
        """SIGTERM; SIGKILL if that does not end it."""
        self.resume()
        self.signal(signal.SIGTERM)
        if self.running:
            try:
                await self.ended(within)
            except TimeoutError:
                await self.kill()

    async def ready(self, question: Callable[[], Awaitable[bool]], within: float = 60) -> None:
        """Waits until `question` says yes.

        Raises:
            DidNotStart: the process ended, or the time is over.
        """
        deadline = time.monotonic() + within
        while not await question():
            if not self.running:
                raise DidNotStart(f"{self.name} ended with {self.exit_code}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise DidNotStart(f"{self.name} is not ready after {within:g} s:\n{self.tail()}")
            await asyncio.sleep(0.1)

    def tail(self) -> str:
        """The end of its log."""
        if not self.log.exists():
            return "(no log)"
        return self.log.read_bytes()[-_TAIL:].decode(errors="replace")
