"""What tests with a real gRPC server need."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def collected() -> Iterator[None]:
    """Has what the server leaves behind collected now: to free it blocks, which would fail a later test."""
    yield
    gc.collect()
