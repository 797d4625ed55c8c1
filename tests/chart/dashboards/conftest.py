"""One recording for all tests of this folder: it takes more than a minute."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chart.dashboards.recording import Recording, recorded


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def recording(
    prometheus: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Recording]:
    """What a real Prometheus has of a real watchdog, and of all that the panels are about."""
    async with recorded(prometheus, tmp_path_factory.mktemp("dashboards")) as made:
        yield made
