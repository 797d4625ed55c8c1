"""How soon the loop sees an outage, in small; in large: `python -m bench.detection` (figure 2)."""

import pytest

from bench import detection

OUTAGES = 10


@pytest.mark.parametrize("setting", detection.SETTINGS, ids=lambda setting: setting.name)
def test_an_outage_is_seen_as_soon_as_is_demanded_after_it_can_be_known(setting):
    delays = detection.measure(setting, OUTAGES, seed=2)
    assert len(delays.seconds) == OUTAGES
    assert delays.within(setting), detection.table([(setting, delays)])
    assert setting.clocks_off or not delays.early, "nothing is acted on before it can be known"


def test_a_missed_outage_counts_as_one_that_took_for_ever():
    delays = detection.Delays([0.1] * 98, missed=2)
    assert delays.quantile(0.5) == 0.1
    assert delays.quantile(0.99) == float("inf")
    assert not delays.within(detection.SETTINGS[0])
    assert "NOT as demanded" in detection.table([(detection.SETTINGS[0], delays)])
