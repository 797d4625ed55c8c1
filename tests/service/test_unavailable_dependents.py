"""A dependent that nobody can see: the process is ready, and says so wherever it is asked."""

import pytest

from tests.service.lives import living
from tests.support.harness import KCM, MCM

pytestmark = pytest.mark.looptime(False)

WHY = "list deployments: 403 (Forbidden)"
METRIC = 'dwd_dependents_unavailable{{resource="Deployment/{}"}} {}'


async def test_readiness_and_metrics_name_what_is_unavailable_for_as_long_as_it_is(monkeypatch):
    async with living() as life:
        await life.ready()
        unavailable = {MCM: WHY}
        assert life.cluster.prober is not None
        monkeypatch.setattr(life.cluster.prober.seed, "unavailable", unavailable.get)
        status, text = await life.get("health", "/readyz?verbose")
        assert status == 200
        assert f"[!]dependents-available warning: {MCM} fails in each scaling run: {WHY}\n" in text
        _, metrics = await life.get("metrics", "/metrics")
        assert METRIC.format(MCM.name, "1.0") in metrics
        assert METRIC.format(KCM.name, "0.0") in metrics
        unavailable.clear()
        _, text = await life.get("health", "/readyz?verbose")
        assert "[+]dependents-available ok\n" in text
        _, metrics = await life.get("metrics", "/metrics")
        assert METRIC.format(MCM.name, "0.0") in metrics
