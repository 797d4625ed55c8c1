"""Streams on facts that a test changes, in virtual time."""

import pytest

from app.core.model.policy import Loop
from tests.api.fakes import (
    FakeAuthority,
    FakeEndpoints,
    FakeFlows,
    FakeOverrides,
    FakeProcess,
    FakeShoots,
    FakeWeeders,
)
from tests.api.streaming.listening import Harness


@pytest.fixture
def shoots():
    return FakeShoots()


@pytest.fixture
def scaling_runs():
    return FakeFlows()


@pytest.fixture
def weeders():
    return FakeWeeders()


@pytest.fixture
def overrides():
    return FakeOverrides()


@pytest.fixture
def process():
    return FakeProcess(loops=(Loop.PROBER, Loop.WEEDER))


@pytest.fixture
def authority():
    return FakeAuthority()


@pytest.fixture
def endpoints():
    return FakeEndpoints()


@pytest.fixture
async def harness(*, shoots, scaling_runs, weeders, overrides, process, authority, endpoints):
    found = Harness.create(
        endpoints=endpoints,
        shoots=shoots,
        scaling_runs=scaling_runs,
        weeders=weeders,
        overrides=overrides,
        process=process,
        authority=authority,
    )
    yield found
    await found.close()
