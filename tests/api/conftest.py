"""The application on hand-made facts; requests go straight into it."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from app.api.context import Context
from app.core.metrics import Metrics
from app.core.model.policy import ProberPolicy
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
def overrides() -> FakeOverrides:
    return FakeOverrides()


@pytest.fixture
def scaling_runs() -> FakeFlows:
    return FakeFlows()


@pytest.fixture
def resources() -> FakeResources:
    return FakeResources()


@pytest.fixture
def endpoints() -> FakeEndpoints:
    return FakeEndpoints()


@pytest.fixture
def policy() -> ProberPolicy:
    return POLICY


@pytest.fixture
def authority() -> FakeAuthority:
    return FakeAuthority()


@pytest.fixture
def audit() -> AuditLog:
    return AuditLog(lambda: NOW)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def given(
    *,
    shoots,
    process,
    weeders,
    overrides,
    scaling_runs,
    resources,
    endpoints,
    policy,
    authority,
    audit,
) -> Context:
    """What the application is given."""
    others = {
        "endpoints": endpoints,
        "policy": policy,
        "overrides": overrides,
        "scaling_runs": scaling_runs,
        "resources": resources,
        "authority": authority,
        "audit": audit,
    }
    return context(shoots, process, weeders, **others)


@pytest.fixture
def client(given, metrics, audit) -> Iterator[TestClient]:
    app = application(given, metrics=metrics, audit=audit)
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found
