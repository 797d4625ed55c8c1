"""The application on hand-made facts; requests go straight into it."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from app.api.application import create_api
from app.api.health import Health
from app.core.runtime.metrics import Metrics
from tests.api.facts import FakeProcess, FakeShoots, FakeWeeders, context


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    with capture_logs() as found:
        yield found


@pytest.fixture
def shoots() -> FakeShoots:
    return FakeShoots()


@pytest.fixture
def process() -> FakeProcess:
    return FakeProcess()


@pytest.fixture
def weeders() -> FakeWeeders:
    return FakeWeeders()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def client(shoots, process, weeders, metrics) -> Iterator[TestClient]:
    given = context(shoots, process, weeders)
    app = create_api(given, health=Health(), metrics=metrics, local_only=False)
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found
