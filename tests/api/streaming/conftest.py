"""Streams on facts that a test changes, in virtual time."""

import pytest

from app.core.model.policy import Loop
from tests.api.facts import healthy
from tests.api.fakes import FakeProcess, FakeShoots
from tests.api.streaming.listening import Harness


@pytest.fixture
def shoots():
    """One shoot, all is well."""
    found = FakeShoots()
    found.add(healthy())
    return found


@pytest.fixture
def process():
    return FakeProcess(loops=(Loop.PROBER, Loop.WEEDER))


@pytest.fixture
async def harness(fakes):
    found = Harness.create(**vars(fakes))
    yield found
    await found.close()
