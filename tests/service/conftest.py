"""What the tests of the process share: loggers and garbage collection as they were before."""

import gc
import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process sets up its loggers and freezes what it has; the test process goes on."""
    monkeypatch.setattr(gc, "freeze", lambda: None)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
