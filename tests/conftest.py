"""What all tests share: virtual time that fixtures and tests see alike, and no blocking call in the event loop."""

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Any, Final

import hypothesis
import pytest
import structlog
from blockbuster import BlockBuster, blockbuster_ctx
from structlog.testing import capture_logs
from structlog.typing import EventDict

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.simulation.timers import EXACT_TICK
from tests.support.doubles import SetTime

_played = 0.0
"""Where the fixtures of the present test have come to in virtual time; 0 if they have played none."""
VIRTUAL: Final = {
    "start": lambda: max(monotonic(), _played),
    "noop_cycles": 1,
    "resolution": EXACT_TICK,
}


def pytest_runtest_setup() -> None:
    global _played  # noqa: PLW0603 - the plugin that sets the time up knows no fixture
    _played = 0.0


@pytest.fixture
def virtual_time() -> Callable[[], AbstractContextManager[None]]:
    """For an async fixture that lets time pass: in the block time is virtual, as it is in the test."""

    @contextmanager
    def virtual() -> Iterator[None]:
        global _played  # noqa: PLW0603 - as above
        loop: Any = asyncio.get_running_loop()
        loop.setup_looptime(**VIRTUAL)
        with loop.looptime_enabled():
            yield
            _played = loop.time()

    return virtual


def pytest_configure() -> None:
    """No loop is current until a test has one: pytest-asyncio would make one to restore, and never close it.

    Nor does a property test fail because a machine is slow.
    """
    asyncio.set_event_loop(None)
    # Speed is measured in bench/.
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what runs in its background; programs that tests start and interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was collected stays: full collections over it cost a good part of the time of small tests."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Virtual time goes on from where a test's fixtures left it, instead of starting at 0.

    Its ticks are exact in binary (`EXACT_TICK`).
    """
    for item in items:
        item.add_marker(pytest.mark.looptime(**VIRTUAL))


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    """A test may set up the log, or its level: the next one finds the loggers as they were."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@pytest.fixture
def lines() -> Iterator[list[EventDict]]:
    """The lines of the log; none is rendered, as a traceback would cost a second of real time."""
    with capture_logs() as found:
        yield found


@pytest.fixture
def time() -> SetTime:
    """A stopwatch that goes on when it is told to."""
    return SetTime()


@pytest.fixture
async def clock() -> Clock:
    """The time of the test's event loop."""
    return Clock.of_loop()


@pytest.fixture
async def tasks(clock: Clock) -> AsyncIterator[Tasks]:
    """What runs in the background of the test, and ends with it."""
    found = Tasks(clock)
    yield found
    await found.stop()


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[BlockBuster | None]:
    """A call of `app` that blocks the event loop is an error."""
    if request.node.get_closest_marker("blocking") is not None:
        yield None
        return
    with blockbuster_ctx("app") as buster:
        yield buster
