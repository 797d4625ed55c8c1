"""What the metrics show of the results of endpoint probes; pure."""

from collections.abc import Iterable

from app.prober.endpoints.views import EndpointView
from app.prober.rules.endpoints import Result


def succeeded(views: Iterable[EndpointView]) -> dict[str, bool]:
    """By the name of a probe: whether all its targets with a counted result are well; without those that have none."""
    found: dict[str, bool] = {}
    for each in views:
        if each.counted:
            well = each.result is Result.SUCCESS
            found[each.name] = found.get(each.name, True) and well
    return found
