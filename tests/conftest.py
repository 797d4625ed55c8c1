"""What all tests share: virtual time that fixtures and tests see alike, and no blocking call in the event loop."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx


def pytest_configure() -> None:
    """No loop is current until a test has one: pytest-asyncio would make one to restore, and never close it."""
    asyncio.set_event_loop(None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Virtual time goes on from where a test's fixtures left it, instead of starting at 0."""
    for item in items:
        item.add_marker(pytest.mark.looptime(start=time.monotonic, noop_cycles=1))


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[BlockBuster | None]:
    """A call of `app` that blocks the event loop is an error."""
    if request.node.get_closest_marker("blocking") is not None:
        yield None
        return
    with blockbuster_ctx("app") as buster:
        yield buster
