"""What the tests of the process share."""

import gc

import pytest


@pytest.fixture(autouse=True)
def nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process freezes what it has at its start; the test process goes on."""
    monkeypatch.setattr(gc, "freeze", lambda: None)
