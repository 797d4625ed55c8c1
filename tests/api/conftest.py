"""The application on hand-made facts; requests go straight into it."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from app.api.application import create_api
from app.api.health import Health
from app.core.runtime.metrics import Metrics
from tests.api.facts import POLICY, FakeProcess, FakeShoots


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
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def client(shoots, process, metrics) -> Iterator[TestClient]:
    app = create_api(shoots, process, POLICY, health=Health(), metrics=metrics, local_only=False)
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found
