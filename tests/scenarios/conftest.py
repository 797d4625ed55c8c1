"""Worlds are played without the garbage collector, and collected after each test, as `bench.explore` does it."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def collected_between_worlds() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
    gc.collect()
