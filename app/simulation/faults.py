"""What can go wrong in a simulated world: each method begins it, and gives what ends it.

with world.faults.path_cut("shoot--local--a"):
    await clock.sleep(60)
"""

import random

from app.simulation.endpoint_faults import EndpointFaults
from app.simulation.overrides_faults import OverridesFaults
from app.simulation.pod_faults import PodFaults
from app.simulation.route_faults import RouteFaults
from app.simulation.seed_faults import SeedFaults
from app.simulation.shoot_faults import ShootFaults
from app.simulation.stage import Stage


class Faults(ShootFaults, RouteFaults, SeedFaults, PodFaults, OverridesFaults, EndpointFaults):
    """All that can go wrong: with shoots and the ways to them, the seed, its pods, overrides and reviews, and hosts."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        ShootFaults.__init__(self, stage, rng)
        RouteFaults.__init__(self, stage)
        SeedFaults.__init__(self, stage)
        PodFaults.__init__(self, stage)
        OverridesFaults.__init__(self, stage)
        EndpointFaults.__init__(self, stage)
