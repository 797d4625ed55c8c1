"""What can go wrong in a simulated world: each method begins it, and gives what ends it.

with world.faults.path_cut("shoot--local--a"):
    await clock.sleep(60)
"""

import random

from app.core.simulation.overrides_faults import OverridesFaults
from app.core.simulation.pod_faults import PodFaults
from app.core.simulation.seed_faults import SeedFaults
from app.core.simulation.shoot_faults import ShootFaults
from app.core.simulation.stage import Stage


class Faults(ShootFaults, SeedFaults, PodFaults, OverridesFaults):
    """All that can go wrong, with shoots, with the seed, with its pods, with the overrides and reviews in it."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        ShootFaults.__init__(self, stage, rng)
        SeedFaults.__init__(self, stage)
        PodFaults.__init__(self, stage)
        OverridesFaults.__init__(self, stage)
