"""The dashboard of a seed: is it well, is anything protected; then why, row by row.

It needs no series of single shoots but the two that `--per-shoot-metrics=false` leaves.  Where `dwd_shoot_state` is
there, it also shows controllers at 0 of shoots that are probed and not protected.
"""

from hack.dashboards.grafana import Dashboard
from hack.dashboards.seed_deeds import SCALING, WEEDER
from hack.dashboards.seed_process import PEOPLE, PROCESS, REQUESTS
from hack.dashboards.seed_shoots import NOW, PROBES, SHOOTS
from hack.dashboards.variables import SEED_UID, variables_of_seed


def seed_overview() -> Dashboard:
    """All shoots of a seed, and the processes that look after them."""
    return Dashboard(
        uid=SEED_UID,
        title="Dependency watchdog / Seed",
        about="Is the watchdog of this seed well, and is anything protected? Then why.",
        variables=variables_of_seed(),
        rows=(NOW, SHOOTS, PROBES, SCALING, WEEDER, PEOPLE, REQUESTS, PROCESS),
    )
