"""The application on hand-made facts; requests go straight into it."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from app.api.context import Context
from app.core.metrics import Metrics
from app.core.reporting.audit import AuditLog
from tests.api.facts import NOW, POLICY
from tests.api.fakes import (
    FakeAuthority,
    FakeEndpoints,
    FakeFlows,
    FakeOverrides,
    FakeProcess,
    FakeResources,
    FakeShoots,
    FakeWeeders,
    application,
    context,
)


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    with capture_logs() as found:
        yield found


def new(make: Callable[[], object]) -> Any:
    """A fixture that makes one for each test."""

    @pytest.fixture
    def made() -> object:
        return make()

    return made


shoots, process, weeders = new(FakeShoots), new(FakeProcess), new(FakeWeeders)
overrides, authority = new(FakeOverrides), new(FakeAuthority)
scaling_runs, resources, endpoints = new(FakeFlows), new(FakeResources), new(FakeEndpoints)
policy, metrics = new(lambda: POLICY), new(Metrics)
audit = new(lambda: AuditLog(lambda: NOW))


PARTS = "shoots process weeders overrides scaling_runs resources endpoints policy authority audit"


@pytest.fixture
def fakes(request) -> SimpleNamespace:
    """All of them."""
    return SimpleNamespace(**{each: request.getfixturevalue(each) for each in PARTS.split()})


@pytest.fixture
def given(fakes) -> Context:
    """What the application is given."""
    return context(**vars(fakes))


@pytest.fixture
def client(given, metrics) -> Iterator[TestClient]:
    app = application(given, metrics=metrics)
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found
