"""Who leads which loop, as a process tells it: of `dwd serve` the second election begins when the first is won."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from app.core.clock import Clock
from app.core.config.settings import SeedSettings
from app.core.kube.election import SoleOwner
from app.core.model.policy import Loop
from app.service.parts import Cluster, Configured, ProberAdapters, WeederAdapters
from app.service.selfview import SelfView

NOTHING = cast("Any", None)
SELF, OTHER, THIRD = "dwd-1", "dwd-2", "dwd-weeder-3"
SLICE = "10.0.0.2:8080"


@dataclass
class Election:
    """One that stands as a test says; of one that was not begun nothing is known."""

    leading: bool = False
    leader_identity: str | None = None
    trouble: str | None = None

    @property
    def may_probe(self):
        return self.leading

    def subscribe(self, listener):
        return


class Slice:
    """Says where the prober's leader is."""

    off = None

    def address(self):
        return SLICE


def leaders(prober=None, weeder=None, where=None):
    """Identity and address of who leads each loop that runs here."""
    cluster = Cluster(
        prober=prober and ProberAdapters(NOTHING, NOTHING, prober),
        weeder=weeder and WeederAdapters(NOTHING, weeder),
        pauses=NOTHING,
        identity=SELF,
        leader=where,
    )
    view = SelfView(Configured(SeedSettings(), "1.2.3"), cluster, Clock.of_loop())
    return {loop: (each.leader_identity, each.address) for loop, each in view.leaders.items()}


async def test_who_waits_for_the_probers_lease_names_its_holder_for_the_weeder_too():
    found = leaders(Election(leader_identity=OTHER), Election(), Slice())
    assert found == dict.fromkeys(Loop, (OTHER, SLICE))


async def test_where_nobody_is_known_to_lead_nobody_is_named():
    assert leaders(Election(), Election(), None) == dict.fromkeys(Loop, (None, None))


async def test_what_was_known_of_the_weeders_lease_counts_for_nothing_while_the_probers_is_another_ones():
    found = leaders(Election(leader_identity=OTHER), Election(leader_identity=THIRD), Slice())
    assert found[Loop.WEEDER] == (OTHER, SLICE)


async def test_a_weeder_that_another_process_leads_has_not_the_probers_address():
    prober = Election(leading=True, leader_identity=SELF)
    found = leaders(prober, Election(leader_identity=THIRD), Slice())
    assert found == {Loop.PROBER: (SELF, SLICE), Loop.WEEDER: (THIRD, None)}


@pytest.mark.parametrize("election", [Election(leading=True, leader_identity=SELF), SoleOwner()])
async def test_who_leads_both_has_one_name_and_one_address(election):
    assert leaders(election, election, Slice()) == dict.fromkeys(Loop, (SELF, SLICE))


async def test_a_weeder_alone_names_the_holder_of_its_own_lease():
    found = leaders(weeder=Election(leader_identity=OTHER), where=Slice())
    assert found == {Loop.WEEDER: (OTHER, SLICE)}


async def test_who_was_frozen_and_holds_the_lease_no_more_does_not_name_itself():
    found = leaders(Election(leader_identity=SELF), Election(leader_identity=SELF))
    assert found == dict.fromkeys(Loop, (None, None))
